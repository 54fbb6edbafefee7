"""Scores of numbers: Pearson's and Spearman's correlation, and the mean squared error."""

from array import array

import numpy as np

from firth.base.seeds import Purpose, generator
from firth.metrics.sums import (
    RESAMPLES,
    Difference,
    Figures,
    Interval,
    Sums,
    Tally,
    difference,
    ratio,
)

FEWEST = 4  # pairs of which a correlation says anything


class Numbers(Tally):
    """One number for each text.

    Spearman's correlation needs every pair of numbers (16 bytes each); all else is sums.
    """

    def __init__(self) -> None:
        self.sums = Sums(7)
        self._pairs = array("d")  # truths and answers by turns
        self._centre: tuple[float, float] | None = None

    def add(self, truth: float, answer: float) -> None:
        """Count one answer."""
        # Near the data's own place, so that squares don't swallow differences.
        self._centre = self._centre or (truth, answer)
        x, y = truth - self._centre[0], answer - self._centre[1]
        self.sums.add(np.array([1.0, x, y, x * x, y * y, x * y, (truth - answer) ** 2]))
        self._pairs.extend((truth, answer))

    def score(self, sums: Figures) -> dict[str, Figures]:
        """The scores of sums."""
        return number_scores(sums)

    def scores(self) -> dict[str, Interval]:
        """Each score with its interval."""
        return super().scores() | {"spearman": self.spearman()}

    def spearman(self) -> Interval:
        """Spearman's correlation, its interval by Fisher's transformation with the variance of Bonett and Wright (2000).

        Fewer than `FEWEST` pairs say nothing. A perfect order says as much as one in which two neighbours have changed places: the
        transformation of 1 has no end.
        """
        truths, answers = self._columns()
        once = np.ones(len(truths))
        rho = _correlation(_Ranks(truths)(once), _Ranks(answers)(once), once)
        count = len(truths)
        if count < FEWEST:
            return Interval(rho, -1.0, 1.0)
        most = 1 - 12 / (count**3 - count)
        near = np.clip(rho, -most, most)
        reach = 1.96 * np.sqrt((1 + near**2 / 2) / (count - 3))
        low, high = np.tanh(np.arctanh(near) + np.array([-reach, reach]))
        return Interval(rho, min(rho, float(low)), max(rho, float(high)))

    def against(self, other: Tally) -> dict[str, Difference]:
        """How much higher each score is than another model's on the same examples."""
        assert isinstance(other, Numbers)
        return super().against(other) | {"spearman": self._spearman_against(other)}

    def _spearman_against(self, other: "Numbers") -> Difference:
        """By resampled sets of the pairs; ranks don't add up, but need one set at a time."""
        truths, mine = self._columns()
        ranks = [_Ranks(values) for values in (truths, mine, other._columns()[1])]

        def gap(weights: Figures) -> float:
            truth, ours, theirs = (of(weights) for of in ranks)
            return _correlation(truth, ours, weights) - _correlation(truth, theirs, weights)

        draws = (
            generator(Purpose.RANKS, self.sums.seed, number).poisson(1.0, len(truths))
            for number in range(RESAMPLES)
        )
        return difference(
            np.array(
                [gap(np.ones(len(truths))), *(gap(weights.astype(float)) for weights in draws)]
            ),
            len(truths),
        )

    def _columns(self) -> Figures:
        return np.array(self._pairs).reshape(-1, 2).T


class _Ranks:
    """The ranks of numbers, each of which may be counted any number of times; equal ones share the mean of their ranks."""

    def __init__(self, values: Figures) -> None:
        self.place = np.unique(values, return_inverse=True)[
            1
        ]  # among the different numbers, the smallest first

    def __call__(self, weights: Figures) -> Figures:
        each = np.bincount(self.place, weights)
        return (np.cumsum(each) - (each - 1) / 2)[self.place]


def _correlation(x: Figures, y: Figures, weights: Figures) -> float:
    """Pearson's correlation of weighted pairs, 0 where there is no spread."""
    count = max(1.0, weights.sum())
    x, y = x - weights @ x / count, y - weights @ y / count
    return float(ratio(weights @ (x * y), np.sqrt((weights @ (x * x)) * (weights @ (y * y)))))


def number_scores(sums: Figures) -> dict[str, Figures]:
    """Pearson's correlation and the mean squared error, from n, x, y, x², y², xy and squared differences."""
    n, x, y, xx, yy, xy, error = np.moveaxis(sums, -1, 0)
    spread = np.sqrt(np.maximum(n * xx - x * x, 0) * np.maximum(n * yy - y * y, 0))
    return {"pearson": ratio(n * xy - x * y, spread), "mse": ratio(error, n)}
