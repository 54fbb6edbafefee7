"""T5's layers: linear without a bias, and normalised before each part by the root mean square.

T tokens in the stream, B rows, D width, H heads, L tokens of a text. "Exploring the Limits of
Transfer Learning with a Unified Text-to-Text Transformer", Raffel et al., 2020; the gate is from
"GLU Variants Improve Transformer", Shazeer, 2020.

Heads have a width of their own, and their logits aren't scaled. The feed-forward layer also drops
inside.
"""

from collections.abc import Callable

from torch import Tensor, nn

from firth.nn.attention import Attention, Biases
from firth.nn.block import ACTIVATIONS
from firth.nn.cache import Cache
from firth.nn.cross import CrossAttention, Crossed, Pairing, Sources
from firth.nn.dropout import drop
from firth.nn.linear import Linear, linear, step_product
from firth.nn.ragged import Group

Product = Callable[[Tensor, Tensor], Tensor]


class T5Block(nn.Module):
    """A layer of the encoder over a ragged stream (T, D)."""

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int,
        inner: int,
        dropout: float,
        eps: float,
        activation: str,
        gated: bool,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout, causal, head_width, scale=1, bias=False)
        self.attention_norm = nn.RMSNorm(width, eps)
        self.up = None if gated else Linear(width, inner, bias=False)
        self.gated_up = Linear(width, 2 * inner, bias=False) if gated else None
        self.down = Linear(inner, width, bias=False)
        self.norm = nn.RMSNorm(width, eps)
        self.activation = ACTIVATIONS[activation]
        self.dropout = dropout

    def set_dropout(self, probability: float) -> None:
        """Let every part drop with one probability."""
        self.dropout = probability
        self.attention.dropout = probability

    def forward(self, x: Tensor, layout: list[Group], biases: Biases) -> Tensor:
        """Run the layer."""
        return self._inner(self._attend(x, layout, biases))

    def _attend(self, x: Tensor, layout: list[Group], biases: Biases) -> Tensor:
        """Run the self-attention."""
        return self._add(x, self.attention(self.attention_norm(x), layout, biases))

    def _inner(self, x: Tensor) -> Tensor:
        """Run the feed-forward layer."""
        return self._add(x, self._feed_forward(self.norm(x), linear))

    def _add(self, x: Tensor, part: Tensor) -> Tensor:
        return x + drop(part, self.dropout, self.training)

    def _feed_forward(self, x: Tensor, product: Product) -> Tensor:
        if self.gated_up is not None:
            both = product(x, self.gated_up.weight)  # (T, 2 inner)
            gate, wide = both.chunk(2, 1)
            wide = self.activation(gate) * wide
        else:
            assert self.up is not None
            wide = self.activation(product(x, self.up.weight))  # (T, inner)
        return product(drop(wide, self.dropout, self.training), self.down.weight)


class T5DecoderBlock(T5Block):
    """A layer of the decoder: it also attends to sources, between its two parts."""

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int,
        inner: int,
        dropout: float,
        eps: float,
        activation: str,
        gated: bool,
    ) -> None:
        super().__init__(
            width, heads, head_width, inner, dropout, eps, activation, gated, causal=True
        )
        self.cross = CrossAttention(width, heads, dropout, head_width, scale=1, bias=False)
        self.cross_norm = nn.RMSNorm(width, eps)

    def set_dropout(self, probability: float) -> None:
        """Let every part drop with one probability."""
        super().set_dropout(probability)
        self.cross.dropout = probability

    def decode(
        self,
        x: Tensor,
        layout: list[Group],
        memory: Tensor,
        pairs: list[Pairing],
        biases: Biases,
    ) -> Tensor:
        """Run the layer over a stream of targets (U, D) and the vectors of their sources (S, D)."""
        x = self._attend(x, layout, biases)
        return self._inner(self._add(x, self.cross(self.cross_norm(x), memory, pairs)))

    def explain_pairs(
        self,
        x: Tensor,
        layout: list[Group],
        memory: Tensor,
        pairs: list[Pairing],
        biases: Biases,
    ) -> tuple[Tensor, list[Crossed]]:
        """Run the layer and also return how each target attends to its source."""
        x = self._attend(x, layout, biases)
        mixed, crossed = self.cross.explain(self.cross_norm(x), memory, pairs)
        return self._inner(self._add(x, mixed)), crossed

    def step_pairs(
        self, x: Tensor, cache: Cache, sources: Sources, layer: int, bias: Tensor
    ) -> Tensor:
        """Run the layer for one token a row (B, D), without dropout or gradient."""
        qkv = step_product(self.attention_norm(x), self.attention.qkv.weight)
        mixed = cache.attend(qkv, layer, bias, self.attention.scale)
        x = step_product(mixed, self.attention.out.weight).add_(x)

        query = step_product(self.cross_norm(x), self.cross.query.weight)
        mixed = sources.attend(query, layer)
        x = step_product(mixed, self.cross.out.weight).add_(x)
        return self._feed_forward(self.norm(x), step_product).add_(x)
