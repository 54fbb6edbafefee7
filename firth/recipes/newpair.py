"""A new encoder-decoder that fine-tuning begins with: its vocabularies and its weights."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from firth.base.errors import InputError
from firth.base.notes import note, progress_line
from firth.data.examples import Example
from firth.families.family import Family, Vocabulary
from firth.families.layout import TRANSLATOR
from firth.folders.bundle import Bundle
from firth.recipes.settings import FinetuneSettings
from firth.text.tokenizer import Tokenizer
from firth.text.vocabulary import MOST_COMMAS, Split, comma_share

KIND: Vocabulary = "bytes"  # of a vocabulary, where nobody says otherwise
MOST_WORDS = 30_000  # of a vocabulary of words
# Pieces of a vocabulary: one for so many words of text, within limits.
WORDS_A_PIECE, LEAST_PIECES, MOST_PIECES = 80, 500, 8_000


class NewPairModel(NamedTuple):
    """What a new encoder-decoder is made of, but for the weights that are drawn."""

    family: Family
    settings: Any
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None  # where targets have one of their own

    def make(self) -> Bundle:
        """Return the model with new weights."""
        return Bundle(
            self.family.network(self.settings),
            self.tokenizer,
            self.family.model_type,
            TRANSLATOR,
            target_tokenizer=self.target_tokenizer,
        )


def plan_pair_model(s: FinetuneSettings, examples: Sequence[Example], quiet: bool) -> NewPairModel:
    """Decide on a new model by the settings and by the pairs that it is to learn from."""
    family = s.new_family
    assert family is not None
    assert family.new_size is not None
    target_tokenizer = None
    if s.vocab:
        tokenizer = Tokenizer.open(Path(s.vocab))
    elif s.separate_vocabs:
        tokenizer = _learn(s, [example.text for example in examples])
        target_tokenizer = _learn(s, [_target(example) for example in examples])
    else:
        tokenizer = _learn(s, list(_texts(examples)))
    if not quiet:
        _say(s, tokenizer, target_tokenizer)

    written = target_tokenizer or tokenizer
    start, end = target_marks(written)
    settings = family.settings_for(
        s.size or family.new_size,
        s.model_settings,
        vocab=tokenizer.size,
        target_vocab=None if target_tokenizer is None else target_tokenizer.size,
        start=start,
        end=end,
        cell=s.cell,
    )
    return NewPairModel(family, settings, tokenizer, target_tokenizer)


def target_marks(tokenizer: Tokenizer) -> tuple[int, int]:
    """Return the tokens that are read before a target, and written after it."""
    start = tokenizer.cls
    end = tokenizer.sep
    if start is None or end is None or start == end:
        raise InputError(
            f"{tokenizer.source} has no marks for the start and the end of a target, which an "
            "encoder-decoder needs"
        )
    return start, end


def _target(example: Example) -> str:
    _, target = example.texts
    return target


def _texts(examples: Sequence[Example]) -> Iterator[str]:
    """Yield both sides of every pair."""
    for example in examples:
        yield from example.texts


def _learn(s: FinetuneSettings, texts: Sequence[str]) -> Tokenizer:
    """Learn a vocabulary; of words, as many as there are, up to a limit."""
    if not any(text.strip() for text in texts):
        raise InputError("there is no text to learn a vocabulary from")
    kind: Vocabulary = s.vocab_kind or KIND
    case = s.case or "keep"
    if kind == "words":
        apart: Split = "spaces" if comma_share(texts) < MOST_COMMAS else "punctuation"
        return Tokenizer.train(texts, kind, MOST_WORDS, case, split=apart, end_last=True)
    words = sum(len(text.split()) for text in texts)
    size = min(MOST_PIECES, max(LEAST_PIECES, words // WORDS_A_PIECE))
    return Tokenizer.train(texts, kind, size, case, end_last=True)


def _say(s: FinetuneSettings, tokenizer: Tokenizer, target: Tokenizer | None) -> None:
    """Say where the vocabulary is from, and how large it is."""
    if Path(s.model).is_dir():
        note(f"{s.model} is a new model here; ./{s.model} names the folder")
    size = f"{tokenizer.size:,} pieces"
    if target is not None:
        size = f"{tokenizer.size:,} pieces for sources and {target.size:,} for targets"
    source = s.vocab or "the training texts"
    progress_line(f"a new {s.model} with the vocabulary of {source}: {size}")
