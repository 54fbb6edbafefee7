"""Attention weights: what every head of every layer looks at, for each text or window of one.

N layers, H heads, L tokens of a window, U tokens of a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.data.examples import Example
from firth.data.window import Window
from firth.tasks.encoded import EncodedTask, refuse_unseparated
from firth.tasks.texts import encode_mixed

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.models.protocols import Encoder
    from firth.tasks.task import OpenModel
    from firth.text.tokenizer import Encoding, Tokenizer

SEVERAL_TEXTS = 64  # that are answered together: weights are large


class AttentionMap(NamedTuple):
    """The attention weights of a text, or of one window of a long text.

    `weights[layer, head, query, key]` says how much a token takes from another. Of a translator the
    queries are the tokens of the target, as each is named, and the keys those of the source.
    """

    text: str
    second: str | None  # of a pair; of a translator the target
    tokens: list[str]
    offsets: list[tuple[int, int]]  # characters of the text; (0, 0) for special tokens
    parts: list[int | None]  # 0 first text, 1 second text, None for special tokens
    weights: NDArray[np.float32]  # (N, H, L, L), of a translator (N, H, U, L)
    first: int = 0  # number, in the whole text, of the token that the window begins with
    target_tokens: Sequence[str] = ()  # of a translator, the end mark last
    target_offsets: Sequence[tuple[int, int]] = ()  # characters of the target


class Attend(EncodedTask["list[tuple[Window, Tensor]]", "list[AttentionMap]"]):
    """The attention weights of an encoder, one record for each window of a text."""

    name = "attention"
    help = "The attention weights of every head, for each text."
    usual_long = "slide"
    at_once = SEVERAL_TEXTS

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder whose model has attention."""
        check_attention(bundle.encoder)
        return cls(bundle.tokenizer)

    def model(self, bundle: OpenModel) -> Any:
        """Return the encoder, whatever its head reads."""
        return bundle.encoder

    def check(self, example: Example, bundle: OpenModel) -> None:
        """Refuse a pair that can't be told from one text."""
        refuse_unseparated(example, bundle)

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode each text whole, and pairs as pairs."""
        return [[encoding] for encoding in encode_mixed(examples, tokenizer)]

    def logits(
        self, model: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[list[tuple[Window, Tensor]]]:
        """Return each row with its weights (N, H, L, L)."""
        import torch

        hidden = model(*batch.stream, weights=True)
        found = []
        for number, window in enumerate(rows):
            layers = [layer[number] for layer in hidden.weights]
            found.append([(window, torch.stack(layers).cpu())])
        return found

    def combine(
        self, rows: Sequence[Window], logits: Sequence[list[tuple[Window, Tensor]]]
    ) -> list[tuple[Window, Tensor]]:
        """Keep the windows of a text apart."""
        return [one for of_window in logits for one in of_window]

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[list[tuple[Window, Tensor]]],
        truncated: int,
    ) -> list[AttentionMap]:
        """Return a record for each window."""
        found = []
        for window, weights in logits[0]:
            row = window.row
            tokens = [self.tokenizer.piece(token) for token in row.ids]
            found.append(
                AttentionMap(
                    example.text,
                    example.second,
                    tokens,
                    list(row.offsets),
                    list(row.parts),
                    weights.float().numpy(),
                    window.first,
                )
            )
        return found


def check_attention(encoder: Encoder) -> None:
    """Refuse a model that attends to nothing."""
    if not encoder.attention_layers():
        raise InputError("this model has no attention: BERT, GPT-2 and their relatives have it")
