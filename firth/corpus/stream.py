"""Text as a language model reads it: line after line, with an end mark after each.

It is read in rows or in stateful batches. A row begins where a line does, and nothing before it
counts. Stateful batches cut the text into long lanes, each read a span at a time, one step after
another, so that a model may carry its state over (truncated back-propagation through time).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.corpus.pairs import dev_share
from firth.corpus.shards import DOCUMENT, LINE, Shards
from firth.data.batch import Batch, make_batch
from firth.data.feed import Numbers, Step
from firth.text.tokenizer import Tokenizer

SHOWN = 12  # tokens that tell an example
COUNTED_AT_ONCE = 1 << 22


def line_marks(tokenizer: Tokenizer, apart: bool = True) -> tuple[int, int]:
    """Return the tokens that stand before a text and after a line.

    Only a GPT may have one token for both (`apart` is False).
    """
    start = tokenizer.cls
    end = tokenizer.sep
    if start is None or end is None or (apart and start == end):
        raise InputError(
            "this vocabulary lacks a token for the beginning of a text or the end of a line, "
            "as language models need"
        )
    return start, end


class TokenSpan(NamedTuple):
    """A stretch of text."""

    ids: Numbers
    segments: Numbers

    def __len__(self) -> int:
        return len(self.ids)


class TokenStream:
    """All lines of a corpus in order, or a part of them.

    Places count pieces and end marks alike. End marks are not stored in the shards: they are put in
    as the text is read.
    """

    def __init__(self, shards: Shards, end: int) -> None:
        self.shards = shards
        self.end = end
        self._ends = []  # of each shard: where its end marks stand
        sizes = []
        for shard in shards.shards:
            line_starts = np.flatnonzero(shard.marks & LINE)
            line_stops = np.append(line_starts[1:], len(shard.marks))
            # Every end mark pushes those after it one place further.
            self._ends.append(line_stops + np.arange(len(line_stops)))
            sizes.append(len(shard.ids) + len(line_stops))
        self._first = np.cumsum([0, *sizes])
        self.begin = 0
        self.size = int(self._first[-1])

    def part(self, begin: int, end: int) -> "TokenStream":
        """Return a part of it, as a stream of its own."""
        found = object.__new__(TokenStream)
        vars(found).update(vars(self), begin=self.begin + begin, size=end - begin)
        return found

    def read(self, start: int, stop: int) -> Numbers:
        """Return the tokens from one place to another."""
        start += self.begin
        stop += self.begin
        found = [np.zeros(0, np.int64)]
        shard = int(np.searchsorted(self._first, start, side="right")) - 1
        while shard < len(self._ends) and self._first[shard] < stop:
            first = int(self._first[shard])
            last = int(self._first[shard + 1])
            places = np.arange(max(start, first), min(stop, last)) - first
            found.append(self._read_shard(shard, places))
            shard += 1
        return np.concatenate(found)

    def _read_shard(self, number: int, places: Numbers) -> Numbers:
        """Return the tokens at places of one shard."""
        ids = self.shards.shards[number].ids
        ends = self._ends[number]
        lines_before = np.searchsorted(ends, places)
        is_end = ends[np.minimum(lines_before, len(ends) - 1)] == places
        pieces = ids[np.minimum(places - lines_before, len(ids) - 1)]
        return np.where(is_end, self.end, pieces).astype(np.int64)

    def counts(self, size: int) -> Numbers:
        """Count how often each token of a vocabulary occurs."""
        found = np.zeros(size, np.int64)
        for start in range(0, self.size, COUNTED_AT_ONCE):
            stop = min(start + COUNTED_AT_ONCE, self.size)
            found += np.bincount(self.read(start, stop), minlength=size)
        return found

    def lines(self) -> Numbers:
        """Return where lines begin."""
        found = [np.zeros(1, np.int64)]
        for ends, first in zip(self._ends, self._first[:-1], strict=True):
            found.append(ends + 1 + first)
        return self._inside(np.concatenate(found))

    def documents(self) -> Numbers:
        """Return where documents begin."""
        found = []
        for number, shard in enumerate(self.shards.shards):
            ends = self._ends[number]
            opens = np.flatnonzero(shard.marks & DOCUMENT)
            line_stops = ends - np.arange(len(ends))
            lines_before = np.searchsorted(line_stops, opens, side="right")
            found.append(opens + lines_before + self._first[number])
        return self._inside(np.concatenate(found))

    def _inside(self, places: Numbers) -> Numbers:
        places = places - self.begin
        inside = (places >= 0) & (places < self.size)
        return np.asarray(places[inside], np.int64)


def hold_out(stream: TokenStream) -> tuple[TokenStream, TokenStream]:
    """Part a stream before its last documents or, where it is one document, its last lines."""
    kept = stream.size * (1 - dev_share(stream.size))
    for places in (stream.documents(), stream.lines()):
        inner = places[places > 0]
        if len(inner):
            at = int(np.searchsorted(inner, kept))
            cut = int(inner[min(at, len(inner) - 1)])
            return stream.part(0, cut), stream.part(cut, stream.size)
    return stream, stream.part(stream.size, stream.size)


class LineRows:
    """A feed of rows of at most `room` tokens that begin with a line.

    A row is whole lines, as many as fit; a longer line is cut. With `fill` a row goes on to the end
    of its room, into a line with which the next row begins: a model that learns from whole lines
    alone hardly ever sees its last positions.
    """

    def __init__(
        self, stream: TokenStream, tokenizer: Tokenizer, room: int, fill: bool = False
    ) -> None:
        self.stream = stream
        self.tokenizer = tokenizer
        lines = np.append(stream.lines(), stream.size)
        starts = []
        sizes = []
        at = 0
        while at < stream.size:
            full = min(at + room, stream.size)
            last_line = np.searchsorted(lines, at + room, side="right") - 1
            stop = int(lines[last_line])
            if stop <= at:  # a line longer than a row
                stop = full
            starts.append(at)
            sizes.append((full if fill else stop) - at)
            at = stop
        self.starts = np.array(starts, np.int64)
        self.sizes: NDArray[Any] = np.array(sizes, np.int64)

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Return some rows, longest first."""
        order = np.argsort(-self.sizes[numbers], kind="stable")
        return make_batch([self._span(int(number)) for number in numbers[order]])

    def _span(self, number: int) -> TokenSpan:
        start = int(self.starts[number])
        ids = self.stream.read(start, start + int(self.sizes[number]))
        return TokenSpan(ids, np.zeros_like(ids))

    def describe(self, number: int) -> str:
        """Return a row's number and how its text begins."""
        ids = self._span(number).ids[:SHOWN].tolist()
        return f"{number} ({self.tokenizer.decode(ids)!r} ...)"


def unigram_perplexity(counts: Numbers, rows: LineRows, most: int) -> float | None:
    """Return the perplexity of the first rows' tokens by how often each token occurs."""
    stop = min(rows.stream.size, most)
    if not stop:
        return None
    seen = counts + 1.0  # none is impossible
    probabilities = seen[rows.stream.read(0, stop)] / seen.sum()
    return math.exp(-np.log(probabilities).mean())


class StatefulRows(LineRows):
    """A feed of `count` lanes, each a stretch of the text, for models that carry a state.

    A lane is read at most `span` tokens at a time, and always about as many.
    """

    def __init__(self, stream: TokenStream, tokenizer: Tokenizer, count: int, span: int) -> None:
        if stream.size < count:
            raise InputError(
                f"{stream.size} tokens are too few for {count} lanes: "
                "ask for fewer tokens in a step"
            )
        self.stream = stream
        self.tokenizer = tokenizer
        self.count = count
        self.spans = -(-stream.size // (count * span))

        # All lanes have the same number of spans: a step reads one of each.
        edges = np.arange(count + 1) * stream.size // count
        lengths = np.diff(edges)
        cuts = np.arange(self.spans + 1)[:, None] * lengths // self.spans  # (spans + 1, lanes)
        cuts = cuts + edges[:-1]
        self.starts = cuts[:-1].reshape(-1)
        self.sizes = np.diff(cuts, axis=0).reshape(-1)

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Return some spans, with their lanes and whether these begin with them."""
        targets = {"lanes": numbers % self.count, "begins": numbers < self.count}
        return make_batch([self._span(int(number)) for number in numbers], targets=targets)


class StatefulOrder:
    """The order of stateful batches: a step reads the next span of every lane.

    An epoch begins the lanes anew.
    """

    def __init__(self, rows: StatefulRows) -> None:
        self.lanes = rows.count
        self.per_epoch = rows.spans

    def at(self, step: int) -> Step:
        """Return the spans of a step, counted from 0."""
        epoch, index = divmod(step, self.per_epoch)
        first = index * self.lanes
        return Step(epoch, np.arange(first, first + self.lanes))
