"""Span corruption over real text: how much is taken out, that nothing is lost, and what is drawn when."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.base.seeds import Purpose, generator
from firth.corpus.corruption import (
    CorruptedTexts,
    corrupt,
    draw_spans,
    longest_text,
    taken_of,
)
from firth.corpus.pairs import passages
from firth.data.batch import TARGET
from firth.data.sides import LENGTHS, SAID, EncodedPair
from firth.text.tokenizer import Tokenizer
from tests.unit.corpora import make, topics

LENGTH = 128
SENTINELS = 32


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = topics().split("\n")[:2000]
    return Tokenizer.train(lines, "bytes", 2000, end_last=True, sentinels=SENTINELS)


@pytest.fixture(scope="module")
def feed(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> CorruptedTexts:
    made = make(tmp_path_factory.mktemp("text"), topics(), tokenizer, LENGTH)
    where = passages(made.shards, LENGTH - 2)
    assert tokenizer.cls is not None
    assert tokenizer.sep is not None
    return CorruptedTexts(made.shards, where, tokenizer, tokenizer.cls, tokenizer.sep, 1)


def spans_of(target: np.ndarray, tokenizer: Tokenizer) -> dict[int, list[int]]:
    """What stands after each sentinel of a target."""
    found: dict[int, list[int]] = {}
    for token in target[:-1].tolist():
        if token in tokenizer.sentinels:
            assert token not in found
            found[token] = []
        else:
            found[list(found)[-1]].append(token)
    return found


def restored(pair: EncodedPair, tokenizer: Tokenizer) -> list[int]:
    """The text that a source and a target were made of."""
    spans = spans_of(np.asarray(pair.target), tokenizer)
    return [token for shown in list(pair.source)[1:-1] for token in spans.get(shown, [int(shown)])]


def test_sentinels_follow_the_end_mark(tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert tokenizer.sep is not None
    first = tokenizer.sep + 1
    assert tokenizer.sentinels == tuple(range(first, first + SENTINELS))
    assert tokenizer.piece(first) == "<extra_id_0>"
    assert set(tokenizer.sentinels) < tokenizer.special
    (encoding,) = tokenizer.encode(["a <extra_id_1> b"], special=False)
    assert tokenizer.sentinels[1] in encoding.ids
    tokenizer.save(tmp_path)
    opened = Tokenizer.open(tmp_path)
    assert opened.sentinels == tokenizer.sentinels
    assert opened.with_sentinels(SENTINELS).fingerprint == opened.fingerprint


def test_sentinels_are_added_to_a_vocabulary_without() -> None:
    plain = Tokenizer.train(topics().split("\n")[:200], "words", 300)
    assert plain.sentinels == ()
    more = plain.with_sentinels(4)
    assert more.sentinels == tuple(range(plain.size, plain.size + 4))
    assert more.size == plain.size + 4
    text = ["The import statement combines two operations."]
    assert more.encode(text)[0].ids == plain.encode(text)[0].ids


def test_how_much_is_taken_out(feed: CorruptedTexts, tokenizer: Tokenizer) -> None:
    tokens = taken = spans = 0
    first_places = []
    for number in range(len(feed.sizes)):
        pair = feed.pair(0, number)
        size = int(feed.where.size[number])
        of_text = spans_of(np.asarray(pair.target), tokenizer)
        assert len(pair.source) + len(pair.target) == feed.sizes[number]
        assert list(of_text) == list(tokenizer.sentinels[: len(of_text)])
        shown = [token for token in pair.source if token in of_text]
        assert shown == list(of_text)
        assert all(of_text.values())
        tokens += size
        taken += sum(map(len, of_text.values()))
        spans += len(of_text)
        if size > LENGTH // 2:
            first_places.append(list(pair.source).index(shown[0]) == 1)
    assert tokens > 100_000
    assert taken / tokens == pytest.approx(0.15, abs=0.003)
    assert taken / spans == pytest.approx(3, abs=0.1)
    # A text may begin with a span as well as with anything else.
    assert 0.01 < np.mean(first_places) < 0.12


def test_source_and_target_together_are_the_text(
    feed: CorruptedTexts, tokenizer: Tokenizer
) -> None:
    for number in range(0, len(feed.sizes), 7):
        pair = feed.pair(2, number)
        assert (pair.source[0], pair.source[-1]) == (tokenizer.cls, tokenizer.sep)
        assert pair.target[-1] == tokenizer.sep
        assert restored(pair, tokenizer) == feed._text(number).tolist()


@given(st.integers(1, longest_text(SENTINELS)), st.integers(0, 2**32))
def test_any_size_can_be_corrupted(size: int, seed: int) -> None:
    spans = draw_spans(size, generator(Purpose.SPANS, seed))
    taken = taken_of(np.array([size]))
    assert len(spans.starts) == taken.spans[0] <= SENTINELS
    assert spans.sizes.sum() == taken.tokens[0]
    assert spans.sizes.min() >= 1
    ends = spans.starts + spans.sizes
    assert (spans.starts[1:] > ends[:-1]).all()
    assert 0 <= spans.starts[0] <= ends[-1] <= size
    pair = corrupt(np.arange(size), spans, range(size, size + SENTINELS))
    assert sorted([*pair.source, *pair.target])[:size] == list(range(size))


def test_the_longest_text_is_the_longest() -> None:
    most = longest_text(SENTINELS)
    assert (taken_of(np.array([most, most + 1])).spans == [SENTINELS, SENTINELS + 1]).all()
    assert longest_text(0) == 0


def test_every_place_is_equally_likely() -> None:
    """Of ten tokens two are taken in one span: nine places, each with the same share."""
    draw = generator(Purpose.SPANS, 5)
    starts = [int(draw_spans(10, draw).starts[0]) for _ in range(9_000)]
    counts = np.bincount(starts, minlength=9)
    assert len(counts) == 9
    assert counts.min() > 850
    assert counts.max() < 1150


def test_draws_are_a_function_of_seed_epoch_and_number(
    feed: CorruptedTexts, tokenizer: Tokenizer
) -> None:
    again = CorruptedTexts(feed.shards, feed.where, tokenizer, feed.start, feed.end, 1)
    other = CorruptedTexts(feed.shards, feed.where, tokenizer, feed.start, feed.end, 2)
    numbers = np.array([40, 3, 11])
    for part in (5, 2):  # whatever was drawn before
        again.batch(part, np.arange(part))
    first = feed.batch(3, numbers)
    second = again.batch(3, numbers)
    assert first.ids.equal(second.ids)
    assert first.owner == second.owner
    for name in (TARGET, LENGTHS, SAID):
        assert first.targets[name].equal(second.targets[name])
    assert not np.array_equal(feed.pair(3, 40).source, feed.pair(4, 40).source)
    assert not np.array_equal(feed.pair(3, 40).source, other.pair(3, 40).source)
    assert first.targets[SAID].all()
    assert "40 ('" in feed.describe(40)
