"""What the training loop reads: numbered examples, the steps of an epoch, their micro-batches."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.base.seeds import Purpose, generator
from firth.data.batch import Batch

Numbers = NDArray[np.int64]


class Feed(Protocol):
    """Examples by number; all that is drawn for one is a function of (seed, epoch, number)."""

    sizes: NDArray[Any]  # tokens of each, near enough to cut batches by

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Make the tensors of some examples."""
        ...

    def describe(self, number: int) -> str:
        """Return a few words that let a person find an example."""
        ...


class Step(NamedTuple):
    """The examples of one step, fixed by (seed, step) alone."""

    epoch: int
    numbers: Numbers


class Order(Protocol):
    """Which examples each step has."""

    per_epoch: int

    def at(self, step: int) -> Step:
        """Return the examples of a step, counted from 0."""
        ...


class _Epoch(NamedTuple):
    """An epoch's order of the examples, and where it is cut into steps."""

    number: int
    order: Numbers
    cuts: Numbers


class Steps:
    """Every epoch in an order of its own, cut into as many steps of nearly `budget` tokens each."""

    def __init__(self, sizes: NDArray[Any], seed: int, budget: int) -> None:
        self.sizes = sizes
        self.seed = seed
        wanted = round(int(sizes.sum()) / budget)
        self.per_epoch = max(1, min(len(sizes), wanted))  # a step has at least one example
        self._last: _Epoch | None = None  # that was asked for

    def at(self, step: int) -> Step:
        """Return the examples of a step, counted from 0."""
        epoch, index = divmod(step, self.per_epoch)
        known = self._last
        if known is None or known.number != epoch:
            known = self._shuffle(epoch)
            self._last = known  # in one assignment: other threads see all of it or none
        return Step(epoch, known.order[known.cuts[index] : known.cuts[index + 1]])

    def _shuffle(self, epoch: int) -> _Epoch:
        draw = generator(Purpose.ORDER, self.seed, epoch)
        order = draw.permutation(len(self.sizes))
        return _Epoch(epoch, order, _cuts(self.sizes[order], self.per_epoch))


def micro_batches(sizes: NDArray[Any], budget: int, processes: int = 1) -> list[Numbers]:
    """Split the examples of a step, longest first, into parts of at most about `budget` tokens.

    There are as many for each process.
    """
    if len(sizes) < processes:
        raise InputError(
            f"a step has {len(sizes)} examples for {processes} processes; "
            "ask for more tokens in a step"
        )
    order = np.argsort(-sizes, kind="stable")
    wanted = -(-int(sizes.sum()) // budget)
    of_each = min(len(sizes) // processes, -(-wanted // processes))
    cuts = _cuts(sizes[order], of_each * processes)
    return np.split(order, cuts[1:-1])


def _cuts(sizes: NDArray[Any], count: int) -> Numbers:
    """Return where to cut a list into `count` parts of nearly the same number of tokens.

    None of them is empty if there are enough.
    """
    total = np.cumsum(sizes, dtype=np.int64)
    parts = np.arange(count + 1)
    # On the right, because an item that ends where a part does belongs to it.
    cuts = np.searchsorted(total, parts * total[-1] // count, side="right")
    cuts[0] = 0
    cuts[-1] = len(sizes)
    has_empty = np.diff(cuts).min() < 1
    if has_empty and len(sizes) >= count:
        cuts = parts * len(sizes) // count
    return np.asarray(cuts, np.int64)


def evenly_spread(feed: Feed, most: int) -> Numbers:
    """Return evenly spread examples with about `most` tokens, always the same."""
    count = len(feed.sizes)
    if not count:
        return np.zeros(0, np.int64)
    share = min(1.0, most / max(1, int(feed.sizes.sum())))
    wanted = max(1, round(count * share))
    return np.unique(np.linspace(0, count - 1, wanted).astype(np.int64))
