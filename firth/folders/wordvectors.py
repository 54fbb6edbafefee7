"""Open a file of word vectors as a bundle, with a tokenizer of its words.

V vocabulary, D width.
"""

from pathlib import Path
from typing import NamedTuple

import torch

from firth.families.published import FAMILY
from firth.families.vectors import VectorSettings
from firth.folders.bundle import Bundle
from firth.folders.google import CASED_SHARE, Case
from firth.models.protocols import Encoder
from firth.reading.wordvectors import Form, read_word_vectors
from firth.text.tokenizer import Tokenizer
from firth.text.vocabulary import MOST_COMMAS, PLAIN_NAMES, Split, list_words


class VectorModel(NamedTuple):
    """A file of word vectors that was opened as a bundle, and what was decided on the way."""

    bundle: Bundle
    form: Form
    words: int
    repeated: int  # words that came again, of which the first vector is kept
    replaced: int  # words with bytes that are not UTF-8, which were replaced
    case: Case
    capitals: int  # words with a capital letter
    split: Split


def open_word_vectors(path: Path, case: Case | None = None) -> VectorModel:
    """Open a file; the words tell how a text is to be split into such."""
    read = read_word_vectors(path)
    words = read.words
    capitals = sum(word != word.lower() for word in words)
    if case is None:
        case = "keep" if capitals > CASED_SHARE * len(words) else "lower"
    # Where the text was split at white space alone, words have kept their commas.
    commas = sum(word.endswith(",") and len(word) > 1 for word in words)
    split: Split = "spaces" if commas > MOST_COMMAS * len(words) else "punctuation"
    backend = list_words(words, case == "lower", split)
    tokenizer = Tokenizer(backend, str(path), dict(PLAIN_NAMES))

    settings = VectorSettings(vocab=tokenizer.size, width=read.width)
    with torch.device("meta"):
        model: Encoder = FAMILY.network(settings)
    table = torch.zeros(tokenizer.size, read.width)  # (V, D)
    table[: len(words)] = torch.from_numpy(read.rows)
    model.replace_table(table, trainable=False)
    bundle = Bundle(model.eval(), tokenizer, FAMILY.model_type)
    return VectorModel(
        bundle, read.form, len(words), read.repeated, read.replaced, case, capitals, split
    )
