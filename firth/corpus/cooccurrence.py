"""How often words stand together: the counts that GloVe learns from.

Two words at a distance of d count 1/d. What is kept is a whole number, the least common multiple of
all distances over d: sums of such numbers don't depend on the order in which parts are counted.
"""

from collections.abc import Mapping, Sequence
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.data.feed import Numbers

WIDEST = 20  # words of a window: larger multiples leave no room for the sums
DISTANCE_BITS = 5


class Counts(NamedTuple):
    """The pairs of words that stand together, in order, and their weights.

    A pair's key is its smaller id times the vocabulary plus the larger.
    """

    vocab: int
    window: int
    keys: Numbers
    weights: Numbers

    @property
    def size(self) -> int:
        """Return the number of pairs."""
        return len(self.keys)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what is kept in a file."""
        return {"keys": self.keys, "weights": self.weights, "of": np.array(self[:2])}


class Cells(NamedTuple):
    """Counts as a matrix: words, those that stand near them, and how often."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    counts: NDArray[np.float32]


def unit_weight(window: int) -> int:
    """Return the weight of two words that stand side by side."""
    return lcm(*range(1, window + 1))


def count_pairs(ids: Numbers, lines: Numbers, vocab: int, window: int) -> Counts:
    """Count words (ids) that are at most a window apart in the same line."""
    packed = []
    for distance in range(1, window + 1):
        together = lines[distance:] == lines[:-distance]
        one = ids[:-distance][together]
        two = ids[distance:][together]
        keys = np.minimum(one, two) * vocab + np.maximum(one, two)
        # Distances in the lowest bits: sorting by key keeps them with it.
        packed.append((keys << DISTANCE_BITS) | distance)
    joined = np.concatenate(packed)
    joined.sort()
    weights = unit_weight(window) // np.arange(1, window + 1)
    distances = joined & ((1 << DISTANCE_BITS) - 1)
    return Counts(vocab, window, *_sum(joined >> DISTANCE_BITS, weights[distances - 1]))


def merge_counts(counts: Sequence[Counts]) -> Counts:
    """Return the counts of several parts of a text as those of the whole."""
    keys = np.concatenate([part.keys for part in counts])
    weights = np.concatenate([part.weights for part in counts])
    order = np.argsort(keys, kind="stable")  # fast where sorted parts follow each other
    return Counts(*counts[0][:2], *_sum(keys[order], weights[order]))


def _sum(keys: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Return each of the keys once, which are in order, with the sum of its weights."""
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(first):
        return keys, weights
    return keys[first], np.add.reduceat(weights, first)


def of_arrays(arrays: Mapping[str, NDArray[Any]], vocab: int, window: int) -> Counts:
    """Return counts that were kept in a file, which must be of the same vocabulary and window."""
    if set(arrays) != {"keys", "weights", "of"} or arrays["of"].tolist() != [vocab, window]:
        raise InputError("the counts are of another vocabulary or window")
    return Counts(vocab, window, arrays["keys"], arrays["weights"])


def cells(counts: Counts) -> Cells:
    """Return the cells of the symmetric matrix: a pair of two words is in two of them."""
    one, two = np.divmod(counts.keys, counts.vocab)
    times = counts.weights / unit_weight(counts.window)
    apart = one != two
    # A word near itself is counted from both places.
    times[~apart] *= 2
    rows = np.concatenate([one, two[apart]]).astype(np.int32)
    columns = np.concatenate([two, one[apart]]).astype(np.int32)
    return Cells(rows, columns, np.concatenate([times, times[apart]]).astype(np.float32))
