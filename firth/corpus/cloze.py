"""The question that every model can be asked: which word is masked here?

One whole word a passage, always the same ones.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.base.seeds import Purpose, generator
from firth.corpus.mask import Masker, Numbers
from firth.corpus.pairs import NOT_ASKED, Passages, PretrainRow, stack
from firth.corpus.shards import WORD, Shards
from firth.data.batch import Batch
from firth.text.tokenizer import Tokenizer


class Cloze:
    """A feed with one word of one piece masked in each of `count` passages.

    Passages are drawn from the seed, the word from (seed, passage) alone.
    """

    def __init__(
        self,
        shards: Shards,
        where: Passages,
        tokenizer: Tokenizer,
        seed: int,
        count: int,
        letters: int = 1,
    ) -> None:
        self.shards = shards
        self.where = where
        self.tokenizer = tokenizer
        self.masker = Masker(tokenizer)
        # What counts as a word: a piece that begins one, with nothing but letters.
        pieces = [tokenizer.piece(number) for number in range(tokenizer.size)]
        letters_only = [piece.isalpha() and len(piece) >= letters for piece in pieces]
        self.is_word = np.array(letters_only) & self.masker.is_ordinary
        self.rows = self._draw(seed, count)
        self.sizes: NDArray[Any] = np.array([len(row) for row in self.rows])

    def _draw(self, seed: int, count: int) -> list[PretrainRow]:
        rows: list[PretrainRow] = []
        for number in generator(Purpose.CLOZE, seed).permutation(len(self.where.size)):
            row = self._row(seed, int(number))
            if row is not None:
                rows.append(row)
            if len(rows) == count:
                return rows
        raise InputError(f"the text has only {len(rows)} passages with a word to hide, not {count}")

    def _row(self, seed: int, number: int) -> PretrainRow | None:
        """Mask one word of a passage; None where it has none of one piece."""
        shard = self.shards.shards[self.where.shard[number]]
        start = int(self.where.start[number])
        stop = start + int(self.where.size[number])
        ids = shard.ids[start:stop].astype(np.int64)

        # The end of the passage counts as the beginning of a word: so its last word has an end.
        marks = np.append(shard.marks[start:stop], WORD)
        begins_word = marks & WORD > 0
        one_piece = begins_word[:-1] & begins_word[1:]
        places = np.flatnonzero(one_piece & self.is_word[ids])
        if not len(places):
            return None

        draw = generator(Purpose.CLOZE, seed, number)
        chosen = draw.integers(len(places))
        at = int(places[chosen])
        word = ids[at : at + 1]
        shown = np.array([self.tokenizer.cls, *ids, self.tokenizer.sep])
        place = np.array([at + 1])  # [CLS] stands before it
        shown[place] = self.masker.mask
        segments = np.zeros_like(shown)
        return PretrainRow(shown, segments, place, word, NOT_ASKED)

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Return some of the questions; they are the same in every epoch."""
        rows = [self.rows[number] for number in numbers]
        return stack(rows, follow=False)

    def describe(self, number: int) -> str:
        """Return the masked word."""
        (word,) = self.rows[number].words
        return self.tokenizer.piece(int(word))
