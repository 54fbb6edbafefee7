"""Contextual vectors: one for each text, or one for each word or word piece with its offsets.

T tokens, D width (of all layers that are concatenated).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.data.examples import Example, is_pair
from firth.data.window import Window, most_context
from firth.tasks.encoded import EncodedTask, refuse_unseparated
from firth.tasks.task import OpenModel
from firth.tasks.texts import encode_mixed
from firth.text.pieces import word_runs
from firth.text.tokenizer import Encoding, Tokenizer

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.models.protocols import Hidden

Vectors = NDArray[np.float32]
Pool = Literal["mean", "cls", "max", "words", "none"]
TextPool = Literal["mean", "cls", "max"]  # a vector for each text
TokenPool = Literal["words", "none"]  # a vector for each word or piece of a text
Combine = Literal["mean", "sum", "concat"]


class Spans(NamedTuple):
    """The words or pieces of one text, each with a vector and its characters in the text."""

    vectors: Vectors  # (spans, D)
    offsets: list[tuple[int, int]]


class Embed(EncodedTask["Tensor", "Vectors | Spans"]):
    """Pool the chosen layers of an encoder.

    Special tokens count in text vectors, as in sentence-transformers.
    """

    name = "embed"
    help = "A vector for each text, or for each of its words or pieces."
    columns = {"vector": "json"}

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

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task with the options of the constructor."""
        return cls(**options)

    @property
    def of_tokens(self) -> bool:
        """Whether a text has a vector for each of its words or pieces."""
        return self.pooling in get_args(TokenPool)

    def model(self, bundle: OpenModel) -> Any:
        """Return the encoder, whatever its head reads."""
        return bundle.encoder

    def check(self, example: Example, bundle: OpenModel) -> None:
        """Refuse a pair that can't be told from one text, or whose words are asked for."""
        if not is_pair(example):
            return
        if self.of_tokens:
            places = "gives the places of words in one text"
            raise InputError(f"it is a pair, and pool={self.pooling!r} {places}")
        refuse_unseparated(example, bundle)

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode each text whole, and pairs as pairs."""
        return [[encoding] for encoding in encode_mixed(examples, tokenizer)]

    def logits(
        self, model: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Tensor]:
        """Return a vector a row (D), or a vector for each token that came from the text (T, D)."""
        from firth.nn.pool import pool

        last = self.layers == (-1,)
        x = self._mix(model(*batch.stream, layers=not last), last)  # (T, D)
        if not self.of_tokens:
            return list(pool(x, batch.lengths, self.pooling).cpu())
        by_row = x.cpu().split(batch.lengths.tolist())
        every = zip(by_row, rows, strict=True)
        return [vectors[own_tokens(window.row)] for vectors, window in every]

    def _mix(self, hidden: Hidden, last: bool) -> Tensor:
        """Return the layers asked for, combined into one vector for each token."""
        import torch

        if last:
            return hidden.tokens
        try:
            chosen = [hidden.layers[layer] for layer in self.layers]
        except IndexError:
            deepest = len(hidden.layers) - 1
            first = "layers go from 0 (the embedding)"
            raise InputError(
                f"{first} to {deepest}, or from -1 (the last) to -{deepest + 1}"
            ) from None
        if self.how == "concat":
            return torch.cat(chosen, dim=1)
        stacked = torch.stack(chosen if len(chosen) == 1 else hidden.chosen(self.layers))
        if self.how == "mean":
            return stacked.mean(0)
        return stacked.sum(0)

    def combine(self, rows: Sequence[Window], logits: Sequence[Tensor]) -> Tensor:
        """Weigh the windows of a text by their tokens.

        Of a token that two windows have, the one further from an edge counts.
        """
        import torch

        if len(rows) == 1 or self.pooling == "cls":
            return logits[0]
        if self.of_tokens:
            chosen = [logits[number][at] for number, at in most_context(rows)]
            return torch.stack(chosen)
        vectors = torch.stack(list(logits))  # (windows, D)
        if self.pooling == "max":
            return vectors.amax(0)
        lengths = [float(len(window.row)) for window in rows]
        weights = torch.tensor(lengths)
        total = (vectors * weights[:, None]).sum(0)
        return total / weights.sum()

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[Tensor],
        truncated: int,
    ) -> Vectors | Spans:
        """Return the text's vector, or its words or pieces; a text cut short has those read."""
        import torch.nn.functional as F

        vectors = logits[0]
        if not self.of_tokens:
            if self.normalise:
                vectors = F.normalize(vectors, dim=0)
            return vectors.numpy()

        encoding = encodings[0]
        body = own_tokens(encoding)[: len(vectors)]
        offsets = [encoding.offsets[place] for place in body]
        if self.pooling == "none":
            return Spans(vectors.numpy(), offsets)
        words = [encoding.words[place] for place in body]
        return _words(vectors, offsets, words)

    def record(self, example: Example, answer: Vectors | Spans) -> dict[str, Any]:
        """Return the text and its vector or, of words and pieces, each with its offsets."""
        given: dict[str, Any] = {"text": example.text}
        if not isinstance(answer, Spans):
            return given | {"vector": answer.tolist()}
        spans = []
        for (start, end), vector in zip(answer.offsets, answer.vectors.tolist(), strict=True):
            spans.append({"start": start, "end": end, "vector": vector})
        return given | {"spans": spans}

    def line(self, example: Example, answer: Vectors | Spans) -> str:
        """Return how many vectors of which width there are."""
        vectors = answer.vectors if isinstance(answer, Spans) else answer
        return f"{vectors.shape}  {example.text}"


def own_tokens(encoding: Encoding) -> list[int]:
    """Return where the tokens stand that came from the text, not from the model's conventions."""
    return [place for place, part in enumerate(encoding.parts) if part is not None]


def _words(pieces: Tensor, offsets: list[tuple[int, int]], words: list[int | None]) -> Spans:
    """Return the mean of the pieces of each word."""
    import torch

    from firth.nn.pool import pool

    runs = word_runs(words)
    if not runs:
        return Spans(pieces.numpy(), [])

    lengths = torch.tensor([len(run) for run in runs])
    means = pool(pieces, lengths, "mean")
    places = []
    for run in runs:
        start, _ = offsets[run[0]]
        _, end = offsets[run[-1]]
        places.append((start, end))
    return Spans(means.numpy(), places)


def parse_layers(words: str) -> list[int]:
    """Read `-1`, `1,6` or `-4..-1`."""
    chosen: list[int] = []
    for word in words.split(","):
        match = re.fullmatch(r"\s*(-?\d{1,4})(?:\.\.(-?\d{1,4}))?\s*", word)
        if not match:
            raise InputError(f"layers {words!r} are not of the form -1, 1,6 or -4..-1")
        first = int(match[1])
        last = int(match[2] or match[1])
        if last < first or (first < 0) != (last < 0):
            raise InputError(
                f"the range of layers {word.strip()!r} runs backwards or mixes counting from both "
                "ends"
            )
        chosen += range(first, last + 1)
    return chosen


TASK = Embed
