"""Labelled examples, encoded and held in memory: the feed of everything that is learned from examples."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.data.batch import Batch, make_batch
from firth.data.feed import Numbers
from firth.data.window import Window

Targets = dict[str, NDArray[Any]]


class Packed(NamedTuple):
    """A window as a model reads it, in arrays: an encoding, with its places as Python's numbers, takes fifty times as much."""

    ids: NDArray[np.integer[Any]]
    segments: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.ids)


class Ready(NamedTuple):
    """An example as a model reads it: its windows, and for each what is to be learned, by the task's own names."""

    rows: list[Packed]
    targets: list[Targets]

    @classmethod
    def of(cls, windows: Sequence[Window], targets: list[Targets]) -> "Ready":
        """From encodings, which are needed no longer."""
        pairs = ((window.row.ids, window.row.segments) for window in windows)
        return cls(
            [
                Packed(np.array(ids, np.int32), np.array(segments, np.int8))
                for ids, segments in pairs
            ],
            targets,
        )


class Rows:
    """A feed; an example's windows are never parted, and each weighs as much as their number leaves it."""

    def __init__(self, ready: Sequence[Ready], texts: Sequence[str]) -> None:
        self.ready, self.texts = ready, texts
        self.sizes: NDArray[Any] = np.array([sum(len(row) for row in one.rows) for one in ready])

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """The rows of some examples, longest first, with their targets one after another."""
        rows = [
            (row, target, int(number), 1 / len(self.ready[number].rows))
            for number in numbers
            for row, target in zip(*self.ready[number], strict=True)
        ]
        rows.sort(key=lambda row: len(row[0]), reverse=True)
        targets = {
            name: np.concatenate([target[name] for _, target, _, _ in rows]) for name in rows[0][1]
        }
        targets["weight"] = np.array([weight for _, _, _, weight in rows], np.float32)
        return make_batch(
            [row for row, _, _, _ in rows], [owner for _, _, owner, _ in rows], targets
        )

    def describe(self, number: int) -> str:
        """Its number and how its text begins."""
        return f"{number + 1} ({self.texts[number][:60]!r})"
