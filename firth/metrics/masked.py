"""Metrics of masked pretraining: how many masked words and next sentences a model gets right."""

import numpy as np

from firth.metrics.perplexity import perplexities
from firth.metrics.sums import Figures, Sums, Tally, ratio


class MaskedTally(Tally):
    """What passages with masked words add up to; intervals are over passages."""

    def __init__(self) -> None:
        self.sums = Sums(5)

    def add(
        self, words: int, right: int, log_likelihood: float, pairs: int, pairs_right: int
    ) -> None:
        """Count a passage.

        `words` are masked, of which so many are right; `pairs` is 1 where it has a second text.
        """
        self.sums.add(np.array([words, right, log_likelihood, pairs, pairs_right], np.float64))

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return masked accuracy and perplexity and, if there are pairs, next-sentence accuracy."""
        words, right, log_likelihood, pairs, pairs_right = np.moveaxis(sums, -1, 0)
        found = {
            "masked_accuracy": ratio(right, words),
            "masked_perplexity": perplexities(log_likelihood, words),
        }
        if pairs[0]:
            found["next_accuracy"] = ratio(pairs_right, pairs)
        return found

    @property
    def words(self) -> int:
        """How many words were masked."""
        return int(self.sums.totals[0, 0])

    @property
    def pairs(self) -> int:
        """How many passages had a second text."""
        return int(self.sums.totals[0, 3])
