"""Labelled examples, encoded and held in memory: the feed of everything that is learned from examples."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.data.batch import Batch, make_batch
from firth.data.feed import Numbers
from firth.data.window import Window

Targets = dict[str, NDArray[Any]]


class Ready(NamedTuple):
    """An example as a model reads it: its windows, and for each what is to be learned, by the task's own names."""

    windows: list[Window]
    targets: list[Targets]


class Rows:
    """A feed; an example's windows are never parted, and each weighs as much as their number leaves it."""

    def __init__(self, ready: Sequence[Ready], texts: Sequence[str]) -> None:
        self.ready, self.texts = ready, texts
        self.sizes: NDArray[Any] = np.array([sum(len(window.row) for window in one.windows) for one in ready])

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """The rows of some examples, longest first, with their targets one after another."""
        rows = [
            (window.row, target, int(number), 1 / len(self.ready[number].windows))
            for number in numbers
            for window, target in zip(*self.ready[number], strict=True)
        ]
        rows.sort(key=lambda row: len(row[0]), reverse=True)
        targets = {name: np.concatenate([target[name] for _, target, _, _ in rows]) for name in rows[0][1]}
        targets["weight"] = np.array([weight for _, _, _, weight in rows], np.float32)
        return make_batch([row for row, _, _, _ in rows], [owner for _, _, owner, _ in rows], targets)

    def describe(self, number: int) -> str:
        """Its number and how its text begins."""
        return f"{number + 1} ({self.texts[number][:60]!r})"
