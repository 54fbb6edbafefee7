"""SQuAD's files and rows of questions, and its figures, computed by hand case by case."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth.base.errors import InputError
from firth.data.examples import GoldAnswer, Question
from firth.metrics.spans import AnswerTally, answer_f1, bare_answer, best_threshold, exact_match
from firth.reading.readers import FileRow, Reading
from firth.reading.survey import Findings, survey
from firth.reading.usable import Usable
from firth.tasks.registry import readers

CONTEXT = "Åsa moved to Lund in 1993. The river is the Höje å."


def published(version: int, answers: Any = ()) -> dict[str, Any]:
    """A file as SQuAD publishes it, one article of two paragraphs."""
    questions: list[dict[str, Any]] = [
        {
            "id": "a1",
            "question": "Where did Åsa move?",
            "answers": [{"text": "Lund", "answer_start": 13}, *answers],
        }
    ]
    if version == 2:
        questions[0]["is_impossible"] = False
        questions.append(
            {
                "id": "a2",
                "question": "Where did Per move?",
                "answers": [],
                "is_impossible": True,
                "plausible_answers": [{"text": "Lund", "answer_start": 13}],
            }
        )
    paragraphs = [
        {"context": CONTEXT, "qas": questions},
        {
            "context": '{[A "quoted" bracket.]}',
            "qas": [
                {
                    "id": "b1",
                    "question": "What is quoted?",
                    "answers": [{"text": "bracket", "answer_start": 13}],
                }
            ],
        },
    ]
    article = {"title": "paragraphs", "paragraphs": paragraphs}
    page: dict[str, Any] = {"version": f"v{version}.0"} if version == 2 else {}
    page["data"] = [article]
    return page if version == 2 else page | {"version": "1.1"}


def rows(path: Path, task: str | None = "answer") -> list[FileRow]:
    return list(Reading(path, readers=readers(task)))


def questions(path: Path) -> list[Question]:
    found = [row.example for row in rows(path) if row.example is not None]
    assert all(isinstance(one, Question) for one in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("ending", [".json", ".json.gz", ".txt", ""])
def test_published_files_are_known_by_what_stands_in_them(
    version: int, indent: int | None, ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"dev{ending}"
    page = json.dumps(published(version), indent=indent).encode()
    path.write_bytes(gzip.compress(page) if ending.endswith(".gz") else page)
    reading = Reading(path, readers=readers())
    assert (reading.kind, reading.task) == ("squad", "answer")
    found = questions(path)
    assert [one.text for one in found][:1] == ["Where did Åsa move?"]
    assert found[0].answers == (GoldAnswer("Lund", 13),)
    assert found[-1].context == '{[A "quoted" bracket.]}'
    assert found[-1].answers == (GoldAnswer("bracket", 13),)
    assert [one.answers for one in found[1:-1]] == [()] * (version - 1)
    if indent:  # a question's line is that of its paragraph
        lines = path_lines(path)
        assert [row.line for row in rows(path)] == sorted(row.line for row in rows(path))
        assert lines[rows(path)[-1].line - 1].strip() == "{"


def path_lines(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()


ROWS: list[Any] = [
    [{"text": "Lund", "start": 13}],
    [{"text": "Lund", "answer_start": 13}],
    {"text": ["Lund"], "answer_start": [13]},
    {"text": ["Lund"], "start": [13]},
]


@pytest.mark.parametrize("answers", ROWS)
@pytest.mark.parametrize("packed", [False, True])
def test_rows_in_every_form(answers: Any, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("rows.jsonl.gz" if packed else "rows.jsonl")
    empty = {"text": [], "answer_start": []} if isinstance(answers, dict) else []
    page = "".join(
        json.dumps({"id": "x", "question": "Where?", "context": CONTEXT, "answers": one}) + "\n"
        for one in (answers, empty, None)
    ).encode()
    path.write_bytes(gzip.compress(page) if packed else page)
    assert Reading(path, readers=readers()).task == "answer"
    first, second, third = rows(path)
    assert first.example == Question("Where?", CONTEXT, (GoldAnswer("Lund", 13),))
    assert second.example == Question("Where?", CONTEXT, ())
    assert third.example is None
    assert third.fault is not None
    assert third.fault.kind == "unlabelled"


def test_parquet_as_libraries_write_it(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    row = {
        "question": "Where?",
        "context": CONTEXT,
        "answers": {"text": ["Lund"], "answer_start": [13]},
    }
    parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    assert questions(path) == [Question("Where?", CONTEXT, (GoldAnswer("Lund", 13),))]


BAD: list[tuple[Any, str]] = [
    ([{"text": "Lund", "start": 12}], "has the answer 'Lund' at 12, where its context has ' Lun'"),
    ([{"text": "lund", "start": 13}], "where its context has 'Lund'"),
    ([{"text": "Lund", "start": 90}], "at 90, and its context has 51 characters"),
    ([{"text": "Lund", "start": -38}], "at -38, and its context has 51 characters"),
    ([{"text": "Lund", "start": "13"}], "not a text and the number of its first character"),
    ([{"text": "Lund", "start": True}], "not a text and the number"),
    ([{"text": "Lund"}], "not a text and the number"),
    ([{"start": 13}], "not a text and the number"),
    ([{"text": "Lund", "start": 13, "answer_start": 12}], "an answer with two starts"),
    ([{"text": "", "start": 13}], "has an empty answer; a question without an answer has"),
    ([{"text": " ", "start": 3}], "has an empty answer"),
    (["Lund"], "has 'Lund' where an answer belongs"),
    ("Lund", "has 'Lund' where a list of answers belongs"),
    ({"text": ["Lund"], "answer_start": [13, 14]}, "a list of texts and a list of as many starts"),
    ({"text": "Lund", "answer_start": 13}, "a list of texts and a list of as many starts"),
    ([{"text": "Lund", "start": 13}, {"text": "1993", "start": 0}], "has the answer '1993' at 0"),
]


@pytest.mark.parametrize(("answers", "said"), BAD)
def test_an_answer_is_never_mended(answers: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    good = {"question": "Where?", "context": CONTEXT, "answers": ROWS[0]}
    page = [good, {"id": "q7", "question": "Where?", "context": CONTEXT, "answers": answers}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in page))
    _, bad = rows(path)
    assert bad.example is None
    assert bad.line == 2
    assert said in str(bad.fault)
    assert "(question 'q7')" in str(bad.fault)


def test_a_wrong_answer_of_a_published_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(published(1, [{"text": "Lond", "answer_start": 13}]), indent=1))
    bad, good = rows(path)
    assert str(bad.fault) == (
        "has the answer 'Lond' at 13, where its context has 'Lund' (question 'a1')"
    )
    assert bad.line == 6
    assert good.example is not None
    usable = Usable(Reading(path, readers=readers("answer")))
    assert len(list(usable)) == 1
    with pytest.raises(InputError, match=r"dev.json:6 has the answer 'Lond'.*1 of 2 rows"):
        usable.settle()


@pytest.mark.parametrize(
    ("cut", "said"),
    [(-30, "the file ends before its lists do"), (-200, "the file ends before its lists do")],
)
def test_a_file_that_ends_too_early_says_so(cut: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(published(2))[:cut])
    last = rows(path)[-1]
    assert last.example is None
    assert said in str(last.fault)


def test_damaged_paragraphs_are_rows_with_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    page = published(1)
    page["data"][0]["paragraphs"][0]["qas"] = 5
    page["data"][0]["paragraphs"] += [{"context": 3, "qas": [{"question": "Why?", "answers": []}]}]
    path.write_text(json.dumps(page))
    first, second, third = rows(path)
    assert "questions (qas) are not a list" in str(first.fault)
    assert second.example is not None
    assert "has 3 where a text belongs (context)" in str(third.fault)


def test_unlabelled_files_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"question": "Where?", "context": CONTEXT}) + "\n")
    reading = Reading(path, readers=readers("answer"))
    assert [row.example for row in reading] == [None]
    assert (reading.counts.unlabelled, reading.counts.rejected) == (1, 0)
    # Without a task it is a file of pairs.
    assert Reading(path, readers=readers()).task is None
    path.write_text(json.dumps({"question": "Where?", "context": CONTEXT, "label": "x"}) + "\n")
    assert Reading(path, readers=readers()).task == "classify"
    path.write_text(json.dumps({"text": "Where?"}) + "\n")
    with pytest.raises(InputError, match="has no question and context"):
        Reading(path, readers=readers("answer"))


def test_check_counts_and_finds_leaks(tmp_path: Path) -> None:
    train = tmp_path / "train.json"
    dev = tmp_path / "dev.json"
    train.write_text(json.dumps(published(2)))
    page = published(1)
    page["data"][0]["paragraphs"] *= 2
    dev.write_text(json.dumps(page))
    findings = Findings()
    first = survey(Reading(train, readers=readers("answer")), findings)
    assert first.labels.facts() == {"answerable": 2, "unanswerable": 1, "contexts": 2}
    assert first.labels.summary() == ", 2 answerable and 1 unanswerable questions on 2 contexts"
    assert not findings.kept
    survey(Reading(dev, readers=readers("answer")), findings, first)
    assert findings.counts["warning"] == {"leak": 4, "repeated": 2, "context": 1}
    # All questions of a file stand on one line, so that each is named.
    repeated = [found.said for found in findings.kept if found.kind == "repeated"]
    assert repeated == [f"has the text of line 1 (question {name!r})" for name in ("a1", "b1")]


# Metrics


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("The  Höje Å!", "höje å"),
        ("a", ""),
        ("A an the", ""),
        ("...", ""),
        ("", ""),
        ("an apple, a day", "apple day"),
        ("theatre another Ann", "theatre another ann"),
        ("the-cat", "thecat"),  # punctuation goes first, so that no article is left
        ("24\N{EN DASH}10", "24\N{EN DASH}10"),  # which is no ASCII punctuation
        ("24-10", "2410"),
        ("\N{EM DASH}the\N{EM DASH}", "\N{EM DASH} \N{EM DASH}"),
        ("U.S.", "us"),
        ("\u00a0Lund\u2003Å\n", "lund å"),
    ],
)
def test_what_counts_of_an_answer(text: str, bare: str) -> None:
    assert bare_answer(text) == bare


@pytest.mark.parametrize(
    ("truth", "said", "exact", "f1"),
    [
        (["gravity"], "gravity", 1, 1),
        (["gravity"], "The Gravity.", 1, 1),
        (["gravity"], "under gravity", 0, 2 / 3),  # 1 of 2 said, 1 of 1 true
        (["gravity"], "", 0, 0),
        ([], "", 1, 1),
        ([], "gravity", 0, 0),
        ([], "the", 1, 1),  # nothing of it counts
        (["the"], "the", 1, 1),  # of a true answer of which nothing counts, nothing is wanted
        (["the"], "", 1, 1),
        (["the"], "cat", 0, 0),
        (["the", "cat"], "cat", 1, 1),
        (["the", "cat"], "", 0, 0),  # an empty true answer is left out where there is another
        (["..."], "...", 1, 1),
        (["..."], "cat", 0, 0),
        (["24-10"], "24\N{EN DASH}10", 0, 0),
        (["24\N{EN DASH}10"], "24\N{EN DASH}10", 1, 1),
        (["cat cat dog"], "cat", 0, 1 / 2),  # 1 of 1 said, 1 of 3 true
        (["cat cat dog"], "cat cat", 0, 4 / 5),  # 2 of 2, 2 of 3
        (["cat"], "cat cat cat", 0, 1 / 2),  # 1 of 3, 1 of 1: a word is found once
        (["a dog", "big cat"], "big dog", 0, 2 / 3),  # the best of 2/3 and 1/2
        (["one two", "three"], "three four", 0, 2 / 3),
    ],
)
def test_exact_match_and_f1_by_hand(truth: list[str], said: str, exact: float, f1: float) -> None:
    assert exact_match(truth, said) == exact
    assert answer_f1(truth, said) == pytest.approx(f1)


def test_parts_and_intervals() -> None:
    tally = AnswerTally()
    for truth, said in [
        (["gravity"], "gravity"),
        (["gravity"], "under gravity"),
        (["gravity"], None),
        ([], None),
        ([], "gravity"),
    ]:
        tally.add(truth, said)
    scores = tally.scores()
    values = {name: score.value for name, score in scores.items()}
    assert values == pytest.approx(
        {
            "exact": 2 / 5,
            "f1": (1 + 2 / 3 + 1) / 5,
            "has_answer_exact": 1 / 3,
            "has_answer_f1": (1 + 2 / 3) / 3,
            "no_answer_accuracy": 1 / 2,
        }
    )
    for score in scores.values():
        assert 0 <= score.low <= score.value <= score.high <= 1
    assert scores["exact"].low == pytest.approx(0.0527, abs=1e-4)  # Clopper and Pearson
    assert scores["exact"].high == pytest.approx(0.8534, abs=1e-4)

    right = AnswerTally()
    for truth, said in [(["gravity"], "gravity"), ([], None)] * 2:
        right.add(truth, said)
    assert right.scores()["has_answer_f1"][:2] == (1, 1)  # also where a resampled set has none

    single = AnswerTally()
    single.add(["gravity"], "gravity")
    assert list(single.scores()) == ["exact", "f1"]
    assert single.against(single)["f1"].value == 0


def test_the_best_threshold_by_hand() -> None:
    margins = np.array([3.0, 1.0, -1.0, -2.0])
    answered = np.array([1.0, 1.0, 0.0, 0.0])
    silent = 1 - answered
    assert best_threshold(margins, answered, silent) == 0.0
    assert best_threshold(margins, np.ones(4), np.zeros(4)) < -2
    assert best_threshold(margins, np.zeros(4), np.ones(4)) > 3
    # Equal margins are not parted.
    same = best_threshold(np.array([1.0, 1.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert same < 1
    assert np.isfinite(best_threshold(np.array([-np.inf, 2.0]), answered[1:3], silent[1:3]))
