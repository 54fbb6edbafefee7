"""In a terminal: answers go where standard output goes, whole, and a pipe that is closed early ends a command quietly.

Standard error is a pseudo-terminal, so that progress is a bar; standard output is a file, a pipe, or the same terminal.
"""

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firth.folders.write import save
from firth.text.tokenizer import Tokenizer
from tests.journey.small import small_model, small_translator
from tests.journey.warm import Started, Warm
from tests.unit.speakers import HELD_OUT, bundle

ROWS = 60
LABELS = ("billing", "delivery", "returns")
CLOSED = (0, 141)  # all was written before the pipe was closed, or not
# Longer than any terminal is wide.
LONG = "the parcel that I ordered in May has not arrived and nobody answers the telephone, " * 4


class Terminal:
    """A pseudo-terminal of 80 columns, and all that was written to it."""

    def __enter__(self) -> "Terminal":
        self._main, self._side = os.openpty()
        os.set_blocking(self._main, True)
        self.path, self.written = os.ttyname(self._side), b""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        return self

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # nobody has it open any more
            while data := os.read(self._main, 1 << 16):
                self.written += data

    def __exit__(self, *_: object) -> None:
        os.close(self._side)
        self._thread.join()
        os.close(self._main)

    def type(self, text: str) -> None:
        """Type, and end the input as Ctrl-D does."""
        os.write(self._main, text.encode() + b"\x04")

    @property
    def text(self) -> str:
        """Everything that was written, with its control sequences."""
        return self.written.decode()

    @property
    def screen(self) -> list[str]:
        """The lines that stand on a screen that is as long and as wide as needed."""
        lines, row, column = [""], 0, 0
        for control, kind, sign in re.findall(r"\x1b\[([?\d;]*)([A-Za-z])|([^\x1b])", self.text):
            if kind == "K":
                assert control == "2"
                lines[row] = ""
            elif kind == "A":
                row -= int(control or 1)
            elif sign == "\r":
                column = 0
            elif sign == "\n":
                row += 1
                lines += [""] * (row == len(lines))
            elif sign:
                lines[row] = f"{lines[row]:{column}}"[:column] + sign + lines[row][column + 1 :]
                column += 1
        return [line for line in lines if line.strip()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small models with random weights, and files for every command."""
    folder = tmp_path_factory.mktemp("terminal")
    words = Tokenizer.train([*HELD_OUT, LONG], "wordpiece", 400)
    small_model(folder / "classify", "classify", words, LABELS)
    small_translator(folder / "translate", words)
    save(bundle("rnn, carrying"), folder / "rnn")
    rows = [{"id": n, "text": f"{n} {LONG}", "label": LABELS[n % 3]} for n in range(ROWS)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "texts.txt").write_text("".join(f"{row['text']}\n" for row in rows))
    (folder / "corpus.txt").write_text("\n\n".join(HELD_OUT[:30]) + "\n")
    return folder


COMMANDS = {
    "check": "check rows.jsonl --json",
    "vocab": "vocab corpus.txt -o OUT --size 300 --json",
    "pretrain": "pretrain corpus.txt -o OUT --steps 2 --size tiny --vocab classify --dtype fp32 --threads 1",
    "finetune": "finetune classify --model classify --train rows.jsonl -o OUT --epochs 1 --threads 1 --json",
    "evaluate": "evaluate classify --data rows.jsonl --threads 1 --json",
    "embed": "embed classify texts.txt --threads 1",
    "predict": "predict classify texts.txt --threads 1 --json",
    "predict, a table": "predict classify rows.jsonl --threads 1",
    "predict, continuing": "predict rnn corpus.txt --tokens 3 --threads 1 --json",
    "predict, translating": "predict translate texts.txt --beam 2 --threads 1 --json",
    "view": "view rnn corpus.txt --threads 1 --json",
    "env": "env --json",
}
SAVES = ("vocab", "pretrain", "finetune")  # what they made stays, whoever reads what they print
LINES = {
    "embed": ROWS,
    "predict": ROWS,
    "predict, a table": ROWS,
    "predict, continuing": None,
    "predict, translating": ROWS,
    "pretrain": 0,
}  # others: 1


class Runs:
    """Starts commands in a terminal."""

    def __init__(self, warm: Warm, place: Path, folder: Path) -> None:
        self.warm, self.place, self.folder = warm, place, folder

    def start(
        self, command: str, terminal: Terminal, out: str, stdin: str = os.devnull, before: str = ""
    ) -> Started:
        """Start a command whose standard output is the file or pipe `out`."""
        words = [
            str(self.folder / f"made-{Path(out).name}") if word == "OUT" else word
            for word in command.split()
        ]
        here = f"import os\nos.chdir({str(self.place)!r})\n{before}"
        return self.warm.start(
            *words,
            before=here,
            streams={0: stdin, 1: out, 2: terminal.path},
            TERM="xterm",
            COLUMNS="80",
        )

    def pipe(self, name: str) -> str:
        """Make a pipe with a name."""
        path = self.folder / name
        os.mkfifo(path)
        return str(path)


@pytest.fixture
def runs(warm: Warm, place: Path, tmp_path: Path) -> Runs:
    return Runs(warm, place, tmp_path)


def whole(printed: bytes, name: str) -> Any:
    """What was printed, which must be as many lines as the command has to say, none of them wrapped."""
    lines = printed.decode().splitlines()
    many = LINES.get(name, 1)
    assert len(lines) == many if many is not None else lines
    if "--json" in COMMANDS[name] or name == "embed":
        return [json.loads(line) for line in lines]
    return lines


@pytest.mark.parametrize("name", COMMANDS)
def test_answers_go_where_standard_output_goes(name: str, runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Terminal() as filed, Terminal() as piped:
        file = runs.start(COMMANDS[name], filed, str(tmp_path / "file"))
        pipe = runs.start(COMMANDS[name], piped, runs.pipe("pipe"))
        read = (tmp_path / "pipe").read_bytes()
        assert (file.wait().code, pipe.wait().code) == (0, 0), filed.text + piped.text
    found = whole((tmp_path / "file").read_bytes(), name), whole(read, name)
    if name not in SAVES:  # which name what they made
        assert found[0] == found[1]
    for terminal in (filed, piped):
        assert "Traceback" not in terminal.text
        assert '"' not in terminal.text  # nothing of the answers
        assert not any("━" in line for line in terminal.screen)  # the bar is gone
    if name in ("embed", "predict", "evaluate"):
        assert "━" in filed.text  # and was there


@pytest.mark.parametrize("name", [*COMMANDS, "demo"])
def test_a_pipe_that_is_closed_early_ends_a_command_quietly(
    name: str, runs: Runs, tmp_path: Path
) -> None:
    # What is printed is written at once, so that the pipe is found closed as if the output were long.
    at_once = "import sys\nsys.stdout.reconfigure(line_buffering=True)"
    with Terminal() as terminal:
        started = runs.start(
            COMMANDS.get(name, "demo --minutes 0.05"), terminal, runs.pipe("pipe"), before=at_once
        )
        with (tmp_path / "pipe").open("rb"):
            pass
        ended = started.wait()
    assert ended.code in (CLOSED if name not in SAVES else [0]), terminal.text
    assert "Traceback" not in terminal.text
    assert "BrokenPipe" not in terminal.text
    assert "firth:" not in terminal.text
    if name in SAVES:
        assert (tmp_path / "made-pipe" / "tokenizer.json").exists()


def test_a_help_page_may_be_read_in_part(runs: Runs, tmp_path: Path) -> None:
    with Terminal() as terminal:
        started = runs.start("predict --help", terminal, runs.pipe("pipe"))
        with (tmp_path / "pipe").open("rb"):
            pass
        assert started.wait().code in CLOSED
    assert terminal.text == ""


@pytest.mark.parametrize("name", ["predict", "predict, a table", "embed"])
def test_answers_and_the_bar_share_a_terminal(name: str, runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    # The bar is drawn a hundred times a second, so that it meets many lines.
    often = (
        "import functools, rich.progress\n"
        "rich.progress.Progress = functools.partial(rich.progress.Progress, refresh_per_second=100)"
    )
    with Terminal() as both, Terminal() as other:
        shown = runs.start(COMMANDS[name], both, both.path, before=often)
        filed = runs.start(COMMANDS[name], other, str(tmp_path / "file"))
        assert (shown.wait().code, filed.wait().code) == (0, 0), both.text
    expected = (tmp_path / "file").read_text().splitlines()
    assert len(expected) == ROWS
    notes = [line for line in other.screen if line.startswith("note:")]
    assert [line.rstrip() for line in both.screen] == [
        line.rstrip() for line in [*expected, *notes]
    ]
    assert "━" in both.text


def test_texts_may_be_typed(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Terminal() as terminal:
        started = runs.start(
            "predict classify - --threads 1 --json",
            terminal,
            str(tmp_path / "file"),
            stdin=terminal.path,
        )
        terminal.type("where is my parcel\nhow do I pay\n")
        assert started.wait().code == 0, terminal.text
    answers = [json.loads(line) for line in (tmp_path / "file").read_text().splitlines()]
    assert [answer["text"] for answer in answers] == ["where is my parcel", "how do I pay"]
    assert "Ctrl-D" in terminal.text
    typed, _, after = terminal.text.partition("how do I pay")
    assert "━" not in typed  # nothing is drawn over what a person types
    assert "━" in after


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before
