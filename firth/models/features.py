"""An encoder that is not taught: chosen layers of it as features for a light head.

T tokens in the stream, B texts, L layers, D width.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firth.models.bert import Bert
from firth.models.gpt import Gpt
from firth.models.protocols import Hidden
from firth.nn.mix import Mix
from firth.nn.pool import pool

WAYS = ("concat", "sum", "weights")  # to combine layers


class Features(nn.Module):
    """One vector a token from some layers of an encoder, and their mean for each text."""

    def __init__(self, encoder: Bert | Gpt, layers: Sequence[int], how: str) -> None:
        super().__init__()
        self.encoder, self.layers = encoder, tuple(layers)
        self.mix = Mix(len(layers), how)
        self.width = encoder.width * (len(layers) if how == "concat" else 1)
        self.depth, self.length = encoder.depth, encoder.length

    def chosen(self, ids: Tensor, positions: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        """The layers before they are mixed, (T, L, D)."""
        found = self.encoder(ids, positions, segments, lengths, layers=True).layers
        return torch.stack([found[layer] for layer in self.layers], 1)

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


class Stored(nn.Module):
    """The same from a table made once, in which a token's id is the number of its row: what a frozen encoder says never changes."""

    def __init__(self, table: NDArray[np.float32], mix: Mix) -> None:
        super().__init__()
        self.table, self.mix = table, mix

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
        """Look a stream up."""
        tokens = torch.from_numpy(
            self.table[ids.numpy()]
        )  # (T, L, D), or (T, D) if it was mixed before
        tokens = self.mix(tokens) if self.mix.learned else tokens
        return Hidden(tokens, pool(tokens, lengths, "mean"))
