"""Examples for pretraining BERT: pairs of neighbouring or unrelated texts, with words masked.

An example is a passage: whole sentences of one document, as many as fit. Where it is cut in two,
whether its second half is exchanged for a random next sentence from another document and which
words are masked is drawn anew each epoch, from (seed, epoch, number) alone.
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

DEV_SHARE = 0.01  # of the text is held out
DEV_LEAST = 10_000  # tokens, of a small text
DEV_MOST = 0.1  # and never more than this share
DEV_SEED = 0  # held-out text has the same words masked in every run
LENGTH = 128  # tokens of an example, where nothing else is asked for
SPECIAL = 3  # [CLS] first [SEP] second [SEP]
TRIES = 8  # to find a random next that begins and ends as the true one does
NOT_ASKED = -1  # whether the second text is a random next, where there is only one


class Passages(NamedTuple):
    """Where examples stand in the shards, in order."""

    shard: NDArray[np.int32]
    start: NDArray[np.int64]
    size: NDArray[np.int32]
    document: NDArray[np.int64]

    def part(self, keep: slice) -> "Passages":
        """Return some of them."""
        return Passages(self.shard[keep], self.start[keep], self.size[keep], self.document[keep])


class PretrainRow(NamedTuple):
    """One example as the model reads it."""

    ids: Numbers
    segments: Numbers
    places: Numbers  # that are to be predicted
    words: Numbers  # what stood there
    random_next: int  # BERT's labels: 0 if the second text follows the first, 1 if it doesn't

    def __len__(self) -> int:
        return len(self.ids)


def passages(shards: Shards, room: int) -> Passages:
    """Cut every document into passages of at most `room` tokens.

    A passage is whole sentences; a sentence that is longer is cut.
    """
    shard, start, size, document = [], [], [], []
    number = -1
    for index, (_, marks) in enumerate(shards.shards):
        sentences = np.flatnonzero(np.asarray(marks) & SENTENCE)
        edges = np.append(sentences, len(marks))
        opens_document = (np.asarray(marks[sentences]) & DOCUMENT) > 0
        ends = np.append(sentences[opens_document], len(marks))
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
    """Return where the passage that begins at `at` ends.

    That is after the last sentence that fits, or else the last word, or else where the room ends.
    """
    if end - at <= room:
        return end
    last_sentence = np.searchsorted(edges, at + room, side="right") - 1
    stop = int(edges[last_sentence])
    if stop > at:
        return stop
    words = np.flatnonzero(marks[at + 1 : at + room + 1] & WORD)
    if not len(words):
        return at + room
    return at + 1 + int(words[-1])


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
                "this vocabulary has no tokens for the beginning and the end of a text, "
                "which pretraining needs"
            )
        self.shards = shards
        self.where = where
        self.tokenizer = tokenizer
        self.cls = tokenizer.cls
        self.sep = tokenizer.sep
        self.room = room
        self.seed = seed
        self.masker = masker
        self.follow = follow
        self.sizes: NDArray[Any] = where.size + SPECIAL

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Return rows of some examples with what to predict."""
        rows = [self.row(epoch, int(number)) for number in numbers]
        return stack(rows, self.follow)

    def row(self, epoch: int, number: int) -> PretrainRow:
        """Return one example."""
        draw = generator(Purpose.PAIR, self.seed, epoch, number)
        ids, marks = self._text(number)
        cut = 0
        if self.follow:
            cut = self._cut(marks, draw)
        if not cut:
            return self._finish([(ids, marks)], NOT_ASKED, draw)

        second = (ids[cut:], marks[cut:])
        random_next = self.random_next(epoch, number)
        if random_next:
            second = self._draw_next(number, cut, draw)
        return self._finish([(ids[:cut], marks[:cut]), second], random_next, draw)

    def random_next(self, epoch: int, number: int) -> int:
        """Return 1 if the second text is to be a random next, and 0 if the true one.

        For one example of two neighbours it is, for the other not.
        """
        coin = seeds.number(Purpose.RANDOM_NEXT, self.seed, epoch, number // 2)
        return (coin ^ number) & 1

    def _text(self, number: int, more: int = 0) -> tuple[Numbers, Marks]:
        """Return a passage, and so many tokens more."""
        shard = self.shards.shards[self.where.shard[number]]
        start = int(self.where.start[number])
        stop = start + int(self.where.size[number]) + more
        return shard.ids[start:stop].astype(np.int64), np.asarray(shard.marks[start:stop])

    def _cut(self, marks: Marks, draw: np.random.Generator) -> int:
        """Return where the second text begins.

        That is at a sentence, or in a passage of one sentence at a word; 0 if there is neither.
        """
        for mark in (SENTENCE, WORD):
            places = 1 + np.flatnonzero(marks[1:] & mark)
            if len(places):
                return int(places[draw.integers(len(places))])
        return 0

    def _draw_next(self, number: int, cut: int, draw: np.random.Generator) -> tuple[Numbers, Marks]:
        """Draw a text from another document, about as long as the one from `cut` on.

        It begins and ends as that one does, at a sentence or else at a word: otherwise its ends
        alone would tell it from a true next.
        """
        wanted = int(self.where.size[number]) - cut
        most = self.room - cut
        alike = self._ends_of_next(number, cut)
        for begin_mark, end_mark in (*[alike] * TRIES, (WORD, WORD)):
            other = self._draw_other(number, draw)
            # Its text may run on into the next passages, but not out of its document.
            ids, marks = self._text(other, more=self.room)
            documents = 1 + np.flatnonzero(marks[1:] & DOCUMENT)
            closed = int(np.append(documents, len(marks))[0])

            begins = np.flatnonzero(marks[: self.where.size[other]] & begin_mark)
            ends = 1 + np.flatnonzero(marks[1:closed] & end_mark)
            ends = np.append(ends, closed)
            first_end = ends[np.searchsorted(ends, begins, side="right")]
            begins = begins[first_end - begins <= most]
            if len(begins):
                begin = int(begins[draw.integers(len(begins))])
                ends = ends[(ends > begin) & (ends <= begin + most)]
                nearest = np.abs(ends - begin - wanted).argmin()
                stop = int(ends[nearest])
                return ids[begin:stop], marks[begin:stop]

        stop = min(closed, most)  # of a word longer than fits
        return ids[:stop], marks[:stop]

    def _ends_of_next(self, number: int, cut: int) -> tuple[int, int]:
        """Return what the text from `cut` on begins with, and what begins after it."""
        marks = self.shards.shards[self.where.shard[number]].marks
        start = int(self.where.start[number])
        stop = start + int(self.where.size[number])
        begin_mark = SENTENCE if marks[start + cut] & SENTENCE else WORD
        end_mark = WORD
        if stop == len(marks) or marks[stop] & SENTENCE:
            end_mark = SENTENCE
        return begin_mark, end_mark

    def _draw_other(self, number: int, draw: np.random.Generator) -> int:
        """Draw a passage of another document."""
        documents = self.where.document
        own = documents[number]
        first, last = np.searchsorted(documents, [own, own + 1])
        own_passages = int(last - first)
        other = int(draw.integers(len(documents) - own_passages))
        if other >= first:
            other += own_passages
        return other

    def _finish(
        self, parts: list[tuple[Numbers, Marks]], random_next: int, draw: np.random.Generator
    ) -> PretrainRow:
        """Put special tokens around the texts, and mask words of both."""
        ids = [np.array([self.cls])]
        starts = [np.array([True])]
        segments = [np.array([0])]
        for segment, (text, marks) in enumerate(parts):
            ids += [text, np.array([self.sep])]
            starts += [(marks & WORD) > 0, np.array([True])]
            segments.append(np.full(len(text) + 1, segment))
        masked = self.masker.hide(np.concatenate(ids), np.concatenate(starts), draw)
        return PretrainRow(
            masked.ids,
            np.concatenate(segments),
            masked.places,
            masked.words,
            random_next,
        )

    def describe(self, number: int) -> str:
        """Return an example's number and how its text begins."""
        ids, _ = self._text(number)
        return f"{number} ({self.tokenizer.decode(ids[:12].tolist())!r} ...)"


def stack(rows: list[PretrainRow], follow: bool) -> Batch:
    """Lay rows one after another, longest first, with what to predict.

    That is masked words and, if `follow`, which second texts are random.
    """
    rows = sorted(rows, key=len, reverse=True)
    places = []
    start = 0
    for row in rows:
        places.append(row.places + start)
        start += len(row)
    targets = {
        "places": np.concatenate(places),
        "words": np.concatenate([row.words for row in rows]),
    }
    if follow:
        targets["random_next"] = np.array([row.random_next for row in rows])
    return make_batch(rows, targets=targets)


def split_dev(where: Passages, shards: Shards | None = None) -> tuple[Passages, Passages]:
    """Hold out the last documents, at least one; of a single document its last passages.

    Nothing of a single document is held out where no shards are given.
    """
    if not several(where):
        if shards is None or not len(where.size):
            return where, where.part(slice(0, 0))
        return _split_document(where, shards)
    documents = where.document
    total = np.cumsum(where.size)
    at = int(np.searchsorted(total, total[-1] * (1 - dev_share(total[-1]))))
    at = min(at, len(documents) - 1)
    first = max(int(documents[at]), int(documents[0]) + 1)
    return _part_at(where, int(np.searchsorted(documents, first)))


def dev_share(tokens: int) -> float:
    """Return the share of a text of so many tokens that is held out."""
    return max(DEV_SHARE, min(DEV_MOST, DEV_LEAST / tokens))


def _part_at(where: Passages, cut: int) -> tuple[Passages, Passages]:
    return where.part(slice(cut)), where.part(slice(cut, None))


def _split_document(where: Passages, shards: Shards) -> tuple[Passages, Passages]:
    """Hold out the last passages of a document; of a single passage its last sentences.

    Nothing is held out of a single sentence.
    """
    total = int(where.size.sum())
    wanted = total * (1 - dev_share(total))
    if len(where.size) == 1:
        start = int(where.start[0])
        marks = np.asarray(shards.shards[where.shard[0]].marks[start : start + total])
        sentences = 1 + np.flatnonzero(marks[1:] & SENTENCE)
        if not len(sentences):
            return where, where.part(slice(0, 0))
        before = int(np.searchsorted(sentences, wanted, side="right")) - 1
        first = int(sentences[max(0, before)])
        where = Passages(
            where.shard.repeat(2),
            np.array([start, start + first], where.start.dtype),
            np.array([first, total - first], where.size.dtype),
            where.document.repeat(2),
        )
    cut = int(np.searchsorted(np.cumsum(where.size), wanted))
    return _part_at(where, min(max(cut, 1), len(where.size) - 1))


def several(where: Passages) -> bool:
    """Say whether there is more than one document, so that a random next can be found."""
    return len(where.document) > 0 and bool(where.document[0] != where.document[-1])


def frequency(pairs: Pairs) -> Numbers:
    """Count how often each ordinary piece stands in the text of some examples."""
    where = pairs.where
    ordinary = pairs.masker.is_ordinary
    counts = np.zeros(len(ordinary), np.int64)
    for number in np.unique(where.shard):
        own = where.shard == number
        starts = where.start[own]
        stop = starts[-1] + where.size[own][-1]
        ids = pairs.shards.shards[number].ids[starts[0] : stop]
        counts += np.bincount(ids, minlength=len(counts))
    return np.where(ordinary, counts, 0)
