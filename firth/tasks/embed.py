"""Contextual vectors: one for each text, or one for each word or word piece with its place in the text.

T tokens, D width (of all layers that are concatenated).
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.data.batch import Batch
from firth.data.examples import Example, is_pair
from firth.data.window import Window, inmost
from firth.models.protocols import Encoder, Hidden
from firth.nn.pool import pool
from firth.tasks.texts import encode
from firth.text.tokenizer import Encoding, Tokenizer

Vectors = NDArray[np.float32]
Pool = Literal["mean", "cls", "max", "words", "none"]
Combine = Literal["mean", "sum", "concat"]


class Spans(NamedTuple):
    """The words or pieces of one text, each with a vector and its characters in the text."""

    vectors: Vectors  # (spans, D)
    offsets: list[tuple[int, int]]


class Embed:
    """Pool the chosen layers of an encoder; special tokens count in text vectors, as in sentence-transformers."""

    def __init__(
        self,
        pooling: Pool = "mean",
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        normalise: bool = False,
    ) -> None:
        self.pooling = pooling
        self.layers = tuple(layers)
        self.how = combine
        self.normalise = normalise

    def features(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
        """Encode each text whole, and pairs as pairs."""
        single = iter(encode([example for example in examples if not is_pair(example)], tokenizer))
        paired = iter(encode([example for example in examples if is_pair(example)], tokenizer))
        return [next(paired if is_pair(example) else single) for example in examples]

    def scores(
        self, encoder: Encoder, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Tensor]:
        """A vector a row (D), or a vector for each token that came from the text (T, D)."""
        last = self.layers == (-1,)
        x = self._mix(encoder(*batch.stream, layers=not last), last)  # (T, D)
        if self.pooling in ("words", "none"):
            pieces = x.cpu().split(batch.lengths.tolist())
            return [
                piece[own_tokens(window.row)] for piece, window in zip(pieces, rows, strict=True)
            ]
        return list(pool(x, batch.lengths, self.pooling).cpu())

    def _mix(self, hidden: Hidden, last: bool) -> Tensor:
        if last:
            return hidden.tokens
        try:
            chosen = [hidden.layers[i] for i in self.layers]
        except IndexError:
            deepest = len(hidden.layers) - 1
            raise InputError(
                f"layers go from 0 (the embedding) to {deepest}, or from -1 (the last) to -{deepest + 1}"
            ) from None
        if self.how == "concat":
            return torch.cat(chosen, dim=1)
        stacked = torch.stack(chosen)
        return stacked.mean(0) if self.how == "mean" else stacked.sum(0)

    def combine(self, rows: Sequence[Window], scores: Sequence[Tensor]) -> Tensor:
        """Windows of a text weigh as many tokens as they have; of a token seen twice, the one further from an edge counts."""
        if len(rows) == 1:
            return scores[0]
        if self.pooling in ("words", "none"):
            return torch.stack([scores[number][at] for number, at in inmost(rows)])
        if self.pooling == "cls":
            return scores[0]
        if self.pooling == "max":
            return torch.stack(list(scores)).amax(0)
        weights = torch.tensor([float(len(row.row)) for row in rows])
        return (torch.stack(list(scores)) * weights[:, None]).sum(0) / weights.sum()

    def answer(self, example: Example, encoding: Encoding, scores: Tensor) -> Vectors | Spans:
        """The text's vector, or its words or pieces; a text cut short has those that were read."""
        if self.pooling not in ("words", "none"):
            return (F.normalize(scores, dim=0) if self.normalise else scores).numpy()
        body = own_tokens(encoding)[: len(scores)]
        offsets = [encoding.offsets[i] for i in body]
        if self.pooling == "none":
            return Spans(scores.numpy(), offsets)
        return _words(scores, offsets, [encoding.words[i] for i in body])


def own_tokens(encoding: Encoding) -> list[int]:
    """Where the tokens stand that came from the text, not from the model's conventions."""
    return [i for i, part in enumerate(encoding.parts) if part is not None]


def _words(pieces: Tensor, offsets: list[tuple[int, int]], words: list[int | None]) -> Spans:
    """Mean of the pieces of each word."""
    runs: list[list[int]] = []
    for i, word in enumerate(words):
        if runs and word is not None and word == words[runs[-1][-1]]:
            runs[-1].append(i)
        else:
            runs.append([i])
    if not runs:
        return Spans(pieces.numpy(), [])
    means = pool(pieces, torch.tensor([len(run) for run in runs]), "mean")
    return Spans(means.numpy(), [(offsets[run[0]][0], offsets[run[-1]][1]) for run in runs])


def parse_layers(words: str) -> list[int]:
    """Read `-1`, `1,6` or `-4..-1`."""
    chosen: list[int] = []
    for word in words.split(","):
        match = re.fullmatch(r"\s*(-?\d{1,4})(?:\.\.(-?\d{1,4}))?\s*", word)
        if not match:
            raise InputError(f"layers {words!r} are not of the form -1, 1,6 or -4..-1")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or (first < 0) != (last < 0):
            raise InputError(
                f"the range of layers {word.strip()!r} runs backwards or mixes counting from both ends"
            )
        chosen += range(first, last + 1)
    return chosen
