"""Pairs of a source and a target, encoded and held in memory: the feed of text to text.

S source tokens, U target tokens, B pairs.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.data.batch import TARGET, Batch, make_batch
from firth.data.feed import Numbers
from firth.data.rows import PackedRow

LENGTHS = "lengths"  # of the targets, by name in a batch
SAID = "said"  # which tokens of the targets the model can write


TokenIds = Sequence[int] | NDArray[Any]


class EncodedPair(NamedTuple):
    """A pair as a model reads it."""

    source: TokenIds
    target: TokenIds  # with its end mark


def pair_batch(pairs: Sequence[EncodedPair], numbers: Numbers, first: int) -> Batch:
    """Make a batch of numbered pairs, the longest sources first and of equal ones the targets.

    Neighbours of one length are what attention computes together. Of a target's tokens those below
    `first` are read and never written.
    """
    sources = np.array([len(pair.source) for pair in pairs])
    lengths = np.array([len(pair.target) for pair in pairs])
    order = np.lexsort((-lengths, -sources))
    rows = []
    for place in order:
        ids = np.asarray(pairs[place].source)
        rows.append(PackedRow(ids, np.zeros(len(ids), np.int8)))
    target = np.concatenate([pairs[place].target for place in order]).astype(np.int64)
    targets = {
        TARGET: target,
        LENGTHS: lengths[order],
        SAID: target >= first,
    }
    return make_batch(rows, numbers[order].tolist(), targets)


class _Side:
    """All texts of one side, one after another."""

    def __init__(self, texts: Sequence[TokenIds]) -> None:
        self.sizes: NDArray[Any] = np.array([len(text) for text in texts], np.int64)
        self.ids = np.fromiter(chain.from_iterable(texts), np.int32, int(self.sizes.sum()))
        self.starts = self.sizes.cumsum() - self.sizes

    def __getitem__(self, number: int) -> NDArray[np.int32]:
        start = self.starts[number]
        return self.ids[start : start + self.sizes[number]]


class PairFeed:
    """A feed of pairs; of a target's tokens those below `first` are read and never written."""

    def __init__(self, pairs: Iterable[EncodedPair], texts: Sequence[str], first: int) -> None:
        every = list(pairs)
        self.sources = _Side([pair.source for pair in every])
        self.targets = _Side([pair.target for pair in every])
        self.texts = texts
        self.first = first
        self.sizes: NDArray[Any] = self.sources.sizes + self.targets.sizes

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Make a batch of some pairs."""
        pairs = [EncodedPair(self.sources[number], self.targets[number]) for number in numbers]
        return pair_batch(pairs, numbers, self.first)

    def describe(self, number: int) -> str:
        """Return a pair's number and how its source begins."""
        return f"{number + 1} ({self.texts[number][:60]!r})"
