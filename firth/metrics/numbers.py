"""Scores of numbers: Pearson's and Spearman's correlation, and the mean squared error."""

import numpy as np
from scipy.stats import rankdata

from firth.metrics.sums import Figures, Interval, Sums, ratio


class Numbers:
    """One number for each text.

    Spearman's correlation needs every pair of numbers (16 bytes each); all else is sums.
    """

    def __init__(self) -> None:
        self.sums = Sums(7)
        self._pairs: list[tuple[float, float]] = []
        self._centre: tuple[float, float] | None = None

    def add(self, truth: float, answer: float) -> None:
        """Count one answer."""
        # Near the data's own place, so that squares don't swallow differences.
        self._centre = self._centre or (truth, answer)
        x, y = truth - self._centre[0], answer - self._centre[1]
        self.sums.add(np.array([1.0, x, y, x * x, y * y, x * y, (truth - answer) ** 2]))
        self._pairs.append((truth, answer))

    def score(self, sums: Figures) -> dict[str, Figures]:
        """The scores of sums."""
        return number_scores(sums)

    def spearman(self) -> Interval:
        """Spearman's correlation, its interval by Fisher's transformation with the variance of Bonett and Wright (2000)."""
        truths, answers = np.array(self._pairs).T
        rho = float(np.corrcoef(rankdata(truths), rankdata(answers))[0, 1])
        if len(truths) < 4 or not abs(rho) < 1:
            return Interval(rho, rho, rho)
        reach = 1.96 * np.sqrt((1 + rho**2 / 2) / (len(truths) - 3))
        low, high = np.tanh(np.arctanh(rho) + np.array([-reach, reach]))
        return Interval(rho, float(low), float(high))


def number_scores(sums: Figures) -> dict[str, Figures]:
    """Pearson's correlation and the mean squared error, from n, x, y, x², y², xy and squared differences."""
    n, x, y, xx, yy, xy, error = np.moveaxis(sums, -1, 0)
    spread = np.sqrt(np.maximum(n * xx - x * x, 0) * np.maximum(n * yy - y * y, 0))
    return {"pearson": ratio(n * xy - x * y, spread), "mse": ratio(error, n)}
