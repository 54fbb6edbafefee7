"""An encoder that is not taught: chosen layers of it as features for a light head.

T tokens in the stream, B texts, L layers, D width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from firth.models.protocols import Backbone, Encoder, Hidden
from firth.nn.mix import Mix
from firth.nn.pool import pool


class Features(Backbone):
    """One vector a token from some layers of an encoder, and their mean for each text."""

    def __init__(self, encoder: Encoder, layers: Sequence[int], how: str) -> None:
        super().__init__()
        self.encoder, self.layers = encoder, tuple(layers)
        self.mix = Mix(len(layers), how)
        self.width = encoder.width * (len(layers) if how == "concat" else 1)
        self.depth, self.length = encoder.depth, encoder.length

    def chosen(self, ids: Tensor, positions: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        """The layers before they are mixed, (T, L, D)."""
        found = self.encoder(ids, positions, segments, lengths, layers=True)
        return torch.stack(found.chosen(self.layers), 1)

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        segments: Tensor,
        lengths: Tensor,
        *,
        layers: bool = False,
        weights: bool = False,
    ) -> Hidden:
        """Encode a stream; what the encoder itself would give is asked of the encoder."""
        assert not layers
        assert not weights
        tokens = self.mix(self.chosen(ids, positions, segments, lengths))
        return Hidden(tokens, pool(tokens, lengths, "mean"))
