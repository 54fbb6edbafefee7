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
SHOWN = 12  # tokens that tell an example
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
    shard = []
    start = []
    size = []
    document = []
    number = -1
    for index, (_, marks) in enumerate(shards.shards):
        count = len(marks)
        sentences = np.flatnonzero(np.asarray(marks) & SENTENCE)
        edges = np.append(sentences, count)
        sentence_marks = np.asarray(marks[sentences])
        opens_document = (sentence_marks & DOCUMENT) > 0
        ends = np.append(sentences[opens_document], count)

        at = 0
        for end in ends[ends > 0]:  # a shard may begin inside a document
            if marks[at] & DOCUMENT:
                number += 1
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


def _stop(at: int, end: int, room: int, edges: Numbers, marks: Marks) -> int:
    """Return where the passage that begins at `at` ends.

    That is after the last sentence that fits, or else the last word, or else where the room ends.
    """
    full = at + room
    if end <= full:
        return end

    last_sentence = np.searchsorted(edges, full, side="right") - 1
    stop = int(edges[last_sentence])
    if stop > at:
        return stop

    # A word that begins where the room ends fits no more, and is where the next passage begins.
    words = np.flatnonzero(marks[at + 1 : full + 1] & WORD)
    if not len(words):
        return full
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
        size = int(self.where.size[number])
        text = slice(start, start + size + more)
        ids = shard.ids[text].astype(np.int64)
        marks = np.asarray(shard.marks[text])
        return ids, marks

    def _cut(self, marks: Marks, draw: np.random.Generator) -> int:
        """Return where the second text begins.

        That is at a sentence, or in a passage of one sentence at a word; 0 if there is neither.
        """
        for mark in (SENTENCE, WORD):
            places = _marked(marks, mark)
            if len(places):
                return _choose(places, draw)
        return 0

    def _draw_next(self, number: int, cut: int, draw: np.random.Generator) -> tuple[Numbers, Marks]:
        """Draw a text from another document, about as long as the one from `cut` on.

        It begins and ends as that one does, at a sentence or else at a word: otherwise its ends
        alone would tell it from a true next.
        """
        wanted = int(self.where.size[number]) - cut
        most = self.room - cut
        alike = self._ends_of_next(number, cut)
        # In the end any words will do: a row must be found.
        attempts = [alike] * TRIES
        attempts.append((WORD, WORD))
        for begin_mark, end_mark in attempts:
            other = self._draw_other(number, draw)
            # Its text may run on into the next passages, but not out of its document.
            ids, marks = self._text(other, more=self.room)
            documents = _marked(marks, DOCUMENT)
            closed = len(marks)
            if len(documents):
                closed = int(documents[0])

            own_marks = marks[: self.where.size[other]]
            begins = np.flatnonzero(own_marks & begin_mark)
            inner_ends = _marked(marks[:closed], end_mark)
            ends = np.append(inner_ends, closed)

            # Only where the text up to the next end fits.
            next_end = np.searchsorted(ends, begins, side="right")
            shortest = ends[next_end] - begins
            begins = begins[shortest <= most]
            if not len(begins):
                continue
            begin = _choose(begins, draw)
            sizes = ends - begin
            sizes = sizes[(sizes > 0) & (sizes <= most)]
            nearest = np.abs(sizes - wanted).argmin()
            stop = begin + int(sizes[nearest])
            return ids[begin:stop], marks[begin:stop]

        stop = min(closed, most)  # of a word longer than fits
        return ids[:stop], marks[:stop]

    def _ends_of_next(self, number: int, cut: int) -> tuple[int, int]:
        """Return what the text from `cut` on begins with, and what begins after it."""
        marks = self.shards.shards[self.where.shard[number]].marks
        start = int(self.where.start[number])
        stop = start + int(self.where.size[number])
        begin_mark = WORD
        if marks[start + cut] & SENTENCE:
            begin_mark = SENTENCE
        end_mark = WORD
        if stop == len(marks) or marks[stop] & SENTENCE:
            end_mark = SENTENCE
        return begin_mark, end_mark

    def _draw_other(self, number: int, draw: np.random.Generator) -> int:
        """Draw a passage of another document."""
        documents = self.where.document
        own = documents[number]
        first, stop = np.searchsorted(documents, [own, own + 1])
        own_passages = int(stop - first)
        others = len(documents) - own_passages
        other = int(draw.integers(others))
        # A number among the others: those after the own document stand so many places further.
        if other >= first:
            other += own_passages
        return other

    def _finish(
        self, parts: list[tuple[Numbers, Marks]], random_next: int, draw: np.random.Generator
    ) -> PretrainRow:
        """Put special tokens around the texts, and mask words of both."""
        cls = np.array([self.cls])
        sep = np.array([self.sep])
        opens_word = np.array([True])  # a special token is a word of its own
        ids = [cls]
        starts = [opens_word]
        segments = [np.array([0])]
        for segment, (text, marks) in enumerate(parts):
            ids += [text, sep]
            starts += [(marks & WORD) > 0, opens_word]
            segments.append(np.full(len(text) + 1, segment))
        all_ids = np.concatenate(ids)
        masked = self.masker.hide(all_ids, np.concatenate(starts), draw)
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
        opening = self.tokenizer.decode(ids[:SHOWN].tolist())
        return f"{number} ({opening!r} ...)"


def _marked(marks: Marks, mark: int) -> Numbers:
    """Return the places that bear a mark, but for the first: no text is cut at its beginning."""
    return 1 + np.flatnonzero(marks[1:] & mark)


def _choose(places: Numbers, draw: np.random.Generator) -> int:
    """Draw one of some places."""
    chosen = draw.integers(len(places))
    return int(places[chosen])


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
    words = [row.words for row in rows]
    targets = {
        "places": np.concatenate(places),
        "words": np.concatenate(words),
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
    read = np.cumsum(where.size)  # tokens up to the end of each passage
    tokens = read[-1]
    kept = tokens * (1 - dev_share(tokens))
    at = int(np.searchsorted(read, kept))
    at = min(at, len(documents) - 1)

    # The document in which the split falls is held out whole, unless it is the first.
    second = int(documents[0]) + 1
    first = max(int(documents[at]), second)
    cut = int(np.searchsorted(documents, first))
    return _part_at(where, cut)


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
    kept = total * (1 - dev_share(total))
    if len(where.size) == 1:
        start = int(where.start[0])
        shard = shards.shards[where.shard[0]]
        marks = np.asarray(shard.marks[start : start + total])
        sentences = _marked(marks, SENTENCE)
        if not len(sentences):
            return where, where.part(slice(0, 0))
        before = int(np.searchsorted(sentences, kept, side="right")) - 1
        first = int(sentences[max(0, before)])
        where = Passages(
            where.shard.repeat(2),
            np.array([start, start + first], where.start.dtype),
            np.array([first, total - first], where.size.dtype),
            where.document.repeat(2),
        )

    # Neither part may be empty.
    cut = int(np.searchsorted(np.cumsum(where.size), kept))
    last = len(where.size) - 1
    cut = min(max(cut, 1), last)
    return _part_at(where, cut)


def several(where: Passages) -> bool:
    """Say whether there is more than one document, so that a random next can be found."""
    documents = where.document
    if not len(documents):
        return False
    return bool(documents[0] != documents[-1])


def frequency(pairs: Pairs) -> Numbers:
    """Count how often each ordinary piece stands in the text of some examples."""
    where = pairs.where
    ordinary = pairs.masker.is_ordinary
    counts = np.zeros(len(ordinary), np.int64)
    for number in np.unique(where.shard):
        own = where.shard == number
        starts = where.start[own]
        sizes = where.size[own]
        stop = starts[-1] + sizes[-1]
        shard = pairs.shards.shards[number]
        ids = shard.ids[starts[0] : stop]  # passages of a shard stand one after another
        counts += np.bincount(ids, minlength=len(counts))
    return np.where(ordinary, counts, 0)
