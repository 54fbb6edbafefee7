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
        for ids, marks in shards.shards:
            line_starts = np.flatnonzero(marks & LINE)
            line_stops = np.append(line_starts[1:], len(marks))
            lines = len(line_stops)
            # Every end mark pushes those after it one place further.
            ends = line_stops + np.arange(lines)
            self._ends.append(ends)
            sizes.append(len(ids) + lines)
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
            after_last = int(self._first[shard + 1])
            own_start = max(start, first)
            own_stop = min(stop, after_last)
            places = np.arange(own_start, own_stop) - first
            found.append(self._read_shard(shard, places))
            shard += 1
        return np.concatenate(found)

    def _read_shard(self, number: int, places: Numbers) -> Numbers:
        """Return the tokens at places of one shard."""
        ids = self.shards.shards[number].ids
        ends = self._ends[number]
        lines_before = np.searchsorted(ends, places)
        # What stands at the place of an end mark is looked up too, and then passed over: after
        # the last one there is nothing, hence the limits.
        next_end = np.minimum(lines_before, len(ends) - 1)
        is_end = ends[next_end] == places
        stored = np.minimum(places - lines_before, len(ids) - 1)
        tokens = np.where(is_end, self.end, ids[stored])
        return tokens.astype(np.int64)

    def counts(self, size: int) -> Numbers:
        """Count how often each token of a vocabulary occurs."""
        found = np.zeros(size, np.int64)
        for start in range(0, self.size, COUNTED_AT_ONCE):
            stop = min(start + COUNTED_AT_ONCE, self.size)
            tokens = self.read(start, stop)
            found += np.bincount(tokens, minlength=size)
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
        for number, (_, marks) in enumerate(self.shards.shards):
            ends = self._ends[number]
            opens = np.flatnonzero(marks & DOCUMENT)
            line_stops = ends - np.arange(len(ends))
            lines_before = np.searchsorted(line_stops, opens, side="right")
            found.append(opens + lines_before + self._first[number])
        places = np.concatenate(found)
        return self._inside(places)

    def _inside(self, places: Numbers) -> Numbers:
        places = places - self.begin
        inside = (places >= 0) & (places < self.size)
        return np.asarray(places[inside], np.int64)


def hold_out(stream: TokenStream) -> tuple[TokenStream, TokenStream]:
    """Part a stream before its last documents or, where it is one document, its last lines."""
    size = stream.size
    kept = size * (1 - dev_share(size))
    cut = size
    for places in (stream.documents(), stream.lines()):
        inner = places[places > 0]
        if len(inner):
            last = len(inner) - 1
            at = int(np.searchsorted(inner, kept))
            cut = int(inner[min(at, last)])
            break
    return stream.part(0, cut), stream.part(cut, size)


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
            size = stop - at
            if fill:
                size = full - at
            starts.append(at)
            sizes.append(size)
            at = stop
        self.starts = np.array(starts, np.int64)
        self.sizes: NDArray[Any] = np.array(sizes, np.int64)

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Return some rows, longest first."""
        order = np.argsort(-self.sizes[numbers], kind="stable")
        spans = [self._span(int(number)) for number in numbers[order]]
        return make_batch(spans)

    def _span(self, number: int) -> TokenSpan:
        start = int(self.starts[number])
        stop = start + int(self.sizes[number])
        ids = self.stream.read(start, stop)
        return TokenSpan(ids, np.zeros_like(ids))

    def describe(self, number: int) -> str:
        """Return a row's number and how its text begins."""
        ids = self._span(number).ids[:SHOWN]
        opening = self.tokenizer.decode(ids.tolist())
        return f"{number} ({opening!r} ...)"


class MarkedRows(LineRows):
    """A feed of such rows between a start and an end mark, as a tokenizer encodes a text.

    A line that is cut has marks around each of its parts.
    """

    def __init__(self, stream: TokenStream, tokenizer: Tokenizer, room: int, start: int) -> None:
        super().__init__(stream, tokenizer, room - 2)
        self.start = start
        self.sizes = self.sizes + 2  # of a whole line the end mark is there: one too many

    def _span(self, number: int) -> TokenSpan:
        start = int(self.starts[number])
        stop = start + int(self.sizes[number]) - 2
        own = self.stream.read(start, stop)
        end = self.stream.end
        marks = [] if own[-1] == end else [end]
        ids = np.concatenate([[self.start], own, marks]).astype(np.int64)
        return TokenSpan(ids, np.zeros_like(ids))


def unigram_perplexity(counts: Numbers, rows: LineRows, most: int) -> float | None:
    """Return the perplexity of the first rows' tokens by how often each token occurs."""
    stop = min(rows.stream.size, most)
    if not stop:
        return None
    tokens = rows.stream.read(0, stop)
    seen = counts + 1.0  # none is impossible
    probabilities = seen[tokens] / seen.sum()
    mean = np.log(probabilities).mean()
    return math.exp(-mean)


class StatefulRows(LineRows):
    """A feed of `count` lanes, each a stretch of the text, for models that carry a state.

    A lane is read at most `span` tokens at a time, and always about as many.
    """

    def __init__(self, stream: TokenStream, tokenizer: Tokenizer, count: int, span: int) -> None:
        size = stream.size
        if size < count:
            raise InputError(
                f"{size} tokens are too few for {count} lanes: ask for fewer tokens in a step"
            )
        self.stream = stream
        self.tokenizer = tokenizer
        self.count = count
        self.spans = -(-size // (count * span))  # rounded up

        # All lanes have the same number of spans: a step reads one of each.
        edges = np.arange(count + 1) * size // count
        lengths = np.diff(edges)
        parts = np.arange(self.spans + 1)[:, None]
        cuts = edges[:-1] + parts * lengths // self.spans  # (spans + 1, lanes)
        self.starts = cuts[:-1].reshape(-1)
        self.sizes = np.diff(cuts, axis=0).reshape(-1)

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Return some spans, with their lanes and whether these begin with them."""
        targets = {
            "lanes": numbers % self.count,
            "begins": numbers < self.count,
        }
        spans = [self._span(int(number)) for number in numbers]
        return make_batch(spans, targets=targets)


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
