"""Metrics of multiple choice: accuracy, and beside it what guessing would reach."""

import numpy as np

from firth.metrics.classes import exact_share
from firth.metrics.sums import Difference, Figures, Interval, Sums, Tally, ratio


class Choices(Tally):
    """One choice among the options of each row."""

    def __init__(self) -> None:
        self.sums = Sums(3)

    def add(self, right: bool, options: int) -> None:
        """Count one choice among so many options."""
        self.sums.add(np.array([1.0, float(right), 1 / options]))

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return accuracy, and the mean of one in so many options: what is right by chance."""
        count, right, guessed = np.moveaxis(np.asarray(sums), -1, 0)
        return {"accuracy": ratio(right, count), "chance": ratio(guessed, count)}

    def scores(self) -> dict[str, Interval]:
        """Return each metric with its interval; accuracy is a share of rows, so its is exact."""
        count, right, _ = self.sums.totals[0]
        return super().scores() | {"accuracy": exact_share(right, count)}

    def against(self, other: Tally) -> dict[str, Difference]:
        """Return how much higher accuracy is; chance is the same for all models."""
        found = super().against(other)
        del found["chance"]
        return found
