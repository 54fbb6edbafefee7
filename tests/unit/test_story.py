"""The data that the benchmarks of word vectors and contextual vectors are made from, and how they count."""

import gzip
import json
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks import bank, knowledge
from benchmarks.bank import (
    SENSES,
    SIDES,
    WORD,
    Sentence,
    counterparts,
    parts,
    score,
    sentences,
    told,
)
from firth.metrics.sums import Interval

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("FIRTH_DATA", "nowhere"))
SENTENCES = sentences()
WANTED = (
    "Walking along the river bank",
    "A bank accepts deposits",
    "I arrived at the bank after crossing the street",
    "I arrived at the bank after crossing the river",
)
CLUES = {word for one in SENTENCES for word in one.words}
LEAST = 10  # occurrences of a word whose vector is tried


def sides(one: Sentence) -> tuple[list[str], list[str]]:
    """The words on the side of the clue and on the other side."""
    words = re.findall(r"\w+", one.text.lower())
    place = words.index(WORD)
    before, after = words[:place], words[place + 1 :]
    return (before, after) if one.clue == "before" else (after, before)


def test_the_senses_of_bank_are_balanced() -> None:
    assert Counter((one.sense, one.clue) for one in SENTENCES) == {
        (sense, clue): 15 for sense in SENSES for clue in SIDES
    }
    texts = [one.text for one in SENTENCES]
    assert len(set(texts)) == len(texts)
    assert set(WANTED) <= set(texts)


@pytest.mark.parametrize("one", SENTENCES, ids=lambda one: one.text[:40])
def test_a_sentence_has_one_bank_and_its_clue_on_one_side(one: Sentence) -> None:
    assert len(re.findall(WORD, one.text, re.IGNORECASE)) == 1
    assert re.search(rf"\b{WORD}\b", one.text)
    with_clue, other = sides(one)
    assert one.words
    assert set(one.words) <= set(with_clue)
    assert not CLUES & set(other)


def test_the_word_before_a_later_clue_says_nothing() -> None:
    other = counterparts(SENTENCES)
    for number, one in enumerate(SENTENCES):
        pair = SENTENCES[other[number]]
        assert other[other[number]] == number
        assert (pair.sense != one.sense, pair.clue) == (True, one.clue)
        if one.clue == "after":
            assert sides(one)[1][-1] == sides(pair)[1][-1]


def test_a_sense_is_told_by_the_other_sentences() -> None:
    first = np.array([True, True, True, False, False, False])
    apart = np.array([[5, 1], [4, 1], [6, 1], [1, 5], [1, 4], [1, 6]], np.float32)
    assert told(apart, first).tolist() == [1] * 6
    same = np.ones((6, 2), np.float32) / 3
    assert told(same, first).tolist() == [0.5] * 6
    assert told(np.zeros((6, 2), np.float32), first).tolist() == [0.5] * 6
    # Nearer to itself than to any other: its own vector doesn't count.
    alone = apart.copy()
    alone[0] = [1, 5]
    assert told(alone, first).tolist() == [0, 1, 1, 1, 1, 1]


def test_what_says_nothing_is_told_half_the_time_without_its_counterpart() -> None:
    first = np.array([True, False] * 4)
    pairs = np.eye(4, dtype=np.float32).repeat(2, 0)  # a sentence and its counterpart are the same
    assert told(pairs, first).tolist() == [0] * 8
    out = np.arange(8) ^ 1
    assert told(pairs, first, out).tolist() == [0.5] * 8


def test_accuracy_has_the_exact_interval() -> None:
    found = score(np.array([1.0] * 28 + [0.0] * 2))
    assert (found["right"], found["of"], found["ties"]) == (28, 30, 0)
    # Clopper and Pearson's, and twice the tail: (1 + 30 + 435) / 2^29.
    assert (found["low"], found["high"]) == pytest.approx((0.7793, 0.9918), abs=1e-4)
    assert found["p"] == pytest.approx(466 / 2**29)
    static = score(np.full(30, 0.5))
    assert (static["right"], static["ties"], static["p"]) == (15, 30, 1)


def pairs(name: str) -> list[tuple[str, str]]:
    """The word pairs of a file."""
    text = (ROOT / "benchmarks" / "data" / f"en_sv_{name}.tsv").read_text(encoding="utf-8")
    found = []
    for line in text.splitlines():
        english, swedish = line.split("\t")
        found.append((english, swedish))
    return found


def test_a_word_is_translated_once() -> None:
    fit, test = pairs("fit"), pairs("test")
    assert (len(fit), len(test)) == (300, 100)
    for words in zip(*(fit + test), strict=True):
        assert len(set(words)) == 400
        assert all(word == word.lower() and word.isalpha() for word in words)
    assert all(english != swedish for english, swedish in fit + test)


@pytest.mark.skipif(not DATA.is_dir(), reason="FIRTH_DATA names no folder of data")
def test_translated_words_are_frequent() -> None:
    with gzip.open(DATA / "tatoeba_en_sv" / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for number, field in enumerate(("src", "tgt")):
        seen = Counter(word for row in rows for word in re.findall(r"\w+", row[field].lower()))
        rare = [pair for pair in pairs("fit") + pairs("test") if seen[pair[number]] < LEAST]
        assert not rare


def test_the_ways_to_use_knowledge_are_three_rows_of_one_network() -> None:
    ways = [knowledge.ROWS[name].way for name in knowledge.THREE]
    assert ways == [knowledge.SCRATCH, knowledge.VECTORS, knowledge.TUNED]
    assert len(set(knowledge.NAMES)) == len(knowledge.NAMES)


def test_the_table_has_the_mean_of_both_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(knowledge.CELLS, "path", tmp_path / "cells.jsonl")
    cells = [
        {"name": f"bert-sst2-{seed}", "scores": {"accuracy": Interval(*ends)._asdict()}}
        for seed, ends in ((1, (0.8, 0.78, 0.82)), (2, (0.82, 0.8, 0.84)))
    ]
    lines = [f"{json.dumps(cell)}\n" for cell in cells]
    knowledge.CELLS.path.write_text("".join(lines))
    knowledge.table()
    row = f"| BERT | {knowledge.TUNED} | 81.0 (79.0 to 83.0); 80.0, 82.0 | - |"
    assert row in capsys.readouterr().out.splitlines()


def test_the_table_of_senses_has_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bank.CELLS, "path", tmp_path / "cells.jsonl")
    found = parts(SENTENCES, np.array([float(one.clue == "before") for one in SENTENCES]))
    halves = parts(SENTENCES, np.full(60, 0.5))
    cell = {"name": "lstm", "layers": [{"one": found, "two": halves}]}
    bank.CELLS.path.write_text(json.dumps(cell) + "\n")
    bank.table()
    out = capsys.readouterr().out
    assert (
        "| LSTM, one way | 100% (88% to 100%), p = 1.9e-09 | 0% (0% to 12%), p = 1.9e-09 |" in out
    )
    assert "| LSTM, one way | 50% (31% to 69%), p = 1 | 50% (31% to 69%), p = 1 |" in out
    assert "| LSTM, one way | 30 / 0 |" in out
