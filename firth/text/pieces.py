"""Pieces as words: which of a vocabulary are whole words, and of which a word is made."""

import re
from collections.abc import Sequence

from firth.text.repair import REPLACEMENT
from firth.text.tokenizer import Tokenizer

INSIDE = "##"  # begins a piece of WordPiece that goes on with a word
BLANK = {"bytes": "Ġ", "bpe": "▁", "unigram": "▁"}  # how other kinds write the blank before a word
UNUSED = re.compile(r"\[unused\d+\]")  # rows that BERT's authors left free


def whole_words(tokenizer: Tokenizer) -> dict[int, str]:
    """Return the pieces that are whole words, by their ids in order, as a person writes them."""
    found = {}
    for number in range(tokenizer.size):
        piece = tokenizer.piece(number)
        if not piece or number in tokenizer.special:
            continue
        if tokenizer.kind == "wordpiece":
            is_whole = not piece.startswith(INSIDE) and not UNUSED.fullmatch(piece)
        else:
            is_whole = piece.startswith(BLANK.get(tokenizer.kind, ""))
        word = written_piece(tokenizer, number) if is_whole else ""
        if word and REPLACEMENT not in word:
            found[number] = word
    return found


def written_piece(tokenizer: Tokenizer, number: int) -> str:
    """Return a piece as a person writes it, without the blank before a word."""
    piece = tokenizer.piece(number)
    if tokenizer.kind == "bytes":
        return tokenizer.decode([number], special=True).strip()
    if tokenizer.kind in BLANK:
        return piece.removeprefix(BLANK[tokenizer.kind])
    return piece


def word_ids(tokenizer: Tokenizer, word: str) -> tuple[int, ...]:
    """Return the ids of a word's pieces as inside a text; none if the vocabulary lacks one."""
    if tokenizer.kind == "words":
        # A word with a blank inside, as GloVe's `. . .`, is found only whole.
        for spelled in (word, tokenizer.normalise(word)):
            number = tokenizer.id(spelled)
            if number is not None and number not in tokenizer.special:
                return (number,)
    text = f" {word}" if tokenizer.kind == "bytes" else word
    (encoding,) = tokenizer.encode([text], special=False)
    if tokenizer.special.intersection(encoding.ids):
        return ()
    return tuple(encoding.ids)


def word_runs(words: Sequence[int | None]) -> list[list[int]]:
    """Return where the pieces of each word stand, given the word that each piece belongs to.

    A piece without a word is one by itself.
    """
    runs: list[list[int]] = []
    for place, word in enumerate(words):
        # A word's pieces stand next to each other.
        if place and word is not None and word == words[place - 1]:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs
