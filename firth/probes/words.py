"""The words of a model with their vectors: one found by its spelling, others by a vector.

V vocabulary, D width, Q vectors that are asked for. The vectors are the rows of the embedding
table: of an encoder, and of a language model, those of the words that it reads.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.data.record import shortened
from firth.folders.bundle import Bundle
from firth.models.protocols import Encoder, NeuralLanguageModel
from firth.text.pieces import whole_words, word_ids, written_piece

AT_ONCE = 1 << 24  # cosines that are held in memory
FAR = 2  # letters more or fewer that a misspelt word may have


class AskedWord(NamedTuple):
    """A word and the pieces that a model reads it in; of several the vector is their mean."""

    word: str
    pieces: tuple[str, ...]


class NearWord(NamedTuple):
    """A word and the cosine of its vector with the one that was asked for."""

    word: str
    similarity: float


class WordTable:
    """The whole words of a model's vocabulary, and their vectors."""

    def __init__(self, bundle: Bundle, name: str) -> None:
        self.name = name  # of the model, for messages
        self.tokenizer = bundle.tokenizer
        self.vectors = _embedding(bundle, name).detach().cpu()  # (V, D)
        self.words = whole_words(self.tokenizer)  # by their rows
        if not self.words:
            raise InputError(f"{name} has no whole word in its vocabulary")
        self._found: dict[str, tuple[int, ...]] = {}

    @property
    def width(self) -> int:
        """Return how many numbers a vector has."""
        return self.vectors.shape[1]

    @property
    def count(self) -> int:
        """Return how many whole words have a vector: one of zeros is near no other."""
        return int(self.vectors[list(self.words)].any(1).sum())

    def find(self, word: str) -> tuple[int, ...]:
        """Return the rows of a word's pieces; none if the vocabulary lacks it."""
        if word not in self._found:
            rows = word_ids(self.tokenizer, word)
            # A vector of zeros has no direction: it stands for no word.
            known = rows and bool(self.vectors[list(rows)].mean(0).any())
            self._found[word] = rows if known else ()
        return self._found[word]

    def ask(self, word: str) -> AskedWord:
        """Return a word with its pieces; refuse one that the vocabulary lacks."""
        rows = self.find(word)
        if not rows:
            reason = self._meant(word)
            if word_ids(self.tokenizer, word):
                reason = ": its vector is all zeros, as of a word that its text didn't have"
            raise InputError(f"{self.name} has no word {shortened(word)}{reason}")
        return AskedWord(word, tuple(written_piece(self.tokenizer, row) for row in rows))

    def unit(self, word: str) -> Tensor:
        """Return the vector of a known word at length 1, (D): the mean of its pieces'."""
        mean = self.vectors[list(self.find(word))].mean(0)
        return nn.functional.normalize(mean, dim=0)

    def units(self) -> Tensor:
        """Return the vectors of all whole words that have one at length 1, (words, D)."""
        rows = self.vectors[list(self.words)]
        return nn.functional.normalize(rows[rows.any(1)], dim=1)

    def centred(self, mean: Tensor) -> "WordTable":
        """Return a copy whose vectors are of length 1 less a mean (D)."""
        other = copy(self)
        for name in ("_norms", "_barred"):
            other.__dict__.pop(name, None)
        units = nn.functional.normalize(self.vectors, dim=1)
        has_vector = self.vectors.any(1)[:, None]
        other.vectors = torch.where(has_vector, units - mean, 0)
        return other

    def nearest(
        self, vectors: Tensor, without: Sequence[Collection[int]], top: int
    ) -> list[list[NearWord]]:
        """Return for each vector (Q, D) the words that are nearest by cosine, less rows named."""
        return [
            [NearWord(self.words[row], min(1.0, -loss)) for loss, row in ranked]
            for ranked in self._ranked(vectors, without, top)
        ]

    def nearest_rows(
        self, vectors: Tensor, without: Sequence[Collection[int]], top: int
    ) -> list[list[int]]:
        """Return the rows of the same words."""
        return [[row for _, row in ranked] for ranked in self._ranked(vectors, without, top)]

    def _ranked(
        self, vectors: Tensor, without: Sequence[Collection[int]], top: int
    ) -> Iterator[list[tuple[float, int]]]:
        """Yield for each vector the nearest words in order: the negative cosine and the row."""
        for cosines in self._cosines(vectors, without):
            values = cosines.topk(min(top, len(self.vectors))).values
            for line, least in zip(cosines, values[:, -1], strict=True):
                # Equal ones come in the order of the vocabulary, also where not all are wanted.
                rows = (line >= least).nonzero()[:, 0]
                ranked = sorted(zip((-line[rows]).tolist(), rows.tolist(), strict=True))
                yield [(loss, row) for loss, row in ranked[:top] if loss < math.inf]

    def best(self, vectors: Tensor, without: Sequence[Collection[int]]) -> Iterator[int]:
        """Yield for each vector (Q, D) the row of the nearest word, less rows named."""
        for cosines in self._cosines(vectors, without):
            # Of equal ones numpy takes the first.
            yield from cosines.numpy().argmax(1).tolist()

    def _cosines(self, vectors: Tensor, without: Sequence[Collection[int]]) -> Iterator[Tensor]:
        """Yield the cosines of some vectors at a time, (part of Q, V), -inf for other rows."""
        vectors = nn.functional.normalize(vectors, dim=1)
        step = max(1, AT_ONCE // len(self.vectors))
        for first in range(0, len(vectors), step):
            cosines = vectors[first : first + step] @ self.vectors.T
            cosines /= self._norms
            cosines += self._barred
            for line, rows in zip(cosines, without[first : first + step], strict=True):
                line[list(rows)] = -math.inf
            yield cosines

    @cached_property
    def _norms(self) -> Tensor:
        """The length of each row, (V), and 1 where it is 0."""
        norms = self.vectors.norm(dim=1)
        return torch.where(norms > 0, norms, 1)

    @cached_property
    def _barred(self) -> Tensor:
        """-inf for each row that is no whole word or has only zeros, (V)."""
        barred = torch.full((len(self.vectors),), -math.inf)
        barred[list(self.words)] = 0
        barred[~self.vectors.any(1)] = -math.inf
        return barred

    def _meant(self, word: str) -> str:
        """Propose the word that a misspelt one may stand for; the more frequent of equals."""
        spelled = self.tokenizer.normalise(word)
        has_vector = self.vectors.any(1).tolist()
        near = [
            known
            for row, known in self.words.items()
            if known[:1] == spelled[:1] and abs(len(known) - len(spelled)) <= FAR
            if has_vector[row]
        ]
        close = get_close_matches(spelled[:64], near, n=1)
        return f"; did you mean {close[0]!r}?" if close else ""


def _embedding(bundle: Bundle, name: str) -> Tensor:
    """Return the embedding table of a model, (V, D)."""
    model = bundle.model
    if isinstance(model, Encoder):
        return model.table
    layer = model.token_layer if isinstance(model, NeuralLanguageModel) else None
    if isinstance(layer, nn.Embedding):
        return layer.weight
    raise InputError(f"{name} is of the family {bundle.record.name}, which has no vectors of words")
