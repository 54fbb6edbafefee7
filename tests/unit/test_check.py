"""`firth check`: forty kinds of faults, each in an otherwise clean file, are found at their line; published sets have none."""

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from firth.base.errors import InputError
from firth.reading.columns import Named
from firth.reading.survey import MOST_FINDINGS, Finding, Findings, survey
from tests.unit.reads import open_file

WORDS = "bok tåg sjö äng väg hus båt ö skog fält stuga kyrka bro torn park gata".split()
ROWS = 40
DEEP = "[" * 99 + "]" * 99
LINE = 18  # where the fault is, in the file's own counting


def text(number: int) -> str:
    """A sentence of its own for each number."""
    return f"Vid {WORDS[number % 16]} nummer {number} stod en {WORDS[number // 16]} till."


def csv_lines() -> list[str]:
    return [
        "text,label",
        *(f"{text(number)},{'ja' if number % 2 else 'nej'}" for number in range(ROWS)),
    ]


def score_lines() -> list[str]:
    return [
        "sentence1\tsentence2\tscore",
        *(f"{text(number)}\t{text(number + 50)}\t{number / 10}" for number in range(ROWS)),
    ]


def object_lines() -> list[str]:
    return dumped(
        {"text": text(number), "label": "ja" if number % 2 else "nej"} for number in range(ROWS)
    )


def span_lines() -> list[str]:
    return dumped(
        {"text": text(number), "spans": [{"start": 0, "end": 3, "label": "X"}]}
        for number in range(ROWS)
    )


def token_lines() -> list[str]:
    return dumped(tokens())


def tokens() -> list[dict[str, Any]]:
    return [
        {"tokens": text(number).split(), "tags": ["O", "B-X", "I-X", "O", "O", "O", "B-Y", "O"]}
        for number in range(ROWS)
    ]


def conll_lines() -> list[str]:
    sentences = [zip(row["tokens"], row["tags"], strict=True) for row in tokens()]
    return [
        "-DOCSTART- O",
        "",
        *(line for words in sentences for line in (*map(" ".join, words), "")),
    ]


def dumped(rows: Iterable[dict[str, Any]]) -> list[str]:
    return [json.dumps(row, ensure_ascii=False) for row in rows]


class Fault(NamedTuple):
    """A kind of fault: what is written where line 18 was, and the kind by which it is found there."""

    name: str  # of the file
    lines: Callable[[], list[str]]
    change: Callable[[str], str]
    kind: str
    level: str = "error"
    task: str | None = None


def put(**fields: Any) -> Callable[[str], str]:
    """Change fields of the object on a line."""
    return lambda line: json.dumps({**json.loads(line), **fields})


def without(name: str) -> Callable[[str], str]:
    return lambda line: json.dumps(
        {key: value for key, value in json.loads(line).items() if key != name}
    )


def labelled(label: str) -> Callable[[str], str]:
    """Change the last field of a line of a table."""
    return lambda line: re.sub(r"[^,\t]+$", label, line)


def one_span(start: Any, end: Any, label: Any = "X") -> Callable[[str], str]:
    return put(spans=[{"start": start, "end": end, "label": label}])


FAULTS: dict[str, Fault] = {
    # Rows that can't be read.
    "a field too few": Fault("a.csv", csv_lines, lambda line: line.split(",")[0], "fields"),
    "a field too many": Fault("a.csv", csv_lines, lambda line: f"{line},mer", "fields"),
    "a comma that no quotes hold": Fault(
        "a.csv", csv_lines, lambda line: line.replace(" ", ", ", 1), "fields"
    ),
    "a quote that never closes": Fault("a.csv", csv_lines, lambda line: f'"{line}', "quote"),
    "a quote that closes too soon": Fault(
        "a.csv", csv_lines, lambda line: '"Vid" sjön,ja', "quote"
    ),
    "the header again": Fault("a.csv", csv_lines, lambda line: "text,label", "header"),
    "NUL": Fault("a.csv", csv_lines, lambda line: line.replace(" ", "\0", 1), "nul"),
    "a tab inside a text": Fault(
        "a.tsv", score_lines, lambda line: line.replace(" ", "\t", 1), "fields"
    ),
    "JSON cut short": Fault("a.jsonl", object_lines, lambda line: line[:-9], "json"),
    "two objects on a line": Fault("a.jsonl", object_lines, lambda line: line * 2, "json"),
    "a list for an object": Fault("a.jsonl", object_lines, lambda line: f"[{line}]", "json"),
    "a key twice": Fault(
        "a.jsonl", object_lines, lambda line: f'{line[:-1]}, "label": "ja"}}', "json"
    ),
    "nested too deep": Fault(
        "a.jsonl", object_lines, lambda line: f'{line[:-1]}, "x": {DEEP}}}', "json"
    ),
    "a number too long": Fault(
        "a.jsonl", object_lines, lambda line: f'{line[:-1]}, "x": {"9" * 5000}}}', "json"
    ),
    # Rows that say too little, or the wrong thing.
    "no text": Fault("a.jsonl", object_lines, without("text"), "text"),
    "a number for a text": Fault("a.jsonl", object_lines, put(text=17), "text"),
    "no label": Fault("a.jsonl", object_lines, put(label=None), "unlabelled", "warning"),
    "an empty label": Fault("a.csv", csv_lines, labelled(""), "unlabelled", "warning"),
    "a list among single labels": Fault("a.jsonl", object_lines, put(label=["ja", "nej"]), "label"),
    "an object for a label": Fault("a.jsonl", object_lines, put(label={"ja": 1}), "label"),
    "a label that is no number": Fault(
        "a.tsv", score_lines, labelled("hög"), "number", task="regress"
    ),
    "a label that is not finite": Fault(
        "a.tsv", score_lines, labelled("inf"), "number", task="regress"
    ),
    # Tags and spans that contradict themselves.
    "more tags than tokens": Fault("a.jsonl", token_lines, put(tags=["O"] * 9), "tags"),
    "fewer tags than tokens": Fault("a.jsonl", token_lines, put(tags=["O"] * 7), "tags"),
    "an inside without a beginning": Fault(
        "a.conll", conll_lines, lambda line: line.replace("B-", "I-"), "bio"
    ),
    "an inside of something else": Fault(
        "a.jsonl", token_lines, put(tags=["B-X", "I-Y", *["O"] * 6]), "bio"
    ),
    "a tag that is none": Fault(
        "a.conll", conll_lines, lambda line: line.replace("B-", ""), "unknown tag"
    ),
    "a word without a tag": Fault("a.conll", conll_lines, lambda line: line.split()[0], "fields"),
    "a column too many": Fault("a.conll", conll_lines, lambda line: f"{line} B-X", "fields"),
    "a span outside the text": Fault("a.jsonl", span_lines, one_span(5, 900), "span"),
    "an empty span": Fault("a.jsonl", span_lines, one_span(5, 5), "span"),
    "a reversed span": Fault("a.jsonl", span_lines, one_span(9, 4), "span"),
    "a span without a label": Fault("a.jsonl", span_lines, one_span(0, 3, None), "span"),
    "overlapping spans": Fault(
        "a.jsonl", span_lines, put(spans=[[0, 3, "X"], [2, 6, "X"]]), "overlap"
    ),
    # What may be right, but seldom is.
    "an empty text": Fault("a.csv", csv_lines, lambda line: " ,ja", "empty", "warning"),
    "a repeated text": Fault(
        "a.csv", csv_lines, lambda line: f"{text(3)},ja", "repeated", "warning"
    ),
    "a text repeated but for white space": Fault(
        "a.csv", csv_lines, lambda line: f"  {text(3)},ja", "repeated", "warning"
    ),
    "a text with another label": Fault(
        "a.csv", csv_lines, lambda line: f"{text(3)},nej", "conflict", "warning"
    ),
    "a label spelled otherwise": Fault("a.csv", csv_lines, labelled("Ja "), "spelling", "warning"),
    "a label of one row": Fault("a.csv", csv_lines, labelled("kanske"), "rare", "warning"),
}


def found(*paths: Path, task: str | None = None) -> list[Finding]:
    """What is found in a file, and in a second that is held out."""
    findings = Findings()
    train = None
    for path in paths:
        train = survey(open_file(path, task=task), findings, train)
    return findings.kept


def written(folder: Path, name: str, lines: list[str]) -> Path:
    (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    return folder / name


@pytest.mark.parametrize("fault", list(FAULTS.values()), ids=list(FAULTS))
def test_without_its_fault_a_file_is_clean(tmp_path: Path, fault: Fault) -> None:
    assert found(written(tmp_path, fault.name, fault.lines()), task=fault.task) == []


def test_seeded_faults_are_found_at_their_line(tmp_path: Path) -> None:
    assert len(FAULTS) == 40
    missed = []
    for name, fault in FAULTS.items():
        lines = fault.lines()
        lines[LINE - 1] = fault.change(lines[LINE - 1])
        path = written(tmp_path, fault.name, lines)
        try:
            there = [
                (one.level, one.kind)
                for one in found(path, task=fault.task)
                if (one.file, one.line) == (str(path), LINE)
            ]
        except InputError as error:
            there = [("refused", str(error))]
        if (fault.level, fault.kind) not in there:
            missed.append(f"{name}: {there}")
    print(f"{len(FAULTS) - len(missed)} of {len(FAULTS)} found; missed: {missed or 'none'}")
    assert len(missed) <= 2, missed


def test_a_fault_leaves_no_other(tmp_path: Path) -> None:
    """One bad row is one error: what stands around it is read as if it were not there."""
    for name, fault in FAULTS.items():
        lines = fault.lines()
        lines[LINE - 1] = fault.change(lines[LINE - 1])
        errors = [
            one
            for one in found(written(tmp_path, fault.name, lines), task=fault.task)
            if one.level == "error"
        ]
        assert len(errors) == (fault.level == "error"), (name, errors)


def test_what_is_held_out_is_compared(tmp_path: Path) -> None:
    train = written(tmp_path, "train.csv", csv_lines())
    dev = written(
        tmp_path,
        "dev.csv",
        ["text,label", f"{text(90)},ja", f"{text(7)}  ,ja", f"{text(91)},aldrig"],
    )
    assert [(one.kind, one.file, one.line) for one in found(train, dev)] == [
        ("leak", str(dev), 3),
        ("unseen", str(dev), 4),
    ]
    assert f"{train}:9" in found(train, dev)[0].said


def test_classes_are_weighed(tmp_path: Path) -> None:
    lines = [
        "text,label",
        *(f"{text(number)},{'nej' if number in (5, 9) else 'ja'}" for number in range(ROWS)),
    ]
    ((kind, line),) = [(one.kind, one.line) for one in found(written(tmp_path, "a.csv", lines))]
    assert (kind, line) == ("imbalance", 7)
    same = ["text,label", *(f"{text(number)},ja" for number in range(ROWS))]
    assert [one.kind for one in found(written(tmp_path, "b.csv", same))] == ["single"]
    five = ["text,label", *(f"{text(number)},5.0" for number in range(ROWS))]
    assert [one.kind for one in found(written(tmp_path, "c.csv", five))] == ["single"]


def test_signs_of_a_wrong_encoding_are_seen(tmp_path: Path) -> None:
    lines = csv_lines()
    lines[LINE - 1] = "TÃ¥get Ã¤r sent,ja"
    path = written(tmp_path, "a.csv", lines)
    assert [(one.kind, one.line) for one in found(path)] == [("garbled", LINE)]
    data = path.read_bytes().replace("Ã¤".encode(), b"\xe4", 1).replace("Ã¥".encode(), b"a")
    path.write_bytes(data)
    assert [(one.level, one.kind, one.line) for one in found(path)] == [
        ("warning", "replaced", LINE)
    ]


def test_counts_are_whole_where_findings_are_not(tmp_path: Path) -> None:
    findings = Findings()
    survey(
        open_file(written(tmp_path, "a.csv", ["text,label", *["a,b"] * (MOST_FINDINGS + 500)])),
        findings,
    )
    assert findings.counts["warning"]["repeated"] == MOST_FINDINGS + 499
    assert sum(one.kind == "repeated" for one in findings.kept) == MOST_FINDINGS


def test_a_corpus_is_counted(tmp_path: Path) -> None:
    path = written(
        tmp_path, "a.txt", ["En mening. En till.", "Och en.", "", "", "Ett nytt stycke.", "Och en."]
    )
    findings = Findings()
    counted = survey(open_file(path), findings)
    assert (counted.documents, counted.sentences, counted.reading.counts.rows) == (2, 5, 6)
    assert [(one.kind, one.line) for one in findings.kept] == [("repeated", 6)]


def test_nothing_is_an_error(tmp_path: Path) -> None:
    for name in ("a.csv", "a.jsonl", "a.txt", "a.tsv"):
        assert [(one.level, one.kind) for one in found(written(tmp_path, name, []))] == [
            ("error", "rows")
        ]


DATA = os.environ.get("FIRTH_DATA")
PUBLISHED = ("sst2", "cola", "mrpc", "rte", "stsb", "conll2003", "imdb", "ag_news")


@pytest.mark.skipif(not DATA, reason="FIRTH_DATA names no folder of data sets")
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sets(name: str) -> None:
    """Rows whose text came before, texts that have two labels, and rows of the held-out file whose text is in the other."""
    folder = Path(DATA or "") / name
    held_out = "test" if name in ("imdb", "ag_news") else "dev"
    train_file = "train_subset" if name == "ag_news" else "train"
    findings = Findings()
    train = survey(open_file(folder / f"{train_file}.jsonl.gz"), findings)
    repeated, conflicts = (findings.counts["warning"][kind] for kind in ("repeated", "conflict"))
    survey(open_file(folder / f"{held_out}.jsonl.gz"), findings, train)
    leaked = findings.counts["warning"]["leak"]
    print(f"{name}: repeated {repeated}, conflicts {conflicts}, leaked {leaked}")
    assert findings.total("error") == 0
    assert train.reading.task == {"stsb": "regress", "conll2003": "tag"}.get(name, "classify")
    if name == "sst2":
        assert (repeated, conflicts) == (371, 5)
    if name in ("conll2003", "imdb"):
        assert leaked == {"conll2003": 193, "imdb": 123}[name]


@pytest.mark.parametrize(
    ("numbers", "complaint"),
    [
        ([0.5, 6e30, 1e30], "another unit, nearer to 1"),
        ([1e308, -1e308, 0.5], "another unit, nearer to 1"),
        ([0.5e-20, 6e-20, 1e-20], "another unit, nearer to 1"),
        ([1e9 + 0.125, 1e9 + 0.25, 1e9 + 0.5], "take 1000000000.29 off them"),
    ],
)
def test_numbers_that_could_not_be_learned_are_an_error(
    numbers: list[float], complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "numbers.jsonl"
    path.write_text(
        "".join(
            json.dumps({"text": f"text {i}", "label": value}) + "\n"
            for i, value in enumerate(numbers)
        )
    )
    findings = Findings()
    survey(open_file(path, Named.of(), None, "regress"), findings)
    assert [finding.kind for finding in findings.kept if finding.level == "error"] == ["numbers"]
    assert complaint in findings.kept[-1].said
