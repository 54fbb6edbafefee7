"""Files of examples: each layout as it is published or exported, what is read from it, and that what was written comes back."""

import csv
import gzip
import io
import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from firth.base.errors import InputError
from firth.data.examples import Example, Labelled, Line, Span, Tagged
from firth.reading.columns import Named
from firth.reading.readers import FileRow
from tests.unit.reads import open_file


def rows(path: Path, named: Named | None = None, **options: Any) -> list[FileRow]:
    """All rows, having seen that each of them was counted once."""
    reading = open_file(path, named, **options)
    found = list(reading)
    assert reading.counts.rows == len(found)
    assert reading.counts.kept == sum(row.fault is None for row in found)
    return found


def examples(path: Path, named: Named | None = None, **options: Any) -> list[Example | None]:
    found = rows(path, named, **options)
    assert [row.fault for row in found if row.fault] == []
    return [row.example for row in found]


def faults(path: Path, named: Named | None = None, **options: Any) -> list[tuple[int, str]]:
    return [(row.line, row.fault.kind) for row in rows(path, named, **options) if row.fault]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def objects(*records: object) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


# GLUE's files as published: tabs, no quoting (a lone quote is text), each with a header of its own but CoLA, which has none.
GLUE = {
    "CoLA/train.tsv": (
        "gj04\t1\t\tOur friends won't buy this analysis.\ngj04\t0\t*\tThey drank the pub.\n",
        [
            Labelled("Our friends won't buy this analysis.", "1"),
            Labelled("They drank the pub.", "0"),
        ],
    ),
    "SST-2/train.tsv": (
        'sentence\tlabel\nhide new secretions from the parental units \t0\n" clever enough \t1\n',
        [
            Labelled("hide new secretions from the parental units ", "0"),
            Labelled('" clever enough ', "1"),
        ],
    ),
    "MRPC/msr_paraphrase_train.txt": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
        '1\t702876\t702977\t" I am proud " , he said .\tHe said : " I am .\r\n',
        [Labelled('" I am proud " , he said .', "1", 'He said : " I am .')],
    ),
    "STS-B/train.tsv": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA plane is taking off.\tAn air plane is taking off.\t5.000\n",
        [Labelled("A plane is taking off.", 5.0, "An air plane is taking off.")],
    ),
    "RTE/train.tsv": (
        "index\tsentence1\tsentence2\tlabel\n0\tNo WMD found.\tWMD found.\tnot_entailment\n",
        [Labelled("No WMD found.", "not_entailment", "WMD found.")],
    ),
    "WNLI/train.tsv": (
        "index\tsentence1\tsentence2\tlabel\n0\tI stuck a pin through a carrot. It had a hole.\tThe carrot had a hole.\t1\n",
        [Labelled("I stuck a pin through a carrot. It had a hole.", "1", "The carrot had a hole.")],
    ),
    "QNLI/train.tsv": (
        'index\tquestion\tsentence\tlabel\n0\tWhen did "it begin?\tIt began in 1873.\tentailment\n',
        [Labelled('When did "it begin?', "entailment", "It began in 1873.")],
    ),
    "QQP/train.tsv": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n133273\t213221\t213222\tHow is life?\tWhat is life?\t0\n",
        [Labelled("How is life?", "0", "What is life?")],
    ),
    "MNLI/train.tsv": (
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
        "sentence1\tsentence2\tlabel1\tgold_label\n"
        "0\t31193\t31193n\tgov\t( a )\t( b )\t(ROOT a)\t(ROOT b)\tCream skims.\tIt is.\tneutral\tneutral\n",
        [Labelled("Cream skims.", "neutral", "It is.")],
    ),
}


@pytest.mark.parametrize("name", GLUE)
def test_glue_as_published(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir()
    text, expected = GLUE[name]
    path = written(tmp_path, name, text)
    assert examples(path) == expected
    assert open_file(path).task == ("regress" if "STS" in name else "classify")


SWEDISH = [
    ("Tåget är försenat", "klagomål"),
    ("Tack för hjälpen, ni är bäst!", "beröm"),
    ('Han sa "nej"\noch gick', "klagomål"),
]


def as_csv(pairs: list[tuple[str, str]], delimiter: str = ",") -> str:
    screen = io.StringIO()
    csv.writer(screen, delimiter=delimiter).writerows([("text", "label"), *pairs])
    return screen.getvalue()


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress], ids=["plain", "gz", "zst"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("kind", ["csv", "semicolons", "tsv", "jsonl", "json"])
def test_swedish_in_every_coat(
    tmp_path: Path, kind: str, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    records = [{"text": text, "label": label} for text, label in SWEDISH]
    text = {
        "csv": as_csv(SWEDISH),
        "semicolons": as_csv(SWEDISH, ";"),
        "tsv": as_csv(SWEDISH, "\t"),
        "jsonl": objects(*records),
        "json": json.dumps(records, indent=1, ensure_ascii=False),
    }[kind]
    path = tmp_path / f"data.{'csv' if kind == 'semicolons' else kind}"
    path.write_bytes(pack(text.encode(encoding)))
    assert examples(path, encoding="latin-1" if encoding == "latin-1" else None) == [
        Labelled(*pair) for pair in SWEDISH
    ]


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = arrow.table({"text": ["å", None, "ö"] * 500, "label": [0, 1, None] * 500})
    path = tmp_path / "data.bin"
    parquet.write_table(table, path, row_group_size=100)
    found = rows(path)
    assert len(found) == 1500
    assert found[0].example == Labelled("å", "0")
    assert [(row.line, row.fault.kind) for row in found[:3] if row.fault] == [
        (2, "text"),
        (3, "unlabelled"),
    ]
    holes = arrow.table({"text": ["å", "ä", "ö"], "label": [0.0, float("nan"), 1.5]})
    parquet.write_table(holes, path)
    reading = open_file(path, task="classify")
    assert [row.fault.kind if row.fault else row.example.label for row in reading] == [
        "0",
        "unlabelled",
        "1.5",
    ]  # type: ignore[union-attr]
    assert {label: met.value for label, met in reading.met.items()} == {"0": 0.0, "1.5": 1.5}
    assert (reading.counts.rows, reading.counts.kept, reading.counts.unlabelled) == (3, 2, 1)
    tagged = arrow.table({"tokens": [["Ada", "log"]], "tags": [["B-PER", "O"]]})
    parquet.write_table(tagged, path)
    assert examples(path) == [Tagged("Ada log", (Span(0, 3, "PER"),), ((0, 3), (4, 7)))]
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"data\.bin is damaged"):
        open_file(path)


def test_without_pyarrow_parquet_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        InputError, match=r"needs pyarrow; get it with: pip install 'firth\[data\]'"
    ):
        open_file(written(tmp_path, "a.parquet", "PAR1"))


def test_columns_are_named_and_joined(tmp_path: Path) -> None:
    path = written(
        tmp_path, "tickets.csv", "subject,body,queue\nFaktura 17,Dubbelt dragen,pengar\n"
    )
    assert examples(path, Named.of("subject,body", label="queue")) == [
        Labelled("Faktura 17\nDubbelt dragen", "pengar")
    ]
    assert examples(path, Named.of("subject", "body", "queue")) == [
        Labelled("Faktura 17", "pengar", "Dubbelt dragen")
    ]
    said = r"tickets\.csv: which column holds the text\? It has subject, body, queue; perhaps text='body' label="
    with pytest.raises(InputError, match=said):
        open_file(path)
    with pytest.raises(
        InputError, match=r"tickets\.csv has no column 'quue'; it has subject, body, queue"
    ):
        open_file(path, Named.of("body", label="quue"))
    with pytest.raises(
        InputError,
        match=r"which column holds the label\? It has text, queue; perhaps text='text' label='queue'",
    ):
        open_file(written(tmp_path, "b.csv", "text,queue\na,b\n"), task="classify")


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (("text_a", "text_b"), True),
        (("sentence1", "sentence2"), True),
        (("premise", "hypothesis"), True),
        (("question1", "question2"), True),
        (("question", "sentence"), True),
        (("Text", "id"), False),
    ],
)
def test_usual_names_are_known(tmp_path: Path, names: tuple[str, str], pair: bool) -> None:
    path = written(tmp_path, "a.jsonl", objects({names[0]: "ett", names[1]: "två", "label": "ja"}))
    assert examples(path) == [Labelled("ett", "ja", "två" if pair else None)]


def test_labels_of_every_type(tmp_path: Path) -> None:
    def labels(*values: object, **options: Any) -> list[object]:
        path = written(
            tmp_path, "a.jsonl", objects(*({"text": "a", "label": value} for value in values))
        )
        return [
            example.label for example in examples(path, **options) if isinstance(example, Labelled)
        ]

    assert labels(0, 1, "två") == ["0", "1", "två"]
    assert labels(True, False) == ["true", "false"]
    assert labels(["a", "b"], []) == [("a", "b"), ()]
    assert labels(3.8, 5, 0.0) == [3.8, 5.0, 0.0]
    assert labels(3, 5, task="regress") == [3.0, 5.0]
    assert labels(3.0, 5.5, task="classify") == ["3", "5.5"]


CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP {}
rejects VBZ B-VP O
Karin NNP B-NP {}
Åberg NNP I-NP {}
Bo NNP B-NP {}

Ja UH B-NP O
"""
ENTITIES = Tagged(
    "EU rejects Karin Åberg Bo",
    (Span(0, 2, "ORG"), Span(11, 22, "PER"), Span(23, 25, "PER")),
    ((0, 2), (3, 10), (11, 16), (17, 22), (23, 25)),
)


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("iob1", ("I-ORG", "I-PER", "I-PER", "B-PER")),
        ("iob2", ("B-ORG", "B-PER", "I-PER", "B-PER")),
        ("iobes", ("S-ORG", "B-PER", "E-PER", "S-PER")),
        ("iobes", ("U-ORG", "B-PER", "L-PER", "U-PER")),
    ],
)
@pytest.mark.parametrize("name", ["eng.train", "train.txt", "train.tsv"])
def test_conll_columns(tmp_path: Path, name: str, scheme: str, tags: tuple[str, ...]) -> None:
    text = CONLL.format(*tags)
    path = written(tmp_path, name, text.replace(" ", "\t") if name.endswith("tsv") else text)
    assert open_file(path).reader.scheme == scheme
    assert examples(path) == [ENTITIES, Tagged("Ja", (), ((0, 2),))]


def test_long_entities_that_are_marked_at_both_ends(tmp_path: Path) -> None:
    tags = ["B-ORG", *["I-ORG"] * 4, "E-ORG", "O", "O"]
    record = {"tokens": ["Bank", "of", "the", "West", "and", "East", "opened", "."], "tags": tags}
    path = written(tmp_path, "long.jsonl", objects(record))
    assert open_file(path).reader.scheme == "iobes"
    assert [example.spans for example in examples(path)] == [(Span(0, 25, "ORG"),)]


def test_entities_that_come_late(tmp_path: Path) -> None:
    nothing, late = (
        {"tokens": ["Hon", "log"], "tags": ["O", "O"]},
        {"tokens": ["Karin", "Åberg"], "tags": ["B-PER", "I-PER"]},
    )
    path = written(tmp_path, "late.jsonl", objects(*[nothing] * 1000, late))
    assert open_file(path).reader.scheme == "iob2"
    assert examples(path)[-1].spans == (Span(0, 11, "PER"),)


def test_a_stray_tag_of_another_scheme_does_not_make_it_that(tmp_path: Path) -> None:
    entity = {"tokens": ["Karin", "Åberg", "log"], "tags": ["I-PER", "I-PER", "O"]}
    stray = {"tokens": ["Lund"], "tags": ["E-LOC"]}
    assert (
        open_file(written(tmp_path, "stray.jsonl", objects(*[entity] * 9, stray))).reader.scheme
        == "iob1"
    )


def test_tokens_and_tags(tmp_path: Path) -> None:
    record = {
        "tokens": ["EU", "rejects", "Karin", "Åberg", "Bo"],
        "tags": ["B-ORG", "O", "B-PER", "I-PER", "B-PER"],
        "id": 7,
    }
    assert examples(written(tmp_path, "a.jsonl", objects(record))) == [ENTITIES]
    parts = {"tokens": ["Hon", "log"], "tags": ["PRON", "VERB"]}
    spans = (Span(0, 3, "PRON"), Span(4, 7, "VERB"))
    assert examples(written(tmp_path, "pos.jsonl", objects(parts))) == [
        Tagged("Hon log", spans, ((0, 3), (4, 7)))
    ]


ADA = Tagged("Ada åt i Lund", (Span(0, 3, "PER"), Span(9, 13, "LOC")))
NOBODY = Tagged("Ingen", ())


@pytest.mark.parametrize(
    "records",
    [
        [
            {"text": "Ada åt i Lund", "spans": [{"start": 9, "end": 13, "label": "LOC"}, {"start": 0, "end": 3, "label": "PER"}]},
            {"text": "Ingen", "spans": []},
        ],
        [{"id": 1, "text": "Ada åt i Lund", "label": [[0, 3, "PER"], [9, 13, "LOC"]]}, {"id": 2, "text": "Ingen", "label": []}],
        [
            {
                "id": 1,
                "text": "Ada åt i Lund",
                "entities": [
                    {"id": 4, "label": "PER", "start_offset": 0, "end_offset": 3},
                    {"id": 5, "label": "LOC", "start_offset": 9, "end_offset": 13},
                ],
                "relations": [],
                "Comments": [],
            },
            {"id": 2, "text": "Ingen", "entities": [], "relations": [], "Comments": []},
        ],
    ],
    ids=["spans", "doccano", "doccano with relations"],
)  # fmt: skip
def test_text_with_spans(tmp_path: Path, records: list[object]) -> None:
    assert examples(written(tmp_path, "a.jsonl", objects(*records))) == [ADA, NOBODY]


def test_text_and_spans_under_other_names(tmp_path: Path) -> None:
    records = [
        {"brev": "Ada åt i Lund", "namn": [[0, 3, "PER"], [9, 13, "LOC"]], "text": 1},
        {"brev": "Ingen", "namn": [], "text": 2},
    ]
    path = written(tmp_path, "a.jsonl", objects(*records))
    for task in (None, "tag"):
        assert examples(path, Named.of("brev", label="namn"), task=task) == [ADA, NOBODY]


def studio(text: str, *values: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A task as Label Studio exports it."""
    result = [
        {"id": "x", "from_name": "a", "to_name": "text", "type": kind, "value": value}
        for kind, value in values
    ]
    return {
        "id": 1,
        "data": {"text": text},
        "annotations": [{"id": 2, "was_cancelled": False, "result": result}],
        "predictions": [],
        **more,
    }


@pytest.mark.parametrize("indent", [None, 2])
def test_label_studio(tmp_path: Path, indent: int | None) -> None:
    entities = [
        ("labels", {"start": s, "end": e, "text": t, "labels": [n]})
        for s, e, t, n in [(0, 3, "Ada", "PER"), (9, 13, "Lund", "LOC")]
    ]
    path = written(
        tmp_path,
        "export.json",
        json.dumps([studio("Ada åt i Lund", *entities), studio("Ingen")], indent=indent),
    )
    assert examples(path) == [ADA, NOBODY]
    choices = [
        studio("bra", ("choices", {"choices": ["ja"]})),
        studio("dålig", ("choices", {"choices": ["nej"]})),
    ]
    path = written(tmp_path, "choices.json", json.dumps(choices, indent=indent))
    assert examples(path) == [Labelled("bra", "ja"), Labelled("dålig", "nej")]
    skipped = {**studio("hoppad"), "annotations": [{"was_cancelled": True, "result": []}]}
    path = written(tmp_path, "skipped.json", json.dumps([*choices, skipped], indent=indent))
    assert [kind for _, kind in faults(path)] == ["unlabelled"]
    small = [
        {"text": "Ada åt i Lund", "label": [value for _, value in entities]},
        {"text": "Ingen", "label": []},
    ]
    assert examples(written(tmp_path, "min.json", json.dumps(small, indent=indent))) == [
        ADA,
        NOBODY,
    ]


def test_plain_text_is_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "En rad.\r\n\nEn till, med komma\tetc.\n")
    assert examples(path) == [Line("En rad."), Line(""), Line("En till, med komma\tetc.")]
    with pytest.raises(InputError, match="is plain text"):
        open_file(path, task="classify")


def test_faults_have_their_line_and_the_rest_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "a.csv",
        'text,label\na,1\n"open,1\nb,2,3\nc\n"d\ne",1\n"f"g,1\ntext,label\nh,\ni\0,1\nj,1\n',
    )
    assert faults(path) == [
        (3, "quote"),
        (4, "fields"),
        (5, "fields"),
        (8, "quote"),
        (9, "header"),
        (10, "unlabelled"),
        (11, "nul"),
    ]
    assert [row.example for row in rows(path) if row.example] == [
        Labelled("a", "1"),
        Labelled("d\ne", "1"),
        Labelled("j", "1"),
    ]


def test_objects_with_faults(tmp_path: Path) -> None:
    deep = "[" * 100_000
    good = objects({"text": "å", "label": "1"})
    lines = [
        "{",
        '{"text": 1, "label": "1"}',
        '{"label": "1"}',
        '{"text": "a", "text": "b", "label": "1"}',
        f'{{"text": {deep}}}',
        "[1]",
    ]
    path = written(tmp_path, "a.jsonl", good + "\n".join(lines) + "\n" + good)
    assert faults(path) == [
        (2, "json"),
        (3, "text"),
        (4, "text"),
        (5, "json"),
        (6, "json"),
        (7, "json"),
    ]
    path = written(
        tmp_path,
        "b.json",
        '[{"text": "a", "label": "x"},\n 7, {"text": oj},\n\n{"text": "b", "label": "y"}\n, {"text"',
    )
    assert faults(path) == [(2, "json"), (2, "json"), (5, "json")]
    assert len([row for row in rows(path) if row.example]) == 2


def test_lone_surrogates_are_repaired_and_counted(tmp_path: Path) -> None:
    path = written(
        tmp_path, "a.jsonl", '{"text": "a\\ud800b", "label": "1"}\n{"text": "hel", "label": "1"}\n'
    )
    reading = open_file(path)
    first, second = reading
    assert first.example == Labelled("a\ufffdb", "1")
    assert first.fault is not None
    assert first.fault.kind == "replaced"
    assert (reading.counts.kept, reading.counts.repaired, reading.counts.rejected) == (1, 1, 0)
    assert second.fault is None


def test_lone_surrogates_in_spans(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "a \\ud800 b", "spans": [{"start": 2, "end": 3, "label": "x\\udfff", "text": "\\ud800"}]}\n'
    )
    (row,) = open_file(path)
    assert isinstance(row.example, Tagged)
    assert row.example.spans == (Span(2, 3, "x\ufffd"),)


def test_numbers_written_with_an_exponent_are_measures(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,1e-3\nb,5e-1\nc,2\n")
    assert open_file(path).task == "regress"
    path.write_text("text,label\na,1e3\nb,5\nc,2\n")
    assert open_file(path).task == "classify"


def test_an_odd_line_break_inside_a_quoted_table(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(
        '"text"\t"label"\n"one\x85two ""x"""\t"a"\nplain\x85text\t"b"\n', encoding="utf-8"
    )
    assert [row.example and row.example.text for row in open_file(path)] == [
        'one\x85two "x"',
        "plain\x85text",
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_lines_that_end_with_carriage_returns_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(
        "text,label\rone,a\rtwo,a\rthree,b\r".replace(",", "\t" if "tsv" in name else ",").encode()
    )
    with pytest.raises(InputError, match="make line feeds of them"):
        open_file(path)


def test_damage_half_way_is_a_row(tmp_path: Path) -> None:
    text = objects(
        *(
            {"text": f"rad {number} {number * 7919 % 1013}", "label": number % 2}
            for number in range(100_000)
        )
    )
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(text.encode())[:-1000])
    found = rows(path)
    assert found[-1].fault is not None
    assert found[-1].fault.kind == "unreadable"
    assert len(found) > 10_000
    assert [row.line for row in found[:-1]] == list(range(1, len(found)))


def test_a_file_full_of_open_quotes_is_not_read_over_and_over(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "text,label\n" + 'a",b"x,"\n' * 20_000)
    assert len(rows(path)) >= 10_000


@pytest.mark.parametrize(
    ("tags", "below"),
    [
        (("O", "I-PER", "O"), 1),
        (("B-PER", "I-LOC", "O"), 1),
        (("B-PER", "PER", "O"), 1),
        (("B-PER", "O", "B-"), 2),
        (("S-PER", "O", "O"), 0),
    ],
)
def test_a_broken_tag_is_named_by_its_own_line(
    tmp_path: Path, tags: tuple[str, ...], below: int
) -> None:
    clean = "Ada B-PER\nLind I-PER\nlog O\n\n" * 5
    broken = "".join(f"ord {tag}\n" for tag in tags)
    path = written(tmp_path, "a.conll", f"{clean}{broken}\n{clean}")
    ((line, kind),) = faults(path)
    assert line == 21 + below
    assert kind in ("bio", "unknown tag")


# Text that a file can hold: anything but NUL and lone surrogates; white space at the edge of a label is kept too.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
LABEL = st.text(
    st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), min_size=1
).filter(str.strip)
PAIRS = st.lists(st.tuples(TEXT, LABEL), min_size=1, max_size=8).filter(
    lambda pairs: ("text", "label") not in pairs
)


def came_back(name: str, text: str, task: Any = "classify") -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(text.encode())
        return [
            (row.example, row.fault.kind if row.fault else None)
            for row in open_file(path, None, "utf-8", task)
        ]


def expected(text: str, label: str) -> tuple[Labelled, str | None]:
    return Labelled(text, label), "replaced" if "\ufffd" in text else None


@given(PAIRS)
def test_csv_comes_back(pairs: list[tuple[str, str]]) -> None:
    assert came_back("a.csv", as_csv(pairs)) == [expected(*pair) for pair in pairs]


@given(PAIRS)
def test_quoted_tsv_comes_back(pairs: list[tuple[str, str]]) -> None:
    screen = io.StringIO()
    csv.writer(screen, delimiter="\t", quoting=csv.QUOTE_ALL).writerows([("text", "label"), *pairs])
    assert came_back("a.tsv", screen.getvalue()) == [expected(*pair) for pair in pairs]


def fits_plain_tsv(pairs: list[tuple[str, str]]) -> bool:
    """Whether fields can stand without quotes and none of them looks as if quotes stood around it."""
    return not any(re.search(r'[\t\n\r]|^"', field) for pair in pairs for field in pair)


@given(PAIRS.filter(fits_plain_tsv))
def test_plain_tsv_comes_back(pairs: list[tuple[str, str]]) -> None:
    text = "".join(f"{first}\t{second}\n" for first, second in [("text", "label"), *pairs])
    assert came_back("a.tsv", text) == [expected(*pair) for pair in pairs]


@given(PAIRS)
def test_jsonl_comes_back(pairs: list[tuple[str, str]]) -> None:
    text = objects(*({"text": first, "label": second} for first, second in pairs))
    assert came_back("a.jsonl", text) == [expected(*pair) for pair in pairs]


@given(PAIRS, st.sampled_from([None, 1]))
def test_json_comes_back(pairs: list[tuple[str, str]], indent: int | None) -> None:
    text = json.dumps(
        [{"text": first, "label": second} for first, second in pairs],
        indent=indent,
        ensure_ascii=False,
    )
    assert came_back("a.json", text) == [expected(*pair) for pair in pairs]


WORD = st.text(
    st.characters(exclude_characters="\0\t\n\r ", exclude_categories=["Cs"]), min_size=1, max_size=6
).filter(lambda word: word.strip() == word and not word.startswith("-DOCSTART-"))
ENTITY = st.tuples(st.lists(WORD, min_size=1, max_size=3), st.sampled_from(["PER", "LOC", None]))


def sign(number: int, label: str | None) -> str:
    return f"{'I' if number else 'B'}-{label}" if label else "O"


@given(st.lists(st.lists(ENTITY, min_size=1, max_size=5), min_size=1, max_size=5))
def test_conll_comes_back(sentences: list[list[tuple[list[str], str | None]]]) -> None:
    text, wanted = "", []
    for sentence in sentences:
        start, spans, places = 0, [], []
        for words, label in sentence:
            begin = start
            for number, word in enumerate(words):
                text += f"{word}\tx\t{sign(number, label)}\n"
                places.append((start, start + len(word)))
                start += len(word) + 1
            if label:
                spans.append(Span(begin, start - 1, label))
        joined = " ".join(word for words, _ in sentence for word in words)
        wanted.append(
            (
                Tagged(joined, tuple(spans), tuple(places)),
                "replaced" if "\ufffd" in joined else None,
            )
        )
        text += "\n"
    assert came_back("a.conll", text, "tag") == wanted
