"""The shapes that models keep, so that tasks and commands need not know which model they hold.

T tokens in the stream, B texts, D width, H heads, L tokens of a text.
"""

from typing import NamedTuple, Protocol

from torch import Tensor


class Hidden(NamedTuple):
    """What an encoder makes of a stream of texts."""

    tokens: Tensor  # (T, D) of the last layer
    pooled: Tensor | None  # (B, D), where the model has a pooler
    layers: tuple[Tensor, ...] = ()  # embedding and every layer, (T, D) each, if asked for
    weights: tuple[list[Tensor], ...] = ()  # a list a layer with (H, L, L) a text, if asked for


class Encoder(Protocol):
    """A model that gives every token a vector that depends on its text."""

    width: int
    depth: int
    length: int  # tokens that a text may have

    def __call__(
        self,
        ids: Tensor,
        positions: Tensor,
        segments: Tensor,
        lengths: Tensor,
        *,
        layers: bool = False,
        weights: bool = False,
    ) -> Hidden:
        """Encode a stream: three tensors (T) and the length of each text (B), on the CPU."""
        ...
