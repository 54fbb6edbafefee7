"""How well text is foretold: perplexity over words, bits per byte, and perplexity by how often a word was seen in training.

T tokens, W words. A word is what stands between white space, and every line ends with one more, its end: so models with any
vocabularies are compared.
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
    """The inverse of the mean probability of a word, by the log-probability of all of them."""
    mean = -score / words
    return math.exp(mean) if mean < MOST else math.inf


class Line(NamedTuple):
    """A line of text as a model foretold it."""

    text: str
    scores: NDArray[Any]  # (T) natural log-probabilities of its tokens and of its end
    ends: Sequence[int]  # (T - 1) the character after each token


class Band(NamedTuple):
    """The words that occur so often in a training text."""

    times: str
    words: int
    perplexity: Interval


class Perplexity(Tally):
    """What lines add up to. `counts` says how often words occur in a training text; the end of a line is in no band."""

    def __init__(self, lossless: bool, counts: Mapping[str, int] | None = None) -> None:
        self.lossless, self.counts = lossless, counts
        self.words = self.tokens = 0
        self.sums = Sums(3 if counts is None else 3 + 2 * len(BANDS))

    def add(self, line: Line) -> None:
        """Count a line."""
        words = line.text.split()
        self.words += len(words)
        self.tokens += len(line.ends)
        whole = [line.scores.sum(dtype=np.float64), len(words) + 1, len(line.text.encode()) + 1]
        self.sums.add(
            np.array(whole)
            if self.counts is None
            else np.concatenate([whole, *self._banded(words, line)])
        )

    def _banded(self, words: list[str], line: Line) -> tuple[Figures, Figures]:
        """The log-probabilities and the number of a line's words, by how often each word occurs."""
        assert self.counts is not None
        band = np.searchsorted(BOUNDS, [self.counts.get(word, 0) for word in words], "right")
        scores: Figures = np.bincount(band, by_word(line, words), len(BANDS)).astype(np.float64)
        return scores, np.bincount(band, minlength=len(BANDS)).astype(np.float64)

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Perplexity, bits per byte of models that lose nothing of a text, and the perplexity of each band that has words."""
        found = {"perplexity": _perplexity(sums[..., 0], sums[..., 1])}
        if self.lossless:
            found["bits_per_byte"] = ratio(-sums[..., 0] / math.log(2), sums[..., 2])
        if self.counts is not None:
            size = len(BANDS)
            for number, name in enumerate(BANDS):
                scores, words = sums[..., 3 + number], sums[..., 3 + size + number]
                if words[0]:
                    found[f"perplexity {name}"] = _perplexity(scores, words)
        return found

    def bands(self) -> tuple[Band, ...]:
        """The perplexity of words by how often they occur in the training text; bands without words are left out."""
        if self.counts is None:
            return ()
        scores, words = self.scores(), self.sums.totals[0, 3 + len(BANDS) :]
        pairs = zip(BANDS, words.tolist(), strict=True)
        return tuple(
            Band(name, int(many), scores[f"perplexity {name}"]) for name, many in pairs if many
        )


def by_word(line: Line, words: Sequence[str]) -> Figures:
    """The log-probability of each word (W): the sum over its tokens; white space counts to the word after it."""
    ends, at = [], 0
    for word in words:
        at = line.text.index(word, at) + len(word)
        ends.append(at)
    owner = np.searchsorted(
        ends, line.ends
    )  # the first word that ends no sooner than the token does
    return np.bincount(owner, line.scores[:-1], len(words) + 1)[: len(words)].astype(np.float64)


def _perplexity(scores: Figures, words: Figures) -> Figures:
    """Perplexities of many sums; a resampled set without a word says what the text itself says."""
    found = np.exp(np.minimum(-ratio(scores, words), MOST))
    return np.where(words > 0, found, found[0])
