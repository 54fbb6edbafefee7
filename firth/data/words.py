"""The words of a text as a tokenizer sees them, and spans that are not made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firth.data.examples import Tagged

if TYPE_CHECKING:
    from firth.text.tokenizer import Encoding


class Word(NamedTuple):
    """A word as the tokenizer sees it: its first token, and its characters."""

    token: int
    start: int
    end: int


def words(encoding: Encoding) -> list[Word]:
    """Return the words of a text; pieces of one word follow one another."""
    found: list[Word] = []
    before: int | None = None
    for token, number in enumerate(encoding.words):
        start, end = encoding.offsets[token]
        if number is not None and number == before:
            last = found[-1]
            found[-1] = last._replace(end=max(end, last.end))
        elif number is not None:
            found.append(Word(token, start, end))
        before = number
    return found


def misaligned_spans(example: Tagged, encoding: Encoding) -> int:
    """Count the spans that begin or end inside a word: only whole words are learned and found."""
    if not example.spans:
        return 0
    inner = {place for word in words(encoding) for place in range(word.start + 1, word.end)}
    return sum(span.start in inner or span.end in inner for span in example.spans)
