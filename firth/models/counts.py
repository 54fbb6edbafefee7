"""How often the n-grams of a text occur, in arrays that can be kept on disk and merged.

T tokens in the stream, B rows, N order, V vocabulary. A sentence is preceded by one start mark; its
end mark is a token like any other, the last that is given of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from firth.base.errors import InputError
from firth.base.settings import complaint
from firth.families.ngram import NGramSettings

MOST = 1 << 53  # a count beyond it is not exact as a float

Array = NDArray[Any]
Ints = NDArray[np.int64]
Counted = NDArray[np.int32 | np.int64]


class Sentences(NamedTuple):
    """A stretch of text to count, in rows: each a sentence with its end mark, or several."""

    ids: Array  # of any integer type
    lengths: Array  # of each row


@dataclass(frozen=True, eq=False)
class NGramCounts:
    """How often every n-gram occurs, as a tree of sorted arrays, one of each order.

    An n-gram is known by its place in the array of its order. Its key is the place of all its words
    but the last, times the number of symbols, plus the last. Equal texts give equal arrays, and
    n-grams that begin with the start mark stand last.
    """

    settings: NGramSettings
    keys: tuple[Ints, ...]
    times: tuple[Counted, ...]

    @property
    def size(self) -> int:
        """N-grams of all orders."""
        return sum(map(len, self.keys))

    def arrays(self) -> dict[str, Array]:
        """Return all as arrays of integers, to be kept in a file.

        The keys of single words are their own places and are left out.
        """
        s = self.settings
        end = -1 if s.end is None else s.end
        arrays: dict[str, Array] = {"sizes": np.array([s.vocab, s.order, s.start, end])}
        for n, keys in enumerate(self.keys[1:], 2):
            arrays[f"keys.{n}"] = keys
        for n, times in enumerate(self.times, 1):
            arrays[f"times.{n}"] = times
        return arrays

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> "NGramCounts":
        """Return the counts in arrays that may be damaged or hostile."""
        s = _read_sizes(arrays.get("sizes"))
        _check_names(arrays, s.order)
        words = arrays["times.1"]
        _check_words(words, s)
        all_keys = [np.arange(s.symbols)]
        all_times = [words]
        for n in range(2, s.order + 1):
            keys = arrays[f"keys.{n}"]
            times = arrays[f"times.{n}"]
            contexts = len(all_keys[-1])
            _check(keys, times, contexts, n, s)
            all_keys.append(keys)
            all_times.append(times)
        return cls(s, tuple(all_keys), tuple(all_times))


def _read_sizes(sizes: Array | None) -> NGramSettings:
    """Return the settings in the array of sizes."""
    if sizes is None or sizes.dtype != np.int64 or sizes.shape != (4,):
        raise InputError("these arrays are not an n-gram model's: their sizes are missing")
    vocab, order, start, end = sizes.tolist()
    if end == -1:
        end = None
    try:
        return NGramSettings(vocab=vocab, order=order, start=start, end=end)
    except ValidationError as error:
        raise InputError(f"the n-gram model's sizes are wrong: {complaint(error)}") from error


def _check_names(arrays: Mapping[str, Array], order: int) -> None:
    """Refuse an array too many or too few."""
    expected = {"sizes", "times.1"}
    for n in range(2, order + 1):
        expected |= {f"times.{n}", f"keys.{n}"}
    odd = sorted(expected ^ set(arrays))
    if not odd:
        return
    name = odd[0]
    if name in expected:
        raise InputError(f"the n-gram model's arrays lack {name!r}")
    raise InputError(f"the n-gram model's arrays have no place for {name!r}")


def _check_words(times: Array, s: NGramSettings) -> None:
    """Refuse counts of single words that are none."""
    fits = _whole(times) and times.shape == (s.symbols,)
    if not fits or times.min() < 0 or times.max() > MOST:
        raise InputError(f"the n-gram model's times.1 are not {s.symbols} counts")
    if times[s.vocab] or times[s.start]:
        raise InputError("the n-gram model predicts its start mark")


def _whole(array: Array) -> bool:
    """Return whether an array is flat and of whole numbers that counts are kept in."""
    kept = (np.dtype(np.int32), np.dtype(np.int64))
    return array.ndim == 1 and array.dtype in kept


def _check(keys: Array, times: Array, contexts: int, n: int, s: NGramSettings) -> None:
    """Refuse an order whose look-up would go astray."""
    flat = keys.ndim == 1 and keys.dtype == np.int64
    if not flat or not _whole(times) or keys.shape != times.shape:
        raise InputError(f"the n-gram model's keys.{n} and times.{n} are not as many whole numbers")
    if not len(keys):
        return
    rises = keys[1:] > keys[:-1]
    if not rises.all():
        raise InputError(f"the n-gram model's keys.{n} are not in order")
    if keys[0] < 0 or keys[-1] >= contexts * s.symbols:
        raise InputError(f"the n-gram model's keys.{n} go beyond the shorter n-grams")
    words = keys % s.symbols
    starts = (words == s.vocab) | (words == s.start)
    if starts.any():
        raise InputError("the n-gram model predicts its start mark")
    if times.min() < 1 or times.max() > MOST:
        raise InputError(f"the n-gram model's times.{n} are not counts")


def count(rows: Sentences, settings: NGramSettings) -> NGramCounts:
    """Count all n-grams of a stretch of text; counts can be kept on disk and merged."""
    s = settings
    words, ends, _, first, _ = stream(rows.ids, rows.lengths, s)
    marks = words == s.vocab
    if marks.any():
        mark = f"the start mark (id {s.start})"
        why = "which is put before every sentence by itself: leave it out"
        raise InputError(f"the text holds {mark}, {why}")

    fresh = np.roll(ends, 1)  # what begins a sentence
    fresh[first] = True
    single = np.bincount(words, minlength=s.symbols)
    keys = [np.arange(s.symbols)]
    times = [compact(single)]
    # Of the n-gram that ends with each token, -1 where a sentence has not had so many words.
    places = words
    for n in range(2, s.order + 1):
        context = np.roll(places, 1)
        # Before a sentence stands one start mark, and nothing before that.
        context[fresh] = s.vocab if n == 2 else -1
        full = np.flatnonzero(context >= 0)
        pairs = context[full] * s.symbols + words[full]
        found, seen, where = _tally(pairs)
        places = np.full(len(words), -1)
        places[full] = where
        keys.append(found)
        times.append(seen)
    return NGramCounts(s, tuple(keys), tuple(times))


def merge(parts: Sequence[NGramCounts]) -> NGramCounts:
    """Return the counts of several texts together."""
    kinds = {part.settings for part in parts}
    if len(kinds) != 1:
        raise InputError("only counts of one vocabulary and order can be merged, and at least one")
    s = parts[0].settings
    symbols = parts[0].keys[0]
    words = np.stack([part.times[0] for part in parts])
    keys = [symbols]
    times = [compact(words.sum(0, np.int64))]
    places = [symbols for _ in parts]  # where the n-grams of each part stand in the whole
    for n in range(1, s.order):
        # The same n-grams by their contexts' places in the whole.
        moved = []
        for place, part in zip(places, parts, strict=True):
            context, word = np.divmod(part.keys[n], s.symbols)
            moved.append(place[context] * s.symbols + word)
        counted = [part.times[n] for part in parts]
        found, seen, where = _tally(np.concatenate(moved), np.concatenate(counted))
        sizes = [len(part) for part in moved]
        stops = np.cumsum(sizes)
        places = np.split(where, stops[:-1])
        keys.append(found)
        times.append(seen)
    return NGramCounts(s, tuple(keys), tuple(times))


def _tally(keys: Ints, times: Counted | None = None) -> tuple[Ints, Counted, Ints]:
    """Return each key once and in order, its number, and where each of the given ones went."""
    found, where = np.unique(keys, return_inverse=True)
    number = np.bincount(where, times, len(found))
    return found, compact(number), where


def compact(times: Array) -> Counted:
    """Return counts in four bytes each, where they fit."""
    most = times.max(initial=0)
    if most < 1 << 31:
        return times.astype(np.int32)
    return times.astype(np.int64)


def find_keys(keys: Ints, wanted: Ints) -> Ints:
    """Return where keys stand, -1 for those that are not there."""
    if not len(keys):
        return np.full(len(wanted), -1)
    last = len(keys) - 1
    places = np.searchsorted(keys, wanted)
    places = np.minimum(places, last)
    found = keys[places] == wanted
    return np.where(found, places, -1)


class NGramStream(NamedTuple):
    """Rows as the tree reads them."""

    words: Ints  # (T) ids, but the start mark as the last symbol
    # (T) whether a sentence begins after a word, so that what came before no longer counts.
    ends: NDArray[np.bool_]
    rows: Ints  # the rows that are not empty
    first: Ints  # where they begin
    last: Ints  # and their last tokens


def stream(ids: Array, lengths: Array, s: NGramSettings) -> NGramStream:
    """Check and lay out rows."""
    for array in (ids, lengths):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InputError("ids and lengths must be flat arrays of whole numbers")
    words = ids.astype(np.int64)
    sizes = lengths.astype(np.int64)
    if sizes.min(initial=0) < 0 or sizes.sum() != len(words):
        raise InputError(f"the rows' lengths don't add up to {len(words)} tokens")
    marks = words == s.start
    outside = (words < 0) | (words >= s.vocab)
    wrong = words[outside & ~marks]
    if len(wrong):
        vocabulary = f"the n-gram model's vocabulary of {s.vocab}"
        raise InputError(f"the id {wrong[0]} is not in {vocabulary}")

    words = np.where(marks, s.vocab, words)
    ends = words == s.vocab
    if s.end is not None:
        ends |= words == s.end
    rows = np.flatnonzero(sizes)
    stop = np.cumsum(sizes)
    first = (stop - sizes)[rows]
    last = stop[rows] - 1
    return NGramStream(words, ends, rows, first, last)
