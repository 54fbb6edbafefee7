"""Metrics of language models: perplexity over words, bits per byte, perplexity by word frequency.

T tokens, W words. A word is what stands between white space, and every line ends with one more, its
end: so models with any vocabularies are compared.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.metrics.sums import Figures, Interval, Sums, Tally, ratio

BANDS = ("0", "1-9", "10-99", "100-999", "1000+")  # how often a word occurs in a training text
BOUNDS = (1, 10, 100, 1000)  # the least of all bands but the first
MOST = 700.0  # the logarithm of the largest perplexity


def perplexity(score: float, words: int) -> float:
    """Return the inverse of the mean probability of a word, by the log-probability of all words."""
    mean = -score / words
    if mean >= MOST:
        return math.inf
    return math.exp(mean)


class ScoredLine(NamedTuple):
    """A line of text with the log-probabilities that a model gives it."""

    text: str
    scores: NDArray[Any]  # (T) natural log-probabilities of its tokens and of its end
    ends: Sequence[int]  # (T - 1) the character after each token


class Band(NamedTuple):
    """The words that occur so often in a training text."""

    times: str
    words: int
    perplexity: Interval


class Perplexity(Tally):
    """What scored lines add up to.

    `counts` says how often words occur in a training text; the end of a line is in no band.
    """

    def __init__(self, lossless: bool, counts: Mapping[str, int] | None = None) -> None:
        self.lossless = lossless
        self.counts = counts
        self.words = 0
        self.tokens = 0
        size = 3
        if counts is not None:
            size += 2 * len(BANDS)
        self.sums = Sums(size)

    def add(self, line: ScoredLine) -> None:
        """Count a line."""
        words = line.text.split()
        self.words += len(words)
        self.tokens += len(line.ends)

        likelihood = line.scores.sum(dtype=np.float64)
        size = len(line.text.encode())
        figures = np.array([likelihood, len(words) + 1, size + 1])  # one more for the line's end
        if self.counts is not None:
            times = [self.counts.get(word, 0) for word in words]
            scores = by_word(line, words)
            figures = np.concatenate([figures, *_banded(times, scores)])
        self.sums.add(figures)

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return perplexity, bits per byte and the perplexity of each band that has words.

        Bits per byte are only for models that lose nothing of a text.
        """
        likelihood = sums[..., 0]
        words = sums[..., 1]
        found = {"perplexity": perplexities(likelihood, words)}
        if self.lossless:
            bits = -likelihood / math.log(2)
            found["bits_per_byte"] = ratio(bits, sums[..., 2])
        if self.counts is None:
            return found

        size = len(BANDS)
        for number, name in enumerate(BANDS):
            scores = sums[..., 3 + number]
            words = sums[..., 3 + size + number]
            if words[0]:
                found[f"perplexity {name}"] = perplexities(scores, words)
        return found

    def bands(self) -> tuple[Band, ...]:
        """Return the perplexity of words by how often they occur in the training text.

        Bands without words are left out.
        """
        if self.counts is None:
            return ()
        scores = self.scores()
        words = self.sums.totals[0, 3 + len(BANDS) :]
        found = []
        for name, count in zip(BANDS, words.tolist(), strict=True):
            if count:
                found.append(Band(name, int(count), scores[f"perplexity {name}"]))
        return tuple(found)


def _banded(times: Sequence[int], scores: Figures) -> tuple[Figures, Figures]:
    """Return the log-probability and the number of words in each band, by how often they occur."""
    size = len(BANDS)
    band = np.searchsorted(BOUNDS, times, "right")
    sums = np.bincount(band, scores, size)
    counts = np.bincount(band, minlength=size)
    return sums.astype(np.float64), counts.astype(np.float64)


def by_word(line: ScoredLine, words: Sequence[str]) -> Figures:
    """Return the log-probability of each word (W): the sum over its tokens.

    White space counts to the word after it.
    """
    ends = []
    at = 0
    for word in words:
        at = line.text.index(word, at) + len(word)
        ends.append(at)

    # A token belongs to the first word that ends no sooner than it does; white space at the end
    # of the line belongs to none.
    count = len(words)
    owner = np.searchsorted(ends, line.ends)
    scores = np.bincount(owner, line.scores[:-1], count + 1)
    return scores[:count].astype(np.float64)


def perplexities(scores: Figures, words: Figures) -> Figures:
    """Return perplexities of many sums; a resampled set without a word says what the text says."""
    mean = -ratio(scores, words)
    found = np.exp(np.minimum(mean, MOST))
    return np.where(words > 0, found, found[0])
