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


class EncodedPair(NamedTuple):
    """A pair as a model reads it."""

    source: Sequence[int]
    target: Sequence[int]  # with its end mark


class _Side:
    """All texts of one side, one after another."""

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
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
        """Make a batch of some pairs, the longest sources first and of equal ones the targets.

        Neighbours of one length are what attention computes together.
        """
        order = np.lexsort((-self.targets.sizes[numbers], -self.sources.sizes[numbers]))
        chosen = numbers[order]
        rows = []
        for number in chosen:
            ids = self.sources[number]
            rows.append(PackedRow(ids, np.zeros(len(ids), np.int8)))
        target = np.concatenate([self.targets[number] for number in chosen]).astype(np.int64)
        targets = {
            TARGET: target,
            LENGTHS: self.targets.sizes[chosen],
            SAID: target >= self.first,
        }
        return make_batch(rows, chosen.tolist(), targets)

    def describe(self, number: int) -> str:
        """Return a pair's number and how its source begins."""
        return f"{number + 1} ({self.texts[number][:60]!r})"
