"""The question that every model can be asked: which word is hidden here? One whole word a passage, always the same ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.base.seeds import Purpose, generator
from firth.corpus.mask import Masker, Numbers
from firth.corpus.pairs import NOT_ASKED, Passages, Row, stack
from firth.corpus.shards import WORD, Shards
from firth.data.batch import Batch
from firth.text.tokenizer import Tokenizer


class Cloze:
    """A feed with one word of one piece hidden in each of `count` passages, drawn from (seed, passage) alone."""

    def __init__(
        self,
        shards: Shards,
        where: Passages,
        tokenizer: Tokenizer,
        seed: int,
        count: int,
        letters: int = 1,
    ) -> None:
        self.shards, self.where, self.tokenizer = shards, where, tokenizer
        self.masker = Masker(tokenizer)
        # What counts as a word: a piece that begins one, with nothing but letters.
        pieces = [tokenizer.piece(number) for number in range(tokenizer.size)]
        self.worth = (
            np.array([piece.isalpha() and len(piece) >= letters for piece in pieces])
            & self.masker.is_ordinary
        )
        self.rows = self._draw(seed, count)
        self.sizes: NDArray[Any] = np.array([len(row) for row in self.rows])

    def _draw(self, seed: int, count: int) -> list[Row]:
        rows = []
        for number in generator(Purpose.CLOZE, seed).permutation(len(self.where.size)):
            row = self._row(seed, int(number))
            rows += [row] if row else []
            if len(rows) == count:
                return rows
        raise InputError(f"the text has only {len(rows)} passages with a word to hide, not {count}")

    def _row(self, seed: int, number: int) -> Row | None:
        shard, start = self.shards.shards[self.where.shard[number]], int(self.where.start[number])
        stop = start + int(self.where.size[number])
        ids, marks = (
            shard.ids[start:stop].astype(np.int64),
            np.append(shard.marks[start:stop], WORD),
        )
        whole = (marks[:-1] & WORD > 0) & (marks[1:] & WORD > 0)
        places = np.flatnonzero(whole & self.worth[ids])
        if not len(places):
            return None
        place = int(places[generator(Purpose.CLOZE, seed, number).integers(len(places))])
        shown = np.array([self.tokenizer.cls, *ids, self.tokenizer.sep])
        shown[place + 1] = self.masker.mask
        return Row(
            shown, np.zeros_like(shown), np.array([place + 1]), ids[place : place + 1], NOT_ASKED
        )

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Some of the questions; they are the same in every epoch."""
        return stack([self.rows[number] for number in numbers], follow=False)

    def describe(self, number: int) -> str:
        """The hidden word."""
        return self.tokenizer.piece(int(self.rows[number].words[0]))
