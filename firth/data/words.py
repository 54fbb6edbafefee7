"""The words of a text as a tokenizer sees them, and spans that are not made of them."""

from typing import NamedTuple

from firth.data.examples import Tagged
from firth.text.tokenizer import Encoding


class Word(NamedTuple):
    """A word as the tokenizer sees it: its first token, and its characters."""

    token: int
    start: int
    end: int


def words(encoding: Encoding) -> list[Word]:
    """The words of a text; pieces of one word follow one another."""
    found: list[Word] = []
    before: int | None = None
    for token, (number, (start, end)) in enumerate(
        zip(encoding.words, encoding.offsets, strict=True)
    ):
        if number is None:
            before = None
        elif number == before:
            found[-1] = found[-1]._replace(end=max(end, found[-1].end))
        else:
            found.append(Word(token, start, end))
            before = number
    return found


def torn(example: Tagged, encoding: Encoding) -> int:
    """How many spans of a text begin or end inside a word: only whole words are learned, found and scored."""
    if not example.spans:
        return 0
    inner = {place for word in words(encoding) for place in range(word.start + 1, word.end)}
    return sum(span.start in inner or span.end in inner for span in example.spans)
