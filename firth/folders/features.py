"""An encoder that is not taught: chosen layers of it as features for a light head.

T tokens in the stream, B texts, L layers, D width, W width of a biLSTM.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from firth.models.protocols import Backbone, Encoder, Hidden
from firth.nn.mix import Mix
from firth.nn.pool import first_tokens, pool
from firth.nn.recurrent import BidirectionalRecurrent

BILSTM_DEPTH = 2  # as in the feature-based experiment of BERT's paper


class Features(Backbone):
    """One vector a token from some layers of an encoder, and a summary of each text.

    A biLSTM of the width `bilstm` reads the vectors first; 0 is none.
    """

    def __init__(self, encoder: Encoder, layers: Sequence[int], how: str, bilstm: int = 0) -> None:
        super().__init__()
        self.encoder, self.layers = encoder, tuple(layers)
        self.mix = Mix(len(layers), how)
        self.mixed = encoder.width * (len(layers) if how == "concat" else 1)  # width of the mix
        self.bilstm = (
            BidirectionalRecurrent("lstm", self.mixed, bilstm, BILSTM_DEPTH) if bilstm else None
        )
        self.width = 2 * bilstm or self.mixed
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
        return read_features(tokens, lengths, self.bilstm)


def read_features(tokens: Tensor, lengths: Tensor, bilstm: BidirectionalRecurrent | None) -> Hidden:
    """Return what a head reads of the features of a stream (T, D): of each token and each text.

    Without a biLSTM a text's summary is the mean of its tokens, else what each direction has at
    its end: the one that reads ahead at the last token, the other at the first.
    """
    if bilstm is None:
        return Hidden(tokens, pool(tokens, lengths, "mean"))

    tokens = bilstm(tokens, lengths)[-1]  # (T, 2 W)
    ahead, behind = tokens.chunk(2, 1)  # (T, W) each
    first = first_tokens(lengths)  # (B)
    last = first + lengths - 1
    summary = torch.cat([ahead[last.to(tokens.device)], behind[first.to(tokens.device)]], 1)
    return Hidden(tokens, summary)
