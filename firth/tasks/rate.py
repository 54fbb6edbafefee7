"""Rating: how likely a language model finds a text, token by token, and which of several texts it finds likeliest.

T tokens.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.data.batch import Batch
from firth.data.examples import Example, Labelled
from firth.data.record import shortened
from firth.data.window import Window
from firth.metrics.perplexity import perplexity
from firth.models.ngram import NGram
from firth.models.protocols import LanguageModel
from firth.tasks.language import Language, opening
from firth.text.tokenizer import Encoding, Tokenizer

PIECE = 4096  # tokens of a row that are read at once by a model that remembers what it has read


class Piece(NamedTuple):
    """A token of a text, or the text's end, which is the last and has no characters."""

    start: int
    end: int
    score: float  # natural log-probability after all before it
    order: (
        int | None
    )  # of an n-gram model: words of the longest n-gram found, 0 for a word that was never seen


class Rated(NamedTuple):
    """How likely a text is, its end included; tokens and words are its own."""

    text: str
    score: float  # natural log-probability
    tokens: int
    words: int  # between white space
    pieces: tuple[Piece, ...]

    @property
    def perplexity(self) -> float:
        """The inverse of the mean probability of a word, the end of the text counted as one."""
        return perplexity(self.score, self.words + 1)


class Candidate(NamedTuple):
    """One of several texts of which one is to be chosen."""

    place: int  # among those given
    share: float  # of the probability of all of them
    rated: Rated


class Found(NamedTuple):
    """What a model says of tokens."""

    scores: NDArray[Any]  # (T)
    orders: list[int] | None  # (T) of an n-gram model


class Rate:
    """Rate texts, each a line with its end mark; of a pair the first text is only read and the second is rated.

    `length` is how many tokens the model reads, None if any number. `orders` asks an n-gram for the n-grams used.
    """

    def __init__(self, model: Language, end: int, length: int | None, orders: bool = True) -> None:
        self.end = end
        self.opening = opening(model, end)
        self.room = None if length is None else length - 1  # the start mark takes one
        self.orders = orders

    def features(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
        """Encode texts whole, with what stands before and after a line."""
        texts = ["".join(_asked(example)) for example in examples]
        return [
            self._line(text, found)
            for text, found in zip(texts, tokenizer.encode(texts, special=False), strict=True)
        ]

    def _line(self, text: str, body: Encoding) -> Encoding:
        before, after = len(self.opening), len(text)
        return Encoding(
            [*self.opening, *body.ids, self.end],
            [0] * (before + len(body) + 1),
            [*[(0, 0)] * before, *body.offsets, (after, after)],
            [*[None] * before, *body.words, None],
            [*[None] * before, *body.parts, None],
        )

    def scores(
        self, model: Language, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Found]:
        """The log-probability of each token of each row."""
        if self.orders and isinstance(model, NGram):
            return [_explained(model, torch.tensor(window.row.ids)) for window in rows]
        found = read(model, batch.ids, batch.lengths).cpu().split(batch.lengths.tolist())
        return [Found(scores.numpy(), None) for scores in found]

    def combine(self, rows: Sequence[Window], scores: Sequence[Found]) -> Found:
        """Take each token from the window in which most text precedes it: the first that has it."""
        done, parts = 0, []
        for window, found in zip(rows, scores, strict=True):
            parts.append(found.scores[done - window.first :])
            done = window.first + len(window.row)
        return Found(np.concatenate(parts), scores[0].orders)

    def answer(self, example: Example, encoding: Encoding, scores: Found) -> Rated:
        """Add up what is to be rated, and say where it stands in its text."""
        before, text = _asked(example)
        first = len(self.opening)
        if before:
            first = next(
                place
                for place, (_, end) in enumerate(encoding.offsets)
                if end > len(before) or place == len(encoding) - 1
            )
        own = scores.scores[first:].astype(np.float64)
        if not np.isfinite(own).all():
            raise InputError(
                f"{shortened(text, 60)} holds the mark that begins a text, which has no probability"
            )
        places = [
            (max(0, start - len(before)), end - len(before))
            for start, end in encoding.offsets[first:]
        ]
        orders = scores.orders[first:] if scores.orders else [None] * len(own)
        pieces = tuple(
            Piece(*place, score, order)
            for place, score, order in zip(places, own.tolist(), orders, strict=True)
        )
        return Rated(text, float(own.sum()), len(pieces) - 1, len(text.split()), pieces)


def _asked(example: Example) -> tuple[str, str]:
    """What is read, with the space after it, and what is rated."""
    if not isinstance(example, Labelled) or example.second is None:
        return "", example.text
    before, text = example.text, example.second
    joined = not before or before[-1:].isspace() or text[:1].isspace()
    return before if joined else f"{before} ", text


def _explained(model: NGram, ids: Tensor) -> Found:
    found = model.explain(ids)
    return Found(np.array([one.score for one in found]), [one.order for one in found])


def read(model: LanguageModel[Any], ids: Tensor, lengths: Tensor, state: Any = None) -> Tensor:
    """The log-probabilities of a stream (T); a single row is read piece by piece, so that it may have any length."""
    if len(lengths) > 1 or len(ids) <= PIECE:
        return model.score(ids, lengths, state)[0]
    found = []
    for some in ids.split(PIECE):
        scores, state = model.score(some, torch.tensor([len(some)]), state)
        found.append(scores)
    return torch.cat(found)


def rank(rated: Sequence[Rated]) -> tuple[Candidate, ...]:
    """Order texts of which one is right, the likeliest first."""
    best = max((one.score for one in rated), default=0.0)
    weights = [math.exp(one.score - best) for one in rated]
    found = [
        Candidate(place, weight / sum(weights), one)
        for place, (weight, one) in enumerate(zip(weights, rated, strict=True))
    ]
    return tuple(sorted(found, key=lambda candidate: -candidate.rated.score))


def as_json(rated: Rated) -> dict[str, Any]:
    """How likely a text and each of its tokens is, as a JSON object."""
    return summary_json(rated) | {
        "pieces": [
            {"start": piece.start, "end": piece.end, "score": piece.score}
            | ({} if piece.order is None else {"order": piece.order})
            for piece in rated.pieces
        ]
    }


def summary_json(rated: Rated) -> dict[str, Any]:
    """How likely a text is, as a JSON object; JSON has no infinity."""
    found = rated.perplexity
    return {
        "text": rated.text,
        "score": rated.score,
        "tokens": rated.tokens,
        "words": rated.words,
        "perplexity": found if math.isfinite(found) else None,
    }
