"""Words with those around them, as word vectors are trained: thinned, in windows, against noise.

A step reads a stretch of the text. Marks and unknown words are left out, frequent words are left
out at random, and the words that stay close up; a window never reaches over the end of a line.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.seeds import Purpose, generator
from firth.corpus.stream import TokenStream
from firth.data.feed import Numbers
from firth.text.tokenizer import Tokenizer

POWER = 0.75  # of the counts, to which noise is drawn in proportion

Extents = NDArray[np.int8]


class WindowSpan(NamedTuple):
    """The words of a stretch of text, and how many on either side are in each one's window."""

    words: Numbers
    left: Extents
    right: Extents


def word_counts(stream: TokenStream, tokenizer: Tokenizer) -> Numbers:
    """Count each word of a vocabulary; marks and the unknown word count as none."""
    counts = stream.counts(tokenizer.size)
    roles = (tokenizer.pad, tokenizer.unk, tokenizer.cls, tokenizer.sep, tokenizer.mask)
    marks = [mark for mark in roles if mark is not None]
    counts[marks] = 0
    return counts


def kept_shares(counts: Numbers, sample: float) -> NDArray[np.float64]:
    """Return the share of each word's occurrences that are read, by the formula of word2vec's code.

    A word that makes up a share f of the text is kept with the probability sqrt(s/f) + s/f. With 0
    every word is kept that is one.
    """
    shares = counts / max(1, counts.sum())
    if not sample:
        return (counts > 0).astype(np.float64)
    ratio = np.divide(sample, shares, out=np.zeros_like(shares), where=counts > 0)
    kept: NDArray[np.float64] = np.minimum(np.sqrt(ratio) + ratio, 1.0)
    return kept


class Windows:
    """Stretches of a text, each a function of (seed, epoch, stretch).

    `drawn` says whether the size of each window is drawn from 1 to the largest, so that near words
    count more.
    """

    def __init__(
        self,
        stream: TokenStream,
        counts: Numbers,
        *,
        window: int,
        sample: float,
        drawn: bool,
        size: int,
        seed: int,
    ) -> None:
        self.stream = stream
        self.window = window
        self.drawn = drawn
        self.size = size
        self.seed = seed
        self.kept = kept_shares(counts, sample)
        self.count = -(-stream.size // size)
        self._noise = np.cumsum(counts**POWER)

    def read(self, epoch: int, number: int) -> WindowSpan:
        """Return the words of a stretch with their windows."""
        start = number * self.size
        ids = self.stream.read(start, min(start + self.size, self.stream.size))
        draws = generator(Purpose.WINDOW, self.seed, epoch, number)
        stays = draws.random(len(ids)) < self.kept[ids]
        lines = np.cumsum(ids == self.stream.end)[stays]
        words = ids[stays]
        reach: Numbers = np.full(len(words), self.window)
        if self.drawn:
            reach = draws.integers(1, self.window, len(words), endpoint=True)

        places = np.arange(len(words))
        first = np.searchsorted(lines, lines)  # of each word's line
        last = np.searchsorted(lines, lines, side="right") - 1
        left = np.minimum(reach, places - first).astype(np.int8)
        right = np.minimum(reach, last - places).astype(np.int8)
        return WindowSpan(words, left, right)

    def noise(self, epoch: int, number: int, count: int) -> Numbers:
        """Draw words against which those of a stretch are told."""
        draws = generator(Purpose.NOISE, self.seed, epoch, number)
        places = draws.random(count) * self._noise[-1]
        found = np.searchsorted(self._noise, places, side="right")
        return np.asarray(found, np.int64)
