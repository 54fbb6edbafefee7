"""Labelled examples, encoded and held in memory: the feed of everything learned from examples."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.data.batch import Batch, make_batch
from firth.data.feed import Numbers
from firth.data.window import Window

Targets = dict[str, NDArray[Any]]


class PackedRow(NamedTuple):
    """A window as arrays: an encoding, whose numbers are Python's, takes fifty times as much."""

    ids: NDArray[np.integer[Any]]
    segments: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.ids)


class EncodedExample(NamedTuple):
    """An example as a model reads it: all windows of all its encodings, one after another."""

    rows: list[PackedRow]
    targets: list[Targets]  # of each row, by the task's own names
    encodings: list[int]  # of which encoding each row is a window

    @classmethod
    def of(
        cls, windows: Sequence[Sequence[Window]], targets: Sequence[Sequence[Targets]]
    ) -> "EncodedExample":
        """Keep what a model reads of the windows of each encoding, and the targets of each."""
        rows = []
        encodings = []
        for number, every in enumerate(windows):
            rows += [_packed(window) for window in every]
            encodings += [number] * len(every)
        return cls(rows, list(chain.from_iterable(targets)), encodings)

    @property
    def weights(self) -> list[float]:
        """Return what each row counts: an encoding counts once however many windows it has."""
        return [1 / self.encodings.count(encoding) for encoding in self.encodings]


def _packed(window: Window) -> PackedRow:
    """Return a window as arrays."""
    ids = np.array(window.row.ids, np.int32)
    segments = np.array(window.row.segments, np.int8)
    return PackedRow(ids, segments)


class _Row(NamedTuple):
    """One row of a batch that is being made."""

    row: PackedRow
    targets: Targets
    owner: int
    encoding: int
    weight: float


class ExampleFeed:
    """A feed of examples in memory; the rows of one example are never parted."""

    def __init__(self, examples: Sequence[EncodedExample], texts: Sequence[str]) -> None:
        self.examples = examples
        self.texts = texts
        sizes = [sum(len(row) for row in example.rows) for example in examples]
        self.sizes: NDArray[Any] = np.array(sizes)

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Make a batch of some examples: longest rows first, targets one after another."""
        rows: list[_Row] = []
        for number in numbers:
            rows += self._rows(int(number))
        rows.sort(key=lambda row: len(row.row), reverse=True)
        targets: Targets = {}
        for name in rows[0].targets:
            targets[name] = np.concatenate([row.targets[name] for row in rows])
        targets["weight"] = np.array([row.weight for row in rows], np.float32)
        return make_batch(
            [row.row for row in rows],
            [row.owner for row in rows],
            targets,
            encodings=[row.encoding for row in rows],
        )

    def _rows(self, number: int) -> list[_Row]:
        """Return the rows of an example."""
        example = self.examples[number]
        found = []
        for at, weight in enumerate(example.weights):
            encoding = example.encodings[at]
            row = _Row(example.rows[at], example.targets[at], number, encoding, weight)
            found.append(row)
        return found

    def describe(self, number: int) -> str:
        """Return an example's number and how its text begins."""
        return f"{number + 1} ({self.texts[number][:60]!r})"
