"""Metrics of numbers: Pearson's and Spearman's correlation, and the mean squared error."""

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
QUANTILE = 1.96  # of the normal distribution, for intervals of 95 %


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
        if self._centre is None:
            self._centre = (truth, answer)
        true_centre, answer_centre = self._centre
        x = truth - true_centre
        y = answer - answer_centre
        error = (truth - answer) ** 2
        figures = np.array([1.0, x, y, x * x, y * y, x * y, error])
        self.sums.add(figures)
        self._pairs.extend((truth, answer))

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return the metrics of sums."""
        return number_scores(sums)

    def scores(self) -> dict[str, Interval]:
        """Return each metric with its interval."""
        return super().scores() | {"spearman": self.spearman()}

    def spearman(self) -> Interval:
        """Return Spearman's correlation, with an interval by Fisher's transformation.

        Its variance is that of Bonett and Wright (2000). Fewer than `FEWEST` pairs say nothing. A
        perfect order says as much as one in which two neighbours have changed places: the
        transformation of 1 has no end.
        """
        truths, answers = self.columns()
        count = len(truths)
        once = np.ones(count)
        true_ranks = _Ranks(truths)(once)
        answer_ranks = _Ranks(answers)(once)
        rho = _correlation(true_ranks, answer_ranks, once)
        if count < FEWEST:
            return Interval(rho, -1.0, 1.0)

        most = 1 - 12 / (count**3 - count)
        near = np.clip(rho, -most, most)
        variance = (1 + near**2 / 2) / (count - 3)
        reach = QUANTILE * np.sqrt(variance)
        centre = np.arctanh(near)
        low = float(np.tanh(centre - reach))
        high = float(np.tanh(centre + reach))
        return Interval(rho, min(rho, low), max(rho, high))

    def against(self, other: Tally) -> dict[str, Difference]:
        """Return how much higher each metric is than another model's on the same examples."""
        assert isinstance(other, Numbers)
        by_sums = super().against(other)
        return by_sums | {"spearman": self._spearman_against(other)}

    def _spearman_against(self, other: "Numbers") -> Difference:
        """Compare by resampled sets of the pairs, one at a time: ranks don't add up."""
        truths, mine = self.columns()
        _, theirs = other.columns()
        true_ranks = _Ranks(truths)
        my_ranks = _Ranks(mine)
        their_ranks = _Ranks(theirs)

        def gap(weights: Figures) -> float:
            true = true_ranks(weights)
            my_rho = _correlation(true, my_ranks(weights), weights)
            their_rho = _correlation(true, their_ranks(weights), weights)
            return my_rho - their_rho

        count = len(truths)
        gaps = [gap(np.ones(count))]
        for number in range(RESAMPLES):
            draw = generator(Purpose.RANKS, self.sums.seed, number)
            times = draw.poisson(1.0, count)
            gaps.append(gap(times.astype(float)))
        return difference(np.array(gaps), count)

    def columns(self) -> Figures:
        """Return the truths and the answers, (2, pairs)."""
        return np.array(self._pairs).reshape(-1, 2).T


class _Ranks:
    """The ranks of numbers, each of which may be counted any number of times.

    Equal ones share the mean of their ranks.
    """

    def __init__(self, values: Figures) -> None:
        # The place of each among the different numbers, the smallest first.
        _, self.place = np.unique(values, return_inverse=True)

    def __call__(self, weights: Figures) -> Figures:
        each = np.bincount(self.place, weights)
        ranks = np.cumsum(each) - (each - 1) / 2
        return ranks[self.place]


def _correlation(x: Figures, y: Figures, weights: Figures) -> float:
    """Return Pearson's correlation of weighted pairs, 0 where there is no variance."""
    count = max(1.0, weights.sum())
    x = x - weights @ x / count
    y = y - weights @ y / count
    covariance = weights @ (x * y)
    of_x = weights @ (x * x)
    of_y = weights @ (y * y)
    spread = np.sqrt(of_x * of_y)
    return float(ratio(covariance, spread))


def number_scores(sums: Figures) -> dict[str, Figures]:
    """Return Pearson's correlation and the mean squared error.

    The sums are those of n, x, y, x², y², xy and squared differences.
    """
    n, x, y, xx, yy, xy, error = np.moveaxis(sums, -1, 0)
    covariance = n * xy - x * y
    # Rounding may leave a little less than nothing.
    of_x = np.maximum(n * xx - x * x, 0)
    of_y = np.maximum(n * yy - y * y, 0)
    spread = np.sqrt(of_x * of_y)
    return {
        "pearson": ratio(covariance, spread),
        "mse": ratio(error, n),
    }
