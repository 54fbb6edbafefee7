"""What the training loop reads: numbered examples, the steps that an epoch of them is cut into, and the pieces of a step."""

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
        """A few words that let a person find an example."""
        ...


class Step(NamedTuple):
    """The examples of one step, fixed by (seed, step) alone."""

    epoch: int
    numbers: Numbers


class Order(Protocol):
    """Which examples each step has."""

    per_epoch: int

    def at(self, step: int) -> Step:
        """The examples of a step, counted from 0."""
        ...


class Steps:
    """Every epoch in an order of its own, cut into as many steps of nearly `budget` tokens each."""

    def __init__(self, sizes: NDArray[Any], seed: int, budget: int) -> None:
        self.sizes, self.seed = sizes, seed
        self.per_epoch = max(
            1, min(len(sizes), round(int(sizes.sum()) / budget))
        )  # a step has at least one example
        self._known = (
            -1,
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
        )  # the epoch that was asked for last

    def at(self, step: int) -> Step:
        """The examples of a step, counted from 0."""
        epoch, index = divmod(step, self.per_epoch)
        known, order, cuts = self._known
        if known != epoch:
            order = generator(Purpose.ORDER, self.seed, epoch).permutation(len(self.sizes))
            cuts = _cuts(self.sizes[order], self.per_epoch)
            self._known = (
                epoch,
                order,
                cuts,
            )  # one assignment: other threads see all of it or none
        return Step(epoch, order[cuts[index] : cuts[index + 1]])


def pieces(sizes: NDArray[Any], budget: int, processes: int = 1) -> list[Numbers]:
    """Split the examples of a step, longest first, into pieces of at most about `budget` tokens, as many for each process."""
    if len(sizes) < processes:
        raise InputError(
            f"a step has {len(sizes)} examples for {processes} processes; ask for more tokens in a step"
        )
    order = np.argsort(-sizes, kind="stable")
    wanted = -(-int(sizes.sum()) // budget)
    count = min(len(sizes) // processes, -(-wanted // processes)) * processes
    return np.split(order, _cuts(sizes[order], count)[1:-1])


def _cuts(sizes: NDArray[Any], count: int) -> Numbers:
    """Where to cut a list into `count` parts of nearly the same number of tokens, none of them empty if there are enough."""
    total = np.cumsum(sizes, dtype=np.int64)
    cuts = np.searchsorted(
        total, np.arange(count + 1) * total[-1] // count, side="right"
    )  # the item that ends there belongs to it
    cuts[0], cuts[-1] = 0, len(sizes)
    if np.diff(cuts).min() < 1 <= len(sizes) // count:
        cuts = np.arange(count + 1) * len(sizes) // count
    return np.asarray(cuts, np.int64)
