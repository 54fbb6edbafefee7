"""Scores with intervals from a stream: sums over the examples, and over resampled sets of them, in memory that doesn't grow.

Each example has a vector of figures that add up (right answers, squares ...), and a score is a function of the sums. A resampled
set counts each example as often as a Poisson draw with mean 1 says ("The Poisson bootstrap", Hanley and MacGibbon, 2006). The draws
are a function of the example's number, so two models on the same examples are compared on the same resampled sets.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.seeds import Purpose, generator

Figures = NDArray[np.float64]
Score = Callable[[Figures], Mapping[str, Figures]]  # sums (..., figures) to named scores (...)
RESAMPLES, BLOCK = 1000, 256
NONE = 0.5 / RESAMPLES  # what not one resampled set may stand for
ROUNDING = 1e-12
TAIL = 0.025  # of 95 % intervals, on either side


class Interval(NamedTuple):
    """A score and where it would lie, 95 times in 100, on other examples of the same kind."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """How much better one model is than another on the same examples, and how easily chance would do that."""

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
        """What the examples that wait add to every row; they may be fewer than a block."""
        rows = np.array(self._waiting).reshape(len(self._waiting), -1)
        draws = generator(Purpose.RESAMPLE, self.seed, (self.count - 1) // BLOCK).poisson(
            1.0, (BLOCK, RESAMPLES)
        )[: len(rows)]
        return np.vstack([rows.sum(0), draws.T @ rows])

    @property
    def totals(self) -> Figures:
        """All sums, (1 + resamples, figures)."""
        return self._totals + self._block() if self._waiting else self._totals

    def scores(self, score: Score) -> dict[str, Interval]:
        """Each score with its interval."""
        totals = self.totals
        drawn = totals[1:].any(-1)  # of very few examples a set may have none, which says nothing
        return {
            name: Interval(float(values[0]), *_reach(values[0], values[1:][drawn], self.count))
            for name, values in score(totals).items()
        }


def _reach(value: float, resampled: Figures, count: int) -> tuple[float, float]:
    """Where 95 % of the resampled scores lie, further out where there are few examples, and the score itself always within.

    Resampled sets of few examples differ too little, as normal quantiles do where Student's are due ("What Teachers Should Know
    About the Bootstrap", Hesterberg, 2015).
    """
    from scipy.special import ndtr, stdtrit

    tail = ndtr(stdtrit(count - 1, TAIL) * np.sqrt(count / (count - 1))) if count > 1 else 0.0
    low, high = np.quantile(resampled, [tail, 1 - tail]) if len(resampled) else (value, value)
    return min(float(value), float(low)), max(float(value), float(high))


def difference(gaps: Figures, count: int) -> Difference:
    """What gaps say, first on the examples themselves, so many of them, and then on the resampled sets."""
    from scipy.special import ndtri, stdtr

    gaps = np.where(
        np.abs(gaps) < ROUNDING, 0.0, gaps
    )  # equal scores that were added up in another order are equal
    # The smaller share of resampled sets on which the difference vanishes or turns; few examples differ too little, as above.
    beyond = max(NONE, min(float((gaps[1:] <= 0).mean()), float((gaps[1:] >= 0).mean())))
    chance = (
        2 * float(stdtr(count - 1, ndtri(beyond) * np.sqrt((count - 1) / count)))
        if count > 1
        else 1.0
    )
    return Difference(float(gaps[0]), *_reach(gaps[0], gaps[1:], count), min(1.0, chance))


class Tally(ABC):
    """What one kind of answers adds up to, and the scores of that."""

    sums: Sums

    @abstractmethod
    def score(self, sums: Figures) -> dict[str, Figures]:
        """The scores of sums."""

    def scores(self) -> dict[str, Interval]:
        """Each score with its interval."""
        return self.sums.scores(self.score)

    def against(self, other: "Tally") -> dict[str, Difference]:
        """How much higher each score is than another model's on the same examples, where both have it."""
        if (self.sums.count, self.sums.seed) != (other.sums.count, other.sums.seed):
            raise ValueError("two models are compared on the same examples")
        mine, theirs = self.score(self.sums.totals), other.score(other.sums.totals)
        return {
            name: difference(mine[name] - theirs[name], self.sums.count)
            for name in mine
            if name in theirs
        }


def ratio(part: Figures, whole: Figures) -> Figures:
    """A share that is 0 where there is nothing to divide by, as the published scorers have it."""
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole != 0)
