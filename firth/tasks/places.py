"""The contextual vectors of chosen places in texts, such as one word in many sentences.

D width (of all layers that are concatenated).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from firth.data.examples import Example
from firth.data.window import Window
from firth.tasks.embed import Embed, own_tokens
from firth.text.tokenizer import Encoding, Tokenizer

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch

Place = tuple[int, int]  # the first character, and the end


@dataclass(frozen=True, slots=True)
class PlacedText(Example):
    """A text, and places in it whose vectors are wanted: within what the model reads."""

    text: str
    places: tuple[Place, ...]


class EmbedPlaces(Embed):
    """Keep the vectors of the tokens at chosen places, and of no others: memory is for these."""

    help = "A vector for each of some places in a text."

    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode each text, with only the tokens at its places in a word."""
        encodings = tokenizer.encode([example.text for example in examples])
        found = []
        for example, encoding in zip(examples, encodings, strict=True):
            chosen = {token for own in _tokens(encoding, example.places) for token in own}
            words = [token if token in chosen else None for token in range(len(encoding))]
            found.append([replace(encoding, words=words)])
        return found

    def logits(
        self, model: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Tensor]:
        """Return the vectors of the chosen tokens of each row (tokens, D)."""
        x = self._mix(model(*batch.stream, layers=True), last=False)
        by_row = x.cpu().split(batch.lengths.tolist())
        return [
            vectors[[at for at, word in enumerate(window.row.words) if word is not None]]
            for vectors, window in zip(by_row, rows, strict=True)
        ]

    def answer(
        self,
        example: Any,
        encodings: Sequence[Encoding],
        logits: Sequence[Tensor],
        truncated: int,
    ) -> Any:
        """Return the mean of the tokens at each place (places, D); all of them must be read."""
        (encoding,) = encodings
        (vectors,) = logits
        chosen = [token for token in encoding.words if token is not None]
        at = {token: row for row, token in enumerate(chosen)}
        rows = [[at[token] for token in own] for own in _tokens(encoding, example.places)]
        return np.stack([vectors[own].mean(0).numpy() for own in rows])


def _tokens(encoding: Encoding, places: Sequence[Place]) -> list[list[int]]:
    """Return for each place the tokens of the text that stand within it."""
    body = own_tokens(encoding)
    starts = [encoding.offsets[token][0] for token in body]
    found = []
    for start, end in places:
        within = body[bisect_left(starts, start) : bisect_left(starts, end)]
        # A token that covers no character is none that a place could have.
        found.append([token for token in within if start < encoding.offsets[token][1] <= end])
    return found
