"""The n-gram: how likely a word is after the few before it, by counting, with interpolated modified Kneser-Ney smoothing.

T tokens in the stream, B rows, N order, V vocabulary. "An Empirical Study of Smoothing Techniques for Language Modeling", Chen and
Goodman, 1998. The probability after a context is what its own counts keep of theirs after a discount, and the share that the
discounts freed times the probability after the context without its first word, down to the uniform distribution.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.base.errors import InputError
from firth.models.counts import (
    Counted,
    Counts,
    Ints,
    NGramSettings,
    Rows,
    count,
    find,
    merge,
    narrow,
    stream,
)

FALLBACK = (0.5, 1.0, 1.5)  # discounts where a text is too small to tell its own

Floats = NDArray[np.float64]


def estimate(counts: Counts) -> "NGram":
    """Smooth counts into a model."""
    times = _continuations(counts)
    discounts = np.array([_discounts(one) for one in times])
    return NGram(Counts(counts.settings, counts.keys, times), discounts)


def _continuations(counts: Counts) -> tuple[Counted, ...]:
    """Of n-grams below the highest order, the number of different words before them instead of how often they occur.

    Nothing can stand before a start mark: n-grams that begin with it keep their counts.
    """
    s = counts.settings
    found = []
    opening = s.vocab  # the first n-gram that begins with the start mark
    shorter = np.zeros(s.symbols, np.int64)  # the place of each n-gram's words but the first
    for n in range(s.order - 1):
        context, word = np.divmod(counts.keys[n + 1], s.symbols)
        shorter = find(counts.keys[n], shorter[context] * s.symbols + word)
        if (shorter < 0).any():
            raise InputError(
                f"the counts contradict themselves: an n-gram of {n + 2} words has an end that was never counted"
            )
        times = np.bincount(shorter, minlength=len(counts.keys[n]))
        times[opening:] = counts.times[n][opening:]
        if n and times.min(initial=1) < 1:
            raise InputError(
                f"the counts contradict themselves: nothing comes before an n-gram of {n + 1} words"
            )
        found.append(narrow(times))
        opening = int(np.searchsorted(counts.keys[n + 1], opening * s.symbols))
    return (*found, counts.times[-1])


def _discounts(times: Counted) -> tuple[float, ...]:
    """What is taken from counts of one, of two, and of three and more, by how many n-grams have each count.

    A text too small to have n-grams of each count gets the fallback: a discount of nothing would make unseen words impossible.
    """
    number = [int((times == seen).sum()) for seen in (1, 2, 3, 4)]
    if 0 in number:
        return FALLBACK
    once = number[0] / (number[0] + 2 * number[1])
    found = tuple(seen - (seen + 1) * once * number[seen] / number[seen - 1] for seen in (1, 2, 3))
    return found if min(found) > 0 else FALLBACK


@dataclass(frozen=True, eq=False)
class NGramState:
    """Where the last words stand in the tree: (B, N) places of the n-grams of 0 to N - 1 words, -1 where they are unseen."""

    places: Ints

    def pick(self, rows: Tensor) -> "NGramState":
        """The state of the rows named, in that order."""
        return NGramState(self.places[rows.numpy()])


class Backoff(NamedTuple):
    """How a word came by its probability."""

    order: int  # words of the longest n-gram found, 0 for a word that was never seen
    score: float  # natural log-probability
    parts: tuple[
        float, ...
    ]  # what the uniform distribution and each order from 1 to N add to the probability


class NGram:
    """The model; one without a single count gives every token the same probability."""

    gradient = False

    def __init__(self, counts: Counts, discounts: Floats) -> None:
        s = counts.settings
        self.settings, self.counts, self.discounts = s, counts, discounts
        self.vocab, self.order = s.vocab, s.order
        self._taken = np.pad(discounts, ((0, 0), (1, 0)))  # (N, 4): nothing is taken from nothing
        self._total, self._left = (
            [],
            [],
        )  # for each context: the sum of its counts, and the share that shorter contexts get
        for n, (keys, times) in enumerate(zip(counts.keys, counts.times, strict=True)):
            contexts = len(counts.keys[n - 1]) if n else 1
            context = keys // s.symbols
            total = np.bincount(context, times, contexts)
            taken = np.bincount(context, self._taken[n][np.minimum(times, 3)], contexts)
            self._left.append(np.divide(taken, total, out=np.ones(contexts), where=total > 0))
            self._total.append(np.maximum(total, 1))
        self._uniform = np.full(s.symbols, 1 / (s.vocab - (s.start < s.vocab)))
        self._uniform[[s.start, s.vocab]] = 0
        words = np.arange(s.vocab)
        self._words = (
            self._share(0, words, np.zeros(s.vocab, np.int64))
            + self._left[0] * self._uniform[words]
        )  # (V)

    @classmethod
    def fit(cls, streams: Iterable[Rows], settings: NGramSettings) -> "NGram":
        """Count and smooth texts, which are read once and need not fit in memory together."""
        piles = [count(Rows(np.zeros(0, np.int64), np.zeros(0, np.int64)), settings)]
        for rows in streams:
            piles.append(count(rows, settings))
            # Only piles of like size are merged, so that no n-gram is moved more often than the logarithm of their number.
            while len(piles) > 1 and piles[-1].size * 2 > piles[-2].size:
                piles[-2:] = [merge(piles[-2:])]
        return estimate(merge(piles))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it as arrays, to be kept in a file."""
        return self.counts.arrays() | {"discounts": self.discounts}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "NGram":
        """The same from arrays that may be damaged or hostile."""
        rest = dict(arrays)
        discounts = rest.pop("discounts", None)
        counts = Counts.of(rest)
        if (
            discounts is None
            or discounts.dtype != np.float64
            or discounts.shape != (counts.settings.order, 3)
        ):
            raise InputError(
                "the n-gram model's discounts are missing, or not three for each order"
            )
        if not ((discounts > 0) & (discounts <= (1, 2, 3))).all():
            raise InputError(
                "the n-gram model's discounts are not between nothing and the counts that they are taken from"
            )
        return cls(counts, discounts)

    def start(self, rows: int) -> NGramState:
        """The state before the first token."""
        places = np.full((rows, self.order), -1)
        places[:, :2] = (0, self.vocab)[: self.order]
        return NGramState(places)

    def score(
        self, ids: Tensor, lengths: Tensor, state: NGramState | None = None
    ) -> tuple[Tensor, NGramState]:
        """The natural log-probability of each token (T), and the state at the end of each row."""
        parts, after = self._read(ids.numpy(), lengths.numpy(), state or self.start(len(lengths)))
        return torch.from_numpy(_log(parts.sum(0))), after

    def step(self, ids: Tensor, state: NGramState) -> tuple[Tensor, NGramState]:
        """Read a token a row, at first the start mark, and give the log-probability of every next one, (B, V)."""
        _, after = self._read(ids.numpy(), np.ones(len(ids), np.int64), state)
        chances, rest = np.zeros((len(ids), self.vocab)), np.ones(len(ids))
        symbols = self.settings.symbols
        for n in range(self.order - 1, 0, -1):
            rows = np.flatnonzero(after.places[:, n] >= 0)
            context, keys = after.places[rows, n], self.counts.keys[n]
            first, stop = (
                np.searchsorted(keys, context * symbols),
                np.searchsorted(keys, (context + 1) * symbols),
            )
            size = stop - first
            places = np.arange(size.sum()) + np.repeat(
                first - np.cumsum(size) + size, size
            )  # of all that follows the contexts
            row = np.repeat(rows, size)
            chances[row, keys[places] % symbols] += rest[row] * self._share(
                n, places, np.repeat(context, size)
            )
            rest[rows] *= self._left[n][context]
        chances += rest[:, None] * self._words
        return torch.from_numpy(_log(chances)), after

    def explain(self, ids: Tensor) -> list[Backoff]:
        """How each word of a sentence came by its probability."""
        parts, _ = self._read(ids.numpy(), np.array([len(ids)]), self.start(1))
        order = ((parts[1:] > 0) * np.arange(1, self.order + 1)[:, None]).max(0)  # (T)
        scores = _log(parts.sum(0))
        rows = zip(order.tolist(), scores.tolist(), parts.T.tolist(), strict=True)
        return [Backoff(found, score, tuple(shares)) for found, score, shares in rows]

    def _read(
        self, ids: NDArray[Any], lengths: NDArray[Any], state: NGramState
    ) -> tuple[Floats, NGramState]:
        """What the uniform distribution and each order add to the probability of each token, (1 + N, T), and the state after."""
        s = self.settings
        words, ends, rows, first, last = stream(ids, lengths, s)
        if len(state.places) != len(lengths):
            raise InputError(f"a state of {len(state.places)} rows can't go on with {len(lengths)}")
        own, left = np.zeros((self.order, len(words))), np.ones((self.order, len(words)))
        after = state.places.copy()
        places = np.zeros(len(words), np.int64)  # of the last n words, this one included
        for n in range(self.order):
            after[rows, n] = places[last]
            context = np.roll(places, 1)
            context[first] = state.places[rows, n]
            places = find(self.counts.keys[n], context * s.symbols + words)
            known, seen = context >= 0, places >= 0
            left[n, known] = self._left[n][context[known]]
            own[n, seen] = self._share(n, places[seen], context[seen])
            places = np.where(ends, -1 if n else s.vocab, places)
        rest = np.cumprod(left[::-1], 0)[
            ::-1
        ]  # (N, T): what each order leaves, once the longer ones have left theirs
        own[:-1] *= rest[1:]
        return np.concatenate([(self._uniform[words] * rest[0])[None], own]), NGramState(after)

    def _share(self, n: int, places: Ints, context: Ints) -> Floats:
        """What n-grams keep of the probability after their contexts."""
        times = self.counts.times[n][places]
        share: Floats = (times - self._taken[n][np.minimum(times, 3)]) / self._total[n][context]
        return share


def _log(chances: Floats) -> Floats:
    """Logarithms; that of nothing, which only the start mark has, is minus infinity."""
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(chances, out=chances)
    return logs
