"""A new model that fine-tuning begins with: its vocabulary, its words' vectors, its weights.

V vocabulary, D width of a word's vector.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from firth.base.errors import InputError
from firth.base.notes import note, progress_line
from firth.data.examples import Example
from firth.families.family import Family
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.models.protocols import Encoder
from firth.recipes.settings import FinetuneSettings
from firth.text.tokenizer import Tokenizer
from firth.text.vocabulary import LEAST, MOST_COMMAS, comma_share

MOST_PIECES = 30_000
OFTEN = 2  # times that a word occurs which gets a vector
ENCODED_AT_ONCE = 1024


class NewModel(NamedTuple):
    """What a new model is made of, but for the weights that are drawn."""

    family: Family
    settings: Any
    tokenizer: Tokenizer
    vectors: Tensor | None  # (V, D)

    def make(self) -> Bundle:
        """Return the model with new weights."""
        encoder: Encoder = self.family.network(self.settings)
        if self.vectors is not None:
            encoder.take_vectors(self.vectors)
        return Bundle(encoder, self.tokenizer, self.family.model_type)


def plan_model(s: FinetuneSettings, examples: Sequence[Example], quiet: bool) -> NewModel:
    """Decide on a new model by the settings and by the texts that it is to learn from."""
    family = s.new_family
    assert family is not None
    assert family.new_size is not None
    sizes: dict[str, Any] = {}
    vectors = None
    if s.vectors:
        source = load(s.vectors)
        tokenizer = source.tokenizer
        vectors = source.encoder.table.detach()[: tokenizer.size]
        sizes[family.vectors] = vectors.shape[1]
    elif s.vocab:
        tokenizer = Tokenizer.open(Path(s.vocab))
    else:
        tokenizer = _learn(family, examples)
    if not quiet:
        _say(s, tokenizer, examples)

    # A vocabulary without a start mark gets one beyond its words.
    start = tokenizer.size if tokenizer.cls is None else tokenizer.cls
    settings = family.settings_for(
        family.new_size,
        s.model_settings,
        vocab=tokenizer.size,
        start=start,
        end=None,
        output="none",
        cell=s.cell,
        bidirectional=s.bidirectional,
        **sizes,
    )
    return NewModel(family, settings, tokenizer, vectors)


def _texts(examples: Sequence[Example]) -> Iterator[str]:
    for example in examples:
        yield from example.texts


def _learn(family: Family, examples: Sequence[Example]) -> Tokenizer:
    """Learn a vocabulary from the examples; of words, those that occur more than once.

    A word that occurs once says little of others, and what stands for unknown words has to be
    trained on some.
    """
    kind = family.vocabulary
    texts = list(_texts(examples))
    if not any(text.strip() for text in texts):
        raise InputError("there is no text to learn a vocabulary from")
    if kind != "words":
        return Tokenizer.train(texts, kind, MOST_PIECES)
    apart = "spaces" if comma_share(texts) < MOST_COMMAS else "punctuation"
    every = Tokenizer.train(texts, kind, MOST_PIECES, split=apart)  # type: ignore[arg-type]

    counts = np.zeros(every.size, np.int64)
    for ids in _encoded(every, texts):
        counts += np.bincount(ids, minlength=every.size)
    special = LEAST[kind] - 1
    often = int((counts[special:] >= OFTEN).sum())
    if not often:
        return every
    return Tokenizer.train(texts, kind, special + often, split=apart)  # type: ignore[arg-type]


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the ids of some texts at a time, without special tokens."""
    for start in range(0, len(texts), ENCODED_AT_ONCE):
        part = tokenizer.encode(texts[start : start + ENCODED_AT_ONCE], special=False)
        yield [number for encoding in part for number in encoding.ids]


def _say(s: FinetuneSettings, tokenizer: Tokenizer, examples: Sequence[Example]) -> None:
    """Say where the vocabulary is from, and how much of the texts it doesn't know."""
    if Path(s.model).is_dir():
        note(f"{s.model} is a new model here; ./{s.model} names the folder")
    source = s.vectors or s.vocab or "the training texts"
    unknown = total = 0
    for ids in _encoded(tokenizer, list(_texts(examples))):
        total += len(ids)
        unknown += ids.count(-1 if tokenizer.unk is None else tokenizer.unk)
    share = unknown / max(1, total)
    progress_line(
        f"a new {s.model} with the vocabulary of {source}: {tokenizer.size:,} pieces; "
        f"{share:.1%} of the pieces to learn from are unknown to it"
    )
