"""Metrics with confidence intervals from a stream of examples, in memory that doesn't grow.

Each example has a vector of figures that add up (right answers, squares ...), and a metric is a
function of the sums. Intervals come from resampled sets of the examples: a set counts each example
as often as a Poisson draw with mean 1 says ("The Poisson bootstrap", Hanley and MacGibbon, 2006).
The draws are a function of the example's number, so two models on the same examples are compared on
the same resampled sets.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.seeds import Purpose, generator

Figures = NDArray[np.float64]
Score = Callable[[Figures], Mapping[str, Figures]]  # sums (..., figures) to named metrics (...)
RESAMPLES = 1000
BLOCK = 256  # examples whose draws are made together
NONE = 0.5 / RESAMPLES  # what not one resampled set may stand for
ROUNDING = 1e-12
TAIL = 0.025  # of 95 % intervals, on either side


class Interval(NamedTuple):
    """A metric and where it would lie, 95 times in 100, on other examples of the same kind."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """How much better one model is than another on the same examples, with a p-value."""

    value: float
    low: float
    high: float
    chance: float


class Sums:
    """Running sums; row 0 is the examples themselves, the other rows are the resampled sets."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.seed = seed
        self.count = 0
        self._totals = np.zeros((1 + RESAMPLES, size))
        self._waiting: list[Figures] = []

    def add(self, figures: Figures) -> None:
        """Add the figures of one example."""
        self._waiting.append(figures)
        self.count += 1
        if len(self._waiting) == BLOCK:
            self._totals += self._block()
            self._waiting = []

    def _block(self) -> Figures:
        """Return what the waiting examples, at most a block of them, add to every row."""
        count = len(self._waiting)
        rows = np.array(self._waiting).reshape(count, -1)

        # A whole block is drawn even if it is not full yet: an example's draws are always the same.
        block = (self.count - 1) // BLOCK
        draw = generator(Purpose.RESAMPLE, self.seed, block)
        times = draw.poisson(1.0, (BLOCK, RESAMPLES))[:count]
        return np.vstack([rows.sum(0), times.T @ rows])

    @property
    def totals(self) -> Figures:
        """All sums, (1 + resamples, figures)."""
        if not self._waiting:
            return self._totals
        return self._totals + self._block()

    def scores(self, score: Score) -> dict[str, Interval]:
        """Return each metric with its interval."""
        totals = self.totals
        # Of very few examples a resampled set may have none at all, which says nothing.
        drawn = totals[1:].any(-1)
        found = {}
        for name, values in score(totals).items():
            low, high = _reach(values[0], values[1:][drawn], self.count)
            found[name] = Interval(float(values[0]), low, high)
        return found


def _reach(value: float, resampled: Figures, count: int) -> tuple[float, float]:
    """Return where 95 % of the resampled metrics lie, the metric itself always within.

    Resampled sets of few examples differ too little, as normal quantiles do where Student's are
    due: so the tails are thinner where there are few ("What Teachers Should Know About the
    Bootstrap", Hesterberg, 2015).
    """
    # Imported here, because scipy takes longer to load than all else of this file to run.
    from scipy.special import ndtr, stdtrit

    if not len(resampled):
        return float(value), float(value)
    tail = 0.0
    if count > 1:
        widening = np.sqrt(count / (count - 1))
        tail = ndtr(stdtrit(count - 1, TAIL) * widening)
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return min(float(value), float(low)), max(float(value), float(high))


def difference(gaps: Figures, count: int) -> Difference:
    """Return the mean, interval and p-value of a metric's gap between two models.

    The first gap is that on the `count` examples themselves, the others are those on the resampled
    sets.
    """
    # Equal metrics that were added up in another order are equal.
    gaps = np.where(np.abs(gaps) < ROUNDING, 0.0, gaps)
    value = gaps[0]
    resampled = gaps[1:]
    low, high = _reach(value, resampled, count)
    return Difference(float(value), low, high, _p_value(resampled, count))


def _p_value(resampled: Figures, count: int) -> float:
    """Return the two-sided p-value of gaps on resampled sets."""
    from scipy.special import ndtri, stdtr

    if count < 2:
        return 1.0
    # The smaller share of resampled sets on which the difference vanishes or turns.
    not_above = float((resampled <= 0).mean())
    not_below = float((resampled >= 0).mean())
    beyond = max(NONE, min(not_above, not_below))

    # By Student's distribution, because resampled sets of few examples differ too little.
    narrowing = np.sqrt((count - 1) / count)
    return min(1.0, 2 * float(stdtr(count - 1, ndtri(beyond) * narrowing)))


class Tally(ABC):
    """What one kind of answers adds up to, and the metrics of that."""

    sums: Sums

    @abstractmethod
    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return the metrics of sums."""

    def scores(self) -> dict[str, Interval]:
        """Return each metric with its interval."""
        return self.sums.scores(self.score)

    def against(self, other: "Tally") -> dict[str, Difference]:
        """Return how much higher each metric is than another model's on the same examples."""
        mine = self.sums
        theirs = other.sums
        if (mine.count, mine.seed) != (theirs.count, theirs.seed):
            raise ValueError("two models are compared on the same examples")
        my_metrics = self.score(mine.totals)
        their_metrics = other.score(theirs.totals)

        found = {}
        for name in my_metrics:
            if name in their_metrics:
                gaps = my_metrics[name] - their_metrics[name]
                found[name] = difference(gaps, mine.count)
        return found


def ratio(part: Figures, whole: Figures) -> Figures:
    """Divide, with 0 where there is nothing to divide by, as the published scorers have it."""
    shape = np.broadcast(part, whole).shape
    return np.divide(part, whole, out=np.zeros(shape), where=whole != 0)
