"""The Transformer block as BERT has it: attention, then a wide layer, each added to its input and normalised after."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.nn.attention import Attention, Group
from firth.nn.dropout import drop
from firth.nn.linear import Linear


def _gelu(x: Tensor) -> Tensor:
    """GELU in place where no gradient needs its input; a layer always gives it a tensor of its own."""
    return F.gelu(x) if x.requires_grad else torch.ops.aten.gelu_(x)


Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {
    "gelu": _gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


class Block(nn.Module):
    """One post-norm layer over a ragged stream (T, D)."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        eps: float = 1e-12,
        activation: str = "gelu",
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads, attention_dropout, causal)
        self.attention_norm = nn.LayerNorm(width, eps)
        self.up = Linear(width, inner)
        self.down = Linear(inner, width)
        self.norm = nn.LayerNorm(width, eps)
        self.activation = ACTIVATIONS[activation]
        self.dropout = dropout

    def forward(self, x: Tensor, layout: list[Group]) -> Tensor:
        """Run the layer."""
        return self._finish(x, self.attention(x, layout))

    def explain(self, x: Tensor, layout: list[Group]) -> tuple[Tensor, list[Tensor]]:
        """Run the layer and also return its attention weights, one (H L L) a text."""
        mixed, weights = self.attention.explain(x, layout)
        return self._finish(x, mixed), weights

    def _finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        x = self.attention_norm(drop(mixed, self.dropout, self.training).add_(x))
        wide = self.activation(self.up(x))  # (T, inner)
        return self.norm(drop(self.down(wide), self.dropout, self.training).add_(x))  # type: ignore[no-any-return]
