"""Answers go back to the table that they are for: its columns are kept, and the model knows which of them it was trained with."""

import csv
import json
import sys
from datetime import datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.folders.write import save
from firth.text.tokenizer import Tokenizer
from tests.journey.command import Ended, listing, run
from tests.journey.small import small_model
from tests.unit.speakers import bundle

pytestmark = pytest.mark.usefixtures("one_thread")
LABELS = ("billing", "delivery", "returns")
TEXTS = [
    "the invoice was charged twice",
    'where is my "parcel"; it was sent\nlast week, I think',
    "I want to return the shoes, größe 44",
    "the refund never came to my account",
    "=1+1 the package is at the neighbour",
]
ROWS = [
    {"id": f"{n:03}", "text": text, "queue": "", "note": f" kept, as it is {n} "}
    for n, text in enumerate(TEXTS)
]
NEW = ["predicted_label", "best_label", "confidence"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for each task."""
    folder = tmp_path_factory.mktemp("answers")
    words = Tokenizer.train(TEXTS, "wordpiece", 300)
    small_model(folder / "classes", "classify", words, LABELS)
    found = sorted(
        decision.confidence for decision in firth.load(folder / "classes").predict(TEXTS)
    )
    assert found[0] < found[-1]
    small_model(folder / "unsure", "classify", words, LABELS, threshold=found[2])
    small_model(folder / "several", "several", words, LABELS)
    small_model(folder / "pairs", "classify", words, LABELS, pairs=True)
    small_model(folder / "numbers", "regress", words)
    small_model(folder / "names", "tag", words, ("O", "B-thing", "I-thing"))
    small_model(folder / "blanks", "fill", words)
    save(bundle("ngram"), folder / "gram")
    return folder


def separated(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    file = StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def objects(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def put(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as the ending says."""
    if path.suffix == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        text = (
            objects(rows)
            if path.suffix == ".jsonl"
            else separated(rows, "\t" if path.suffix == ".tsv" else ",")
        )
        path.write_text(text, encoding="utf-8", newline="")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    """Read rows with other readers than ours."""
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.split("\n") if line]
    return list(
        csv.DictReader(StringIO(text, newline=""), delimiter="\t" if path.suffix == ".tsv" else ",")
    )


def answered(*words: object, **given: Any) -> Ended:
    ended = run("predict", *words, **given)
    assert ended.code == 0, ended.err
    return ended


def refused(*words: object, **given: Any) -> str:
    ended = run(*words, **given)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    return ended.err


@pytest.mark.parametrize("source", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("target", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_table_keeps_its_columns(source: str, target: str, place: Path, tmp_path: Path) -> None:
    table, out = put(tmp_path / f"table{source}", ROWS), tmp_path / f"answers{target}"
    assert answered(place / "unsure", table, "-o", out) == (0, "", "")
    found = read(out)
    assert [{name: row[name] for name in ROWS[0]} for row in found] == ROWS
    assert list(found[0])[: len(ROWS[0])] == list(ROWS[0])
    assert list(found[0])[-3:] == NEW or target == ".jsonl"
    decisions = firth.load(place / "unsure").predict(TEXTS)
    best = [
        max(decision.probabilities, key=lambda label, of=decision: of.probabilities[label])
        for decision in decisions
    ]
    assert [row["best_label"] for row in found] == best
    assert [row["predicted_label"] or None for row in found] == [
        decision.label for decision in decisions
    ]
    assert [float(row["confidence"]) for row in found] == [
        decision.confidence for decision in decisions
    ]
    assert None in [decision.label for decision in decisions]
    if target == ".jsonl":  # what `--json` prints is there too
        assert [row["shares"] for row in found] == [
            decision.probabilities for decision in decisions
        ]
        assert [row["label"] for row in found] == [
            decision.label or "unsure" for decision in decisions
        ]
    again = tmp_path / "again.jsonl"  # our own reader takes the answers back as they are
    answered(place / "numbers", out, "-o", again)
    assert [row["text"] for row in read(again)] == TEXTS


def test_every_task_has_its_columns(place: Path, tmp_path: Path) -> None:
    table = put(tmp_path / "table.csv", ROWS)

    def row(
        model: str, *options: object, source: Path = table
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first row, as a csv and as the object that `--json` prints."""
        answered(place / model, source, "-o", tmp_path / f"{model}.csv", "--force", *options)
        printed = answered(place / model, source, "--json", *options).out
        return read(tmp_path / f"{model}.csv")[0], json.loads(printed.split("\n")[0])

    found, printed = row("numbers")
    assert float(found["predicted_value"]) == printed["value"]
    assert "id" not in printed  # what is printed is the answer alone, as before
    found, printed = row("names")
    assert json.loads(found["predicted_spans"]) == printed["spans"]
    assert printed["spans"]
    found, printed = row("several")
    assert (
        json.loads(found["predicted_label"]) == json.loads(found["best_label"]) == printed["label"]
    )
    found, printed = row("gram")
    assert found["continuation"] == printed["continuation"]
    assert (float(found["score"]), found["ended"]) == (
        printed["score"],
        json.dumps(printed["ended"]),
    )
    found, printed = row("gram", "--complete", "--top", 2)
    assert json.loads(found["completions"]) == printed["completions"]
    found, printed = row("gram", "--score")
    assert [float(found[name]) for name in ("score", "tokens", "words", "perplexity")] == [
        printed[name] for name in ("score", "tokens", "words", "perplexity")
    ]
    lists = put(tmp_path / "lists.jsonl", [{"id": 7, "candidates": ["the value", "value the"]}])
    found, printed = row("gram", "--score", source=lists)
    assert (found["id"], found["best"], json.loads(found["ranked"])) == (
        "7",
        printed["best"],
        printed["candidates"],
    )
    blank = put(tmp_path / "blank.csv", [{"id": "a", "text": "the [MASK] came"}])
    found, printed = row("blanks", source=blank)
    assert (found["id"], json.loads(found["blanks"])) == ("a", printed["blanks"])


def test_a_text_is_a_table_of_one_column(place: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{text}\n" for text in ("one, two", "", "three")))
    answered(place / "classes", tmp_path / "a.txt", "-o", tmp_path / "a.csv")
    assert [row["text"] for row in read(tmp_path / "a.csv")] == ["one, two", "", "three"]
    answered(place / "classes", "where is it", "-o", tmp_path / "b.csv")
    assert list(read(tmp_path / "b.csv")[0]) == ["text", *NEW]
    answered(place / "classes", "-", "-o", tmp_path / "c.tsv", stdin=b"one\ntwo\n")
    assert [row["text"] for row in read(tmp_path / "c.tsv")] == ["one", "two"]


def test_values_of_every_type_are_kept(place: Path, tmp_path: Path) -> None:
    rows = [
        {
            "id": Decimal("12345678901234567890.50"),
            "at": datetime.fromisoformat(f"2024-05-0{n}"),
            "n": n,
            "ok": n > 1,
            "tags": ["a", "ü"],
            "text": "one two",
        }
        for n in (1, 2)
    ]
    table = put(tmp_path / "table.parquet", rows)
    for ending in (".parquet", ".csv", ".jsonl"):
        answered(place / "classes", table, "-o", tmp_path / f"answers{ending}")
    assert [
        {name: row[name] for name in rows[0]} for row in read(tmp_path / "answers.parquet")
    ] == rows
    found = read(tmp_path / "answers.csv")[0]
    assert (found["id"], found["at"], found["n"], found["ok"]) == (
        "12345678901234567890.50",
        "2024-05-01 00:00:00",
        "1",
        "false",
    )
    assert found["tags"] == '["a", "ü"]'
    assert read(tmp_path / "answers.jsonl")[0]["id"] == "12345678901234567890.50"
    mixed = [
        {"text": "one", "x": 1, "y": 1, "z": 1},
        {"text": "two", "x": "1", "y": 2.5, "z": None, "more": {"a": [1]}},
    ]
    answered(
        place / "classes", put(tmp_path / "mixed.jsonl", mixed), "-o", tmp_path / "mixed.parquet"
    )
    first, second = read(tmp_path / "mixed.parquet")
    assert [first[name] for name in ("x", "y", "z", "more")] == ["1", 1.0, 1, None]
    assert [second[name] for name in ("x", "y", "z", "more")] == ['"1"', 2.5, None, '{"a": [1]}']


@pytest.mark.parametrize("piped", [False, True], ids=["file", "standard input"])
def test_a_field_that_only_some_rows_have_is_never_filled_with_answers(
    piped: bool, place: Path, tmp_path: Path
) -> None:
    """A label that a row lacks must not come from the model: it would be taken for the truth later."""
    rows = [
        {"id": 1, "text": TEXTS[0]},
        {"id": 2, "text": TEXTS[1], "label": "returns"},
        {"id": 3, "text": TEXTS[2]},
    ]
    file = put(tmp_path / "some.jsonl", rows)
    given = {"stdin": file.read_bytes()} if piped else {}
    answered(place / "classes", "-" if piped else file, "-o", tmp_path / "answers.jsonl", **given)
    found = read(tmp_path / "answers.jsonl")
    assert [row.get("label") for row in found] == [None, "returns", None]
    assert all(row["predicted_label"] in LABELS for row in found)


def test_a_number_that_is_none_is_an_empty_cell(place: Path, tmp_path: Path) -> None:
    (tmp_path / "nan.jsonl").write_text(
        f'{{"text": "{TEXTS[0]}", "label": NaN}}\n', encoding="utf-8"
    )
    answered(place / "classes", tmp_path / "nan.jsonl", "-o", tmp_path / "answers.csv")
    assert read(tmp_path / "answers.csv")[0]["label"] == ""


def test_a_csv_opens_where_its_input_does(place: Path, tmp_path: Path) -> None:
    """Semicolons stay; where the input had a byte order mark or another encoding, Excel wrote it and needs the mark."""
    table = separated(ROWS, ";")
    given = {
        "plain": table.encode(),
        "marked": table.encode("utf-8-sig"),
        "old": table.encode("cp1252"),
    }
    for name, data in given.items():
        (tmp_path / f"{name}.csv").write_bytes(data)
        options = ("--encoding", "cp1252") if name == "old" else ()
        answered(
            place / "classes",
            tmp_path / f"{name}.csv",
            "-o",
            tmp_path / f"{name}.out.csv",
            *options,
        )
        written = (tmp_path / f"{name}.out.csv").read_bytes()
        assert written.startswith(b"\xef\xbb\xbf") == (name != "plain")
        rows = list(
            csv.DictReader(StringIO(written.decode("utf-8-sig"), newline=""), delimiter=";")
        )
        assert [row["text"] for row in rows] == TEXTS
    glue = tmp_path / "glue.tsv"  # quotes are text there
    glue.write_text('id\tsentence\n1\t"one" two\n2\t"never closed\n')
    answered(place / "classes", glue, "-o", tmp_path / "glue.out.tsv")
    lines = (tmp_path / "glue.out.tsv").read_text().splitlines()
    assert [line.split("\t")[:2] for line in lines] == [
        line.split("\t") for line in glue.read_text().splitlines()
    ]


def test_a_column_that_answers_need_is_refused(place: Path, tmp_path: Path) -> None:
    table = put(tmp_path / "table.csv", [row | {"confidence": "high"} for row in ROWS])
    before = listing(tmp_path)
    said = refused("predict", place / "classes", table, "-o", tmp_path / "a.csv")
    assert "table.csv has a column 'confidence' already" in said
    stdin = objects([{"text": "a", "best_label": 1}]).encode()
    assert "standard input has a column 'best_label'" in refused(
        "predict", place / "classes", "-o", tmp_path / "a.jsonl", stdin=stdin
    )
    assert listing(tmp_path) == before
    gold = put(tmp_path / "gold.csv", [{"text": "one two", "label": "mine"}])
    ended = answered(place / "classes", gold, "-o", tmp_path / "gold.jsonl")
    assert "has a column 'label', which is kept: the answers are in 'predicted_label'" in ended.err
    found = read(tmp_path / "gold.jsonl")[0]
    assert found["label"] == "mine"
    assert found["predicted_label"] in LABELS
    piped = answered(
        place / "classes",
        "-o",
        tmp_path / "piped.jsonl",
        stdin=objects([{"text": "one two", "label": "mine"}] * 2).encode(),
    )
    assert piped.err.count("standard input has a column 'label', which is kept") == 1


def test_without_pyarrow_the_command_that_installs_it_is_named(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = put(tmp_path / "table.csv", ROWS)
    assert "pip install 'firth[data]'" in refused(
        "predict", place / "classes", table, "-o", tmp_path / "a.parquet"
    )
    assert "answers are written to" in refused(
        "predict", place / "classes", table, "-o", tmp_path / "a.xlsx"
    )


def test_a_bad_row_leaves_nothing_behind(place: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("id,text\n1,one\n2,two,three\n")
    before = listing(tmp_path)
    assert "table.csv:3 has 3 fields" in refused(
        "predict", place / "classes", table, "-o", tmp_path / "a.csv"
    )
    assert "standard input:3 has 3 fields" in refused(
        "predict",
        place / "classes",
        "--format",
        "csv",
        "-o",
        tmp_path / "a.csv",
        stdin=table.read_bytes(),
    )
    assert listing(tmp_path) == before


def test_a_table_on_standard_input_is_noticed(place: Path, tmp_path: Path) -> None:
    data = separated(ROWS).encode()
    ended = answered(place / "classes", "--json", stdin=data)
    assert (
        "standard input looks like a table with the columns 'id', 'text', 'queue', 'note'"
        in ended.err
    )
    assert "--format csv" in ended.err
    assert len(ended.out.splitlines()) == len(
        data.decode().splitlines()
    )  # each line is a text still
    assert (
        "looks like a table"
        in answered(place / "classes", "-o", tmp_path / "a.csv", stdin=data).err
    )
    assert answered(place / "classes", "--format", "lines", stdin=data).err == ""
    assert "looks like a table" in run("embed", place / "classes", stdin=data).err
    for texts in (
        b"one, two\nthree, four\n",
        b"id\n1\n",
        b"Hello, you\nI said: no\n",
        b"a;b\n",
        b"Dear all,\n\nyes, no\n",
    ):
        assert answered(place / "classes", stdin=texts).err == ""
    assert "holds no rows" in answered(place / "classes", stdin=b"").err
    for table in (
        b"Nr;Anliegen\n1;wo\n2;wann\n",
        b"a\tb\n1\t2\n",
        b'id,body\n1,"a\nb"\n',
        b"text,label\nat, by, to\n",
    ):
        assert "looks like a table" in answered(place / "classes", stdin=table).err


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_format_reads_a_table_from_standard_input(form: str, place: Path, tmp_path: Path) -> None:
    data = put(tmp_path / f"table.{form}", ROWS).read_bytes()
    direct = answered(place / "classes", tmp_path / f"table.{form}", "--json")
    assert answered(place / "classes", "--format", form, "--json", stdin=data) == direct
    answered(place / "classes", "-", "--format", form, "-o", tmp_path / "piped.csv", stdin=data)
    answered(place / "classes", tmp_path / f"table.{form}", "-o", tmp_path / "filed.csv")
    assert (tmp_path / "piped.csv").read_bytes() == (tmp_path / "filed.csv").read_bytes()
    (tmp_path / "table.dat").write_bytes(data)  # an ending that says nothing
    assert (
        answered(place / "classes", tmp_path / "table.dat", "--format", form, "--json").out
        == direct.out
    )
    vectors = [
        run("embed", place / "classes", tmp_path / f"table.{form}"),
        run("embed", place / "classes", "--format", form, stdin=data),
    ]
    assert vectors[0] == vectors[1]
    assert vectors[0].code == 0
    looked = [
        run("view", place / "gram", tmp_path / f"table.{form}"),
        run("view", place / "gram", "-", "--format", form, stdin=data),
    ]
    assert looked[0] == looked[1]  # both are refused: an n-gram has no gradient


def test_format_lines_reads_a_table_as_texts(place: Path, tmp_path: Path) -> None:
    table = put(tmp_path / "table.csv", [{"text": "one", "label": "x"}])
    found = answered(place / "classes", table, "--format", "lines", "--json").out
    assert [json.loads(line)["text"] for line in found.splitlines()] == ["text,label", "one,x"]
    assert "--format is for a file or standard input" in refused(
        "predict", place / "classes", "a text", "--format", "csv"
    )


def test_a_name_with_a_blank_is_no_text(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (
        "my tickets.csv",
        "my tickets.CSV.gz",
        "a folder/tickets 2.parquet",
        "all [new].jsonl",
        "notes of May.txt",
    ):
        said = refused("predict", place / "classes", name)
        assert f"there is no file {name!r}" in said
        assert "there is no file" in refused("view", place / "gram", name)
    assert "standard input" in refused("predict", place / "classes", "my tickets.csv")
    assert (
        answered(place / "classes", "see my tickets.csv ").code == 0
    )  # with a blank at its end it is a text
    assert answered(place / "classes", "it ends here. Really").code == 0
    put(tmp_path / "my tickets.csv", ROWS)
    assert len(answered(place / "classes", "my tickets.csv").out.splitlines()) == len(ROWS)


TICKETS = {
    "Rechnung": [
        "die Rechnung ist falsch",
        "die Rechnung wurde zweimal abgebucht",
        "ich bitte um eine neue Rechnung",
    ],
    "Lieferung": [
        "das Päckchen ist nicht da",
        "wo bleibt mein Päckchen",
        "das Päckchen kam beschädigt an",
    ],
    "Rückgabe": [
        "ich möchte die Schuhe zurückgeben",
        "die Schuhe passen nicht, zurück damit",
        "wie gebe ich Schuhe zurück",
    ],
}


def export(labelled: bool, count: int = 60, unlabelled: int = 0) -> bytes:
    """A help desk's export as Excel writes it in Germany: cp1252, semicolons, and quotes around what has one or a line break."""
    rows = []
    for number in range(count):
        queue = list(TICKETS)[number % len(TICKETS)]
        text = TICKETS[queue][number // len(TICKETS) % 3]
        body = f"Guten Tag; {text}.\r\nGrüße – Nr. {number} €"
        rows.append(
            {
                "Nr": f"{number:05}",
                "Betreff": "Anfrage",
                "Anliegen": body,
                "Warteschlange": queue if labelled else "",
            }
        )
    for number in range(unlabelled):
        rows[7 * number + 3]["Warteschlange"] = " " * (number % 2)
    return separated(rows, ";").encode("cp1252")


@pytest.fixture(scope="module")
def triage(place: Path) -> Path:
    """A model that learned from such an export."""
    words = Tokenizer.train(
        [text for texts in TICKETS.values() for text in texts], "wordpiece", 200
    )
    small_model(place / "fresh", None, words)
    (place / "export.csv").write_bytes(export(True, unlabelled=UNLABELLED))
    columns = ("--text", "Betreff,Anliegen", "--label", "Warteschlange", "--encoding", "cp1252")
    options = ("--epochs", 8, "--rate", 3e-3, "--batch", 8, "--dropout", 0, "--threads", 1)
    ended = run(
        "finetune",
        "classify",
        "--model",
        place / "fresh",
        "--train",
        place / "export.csv",
        "-o",
        place / "triage",
        *columns,
        *options,
    )
    assert ended.code == 0, ended.err
    return place / "triage"


UNLABELLED = 4  # rows of the export


def test_the_whole_way_from_an_export_to_answers(triage: Path, tmp_path: Path) -> None:
    """Train on a raw export, ask about tomorrow's without naming a column, and find every answer beside its id."""
    (tmp_path / "tomorrow.csv").write_bytes(export(False, 30))
    ended = answered(
        triage, tmp_path / "tomorrow.csv", "--encoding", "cp1252", "-o", tmp_path / "answers.csv"
    )
    assert ended == (0, "", "")
    text = (tmp_path / "answers.csv").read_bytes().decode("utf-8-sig")
    found = list(csv.DictReader(StringIO(text, newline=""), delimiter=";"))
    assert list(found[0]) == ["Nr", "Betreff", "Anliegen", "Warteschlange", *NEW]
    assert [row["Nr"] for row in found] == [f"{number:05}" for number in range(30)]
    asked = list(
        csv.DictReader(StringIO(export(False, 30).decode("cp1252"), newline=""), delimiter=";")
    )
    assert [{name: row[name] for name in asked[0]} for row in found] == asked
    right = [
        row["predicted_label"] == list(TICKETS)[number % len(TICKETS)]
        for number, row in enumerate(found)
    ]
    assert sum(right) >= 27
    measured = run(
        "evaluate", triage, "--data", triage.parent / "export.csv", "--encoding", "cp1252", "--json"
    )
    assert json.loads(measured.out)["metrics"]["accuracy"] >= 0.9


def test_the_folder_remembers_its_columns(triage: Path, tmp_path: Path) -> None:
    page = json.loads((triage / "firth.json").read_text())
    assert page["columns"] == {
        "text": ["Betreff", "Anliegen"],
        "second": [],
        "label": "Warteschlange",
    }
    rows = [
        {"Betreff": "Anfrage", "Anliegen": text, "Warteschlange": queue}
        for queue, texts in TICKETS.items()
        for text in texts
    ]
    plain = put(tmp_path / "plain.csv", rows)
    joined = [f"{row['Betreff']}\n{row['Anliegen']}" for row in rows]
    assert [
        json.loads(line)["text"] for line in answered(triage, plain, "--json").out.splitlines()
    ] == joined
    found = answered(triage, "--json", stdin=objects(rows).encode())
    assert [json.loads(line)["text"] for line in found.out.splitlines()] == joined
    assert firth.evaluate(triage, plain) == firth.evaluate(
        triage, plain, text="Betreff,Anliegen", label="Warteschlange"
    )
    # Columns with usual names are there too: the trained ones are taken, which is said, unless others are named.
    both = put(
        tmp_path / "both.csv",
        [row | {"text": "something else", "label": "Rechnung"} for row in rows],
    )
    ended = answered(triage, both, "--json")
    assert "both.csv is read with --text Betreff,Anliegen, as in training" in ended.err
    assert json.loads(ended.out.splitlines()[0])["text"] == joined[0]
    assert (
        json.loads(answered(triage, both, "--text", "text", "--json").out.splitlines()[0])["text"]
        == "something else"
    )
    assert "--label Warteschlange, as in training" in run("evaluate", triage, "--data", both).err
    # A file that lacks them is read as ever, and the error names them where that fails.
    usual = put(
        tmp_path / "usual.csv",
        [{"text": text, "label": queue} for queue, texts in TICKETS.items() for text in texts],
    )
    assert (
        "usual.csv has no column 'Betreff', with which the model was trained"
        in answered(triage, usual).err
    )
    assert run("evaluate", triage, "--data", usual).code == 0
    other = put(tmp_path / "other.csv", [{"a": "one", "b": "two"}])
    for command in ("predict", "evaluate"):
        assert "the model was trained with --text Betreff,Anliegen" in refused(
            command, triage, other
        )


def test_models_with_other_columns_are_compared_by_usual_names(
    triage: Path, place: Path, tmp_path: Path
) -> None:
    other = firth.folders.read.load(triage)
    assert other.columns is not None
    other.columns = type(other.columns)(("Anliegen",), (), "Warteschlange")
    save(other, tmp_path / "other")
    usual = put(
        tmp_path / "usual.csv",
        [{"text": text, "label": queue} for queue, texts in TICKETS.items() for text in texts],
    )
    ended = run("evaluate", triage, tmp_path / "other", "--data", usual, "--json")
    assert ended.code == 0, ended.err
    assert "trained with different columns" in ended.err


@pytest.mark.parametrize(
    "columns", ["text", {"text": "text"}, {"text": [1]}, {"text": [], "label": 3}]
)
def test_a_folder_with_odd_columns_is_refused(columns: Any, place: Path, tmp_path: Path) -> None:
    for path in (place / "classes").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    page = json.loads((tmp_path / "firth.json").read_text()) | {"columns": columns}
    (tmp_path / "firth.json").write_text(json.dumps(page))
    assert "columns must be a table" in refused("predict", tmp_path, "a text")


def test_pairs_and_spans_are_remembered(place: Path, tmp_path: Path) -> None:
    model = firth.folders.read.load(place / "pairs")
    model.columns = firth.reading.columns.Named(("frage",), ("antwort",), "gut")
    save(model, tmp_path / "pairs")
    rows = [{"frage": "one", "antwort": "two"}]
    for found in (
        answered(tmp_path / "pairs", put(tmp_path / "rows.csv", rows), "--json"),
        answered(tmp_path / "pairs", "--json", stdin=objects(rows).encode()),
    ):
        answer = json.loads(found.out)
        assert (answer["text"], answer["second"]) == ("one", "two")
