"""Where chosen words stand in texts, by the rules of a tokenizer: its case, accents and words."""

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from firth.base.errors import InputError
from firth.text.pieces import word_ids, word_runs, written_piece
from firth.text.tokenizer import Encoding, Tokenizer

KEPT = 1 << 16  # spellings: most words of a text are met again


class Occurrence(NamedTuple):
    """A place in a text where a word stands."""

    word: int  # its number among those that are looked for
    start: int
    end: int


class WordFinder:
    """Finds words in encoded texts.

    A word is compared as the vocabulary spells it, so that `Bank` is `bank` where the tokenizer
    lowers case. Several words in a row (`New York`) are found as one.
    """

    def __init__(self, tokenizer: Tokenizer, words: Sequence[str]) -> None:
        self.tokenizer = tokenizer
        self.words = tuple(words)
        self._spelled = lru_cache(KEPT)(self._spell)
        # By how many words of the tokenizer they are, the numbers of the words by their spelling.
        self._wanted: dict[int, dict[str, int]] = defaultdict(dict)
        for number, word in enumerate(self.words):
            (encoding,) = tokenizer.encode([word], special=False)
            runs = word_runs(encoding.words)
            spelling = self._spelled(word.strip())
            if not runs or not spelling:
                raise InputError(f"this model's tokenizer finds no word in {word!r}")
            twin = self._wanted[len(runs)].setdefault(spelling, number)
            if twin != number:
                both = f"{self.words[twin]!r} and {word!r}"
                raise InputError(f"{both} are one word to this model's tokenizer: name it once")

    @property
    def keeps_case(self) -> bool:
        """Tell whether `Bank` and `bank` are two words."""
        return self._spelled("A") != self._spelled("a")

    def ids(self, number: int) -> tuple[int, ...]:
        """Return the ids of the pieces that a word is read in, unknown ones too."""
        word = self.words[number]
        (encoding,) = self.tokenizer.encode([word], special=False)
        return word_ids(self.tokenizer, word) or tuple(encoding.ids)

    def pieces(self, number: int) -> tuple[str, ...]:
        """Return the pieces that a word is read in."""
        return tuple(written_piece(self.tokenizer, one) for one in self.ids(number))

    def find(self, text: str, encoding: Encoding) -> list[Occurrence]:
        """Return every place of every word in a text."""
        places = [place for place, part in enumerate(encoding.parts) if part is not None]
        words = [encoding.words[place] for place in places]
        runs = [[encoding.offsets[places[at]] for at in run] for run in word_runs(words)]
        found = []
        for count, wanted in self._wanted.items():
            for first in range(len(runs) - count + 1):
                place = self._match(text, runs[first], runs[first + count - 1], wanted)
                if place is not None:
                    found.append(place)
        return sorted(found, key=lambda one: (one.start, one.end))

    def _match(
        self,
        text: str,
        first: list[tuple[int, int]],
        last: list[tuple[int, int]],
        wanted: dict[str, int],
    ) -> Occurrence | None:
        """Return which word stands from the first to the last run of pieces, if one does."""
        start, end = first[0][0], last[-1][1]
        number = wanted.get(self._spelled(text[start:end]))
        if number is None and not (text[start].isalnum() and text[end - 1].isalnum()):
            # Some tokenizers leave the quote before a word, or the comma behind it, in the word.
            starts = [begin for begin, stop in first if _is_written(text[begin:stop])]
            ends = [stop for begin, stop in last if _is_written(text[begin:stop])]
            if not starts or not ends:
                return None
            start, end = starts[0], ends[-1]
            number = wanted.get(self._spelled(text[start:end]))
        return None if number is None else Occurrence(number, start, end)

    def _spell(self, text: str) -> str:
        """Return a text as the vocabulary spells it, with single blanks."""
        return " ".join(self.tokenizer.normalise(text).split())


def _is_written(piece: str) -> bool:
    """Tell a piece with letters or digits from one of punctuation alone."""
    return any(map(str.isalnum, piece))
