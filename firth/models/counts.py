"""How often the n-grams of a text occur, in arrays that can be kept on disk and merged.

T tokens in the stream, B rows, N order, V vocabulary. A sentence is preceded by one start mark; its end mark is a token like any
other, the last that is given of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from firth.base.errors import InputError
from firth.base.settings import complaint
from firth.models.marks import MarkSettings

MOST = 1 << 53  # a count beyond it is not exact as a float

Ints = NDArray[np.int64]
Counted = NDArray[np.int32 | np.int64]


class NGramSettings(MarkSettings):
    """The sizes of an n-gram model and the ids of its marks."""

    order: int = Field(gt=0, le=64)  # words of the longest n-gram

    @property
    def symbols(self) -> int:
        """The vocabulary and the start mark, which is the last symbol whatever its id."""
        return self.vocab + 1


class Rows(NamedTuple):
    """A stretch of text to count: ids of any integer type and the length of each row, a sentence with its end mark or several."""

    ids: NDArray[Any]
    lengths: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Counts:
    """How often every n-gram occurs, as a tree of sorted arrays, one of each order.

    An n-gram is known by its place in the array of its order. Its key is the place of all its words but the last, times the number
    of symbols, plus the last. Equal texts give equal arrays, and n-grams that begin with the start mark stand last.
    """

    settings: NGramSettings
    keys: tuple[Ints, ...]
    times: tuple[Counted, ...]

    @property
    def size(self) -> int:
        """N-grams of all orders."""
        return sum(map(len, self.keys))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it as integers, to be kept in a file; the keys of single words are their own places and are left out."""
        s = self.settings
        sizes = np.array([s.vocab, s.order, s.start, -1 if s.end is None else s.end])
        keys = {f"keys.{n}": keys for n, keys in enumerate(self.keys, 1) if n > 1}
        return (
            {"sizes": sizes} | keys | {f"times.{n}": times for n, times in enumerate(self.times, 1)}
        )

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "Counts":
        """The same from arrays that may be damaged or hostile."""
        sizes = arrays.get("sizes")
        if sizes is None or sizes.dtype != np.int64 or sizes.shape != (4,):
            raise InputError("these arrays are not an n-gram model's: their sizes are missing")
        vocab, order, start, end = sizes.tolist()
        try:
            s = NGramSettings(vocab=vocab, order=order, start=start, end=None if end == -1 else end)
        except ValidationError as error:
            raise InputError(f"the n-gram model's sizes are wrong: {complaint(error)}") from error
        expected = {
            "sizes",
            *(f"times.{n}" for n in range(1, order + 1)),
            *(f"keys.{n}" for n in range(2, order + 1)),
        }
        if odd := sorted(expected ^ set(arrays)):
            raise InputError(
                f"the n-gram model's arrays {'lack' if odd[0] in expected else 'have no place for'} {odd[0]!r}"
            )
        words = arrays["times.1"]
        if (
            not _whole(words)
            or words.shape != (s.symbols,)
            or words.min() < 0
            or words.max() > MOST
        ):
            raise InputError(f"the n-gram model's times.1 are not {s.symbols} counts")
        if words[vocab] or words[start]:
            raise InputError("the n-gram model predicts its start mark")
        found, times = [np.arange(s.symbols)], [words]
        for n in range(2, order + 1):
            _check(arrays[f"keys.{n}"], arrays[f"times.{n}"], len(found[-1]), n, s)
            found.append(arrays[f"keys.{n}"])
            times.append(arrays[f"times.{n}"])
        return cls(s, tuple(found), tuple(times))


def _whole(array: NDArray[Any]) -> bool:
    return array.ndim == 1 and array.dtype in (np.dtype(np.int32), np.dtype(np.int64))


def _check(
    keys: NDArray[Any], times: NDArray[Any], contexts: int, n: int, s: NGramSettings
) -> None:
    """Refuse an order whose look-up would go astray."""
    if keys.ndim != 1 or keys.dtype != np.int64 or not _whole(times) or keys.shape != times.shape:
        raise InputError(f"the n-gram model's keys.{n} and times.{n} are not as many whole numbers")
    if not len(keys):
        return
    if (keys[1:] <= keys[:-1]).any():
        raise InputError(f"the n-gram model's keys.{n} are not in order")
    if keys[0] < 0 or keys[-1] >= contexts * s.symbols:
        raise InputError(f"the n-gram model's keys.{n} go beyond the shorter n-grams")
    words = keys % s.symbols
    if ((words == s.vocab) | (words == s.start)).any():
        raise InputError("the n-gram model predicts its start mark")
    if times.min() < 1 or times.max() > MOST:
        raise InputError(f"the n-gram model's times.{n} are not counts")


def count(rows: Rows, settings: NGramSettings) -> Counts:
    """Count all n-grams of a stretch of text; what is counted apart can be kept on disk and merged."""
    s = settings
    words, ends, _, first, _ = stream(rows.ids, rows.lengths, s)
    if (words == s.vocab).any():
        raise InputError(
            f"the text holds the start mark (id {s.start}), which is put before every sentence by itself: leave it out"
        )
    fresh = np.roll(ends, 1)  # what begins a sentence
    fresh[first] = True
    keys, times = [np.arange(s.symbols)], [narrow(np.bincount(words, minlength=s.symbols))]
    places = words  # of the n-gram that ends with each token, -1 where a sentence has not had so many words
    for n in range(2, s.order + 1):
        context = np.roll(places, 1)
        context[fresh] = s.vocab if n == 2 else -1
        full = np.flatnonzero(context >= 0)
        found, seen, where = _tally(context[full] * s.symbols + words[full])
        places = np.full(len(words), -1)
        places[full] = where
        keys.append(found)
        times.append(seen)
    return Counts(s, tuple(keys), tuple(times))


def merge(parts: Sequence[Counts]) -> Counts:
    """The counts of several texts together."""
    if len({part.settings for part in parts}) != 1:
        raise InputError("only counts of one vocabulary and order can be merged, and at least one")
    s = parts[0].settings
    keys, times = (
        [parts[0].keys[0]],
        [narrow(np.stack([part.times[0] for part in parts]).sum(0, np.int64))],
    )
    places = [keys[0] for _ in parts]  # where the n-grams of each part stand in the whole
    for n in range(1, s.order):
        moved = []
        for place, part in zip(places, parts, strict=True):
            context, word = np.divmod(part.keys[n], s.symbols)
            moved.append(place[context] * s.symbols + word)
        found, seen, where = _tally(
            np.concatenate(moved), np.concatenate([part.times[n] for part in parts])
        )
        places = np.split(where, np.cumsum([len(part) for part in moved])[:-1])
        keys.append(found)
        times.append(seen)
    return Counts(s, tuple(keys), tuple(times))


def _tally(keys: Ints, times: Counted | None = None) -> tuple[Ints, Counted, Ints]:
    """Each key once and in order, how often it occurs, and where each of the given ones went."""
    found, where = np.unique(keys, return_inverse=True)
    return found, narrow(np.bincount(where, times, len(found))), where


def narrow(times: NDArray[Any]) -> Counted:
    """Counts in four bytes each, where they fit."""
    return times.astype(np.int32 if times.max(initial=0) < 1 << 31 else np.int64)


def find(keys: Ints, wanted: Ints) -> Ints:
    """Where keys stand, -1 for those that are not there."""
    if not len(keys):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1)


class Stream(NamedTuple):
    """Rows as the tree reads them."""

    words: Ints  # (T) ids, but the start mark as the last symbol
    ends: NDArray[
        np.bool_
    ]  # (T) whether a sentence begins after a word, so that what came before no longer counts
    rows: Ints  # the rows that are not empty
    first: Ints  # where they begin
    last: Ints  # and their last tokens


def stream(ids: NDArray[Any], lengths: NDArray[Any], s: NGramSettings) -> Stream:
    """Check and lay out rows."""
    if any(array.ndim != 1 or array.dtype.kind not in "iu" for array in (ids, lengths)):
        raise InputError("ids and lengths must be flat arrays of whole numbers")
    words, sizes = ids.astype(np.int64), lengths.astype(np.int64)
    if sizes.min(initial=0) < 0 or sizes.sum() != len(words):
        raise InputError(f"the rows' lengths don't add up to {len(words)} tokens")
    wrong = ((words < 0) | (words >= s.vocab)) & (words != s.start)
    if wrong.any():
        raise InputError(
            f"the id {words[wrong][0]} is not in the n-gram model's vocabulary of {s.vocab}"
        )
    words = np.where(words == s.start, s.vocab, words)
    stop, rows = np.cumsum(sizes), np.flatnonzero(sizes)
    ends = (words == s.vocab) | (words == (-1 if s.end is None else s.end))
    return Stream(words, ends, rows, (stop - sizes)[rows], stop[rows] - 1)
