"""The n-gram model, with interpolated modified Kneser-Ney smoothing.

T tokens in the stream, B rows, N order, V vocabulary. "An Empirical Study of Smoothing Techniques
for Language Modeling", Chen and Goodman, 1998. The probability after a context is what its own
counts keep of theirs after a discount, and the share that the discounts freed times the probability
after the context without its first word, down to the uniform distribution.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.base.errors import InputError
from firth.families.ngram import NGramSettings
from firth.models.counts import (
    Array,
    Counted,
    Ints,
    NGramCounts,
    Sentences,
    compact,
    count,
    find_keys,
    merge,
    stream,
)
from firth.models.protocols import Backoff

FALLBACK = (0.5, 1.0, 1.5)  # discounts where a text is too small to tell its own

Floats = NDArray[np.float64]


def estimate(counts: NGramCounts) -> "NGram":
    """Smooth counts into a model."""
    times = _continuations(counts)
    discounts = np.array([_discounts(one) for one in times])
    return NGram(NGramCounts(counts.settings, counts.keys, times), discounts)


def _continuations(counts: NGramCounts) -> tuple[Counted, ...]:
    """Return continuation counts: below the highest order, how many different words come before.

    Nothing can stand before a start mark: n-grams that begin with it keep their counts.
    """
    s = counts.settings
    found = []
    opening = s.vocab  # the first n-gram that begins with the start mark
    shorter = np.zeros(s.symbols, np.int64)  # the place of each n-gram's words but the first
    for n in range(s.order - 1):
        keys = counts.keys[n]
        longer = counts.keys[n + 1]
        context, word = np.divmod(longer, s.symbols)
        suffix = shorter[context] * s.symbols + word
        shorter = find_keys(keys, suffix)
        if (shorter < 0).any():
            fault = f"an n-gram of {n + 2} words has an end that was never counted"
            raise InputError(f"the counts contradict themselves: {fault}")

        times = np.bincount(shorter, minlength=len(keys))
        times[opening:] = counts.times[n][opening:]
        if n and times.min(initial=1) < 1:
            fault = f"nothing comes before an n-gram of {n + 1} words"
            raise InputError(f"the counts contradict themselves: {fault}")
        found.append(compact(times))

        first_key = opening * s.symbols
        opening = int(np.searchsorted(longer, first_key))
    return (*found, counts.times[-1])


def _discounts(times: Counted) -> tuple[float, ...]:
    """Return the discounts of counts of one, of two, and of three and more.

    By how many n-grams have each count. A text too small to have n-grams of each count gets the
    fallback: a discount of nothing would make unseen words impossible.
    """
    number = [int((times == seen).sum()) for seen in (1, 2, 3, 4)]
    if 0 in number:
        return FALLBACK

    # Chen and Goodman's Y and D1, D2, D3+ (equation 26).
    n1, n2, *_ = number
    once = n1 / (n1 + 2 * n2)
    found = []
    for seen in (1, 2, 3):
        taken = (seen + 1) * once * number[seen] / number[seen - 1]
        found.append(seen - taken)
    if min(found) <= 0:
        return FALLBACK
    return tuple(found)


@dataclass(frozen=True, eq=False)
class NGramState:
    """Where the last words stand in the tree."""

    places: Ints  # (B, N) of the n-grams of 0 to N - 1 words, -1 where they are unseen

    def pick(self, rows: Tensor) -> "NGramState":
        """Return the state of the rows named, in that order."""
        return NGramState(self.places[rows.numpy()])

    def latest(self, most: int) -> "NGramState":
        """Return the state as it is: it holds as many words as the model sees."""
        return self

    def tensors(self) -> dict[str, Tensor]:
        """Return the places, a row first."""
        return {"places": torch.from_numpy(self.places)}


class NGram:
    """The model; one without a single count gives every token the same probability."""

    gradient = False
    length = None
    reads_prompts = False
    backs_off = True

    def __init__(self, counts: NGramCounts, discounts: Floats) -> None:
        s = counts.settings
        self.settings = s
        self.counts = counts
        self.discounts = discounts
        self.vocab = s.vocab
        self.order = s.order
        self._taken = np.pad(discounts, ((0, 0), (1, 0)))  # (N, 4): nothing is taken from nothing
        self._total = []  # for each context: the sum of its counts
        self._left = []  # and the share that shorter contexts get
        contexts = 1  # the empty one
        for n, (keys, times) in enumerate(zip(counts.keys, counts.times, strict=True)):
            context = keys // s.symbols
            total = np.bincount(context, times, contexts)
            discount = self._discount(n, times)
            taken = np.bincount(context, discount, contexts)
            # A context that nothing follows leaves all to the shorter ones.
            left = np.ones(contexts)
            np.divide(taken, total, out=left, where=total > 0)
            self._left.append(left)
            self._total.append(np.maximum(total, 1))
            contexts = len(keys)  # each n-gram is a context of the next order

        # The start mark is never predicted, whether it has an id of the vocabulary or not.
        predicted = s.vocab
        if s.start < s.vocab:
            predicted -= 1
        self._uniform = np.full(s.symbols, 1 / predicted)
        self._uniform[[s.start, s.vocab]] = 0
        words = np.arange(s.vocab)
        nowhere = np.zeros(s.vocab, np.int64)  # the empty context
        own = self._share(0, words, nowhere)
        rest = self._left[0] * self._uniform[words]
        self._words = own + rest  # (V)

    @classmethod
    def fit(cls, streams: Iterable[Sentences], settings: NGramSettings) -> "NGram":
        """Count and smooth texts, which are read once and need not fit in memory together."""
        nothing = np.zeros(0, np.int64)
        piles = [count(Sentences(nothing, nothing), settings)]
        for rows in streams:
            piles.append(count(rows, settings))
            # Only piles of like size are merged, so that no n-gram is moved more often than the
            # logarithm of their number.
            while len(piles) > 1 and piles[-1].size * 2 > piles[-2].size:
                merged = merge(piles[-2:])
                piles[-2:] = [merged]
        return estimate(merge(piles))

    def arrays(self) -> dict[str, Array]:
        """Return counts and discounts as arrays, to be kept in a file."""
        return self.counts.arrays() | {"discounts": self.discounts}

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> "NGram":
        """Make the model of arrays that may be damaged or hostile."""
        rest = dict(arrays)
        discounts = rest.pop("discounts", None)
        counts = NGramCounts.of(rest)
        shape = (counts.settings.order, 3)
        if discounts is None or discounts.dtype != np.float64 or discounts.shape != shape:
            fault = "are missing, or not three for each order"
            raise InputError(f"the n-gram model's discounts {fault}")
        in_range = (discounts > 0) & (discounts <= (1, 2, 3))
        if not in_range.all():
            fault = "are not between nothing and the counts that they are taken from"
            raise InputError(f"the n-gram model's discounts {fault}")
        return cls(counts, discounts)

    def opening(self, end: int) -> list[int]:
        """Return nothing: a text begins with the start mark alone."""
        return []

    def state(self, tensors: Mapping[str, Tensor]) -> NGramState:
        """Return a state made of the tensors of another."""
        return NGramState(tensors["places"].numpy())

    def start(self, rows: int) -> NGramState:
        """Return the state before the first token."""
        places = np.full((rows, self.order), -1)
        places[:, 0] = 0  # no word
        places[:, 1:2] = self.vocab  # the start mark, where the order has room for it
        return NGramState(places)

    def score(
        self, ids: Tensor, lengths: Tensor, state: NGramState | None = None
    ) -> tuple[Tensor, NGramState]:
        """Return the log-probability of each token (T), and the state at the end of each row."""
        if state is None:
            state = self.start(len(lengths))
        parts, after = self._read(ids.numpy(), lengths.numpy(), state)
        probabilities = parts.sum(0)
        return torch.from_numpy(_log(probabilities)), after

    def step(self, ids: Tensor, state: NGramState) -> tuple[Tensor, NGramState]:
        """Read a token a row, at first the start mark; return log-probabilities (B, V)."""
        count = len(ids)
        lengths = np.ones(count, np.int64)
        _, after = self._read(ids.numpy(), lengths, state)
        probabilities = np.zeros((count, self.vocab))
        rest = np.ones(count)  # the share that longer contexts left
        symbols = self.settings.symbols
        for n in range(self.order - 1, 0, -1):
            known = after.places[:, n]
            rows = np.flatnonzero(known >= 0)
            context = known[rows]
            keys = self.counts.keys[n]
            # Keys that begin with one context stand side by side.
            first_key = context * symbols
            first = np.searchsorted(keys, first_key)
            stop = np.searchsorted(keys, first_key + symbols)
            size = stop - first

            # The places of all that follows the contexts, one context after another.
            before = np.cumsum(size) - size
            offset = np.repeat(first - before, size)
            places = np.arange(size.sum()) + offset
            row = np.repeat(rows, size)
            word = keys[places] % symbols
            share = self._share(n, places, np.repeat(context, size))
            probabilities[row, word] += rest[row] * share
            rest[rows] *= self._left[n][context]
        probabilities += rest[:, None] * self._words
        return torch.from_numpy(_log(probabilities)), after

    def explain(self, ids: Tensor) -> list[Backoff]:
        """Return how each word of a sentence came by its probability."""
        lengths = np.array([len(ids)])
        parts, _ = self._read(ids.numpy(), lengths, self.start(1))
        orders = np.arange(1, self.order + 1)[:, None]
        knows = parts[1:] > 0  # (N, T) whether an order has counted the word after its context
        order = (knows * orders).max(0)  # (T) the highest that knows the word
        scores = _log(parts.sum(0))
        rows = zip(order.tolist(), scores.tolist(), parts.T.tolist(), strict=True)
        return [Backoff(found, score, tuple(shares)) for found, score, shares in rows]

    def _read(self, ids: Array, lengths: Array, state: NGramState) -> tuple[Floats, NGramState]:
        """Return the parts of each token's probability (1 + N, T), and the state after.

        The first is the uniform distribution's, the others are those of each order.
        """
        s = self.settings
        words, ends, rows, first, last = stream(ids, lengths, s)
        if len(state.places) != len(lengths):
            raise InputError(f"a state of {len(state.places)} rows can't go on with {len(lengths)}")
        shape = (self.order, len(words))
        own = np.zeros(shape)
        left = np.ones(shape)
        after = state.places.copy()
        places = np.zeros(len(words), np.int64)  # of the last n words, this one included
        for n in range(self.order):
            after[rows, n] = places[last]
            context = np.roll(places, 1)
            context[first] = state.places[rows, n]
            keys = context * s.symbols + words
            places = find_keys(self.counts.keys[n], keys)
            known = context >= 0
            seen = places >= 0
            left[n, known] = self._left[n][context[known]]
            own[n, seen] = self._share(n, places[seen], context[seen])
            # After the end of a sentence the one word that counts is the start mark.
            opening = s.vocab if n == 0 else -1
            places = np.where(ends, opening, places)

        # (N, T): what each order leaves, once the longer ones have left theirs.
        longest_first = left[::-1]
        rest = np.cumprod(longest_first, 0)[::-1]
        own[:-1] *= rest[1:]
        uniform = self._uniform[words] * rest[0]
        parts = np.concatenate([uniform[None], own])
        return parts, NGramState(after)

    def _discount(self, n: int, times: Counted) -> Floats:
        """Return what is taken from counts of an order: of three and more the same."""
        discount: Floats = self._taken[n][np.minimum(times, 3)]
        return discount

    def _share(self, n: int, places: Ints, context: Ints) -> Floats:
        """Return what n-grams keep of the probability after their contexts."""
        times = self.counts.times[n][places]
        kept = times - self._discount(n, times)
        share: Floats = kept / self._total[n][context]
        return share


def _log(probabilities: Floats) -> Floats:
    """Return logarithms, in place; that of 0, which only the start mark has, is -infinity."""
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(probabilities, out=probabilities)
    return logs
