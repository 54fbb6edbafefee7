"""`firth check`: what a person sees of a file before training on it, and what a script reads."""

import json
import math
from pathlib import Path

import pytest

from tests.journey.command import Ended, run, spawn

TICKETS = (
    "subject,body,queue\n"
    "Faktura 17,Jag har betalat två gånger.,pengar\n"
    "Faktura 18,Var är min faktura?,pengar\n"
    "Lösenord,Jag kommer inte in.,konto\n"
    "Lösenord,Jag är utelåst.,konto\n"
)
NAMED = ("--text", "subject,body", "--label", "queue")


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    path = tmp_path / "tickets.csv"
    path.write_text(TICKETS, encoding="utf-8")
    return path


def page(ended: Ended) -> dict[str, object]:
    """The one object that `--json` prints."""
    (line,) = ended.out.splitlines()
    found: dict[str, object] = json.loads(line)
    return found


def test_a_clean_file(tickets: Path) -> None:
    ended = run("check", tickets, *NAMED)
    assert (ended.code, ended.err) == (0, "")
    assert (
        ended.out
        == f"{tickets}: csv, 4 rows; classify, 2 labels (pengar 2, konto 2)\n0 errors, 0 warnings, 0 notes\n"
    )


def test_errors_end_with_code_two_and_a_sentence(tickets: Path) -> None:
    with tickets.open("a", encoding="utf-8") as file:
        file.write("Hjälp,utan kö\nHjälp,tom kö,\nLösenord,Jag är utelåst.,pengar\n")
    ended = run("check", tickets, *NAMED)
    assert ended.code == 2
    assert ended.err == f"firth: 1 error in {tickets}\n"
    assert f"error: {tickets}:6 has 2 fields where there should be 3\n" in ended.out
    assert f"warning: {tickets}:7 has no label (queue)\n" in ended.out
    assert f"warning: {tickets}:8 has the text of line 5 and another label\n" in ended.out
    assert ended.out.endswith("1 error, 3 warnings, 0 notes\n")


def test_warnings_alone_end_with_code_zero(tickets: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.csv"
    dev.write_text("subject,body,queue\nLösenord,Jag är utelåst.,konto\n", encoding="utf-8")
    ended = run("check", tickets, *NAMED, "--dev", dev)
    assert (ended.code, ended.err) == (0, "")
    assert f"warning: {dev}:2 has the text of {tickets}:5\n" in ended.out


def test_many_findings_are_counted_and_some_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "a,ja\n" * 300 + "text,label\n" * 200 + "c\n" * 100)
    ended = run("check", path)
    assert ended.code == 2
    assert sum(line.startswith("error: ") for line in ended.out.splitlines()) <= 21
    assert "error: 290 more are not shown; of each kind: header 200, fields 100\n" in ended.out
    assert f"warning: {path}:3 has the text of line 2\n" in ended.out
    assert ended.out.endswith("300 errors, 300 warnings, 0 notes\n")
    counts = page(run("check", path, "--json"))["counts"]
    assert counts == {
        "error": {"header": 200, "fields": 100},
        "warning": {"repeated": 299, "single": 1},
        "note": {},
    }


def test_json_is_one_object(tickets: Path) -> None:
    found = page(run("check", tickets, *NAMED, "--json"))
    assert found["errors"] == found["warnings"] == found["notes"] == 0
    (file,) = found["files"]  # type: ignore[misc]
    assert file == {
        "file": str(tickets),
        "format": "csv",
        "task": "classify",
        "rows": 4,
        "kept": 4,
        "repaired": 0,
        "rejected": 0,
        "unlabelled": 0,
        "replaced": 0,
        "labels": {"konto": 2, "pengar": 2},
    }
    assert found["findings"] == []


def test_columns_that_can_not_be_guessed(tickets: Path) -> None:
    ended = run("check", tickets)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert (
        "which column holds the text? It has subject, body, queue; perhaps --text body --label queue"
        in ended.err
    )


def test_a_column_of_objects_is_not_proposed(tmp_path: Path) -> None:
    path = tmp_path / "arc.jsonl"
    question = {"stem": "Which is hot?", "choices": [{"text": "ice", "label": "A"}]}
    path.write_text(json.dumps({"question": question, "answerKey": "A"}) + "\n")
    ended = run("check", path)
    assert ended.code == 2
    assert "'question' holds lists or objects: write what they hold as columns" in ended.err
    assert "perhaps" not in ended.err


def test_a_label_that_nobody_named_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,queue\na,b\n")
    ended = run("check", path)
    assert ended.code == 0
    assert "name it with --label" in ended.out
    assert run("check", path, "--task", "classify").code == 2


def test_a_folder_of_text(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a.txt").write_text("En mening. En till.\n\nEtt nytt brev.\n", encoding="utf-8")
    (folder / "b.jsonl").write_text(
        '{"text": "Ett brev."}\n{"text": "Ett brev."}\n', encoding="utf-8"
    )
    ended = run("check", folder)
    assert ended.code == 0
    assert f"{folder / 'a.txt'}: text, 3 lines; 2 documents, 3 sentences\n" in ended.out
    assert f"{folder / 'b.jsonl'}: jsonl, 2 rows; 2 documents, 2 sentences\n" in ended.out
    assert f"warning: {folder / 'b.jsonl'}:2 has the text of line 1\n" in ended.out


def test_a_model_adds_notes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"text": "word " * length, "label": length % 2} for length in (10, 300, 11, 500)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = page(run("check", path, "--model", "minilm", "--json"))
    assert found["counts"]["note"] == {"long": 1, "unknown": 1, "estimate": 1}  # type: ignore[index]
    long, unknown, estimate = (one for one in found["findings"] if one["level"] == "note")  # type: ignore[attr-defined]
    assert long["line"] == 2
    assert (
        "is the first of 2 texts (of 4) that are longer than the 256 tokens that minilm reads"
        in long["said"]
    )
    assert "on line 4, has 502" in long["said"]
    assert "0 of 821 pieces" in unknown["said"]
    assert "GB to fine-tune minilm on, 3 times over" in estimate["said"]


def test_without_a_model_torch_stays_away(tickets: Path) -> None:
    heavy = "print(*({'torch', 'sklearn'} & set(sys.modules)), file=sys.stderr)"
    tell = f"import atexit, sys; atexit.register(lambda: {heavy})"
    ended = spawn("check", tickets, *NAMED, before=tell)
    assert (ended.code, ended.err.strip()) == (0, "")


def test_other_faults_of_the_call(tmp_path: Path) -> None:
    for words, said in (
        (("nowhere.csv",), "there is no file"),
        ((tmp_path,), "has no .txt or .jsonl file in it"),
        ((tmp_path / "a.csv", "--task", "sing"), "--task"),
        ((tmp_path / "a.csv", "--label", "c"), "has no column 'c'; it has text, label"),
        ((tmp_path / "a.csv", "--model", "nowhere"), "there is no model folder 'nowhere'"),
        ((tmp_path / "a.csv", "--encoding", "klingon"), "there is no encoding"),
    ):
        (tmp_path / "a.csv").write_text("text,label\n") if len(words) > 1 else None
        ended = run("check", *words)
        assert (ended.code, ended.out) == (2, "")
        assert said in ended.err
        assert ended.err.count("\n") == 1
        (tmp_path / "a.csv").unlink(missing_ok=True)


def test_numbers_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("sentence1\tsentence2\tscore\na\tb\t0.5\nc\td\t4.25\n")
    (file,) = page(run("check", path, "--json"))["files"]  # type: ignore[misc]
    assert (file["task"], file["smallest"]) == ("regress", 0.5)
    assert math.isclose(file["largest"], 4.25)
    assert "regress, numbers from 0.5 to 4.25" in run("check", path).out


@pytest.mark.parametrize(
    ("train", "dev", "said"),
    [
        (
            "text,label\nup,a\ndown,b\n",
            "text_a,text_b,label\nup,down,a\n",
            "has pairs of texts, where {train} has single texts",
        ),
        (
            "text_a,text_b,label\nup,down,a\nup,up,b\n",
            "text,label\nup,a\n",
            "has single texts, where {train} has pairs of texts",
        ),
        (
            "text,label\nup,a\ndown,b\n",
            "text,label\nleft,yes\n",
            "has none of the labels of {train}",
        ),
        (
            "text,label\nup,a\ndown,b\n",
            '{"text": "left", "label": ["a"]}\n',
            "has lists of labels, where {train} has one class for each text",
        ),
    ],
)
def test_what_is_to_be_measured_on_must_be_alike(
    train: str, dev: str, said: str, tmp_path: Path
) -> None:
    """What would stop fine-tuning is found here too."""
    (tmp_path / "train.csv").write_text(train)
    other = tmp_path / ("dev.csv" if dev.startswith("text") else "dev.jsonl")
    other.write_text(dev)
    ended = run("check", tmp_path / "train.csv", "--dev", other)
    assert ended.code == 2
    assert f"error: {other} {said.format(train=tmp_path / 'train.csv')}\n" in ended.out


def test_lists_without_a_single_label(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "up", "label": []}\n{"text": "down", "label": []}\n'
    )
    ended = run("check", tmp_path / "a.jsonl")
    assert ended.code == 2
    assert f"error: {tmp_path}/a.jsonl has no label in any row\n" in ended.out


def test_a_file_of_a_folder_that_fails_is_named_among_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"body": "Where is my parcel?", "queue": "delivery"}\n')
    (tmp_path / "b.jsonl").write_text('{"step": "one", "loss": "two"}\n')
    ended = run("check", tmp_path, "--text", "body", "--label", "queue")
    assert ended.code == 2
    assert f"{tmp_path / 'b.jsonl'} is one of 2 files: check it alone" in ended.err
    alone = run("check", tmp_path / "a.jsonl", "--text", "body", "--label", "queue")
    assert alone.code == 0
