"""BERT's first layer: the sum of token, position and segment vectors."""

from torch import Tensor, nn

from firth.nn.dropout import drop


class Embedding(nn.Module):
    """Token, position and segment vectors, summed and normalised; `segments=0` has no segments."""

    def __init__(
        self,
        vocab: int,
        width: int,
        length: int,
        segments: int = 2,
        first_position: int = 0,
        dropout: float = 0.0,
        eps: float = 1e-12,
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        # RoBERTa's tables begin with rows that no token uses; they are kept so that a folder is
        # written as it was read.
        self.position = nn.Embedding(first_position + length, width)
        self.segment = nn.Embedding(segments, width) if segments else None
        self.norm = nn.LayerNorm(width, eps)
        self.first_position = first_position
        self.dropout = dropout

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        """Give each token of the stream (T) its vector (T, D)."""
        x = self.token(ids)
        if self.segment is not None:
            x += self.segment(segments)
        x += self.position(positions + self.first_position)
        return drop(self.norm(x), self.dropout, self.training)
