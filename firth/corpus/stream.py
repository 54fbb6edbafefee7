"""Text as a language model reads it: line after line, with an end mark after each, in rows of its own or in lanes that go on.

A row begins where a line does, and nothing before it counts. A lane is a long stretch of the text that is read a span at a time,
one step after another, so that a model may carry over what it remembers.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.corpus.pairs import DEV_LEAST, DEV_MOST, DEV_SHARE
from firth.corpus.shards import DOCUMENT, LINE, Shards
from firth.data.batch import Batch, make_batch
from firth.data.feed import Numbers, Step
from firth.text.tokenizer import Tokenizer

SHOWN = 12  # tokens that tell an example
COUNTED_AT_ONCE = 1 << 22


def line_marks(tokenizer: Tokenizer, apart: bool = True) -> tuple[int, int]:
    """The tokens that stand before a text and after a line, which only a GPT may have as one (`apart` is False)."""
    if tokenizer.cls is None or tokenizer.sep is None or (apart and tokenizer.cls == tokenizer.sep):
        raise InputError(
            "this vocabulary lacks a token for the beginning of a text or the end of a line, as language models need"
        )
    return tokenizer.cls, tokenizer.sep


class Span(NamedTuple):
    """A stretch of text."""

    ids: Numbers
    segments: Numbers

    def __len__(self) -> int:
        return len(self.ids)


class Stream:
    """All lines of a corpus in order, or a part of them; places count pieces and end marks alike."""

    def __init__(self, shards: Shards, end: int) -> None:
        self.shards, self.end = shards, end
        lines = [
            np.append(np.flatnonzero(shard.marks & LINE)[1:], len(shard.marks))
            for shard in shards.shards
        ]
        self._ends = [
            after + np.arange(len(after)) for after in lines
        ]  # of each shard: where its end marks stand
        self._first = np.cumsum(
            [0, *(len(s.ids) + len(e) for s, e in zip(shards.shards, self._ends, strict=True))]
        )
        self.begin, self.size = 0, int(self._first[-1])

    def part(self, begin: int, end: int) -> "Stream":
        """A part of it, as a stream of its own."""
        found = object.__new__(Stream)
        vars(found).update(vars(self), begin=self.begin + begin, size=end - begin)
        return found

    def read(self, start: int, stop: int) -> Numbers:
        """The tokens from one place to another."""
        start, stop = start + self.begin, stop + self.begin
        found = []
        for number in range(
            int(np.searchsorted(self._first, start, side="right")) - 1, len(self._ends)
        ):
            first, last = int(self._first[number]), int(self._first[number + 1])
            if first >= stop:
                break
            places = np.arange(max(start, first), min(stop, last)) - first
            ends = self._ends[number]
            before = np.searchsorted(ends, places)  # how many lines ended
            closes = ends[np.minimum(before, len(ends) - 1)] == places
            ids = self.shards.shards[number].ids
            found.append(
                np.where(closes, self.end, ids[np.minimum(places - before, len(ids) - 1)]).astype(
                    np.int64
                )
            )
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def counts(self, size: int) -> Numbers:
        """How often each token of a vocabulary occurs."""
        found = np.zeros(size, np.int64)
        for start in range(0, self.size, COUNTED_AT_ONCE):
            found += np.bincount(
                self.read(start, min(start + COUNTED_AT_ONCE, self.size)), minlength=size
            )
        return found

    def lines(self) -> Numbers:
        """Where lines begin."""
        every = np.concatenate(
            [
                [0],
                *(
                    ends + 1 + first
                    for ends, first in zip(self._ends, self._first[:-1], strict=True)
                ),
            ]
        )
        return self._inside(every)

    def documents(self) -> Numbers:
        """Where documents begin."""
        found = []
        for shard, ends, first in zip(
            self.shards.shards, self._ends, self._first[:-1], strict=True
        ):
            opens = np.flatnonzero(shard.marks & DOCUMENT)
            found.append(
                opens + np.searchsorted(ends - np.arange(len(ends)), opens, side="right") + first
            )
        return self._inside(np.concatenate(found))

    def _inside(self, places: Numbers) -> Numbers:
        places = places - self.begin
        return np.asarray(places[(places >= 0) & (places < self.size)], np.int64)


def hold_out(stream: Stream) -> tuple[Stream, Stream]:
    """Part a stream before its last documents or, where it is one document, before its last lines."""
    share = max(DEV_SHARE, min(DEV_MOST, DEV_LEAST / stream.size))
    for places in (stream.documents(), stream.lines()):
        inner = places[places > 0]
        if len(inner):
            cut = int(
                inner[min(int(np.searchsorted(inner, stream.size * (1 - share))), len(inner) - 1)]
            )
            return stream.part(0, cut), stream.part(cut, stream.size)
    return stream, stream.part(stream.size, stream.size)


class Rows:
    """A feed of rows of at most `room` tokens that begin with a line: whole lines, as many as fit, and a longer line in pieces.

    With `fill` a row goes on to the end of its room, into a line with which the next row begins: a model that learns from whole
    lines alone hardly ever sees its last positions.
    """

    def __init__(self, stream: Stream, tokenizer: Tokenizer, room: int, fill: bool = False) -> None:
        self.stream, self.tokenizer = stream, tokenizer
        lines, starts, stops, at = np.append(stream.lines(), stream.size), [], [], 0
        while at < stream.size:
            starts.append(at)
            fits, full = (
                int(lines[np.searchsorted(lines, at + room, side="right") - 1]),
                min(at + room, stream.size),
            )
            at = fits if fits > at else full
            stops.append(full if fill else at)
        self.starts = np.array(starts, np.int64)
        self.sizes: NDArray[Any] = np.array(stops, np.int64) - self.starts

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Some rows, longest first."""
        order = numbers[np.argsort(-self.sizes[numbers], kind="stable")]
        return make_batch([self._span(int(number)) for number in order])

    def _span(self, number: int) -> Span:
        start = int(self.starts[number])
        ids = self.stream.read(start, start + int(self.sizes[number]))
        return Span(ids, np.zeros_like(ids))

    def describe(self, number: int) -> str:
        """Its number and how its text begins."""
        return f"{number} ({self.tokenizer.decode(self._span(number).ids[:SHOWN].tolist())!r} ...)"


def by_frequency(counts: Numbers, rows: Rows, most: int) -> float | None:
    """The perplexity, over the tokens of the first rows, of who knows only how often each token occurs."""
    stop = min(rows.stream.size, most)
    if not stop:
        return None
    seen = counts + 1.0  # none is impossible
    return math.exp(-np.log(seen[rows.stream.read(0, stop)] / seen.sum()).mean())


class Lanes(Rows):
    """A feed of `count` lanes, each a stretch of the text, read at most `span` tokens at a time, and always about as many."""

    def __init__(self, stream: Stream, tokenizer: Tokenizer, count: int, span: int) -> None:
        self.stream, self.tokenizer = stream, tokenizer
        if stream.size < count:
            raise InputError(
                f"{stream.size} tokens are too few for {count} lanes: ask for fewer tokens in a step"
            )
        self.count = count
        edges = np.arange(count + 1) * stream.size // count  # of lanes
        self.spans = -(-stream.size // (count * span))
        cuts = (
            edges[:-1] + np.arange(self.spans + 1)[:, None] * np.diff(edges) // self.spans
        )  # (spans + 1, lanes)
        self.starts = cuts[:-1].reshape(-1)
        self.sizes = np.diff(cuts, axis=0).reshape(-1)

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Some spans, with the lanes that they stand in and whether these begin with them."""
        targets = {"lanes": numbers % self.count, "begins": numbers < self.count}
        return make_batch([self._span(int(number)) for number in numbers], targets=targets)


class InTurn:
    """The order of lanes: a step reads the next span of every one; an epoch begins them anew."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.per_epoch = lanes, lanes.spans

    def at(self, step: int) -> Step:
        """The spans of a step, counted from 0."""
        epoch, index = divmod(step, self.per_epoch)
        return Step(epoch, np.arange(index * self.lanes.count, (index + 1) * self.lanes.count))
