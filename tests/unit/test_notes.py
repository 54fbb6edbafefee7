"""Messages of the library: log records and warnings in Python, lines of standard error in a command."""

import logging
import sys
import warnings

import pytest

import firth
from firth.base import progress
from firth.base.errors import on_command_line
from firth.base.notes import note, on_standard_error, progress_line, warn
from firth.base.progress import Progress

TEXT = "100 % of 3 rows were cut: --long slide reads them all"


def test_notes_are_log_records_in_python(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "firth"):
        note(TEXT)
        progress_line("step 3")
    assert [(one.name, one.levelname, one.funcName) for one in caplog.records] == [
        ("firth", "INFO", "test_notes_are_log_records_in_python")
    ] * 2
    asked = "100 % of 3 rows were cut: long='slide' reads them all"
    assert [one.getMessage() for one in caplog.records] == [asked, "step 3"]
    assert capsys.readouterr() == ("", "")


def test_nothing_is_printed_unless_a_host_asks(capsys: pytest.CaptureFixture[str]) -> None:
    note(TEXT)
    progress_line("step 3")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("category", [firth.FirthWarning, firth.DataWarning, firth.RunWarning])
def test_warnings_are_of_a_public_category(category: type[firth.FirthWarning]) -> None:
    with pytest.warns(firth.FirthWarning) as found:
        warn(TEXT, category)
    (one,) = found
    assert (one.category, one.filename) == (category, __file__)
    assert str(one.message) == "100 % of 3 rows were cut: long='slide' reads them all"


def test_a_command_prints_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("firth")
    before = (logger.level, logger.propagate, list(logger.handlers), warnings.showwarning)
    with on_command_line(), on_standard_error():
        note(TEXT)
        progress_line("step 3")
        warn("a head is left out")
        warn("a label looks missing", firth.DataWarning)
        warn("a checkpoint is damaged", firth.RunWarning)
    assert capsys.readouterr() == (
        "",
        f"note: {TEXT}\n"
        "step 3\n"
        "note: a head is left out\n"
        "WARNING: a label looks missing\n"
        "WARNING: a checkpoint is damaged\n",
    )
    assert (logger.level, logger.propagate, logger.handlers, warnings.showwarning) == before


def test_a_command_says_a_warning_once(capsys: pytest.CaptureFixture[str]) -> None:
    with on_command_line(), on_standard_error():
        for _ in range(3):
            warn("a head is left out")
    assert capsys.readouterr().err == "note: a head is left out\n"


def test_other_warnings_are_shown_as_ever(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    monkeypatch.setattr(warnings, "showwarning", lambda *given, **_: shown.append(given[:2]))
    with on_command_line(), on_standard_error():
        warnings.simplefilter("always", UserWarning)
        warnings.warn("of another library", UserWarning, stacklevel=1)
    assert [(str(text), category) for text, category in shown] == [
        ("of another library", UserWarning)
    ]
    assert capsys.readouterr().err == ""


def test_a_failure_to_print_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with on_command_line(), on_standard_error():
        monkeypatch.setattr(sys, "stderr", Closed())
        with pytest.raises(BrokenPipeError):
            note(TEXT)


def test_progress_in_python_is_a_log_record(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)  # a host's terminal shows no bar
    with caplog.at_level(logging.INFO, "firth"), Progress("reading", "texts", 10) as shown:
        shown(5)
        shown(10, "all")
    first, second = (one.getMessage() for one in caplog.records)
    assert first.startswith("reading: 5 of 10 texts, ")
    assert second == "reading: 10 of 10 texts, all, 0 s left"
    assert capsys.readouterr() == ("", "")


def test_progress_in_a_notebook_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_NOTEBOOK_LINES", 0.0)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with Progress("reading", "texts") as shown:
        shown(5, "a long note")
        shown(10, "short")
    assert capsys.readouterr().err == (
        "\rreading: 5 texts, a long note\rreading: 10 texts, short     \n"
    )
    with Progress("reading", "texts"):
        pass
    assert capsys.readouterr().err == ""
