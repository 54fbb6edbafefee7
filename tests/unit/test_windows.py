"""Words with those around them: who is in whose window, who is left out, what is noise; counts of pairs."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from firth.base.errors import InputError
from firth.corpus import cooccurrence
from firth.corpus.stream import TokenStream
from firth.corpus.windows import POWER, Windows, WindowSpan, kept_shares, word_counts
from firth.text.tokenizer import Tokenizer
from tests.unit.corpora import make, topics, vocabulary

VOCAB = 1500


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return vocabulary("words", VOCAB)


@pytest.fixture(scope="module")
def stream(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> TokenStream:
    text = topics()[:150_000]
    made = make(tmp_path_factory.mktemp("text"), text, tokenizer)
    assert tokenizer.sep is not None
    return TokenStream(made.shards, tokenizer.sep)


def windows(
    stream: TokenStream,
    tokenizer: Tokenizer,
    *,
    sample: float = 0.0,
    drawn: bool = True,
    window: int = 4,
    size: int = 1000,
) -> Windows:
    counts = word_counts(stream, tokenizer)
    return Windows(stream, counts, window=window, sample=sample, drawn=drawn, size=size, seed=7)


def marks(tokenizer: Tokenizer) -> set[int | None]:
    return {tokenizer.pad, tokenizer.unk, tokenizer.cls, tokenizer.sep, tokenizer.mask}


def lines_of(ids: list[int], tokenizer: Tokenizer) -> list[list[int]]:
    """Lines of known words."""
    lines: list[list[int]] = [[]]
    for word in ids:
        if word == tokenizer.sep:
            lines.append([])
        elif word not in marks(tokenizer):
            lines[-1].append(word)
    return lines


def test_a_window_is_of_one_line(stream: TokenStream, tokenizer: Tokenizer) -> None:
    read = windows(stream, tokenizer, drawn=False)
    for number in (0, 3, read.count - 1):
        span = read.read(0, number)
        ids = stream.read(number * 1000, min(stream.size, (number + 1) * 1000)).tolist()
        lines = lines_of(ids, tokenizer)
        assert span.words.tolist() == [word for line in lines for word in line]
        left = [min(4, at) for line in lines for at in range(len(line))]
        right = [min(4, len(line) - 1 - at) for line in lines for at in range(len(line))]
        assert span.left.tolist() == left
        assert span.right.tolist() == right


def test_window_sizes_are_drawn_evenly(stream: TokenStream, tokenizer: Tokenizer) -> None:
    read = windows(stream, tokenizer)
    largest = windows(stream, tokenizer, drawn=False)
    drawn: Counter[int] = Counter()
    for number in range(read.count):
        span = read.read(0, number)
        most = largest.read(0, number)
        assert (span.left <= most.left).all()
        assert (span.right <= most.right).all()
        inner = (most.left == 4) & (most.right == 4)
        assert (span.left[inner] == span.right[inner]).all()
        drawn.update(span.left[inner].tolist())
    total = sum(drawn.values())
    assert total > 2000
    assert sorted(drawn) == [1, 2, 3, 4]
    assert all(abs(times / total - 0.25) < 0.05 for times in drawn.values())


def test_frequent_words_are_left_out_as_often_as_they_should(
    stream: TokenStream, tokenizer: Tokenizer
) -> None:
    sample = 2e-3
    counts = word_counts(stream, tokenizer)
    read = windows(stream, tokenizer, sample=sample)
    epochs = 12
    found = np.zeros(tokenizer.size)
    for epoch in range(epochs):
        for number in range(read.count):
            found += np.bincount(read.read(epoch, number).words, minlength=tokenizer.size)
    shares = counts / counts.sum()
    for word in np.argsort(-counts)[:40]:
        expected = min(1.0, np.sqrt(sample / shares[word]) + sample / shares[word])
        times = epochs * counts[word]
        spread = np.sqrt(max(expected * (1 - expected), 1e-12) / times)
        assert abs(found[word] / times - expected) <= 5 * spread + 1e-9
    rare = (counts > 0) & (shares < sample)
    assert (found[rare] == epochs * counts[rare]).all()
    assert kept_shares(counts, 0.0)[counts > 0].min() == 1


def test_all_is_a_function_of_seed_epoch_and_place(
    stream: TokenStream, tokenizer: Tokenizer
) -> None:
    one = windows(stream, tokenizer, sample=1e-3)
    other = windows(stream, tokenizer, sample=1e-3)
    other.read(0, 0)

    def same(first: WindowSpan, second: WindowSpan) -> bool:
        return all(np.array_equal(*pair) for pair in zip(first, second, strict=True))

    assert same(one.read(2, 5), other.read(2, 5))
    assert not same(one.read(2, 5), one.read(3, 5))
    assert np.array_equal(one.noise(1, 4, 90), other.noise(1, 4, 90))
    assert not np.array_equal(one.noise(1, 4, 90), one.noise(1, 5, 90))


def test_noise_is_words_in_proportion_to_a_power_of_their_counts(
    stream: TokenStream, tokenizer: Tokenizer
) -> None:
    counts = word_counts(stream, tokenizer)
    drawn = windows(stream, tokenizer).noise(0, 0, 200_000)
    found = np.bincount(drawn, minlength=tokenizer.size)
    assert not found[[mark for mark in marks(tokenizer) if mark is not None]].any()
    assert not found[counts == 0].any()
    expected = counts**POWER / (counts**POWER).sum()
    spread = np.sqrt(expected * (1 - expected) / len(drawn))
    assert (np.abs(found / len(drawn) - expected) <= 5 * spread).all()


def test_counts_of_pairs_are_those_of_a_plain_loop(
    stream: TokenStream, tokenizer: Tokenizer
) -> None:
    window = 5
    stop = 4000
    ids = stream.read(0, stop)
    expected: Counter[tuple[int, int]] = Counter()
    for line in lines_of(ids.tolist(), tokenizer):
        for at, word in enumerate(line):
            for distance in range(1, min(window, at) + 1):
                other = line[at - distance]
                expected[word, other] += 1 / distance
                expected[other, word] += 1 / distance
    known = word_counts(stream, tokenizer)[ids] > 0
    lines = np.cumsum(ids == tokenizer.sep)
    whole = cooccurrence.count_pairs(ids[known], lines[known], tokenizer.size, window)
    cells = cooccurrence.cells(whole)
    found = {
        (int(row), int(column)): float(count) for row, column, count in zip(*cells, strict=True)
    }
    assert len(found) == len(cells.counts)
    assert found.keys() == expected.keys()
    assert all(found[pair] == pytest.approx(expected[pair], rel=1e-6) for pair in found)

    # In parts that end with lines, and merged in any order, down to the bit.
    cut = int(stream.lines()[20])
    first = known & (np.arange(stop) < cut)
    second = known & (np.arange(stop) >= cut)
    parts = [
        cooccurrence.count_pairs(ids[part], lines[part], tokenizer.size, window)
        for part in (first, second)
    ]
    for order in (parts, parts[::-1]):
        merged = cooccurrence.merge_counts(order)
        assert np.array_equal(merged.keys, whole.keys)
        assert np.array_equal(merged.weights, whole.weights)


def test_counts_that_were_kept_are_told_from_others(tmp_path: Path) -> None:
    ids = np.array([5, 6, 5, 7])
    counts = cooccurrence.count_pairs(ids, np.zeros(4, np.int64), 9, 3)
    again = cooccurrence.of_arrays(counts.arrays(), 9, 3)
    assert np.array_equal(again.keys, counts.keys)
    assert np.array_equal(again.weights, counts.weights)
    for vocab, window in ((8, 3), (9, 4)):
        with pytest.raises(InputError, match="of another vocabulary or window"):
            cooccurrence.of_arrays(counts.arrays(), vocab, window)


def test_a_text_of_single_words_has_no_pairs() -> None:
    counts = cooccurrence.count_pairs(np.array([5, 6]), np.array([0, 1]), 9, 3)
    assert counts.size == 0
    assert cooccurrence.merge_counts([counts, counts]).size == 0
    assert len(cooccurrence.cells(counts).counts) == 0
