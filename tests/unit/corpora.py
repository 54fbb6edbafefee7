"""Real text for the tests of pretraining's data: what every Python installation carries."""

import pydoc_data.topics
from functools import cache
from pathlib import Path
from typing import NamedTuple

from firth.corpus.mask import Masker
from firth.corpus.pairs import SPECIAL, Pairs, Passages, passages
from firth.corpus.shards import Shards, open_shards
from firth.text.tokenizer import Tokenizer


@cache
def topics() -> str:
    """The standard library's own documentation: a topic is a document, a paragraph a line."""
    pages = (
        [" ".join(part.split()) for part in page.split("\n\n")]
        for page in pydoc_data.topics.topics.values()
    )
    return "\n\n".join("\n".join(line for line in page if line) for page in pages)


@cache
def vocabulary(kind: str = "wordpiece", size: int = 4000) -> Tokenizer:
    """A vocabulary of that text."""
    return Tokenizer.train(topics().split("\n"), kind, size)


class Made(NamedTuple):
    """A corpus on disk, encoded."""

    shards: Shards
    where: Passages
    tokenizer: Tokenizer
    room: int

    def pairs(self, seed: int = 1, whole: bool = False, follow: bool = True) -> Pairs:
        """The examples of it."""
        return Pairs(
            self.shards,
            self.where,
            self.tokenizer,
            self.room,
            seed,
            Masker(self.tokenizer, whole),
            follow,
        )


def make(folder: Path, text: str, tokenizer: Tokenizer, length: int = 128) -> Made:
    """Encode a text."""
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    shards = open_shards(folder / "shards", [path], tokenizer)
    return Made(shards, passages(shards, length - SPECIAL), tokenizer, length - SPECIAL)
