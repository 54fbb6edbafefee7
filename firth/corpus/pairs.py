"""Examples for pretraining: two neighbouring stretches of text, or two that don't belong together, with words hidden.

An example is a passage: whole sentences of one document, as many as fit. Where it is cut in two, whether its second half is
exchanged for one from another document and which words are hidden is drawn anew each epoch, from (seed, epoch, number) alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base import seeds
from firth.base.errors import InputError
from firth.base.seeds import Purpose, generator
from firth.corpus.mask import Masker, Numbers
from firth.corpus.shards import DOCUMENT, SENTENCE, WORD, Marks, Shards
from firth.data.batch import Batch, make_batch
from firth.text.tokenizer import Tokenizer

DEV_SHARE, DEV_LEAST, DEV_MOST = (
    0.01,
    10_000,
    0.1,
)  # held out: a share, of a small text more, up to a tenth
SPECIAL = 3  # [CLS] first [SEP] second [SEP]
TRIES = 8  # to find a stranger that begins and ends as its neighbour does
NOT_ASKED = -1  # whether the second text is a stranger, where there is only one


class Passages(NamedTuple):
    """Where examples stand in the shards, in order."""

    shard: NDArray[np.int32]
    start: NDArray[np.int64]
    size: NDArray[np.int32]
    document: NDArray[np.int64]

    def part(self, keep: slice) -> "Passages":
        """Some of them."""
        return Passages(self.shard[keep], self.start[keep], self.size[keep], self.document[keep])


class Row(NamedTuple):
    """One example as the model reads it."""

    ids: Numbers
    segments: Numbers
    places: Numbers
    words: Numbers
    stranger: (
        int  # 0 if the second text follows the first, 1 if it is from elsewhere: BERT's own labels
    )

    def __len__(self) -> int:
        return len(self.ids)


def passages(shards: Shards, room: int) -> Passages:
    """Cut every document into passages of at most `room` tokens: whole sentences, and a longer one in pieces."""
    shard, start, size, document = [], [], [], []
    number = -1
    for index, (_, marks) in enumerate(shards.shards):
        edges = np.append(np.flatnonzero(np.asarray(marks) & SENTENCE), len(marks))
        opens = (np.asarray(marks[edges[:-1]]) & DOCUMENT) > 0
        ends = np.append(edges[:-1][opens], len(marks))
        at = 0
        for end in ends[ends > 0]:  # a shard may begin inside a document
            number += int(bool(marks[at] & DOCUMENT))
            while at < end:
                stop = _stop(at, int(end), room, edges, marks)
                shard.append(index)
                start.append(at)
                size.append(stop - at)
                document.append(number)
                at = stop
    return Passages(
        np.array(shard, np.int32),
        np.array(start, np.int64),
        np.array(size, np.int32),
        np.array(document, np.int64),
    )


def _stop(at: int, end: int, room: int, edges: NDArray[np.int64], marks: Marks) -> int:
    """The end of the passage that begins at `at`: the last sentence's end that fits, or else the last word's, or the room's."""
    if end - at <= room:
        return end
    stop = int(edges[np.searchsorted(edges, at + room, side="right") - 1])
    if stop > at:
        return stop
    words = np.flatnonzero(marks[at + 1 : at + room + 1] & WORD)
    return at + 1 + int(words[-1]) if len(words) else at + room


class Pairs:
    """The feed of pretraining."""

    def __init__(
        self,
        shards: Shards,
        where: Passages,
        tokenizer: Tokenizer,
        room: int,
        seed: int,
        masker: Masker,
        follow: bool,
    ) -> None:
        if tokenizer.cls is None or tokenizer.sep is None:
            raise InputError(
                "this vocabulary has no tokens for the beginning and the end of a text, which pretraining needs"
            )
        self.shards, self.where, self.tokenizer = shards, where, tokenizer
        self.cls, self.sep = tokenizer.cls, tokenizer.sep
        self.room, self.seed, self.masker, self.follow = room, seed, masker, follow
        self.sizes: NDArray[Any] = where.size + SPECIAL

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Rows of some examples with what to guess."""
        return stack([self.row(epoch, int(number)) for number in numbers], self.follow)

    def row(self, epoch: int, number: int) -> Row:
        """One example."""
        draw = generator(Purpose.PAIR, self.seed, epoch, number)
        ids, marks = self._text(number)
        cut = self._cut(marks, draw) if self.follow else 0
        parts = [(ids, marks)]
        stranger = NOT_ASKED
        if cut:
            parts = [(ids[:cut], marks[:cut]), (ids[cut:], marks[cut:])]
            stranger = self.stranger(epoch, number)
            if stranger:
                parts[1] = self._elsewhere(number, cut, draw)
        return self._finish(parts, stranger, draw)

    def stranger(self, epoch: int, number: int) -> int:
        """Whether the second text is to come from elsewhere: for one example of two neighbours it is, for the other not."""
        return (seeds.number(Purpose.STRANGER, self.seed, epoch, number // 2) ^ number) & 1

    def _text(self, number: int, more: int = 0) -> tuple[Numbers, Marks]:
        shard = self.shards.shards[self.where.shard[number]]
        start = int(self.where.start[number])
        stop = start + int(self.where.size[number]) + more
        return shard.ids[start:stop].astype(np.int64), np.asarray(shard.marks[start:stop])

    def _cut(self, marks: Marks, draw: np.random.Generator) -> int:
        """Where the second text begins: at a sentence, or in a passage of one sentence at a word; 0 if there is neither."""
        for mark in (SENTENCE, WORD):
            places = 1 + np.flatnonzero(marks[1:] & mark)
            if len(places):
                return int(places[draw.integers(len(places))])
        return 0

    def _elsewhere(self, number: int, cut: int, draw: np.random.Generator) -> tuple[Numbers, Marks]:
        """A text from another document, about as long as the one from `cut` on, which it replaces.

        It begins and ends as that one does, at a sentence or else at a word: otherwise its ends alone would tell a stranger.
        """
        shard, start, size = (int(column[number]) for column in self.where[:3])
        marks = self.shards.shards[shard].marks
        ends_whole = start + size == len(marks) or marks[start + size] & SENTENCE
        wanted = (
            SENTENCE if marks[start + cut] & SENTENCE else WORD,
            SENTENCE if ends_whole else WORD,
        )
        documents = self.where.document
        first, last = np.searchsorted(documents, [documents[number], documents[number] + 1])
        for begun, ended in (*[wanted] * TRIES, (WORD, WORD)):
            other = int(draw.integers(len(documents) - (last - first)))
            other += int(last - first) if other >= first else 0
            ids, marks = self._text(other, more=self.room)
            closed = int(np.append(1 + np.flatnonzero(marks[1:] & DOCUMENT), len(marks))[0])
            begins = np.flatnonzero(marks[: self.where.size[other]] & begun)
            ends = np.append(1 + np.flatnonzero(marks[1:closed] & ended), closed)
            begins = begins[
                ends[np.searchsorted(ends, begins, side="right")] - begins <= self.room - cut
            ]
            if len(begins):
                begin = int(begins[draw.integers(len(begins))])
                ends = ends[(ends > begin) & (ends <= begin + self.room - cut)]
                stop = int(ends[np.abs(ends - begin - (size - cut)).argmin()])
                return ids[begin:stop], marks[begin:stop]
        stop = min(closed, self.room - cut)  # of a word longer than fits
        return ids[:stop], marks[:stop]

    def _finish(
        self, parts: list[tuple[Numbers, Marks]], stranger: int, draw: np.random.Generator
    ) -> Row:
        ids, starts, segments = [np.array([self.cls])], [np.array([True])], [np.array([0])]
        for segment, (text, marks) in enumerate(parts):
            ids += [text, np.array([self.sep])]
            starts += [(marks & WORD) > 0, np.array([True])]
            segments.append(np.full(len(text) + 1, segment))
        hidden = self.masker.hide(np.concatenate(ids), np.concatenate(starts), draw)
        return Row(hidden.ids, np.concatenate(segments), hidden.places, hidden.words, stranger)

    def describe(self, number: int) -> str:
        """Its number and how its text begins."""
        ids, _ = self._text(number)
        return f"{number} ({self.tokenizer.decode(ids[:12].tolist())!r} ...)"


def stack(rows: list[Row], follow: bool) -> Batch:
    """Lay rows one after another, longest first, with what to guess: hidden words and, if `follow`, strangers."""
    rows = sorted(rows, key=len, reverse=True)
    starts = np.cumsum([0, *(len(row) for row in rows)])
    targets = {
        "places": np.concatenate(
            [row.places + start for row, start in zip(rows, starts[:-1], strict=True)]
        ),
        "words": np.concatenate([row.words for row in rows]),
    }
    if follow:
        targets["stranger"] = np.array([row.stranger for row in rows])
    return make_batch(rows, targets=targets)


def split_dev(where: Passages, shards: Shards | None = None) -> tuple[Passages, Passages]:
    """Hold out the last documents, at least one; of a single document its last passages, nothing where no shards are given."""
    total = np.cumsum(where.size)
    documents = where.document
    if not several(where):
        return (
            _split_document(where, shards)
            if shards and len(where.size)
            else (where, where.part(slice(0, 0)))
        )
    share = max(DEV_SHARE, min(DEV_MOST, DEV_LEAST / total[-1]))
    at = int(np.searchsorted(total, total[-1] * (1 - share)))
    first = max(int(documents[min(at, len(documents) - 1)]), int(documents[0]) + 1)
    cut = int(np.searchsorted(documents, first))
    return where.part(slice(cut)), where.part(slice(cut, None))


def _split_document(where: Passages, shards: Shards) -> tuple[Passages, Passages]:
    """Hold out the last passages of a document; of a single passage its last sentences, nothing where it is one sentence."""
    total = int(where.size.sum())
    wanted = total * (1 - max(DEV_SHARE, min(DEV_MOST, DEV_LEAST / total)))
    if len(where.size) == 1:
        start = int(where.start[0])
        marks = np.asarray(shards.shards[where.shard[0]].marks[start : start + total])
        sentences = 1 + np.flatnonzero(marks[1:] & SENTENCE)
        if not len(sentences):
            return where, where.part(slice(0, 0))
        first = int(sentences[max(0, int(np.searchsorted(sentences, wanted, side="right")) - 1)])
        where = Passages(
            where.shard.repeat(2),
            np.array([start, start + first], where.start.dtype),
            np.array([first, total - first], where.size.dtype),
            where.document.repeat(2),
        )
    cut = min(max(int(np.searchsorted(np.cumsum(where.size), wanted)), 1), len(where.size) - 1)
    return where.part(slice(cut)), where.part(slice(cut, None))


def several(where: Passages) -> bool:
    """Whether there is more than one document, so that a stranger can be found."""
    return len(where.document) > 0 and bool(where.document[0] != where.document[-1])


def frequency(pairs: Pairs) -> Numbers:
    """How often each ordinary piece stands in the text of some examples."""
    counts = np.zeros(len(pairs.masker.is_ordinary), np.int64)
    for number in np.unique(pairs.where.shard):
        own = pairs.where.shard == number
        first, last = (
            pairs.where.start[own][0],
            pairs.where.start[own][-1] + pairs.where.size[own][-1],
        )
        counts += np.bincount(pairs.shards.shards[number].ids[first:last], minlength=len(counts))
    return np.where(pairs.masker.is_ordinary, counts, 0)
