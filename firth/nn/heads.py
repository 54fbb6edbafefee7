"""What stands on top of an encoder: the layers that turn its vectors into logits.

T tokens in the stream, B texts, D width, V vocabulary.
"""

import torch
from torch import Tensor, nn

from firth.nn.block import ACTIVATIONS
from firth.nn.dropout import drop
from firth.nn.linear import Linear, linear

SUMMARIES = {"tanh": torch.tanh, "relu": torch.relu}  # activations of a pooler


class Pooler(Linear):
    """BERT's summary of a text: its first token through a dense layer and tanh.

    DistilBERT has ReLU instead, RoBERTa drops the layer's input too.
    """

    def __init__(self, width: int, activation: str = "tanh", input_dropout: float = 0.0) -> None:
        super().__init__(width, width)
        self.activation = SUMMARIES[activation]
        self.input_dropout = input_dropout

    def forward(self, first: Tensor) -> Tensor:
        """Summarise (B, D) to (B, D)."""
        dropped = drop(first, self.input_dropout, self.training)
        return self.activation(super().forward(dropped))


class MaskedHead(nn.Module):
    """Logits over the vocabulary for chosen tokens.

    Give the embedding's table as `table` to tie the two.
    """

    def __init__(
        self,
        width: int,
        vocab: int,
        eps: float = 1e-12,
        activation: str = "gelu",
        table: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.dense = Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(width, eps)
        fresh = torch.empty(vocab, width).normal_(0.0, 0.02) if table is None else table
        self.table = fresh if isinstance(fresh, nn.Parameter) else nn.Parameter(fresh)
        self.bias = nn.Parameter(torch.zeros(vocab))

    def prepare(self, x: Tensor) -> Tensor:
        """Turn (T, D) into what is compared with the table, (T, D)."""
        return self.norm(self.activation(self.dense(x)))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (T, V) of (T, D); choose the rows first, the vocabulary is wide."""
        return linear(self.prepare(x), self.table, self.bias)


class PretrainHead(nn.Module):
    """The two heads of BERT's pretraining: masked words, and the next sentence (may be None)."""

    def __init__(self, masked: MaskedHead, following: nn.Linear | None) -> None:
        super().__init__()
        self.masked = masked
        self.next = following


class LinearHead(nn.Module):
    """One linear layer over a text's summary or over each token, behind dropout."""

    def __init__(self, width: int, outputs: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        self.linear = Linear(width, outputs, bias)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of (B, D) or (T, D)."""
        return self.linear(drop(x, self.dropout, self.training))  # type: ignore[no-any-return]
