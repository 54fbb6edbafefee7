"""Passages and pairs: every token once, no document crossed, each example a function of seed, epoch and number."""

import json
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.base.errors import InputError
from firth.corpus import shards as shards_module
from firth.corpus.pairs import (
    DEV_LEAST,
    DEV_SHARE,
    NOT_ASKED,
    SPECIAL,
    Pairs,
    Passages,
    PretrainRow,
    passages,
    several,
    split_dev,
)
from firth.corpus.shards import DOCUMENT, SENTENCE, WORD, Shard, open_shards
from firth.samples.texts import TEXTS
from firth.text.tokenizer import Tokenizer
from tests.unit.corpora import Made, make, topics, vocabulary

TOKENS = 1_000_000
LENGTH = 128


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("text"), topics(), vocabulary(), LENGTH)


class Source:
    """The text that rows are made from, to find out where a row's halves stand in it."""

    def __init__(self, made: Made) -> None:
        self.made = made
        self.ids = np.concatenate([shard.ids for shard in made.shards.shards]).astype(np.int64)
        self.marks = np.concatenate([np.asarray(shard.marks) for shard in made.shards.shards])
        self.document = np.cumsum(self.marks & DOCUMENT > 0) - 1
        self.bytes = self.ids.astype("<u2").tobytes()

    def halves(self, row: PretrainRow) -> list[np.ndarray]:
        """The texts of a row as they were before words were hidden, checked for their frame."""
        ids = row.ids.copy()
        ids[row.places] = row.words
        assert ids[0] == self.made.tokenizer.cls
        ends = np.flatnonzero(ids == self.made.tokenizer.sep)
        assert len(ends) == 1 + (row.random_next != NOT_ASKED)
        assert ends[-1] == len(ids) - 1
        assert row.segments.tolist() == [0] * (ends[0] + 1) + [1] * (len(ids) - 1 - ends[0])
        return [ids[a + 1 : b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    def documents(self, text: np.ndarray) -> set[int]:
        """The documents in which a text stands word for word."""
        wanted, found, at = text.astype("<u2").tobytes(), set(), -1
        while (at := self.bytes.find(wanted, at + 1)) >= 0:
            if at % 2 == 0:
                here = self.document[at // 2 : at // 2 + len(text)]
                found |= {int(here[0])} if here[0] == here[-1] else set()
        return found


def equal(one: PretrainRow, other: PretrainRow) -> bool:
    return one.random_next == other.random_next and all(
        np.array_equal(a, b) for a, b in zip(one[:4], other[:4], strict=True)
    )


@pytest.mark.parametrize("whole", [False, True], ids=["pieces", "words"])
def test_the_shares_over_a_million_tokens(made: Made, whole: bool, seed: int) -> None:
    pairs = made.pairs(seed, whole)
    special = [
        made.tokenizer.cls,
        made.tokenizer.sep,
        made.tokenizer.unk,
        made.tokenizer.pad,
        made.tokenizer.mask,
    ]
    tokens = hidden = masked = kept = epoch = 0
    asked = []
    while tokens < TOKENS:
        for number in range(len(made.where.size)):
            row = pairs.row(epoch, number)
            shown = row.ids[row.places]
            frame = np.isin(row.ids, special[:3]).sum()
            assert not np.isin(row.words, special).any()
            assert len(row) <= LENGTH
            tokens += len(row) - int(frame)
            hidden += len(row.places)
            masked += int((shown == made.tokenizer.mask).sum())
            kept += int((shown == row.words).sum())
            asked += [row.random_next] if row.random_next != NOT_ASKED else []
        epoch += 1
    assert 100 * hidden / tokens == pytest.approx(15, abs=0.1)
    assert 100 * masked / hidden == pytest.approx(80, abs=0.5)
    assert 100 * kept / hidden == pytest.approx(10, abs=0.5)
    assert 100 * (hidden - masked - kept) / hidden == pytest.approx(10, abs=0.5)
    assert set(asked) == {0, 1}
    assert len(asked) > 0.99 * epoch * len(made.where.size)
    assert 100 * np.mean(asked) == pytest.approx(50, abs=0.2)


def test_a_row_is_a_function_of_seed_epoch_and_number(made: Made, seed: int) -> None:
    asked = [
        tuple(pair)
        for pair in np.random.default_rng(seed)
        .integers(0, [5, len(made.where.size)], (300, 2))
        .tolist()
    ]
    fresh = {key: made.pairs(7, whole=True).row(*key) for key in asked}
    shared = made.pairs(7, whole=True)
    found: list[tuple[tuple[int, int], PretrainRow]] = []

    def ask(order: list[tuple[int, int]]) -> None:
        found.extend((key, shared.row(*key)) for key in order)

    threads = [threading.Thread(target=ask, args=(asked[::way],)) for way in (1, -1, 3, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1000
    assert all(equal(fresh[key], row) for key, row in found)


def test_epochs_and_seeds_differ(made: Made) -> None:
    for keys in ([(1, epoch) for epoch in range(4)], [(seed, 0) for seed in range(4)]):
        rows = [
            [made.pairs(seed).row(epoch, number) for number in range(100)] for seed, epoch in keys
        ]
        for number in range(100):
            places = {tuple(run[number].places.tolist()) for run in rows}
            assert len(places) == len(keys) or len(rows[0][number]) < 40
        random_nexts = [[row.random_next for row in run] for run in rows]
        assert len({tuple(run) for run in random_nexts}) == len(keys)
    pieces, words = made.pairs(1), made.pairs(1, whole=True)
    same = [equal(pieces.row(0, number), words.row(0, number)) for number in range(100)]
    assert sum(same) < 80  # most of these words are one piece


def test_a_random_next_comes_from_another_document(made: Made) -> None:
    source, pairs = Source(made), made.pairs(3)
    seen = [0, 0]
    for number in range(0, len(made.where.size), 2):
        for epoch in (0, 1):
            row = pairs.row(epoch, number)
            first, *rest = source.halves(row)
            here = int(made.where.document[number])
            assert here in source.documents(first)
            if row.random_next != NOT_ASKED:
                there = source.documents(rest[0])
                assert (here in there) if row.random_next == 0 else there - {here}
                seen[row.random_next] += 1
    assert min(seen) > 400


def test_a_true_pair_is_the_passage_itself(made: Made) -> None:
    source, pairs = Source(made), made.pairs(3)
    for number in range(300):
        row = pairs.row(2, number)
        if row.random_next != 1:
            start, size = made.where.start[number], made.where.size[number]
            assert (
                np.concatenate(source.halves(row)).tolist()
                == source.ids[start : start + size].tolist()
            )
            cut = start + len(source.halves(row)[0])
            if row.random_next == 0 and (source.marks[start + 1 : start + size] & SENTENCE).any():
                assert source.marks[cut] & SENTENCE


def boundaries(made: Made, epochs: int) -> dict[int, np.ndarray]:
    """For true second texts and for random_nexts: whether each begins and ends at a sentence, and how long it is."""
    source, pairs = Source(made), made.pairs(4)
    marks = np.append(source.marks, np.uint8(DOCUMENT | SENTENCE | WORD))
    found: dict[int, list[tuple[bool, bool, int]]] = {0: [], 1: []}
    for epoch in range(epochs):
        for number in range(len(made.where.size)):
            row = pairs.row(epoch, number)
            second = source.halves(row)[-1]
            at = source.bytes.find(second.astype("<u2").tobytes()) // 2
            if (
                row.random_next != NOT_ASKED and len(second) > 8
            ):  # a shorter one may stand in many places
                ends = bool(marks[at + len(second)] & SENTENCE)
                found[row.random_next].append((bool(marks[at] & SENTENCE), ends, len(second)))
    return {kind: np.array(rows, float).mean(0) for kind, rows in found.items()}


def test_its_ends_do_not_tell_a_random_next(made: Made) -> None:
    """Strangers begin and end with whole sentences as often, and are about as long: else the question would be too easy."""
    found = boundaries(made, 2)
    assert found[1][:2] == pytest.approx(found[0][:2], abs=0.03)
    assert found[1][2] == pytest.approx(found[0][2], rel=0.1)


def test_without_pairs_a_row_is_one_text(made: Made) -> None:
    source, pairs = Source(made), made.pairs(3, follow=False)
    for number in range(0, 200, 7):
        row = pairs.row(0, number)
        start, size = made.where.start[number], made.where.size[number]
        assert row.random_next == NOT_ASKED
        assert source.halves(row)[0].tolist() == source.ids[start : start + size].tolist()
    batch = pairs.batch(0, np.arange(20))
    assert set(batch.targets) == {"places", "words"}


def test_a_batch_is_its_rows_longest_first(made: Made) -> None:
    pairs, numbers = made.pairs(5), np.array([40, 3, 900, 17, 256])
    batch = pairs.batch(1, numbers)
    rows = sorted((pairs.row(1, int(number)) for number in numbers), key=len, reverse=True)
    assert (
        batch.lengths.tolist()
        == [len(row) for row in rows]
        == sorted(batch.lengths.tolist(), reverse=True)
    )
    assert batch.ids.tolist() == [i for row in rows for i in row.ids.tolist()]
    assert batch.segments.tolist() == [i for row in rows for i in row.segments.tolist()]
    assert batch.targets["random_next"].tolist() == [row.random_next for row in rows]
    whole = batch.ids.clone()
    whole[batch.targets["places"]] = batch.targets["words"]
    expected = []
    for row in rows:
        ids = row.ids.copy()
        ids[row.places] = row.words
        expected += ids.tolist()
    assert whole.tolist() == expected


# Passages


def check(found: Passages, shards: list[Shard], room: int) -> None:
    """Every token once and in order, within the room, within a document, cut as late as whole sentences allow."""
    document = -1
    number = 0
    for index, (_, marks) in enumerate(shards):
        at = 0
        while at < len(marks):
            assert (found.shard[number], found.start[number]) == (index, at)
            size = int(found.size[number])
            assert 0 < size <= room
            document += int(marks[at] & DOCUMENT > 0)
            assert found.document[number] == document
            assert not (marks[at + 1 : at + size] & DOCUMENT).any()
            stop = at + size
            whole = stop == len(marks) or marks[stop] & SENTENCE
            inside = marks[at + 1 : stop]
            if not whole:  # one sentence alone is longer than the room
                assert not (inside & SENTENCE).any()
                assert marks[stop] & WORD or not (inside & WORD).any()
                assert size == room or marks[stop] & WORD
            if stop < len(marks) and not marks[stop] & DOCUMENT:
                after = np.flatnonzero(marks[stop + 1 : at + room + 1] & SENTENCE)
                ended = at + room + 1 > len(marks)
                assert not len(after) or not whole
                assert not (ended and whole), "the rest would have fitted"
            at = stop
            number += 1
    assert number == len(found.size)


@st.composite
def corpora(draw: st.DrawFn) -> list[Shard]:
    """Shards of documents of sentences of words, one of which may go on from one shard into the next."""
    shards = []
    for index in range(draw(st.integers(1, 3))):
        marks = np.array(
            draw(
                st.lists(
                    st.sampled_from([0, 0, WORD, WORD, WORD | SENTENCE, 7]), min_size=1, max_size=80
                )
            ),
            np.uint8,
        )
        marks[0] = 7 if index == 0 else draw(st.sampled_from([7, WORD | SENTENCE]))
        shards.append(Shard(np.zeros(len(marks), np.uint16), marks))
    return shards


@given(corpora(), st.integers(1, 40))
def test_passages_of_any_marks(shards: list[Shard], room: int) -> None:
    check(passages(SimpleNamespace(shards=shards), room), shards, room)


@pytest.mark.parametrize("room", [5, 125, 509, 10**6])
def test_passages_of_real_text(made: Made, room: int) -> None:
    found = passages(made.shards, room)
    check(found, made.shards.shards, room)
    assert found.size.sum() == made.shards.tokens
    assert found.document[-1] + 1 == made.shards.documents
    if room == 10**6:
        assert len(found.size) == made.shards.documents


def test_a_document_over_two_shards_is_one_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "SHARD_TOKENS", 500)
    cut = make(tmp_path, topics()[:40_000], vocabulary())
    assert len(cut.shards.shards) > 10
    check(cut.where, cut.shards.shards, cut.room)
    assert len(np.unique(cut.where.document)) == cut.shards.documents
    source, pairs = Source(cut), cut.pairs()
    for number in range(len(cut.where.size)):
        row = pairs.row(0, number)
        if row.random_next == 1:
            assert source.documents(source.halves(row)[1]) - {int(cut.where.document[number])}


# What is held out


@pytest.mark.parametrize("times", [1, 20])
def test_the_last_documents_are_held_out(made: Made, times: int) -> None:
    """One in a hundred tokens, of a small text more."""
    shard, start, size, document = made.where
    more = [document + made.shards.documents * number for number in range(times)]
    where = Passages(
        np.tile(shard, times), np.tile(start, times), np.tile(size, times), np.concatenate(more)
    )
    train, dev = split_dev(where)
    assert train.document[-1] < dev.document[0]
    wanted = max(DEV_SHARE * times * made.shards.tokens, DEV_LEAST)
    assert wanted <= dev.size.sum() < wanted + where.size[where.document == dev.document[0]].sum()
    assert [*train.start, *dev.start] == where.start.tolist()
    assert [*train.document, *dev.document] == where.document.tolist()


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 128)), min_size=1, max_size=30))
def test_any_corpus_is_split_between_documents(documents: list[tuple[int, int]]) -> None:
    rows = [(number, size) for number, (parts, size) in enumerate(documents) for _ in range(parts)]
    document, size = (np.array(column) for column in zip(*rows, strict=True))
    where = Passages(
        np.zeros(len(rows), np.int32), np.cumsum(size) - size, size.astype(np.int32), document
    )
    train, dev = split_dev(where)
    assert len(train.size) > 0
    assert (len(dev.size) > 0) == (len(documents) > 1) == several(where)
    assert not set(train.document) & set(dev.document)


@pytest.mark.parametrize("size", [40_000, 400])
def test_the_end_of_a_single_document_is_held_out(tmp_path: Path, size: int) -> None:
    """Whole passages, or of a text that is one passage its last sentences."""
    text = " ".join(topics()[1000:][:size].split())
    made = make(tmp_path, text, vocabulary())
    assert split_dev(made.where)[1].size.sum() == 0  # as runs of earlier versions had it
    train, dev = split_dev(made.where, made.shards)
    assert made.shards.documents == 1
    assert (len(made.where.size) == 1) == (size == 400)
    ends = (train.start + train.size).tolist()
    assert [*train.start, *dev.start] == [0, *ends, *(dev.start + dev.size)[:-1]]
    assert ends[-1] + dev.size.sum() == made.shards.tokens
    wanted = 0.1 * made.shards.tokens
    assert wanted <= dev.size.sum() < wanted + made.room
    for part in (train, dev):
        assert all(made.shards.shards[0].marks[start] & SENTENCE for start in part.start[:1])
    one = make(tmp_path, "A single sentence.", vocabulary())
    assert split_dev(one.where, one.shards)[1].size.sum() == 0


# Short documents


def test_documents_of_one_sentence_are_parted_between_words(tmp_path: Path) -> None:
    lines = [line for lines in TEXTS.values() for line in lines]
    tokenizer = Tokenizer.train(lines, size=600)
    short = make(tmp_path, "\n\n".join(lines), tokenizer)
    assert len(short.where.size) == short.shards.documents == len(lines)
    source, pairs = Source(short), short.pairs(whole=True)
    kinds = set()
    for epoch in range(8):
        for number in range(len(lines)):
            row = pairs.row(epoch, number)
            kinds.add(row.random_next)
            first, second = source.halves(row)
            start = short.where.start[number]
            assert source.marks[start + len(first)] & WORD
            assert len(first) > 0
            assert len(second) > 0
            assert len(row) <= short.room + SPECIAL
    assert kinds == {0, 1}


def test_a_document_of_one_word_is_asked_for_its_word_alone(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(["harbour deadline registry"] * 5, size=64)
    short = make(tmp_path, "harbour\n\nregistry deadline\n\ndeadline", tokenizer)
    pairs = short.pairs()
    assert [pairs.row(0, number).random_next == NOT_ASKED for number in range(3)] == [
        True,
        False,
        True,
    ]
    hidden = sum(len(pairs.row(epoch, 0).places) for epoch in range(3000))
    (word,) = tokenizer.encode(["harbour"], special=False)
    assert hidden / (3000 * len(word)) == pytest.approx(0.15, abs=0.025)
    assert pairs.batch(0, np.arange(3)).targets["random_next"].tolist().count(NOT_ASKED) == 2


def test_a_long_word_is_cut_at_the_room(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(["abc"] * 3, "bytes", 261)
    long = make(tmp_path, "x" * 1000 + "\n\n" + "y" * 50, tokenizer, 64)
    assert long.where.size.tolist() == [61] * 16 + [24, 50]
    assert all(
        long.pairs(whole=True).row(0, number).random_next == NOT_ASKED for number in range(18)
    )


def test_an_example_is_described_by_its_text(made: Made) -> None:
    assert made.pairs().describe(0).startswith('0 (\'the " assert " statement')


def test_a_vocabulary_without_frame_is_refused(made: Made, tmp_path: Path) -> None:
    page = {
        "version": "1.0",
        "model": {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"},
        "added_tokens": [],
    }
    page |= {
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
    }
    (tmp_path / "tokenizer.json").write_text(
        json.dumps(page | {"truncation": None, "padding": None})
    )
    bare = Tokenizer.open(tmp_path)
    (tmp_path / "text.txt").write_text("a b a")
    shards = open_shards(tmp_path / "s", [tmp_path / "text.txt"], vocabulary())
    with pytest.raises(InputError, match="beginning and the end of a text"):
        Pairs(shards, made.where, bare, 10, 0, made.pairs().masker, follow=True)
