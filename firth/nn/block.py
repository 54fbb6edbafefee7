"""The Transformer block: self-attention, then a feed-forward layer, each added to its input.

T tokens in the stream, B rows, D width, H heads, K head width, L tokens of a text. Normalised after
each addition in BERT, before each layer in GPT-2 ("Language Models are Unsupervised Multitask
Learners", Radford et al., 2019).
"""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.nn.attention import Attention, Biases
from firth.nn.cache import Cache
from firth.nn.cross import CrossAttention, Crossed, Pairing, Sources
from firth.nn.dropout import drop
from firth.nn.linear import Linear, step_product
from firth.nn.ragged import Group, Stretch


def _gelu(x: Tensor) -> Tensor:
    """Apply GELU, in place where no gradient needs its input, which is always a fresh tensor."""
    return F.gelu(x) if x.requires_grad else torch.ops.aten.gelu_(x)


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": _gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
}


class Block(nn.Module):
    """One layer over a ragged stream (T, D), normalised after (post) or before (pre) each part."""

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
        norm: Literal["pre", "post"] = "post",
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads, attention_dropout, causal)
        self.attention_norm = nn.LayerNorm(width, eps)
        self.up = Linear(width, inner)
        self.down = Linear(inner, width)
        self.norm = nn.LayerNorm(width, eps)
        self.activation = ACTIVATIONS[activation]
        self.dropout = dropout
        self.pre_norm = norm == "pre"

    def forward(self, x: Tensor, layout: list[Group], biases: Biases | None = None) -> Tensor:
        """Run the layer."""
        # What attention gives gets no name: that would keep it in memory to the layer's end.
        return self._finish(x, self.attention(self._input(self.attention_norm, x), layout, biases))

    def explain(
        self, x: Tensor, layout: list[Group], biases: Biases | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Run the layer and also return its attention weights, one (H L L) a text."""
        mixed, weights = self.attention.explain(self._input(self.attention_norm, x), layout, biases)
        return self._finish(x, mixed), weights

    def read(
        self, x: Tensor, parts: list[Stretch], before: Cache, after: Cache, layer: int
    ) -> Tensor:
        """Run a causal layer after what one cache holds, and keep it all in the other."""
        mixed = self.attention.read(
            self._input(self.attention_norm, x), parts, before, after, layer
        )
        return self._finish(x, mixed)

    def step(self, x: Tensor, cache: Cache, layer: int) -> Tensor:
        """Run a causal layer for one token a row (B, D), without dropout or gradient."""
        x = self._step_attention(x, cache, layer)
        return self._step_inner(x)

    def _step_attention(
        self, x: Tensor, cache: Cache, layer: int, bias: Tensor | None = None
    ) -> Tensor:
        """Attend for one token a row.

        Weights are looked up in their modules' own dictionaries: by attribute they take a fifth of
        a step's time.
        """
        parts = self._modules
        attention = parts["attention"]._modules  # type: ignore[union-attr]
        asked = self._step_input("attention_norm", x)
        qkv = step_product(asked, *_weights(attention["qkv"]))
        mixed = cache.attend(qkv, layer, bias)
        x = step_product(mixed, *_weights(attention["out"])).add_(x)
        return self._step_output("attention_norm", x)

    def _step_inner(self, x: Tensor) -> Tensor:
        """Run the feed-forward layer for one token a row."""
        parts = self._modules
        asked = self._step_input("norm", x)
        wide = step_product(asked, *_weights(parts["up"]))  # (B, inner)
        wide = self.activation(wide)
        x = step_product(wide, *_weights(parts["down"])).add_(x)
        return self._step_output("norm", x)

    def _step_input(self, norm: str, x: Tensor) -> Tensor:
        return _normalise(self._modules[norm], x) if self.pre_norm else x

    def _step_output(self, norm: str, x: Tensor) -> Tensor:
        return x if self.pre_norm else _normalise(self._modules[norm], x)

    def _input(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Return what a part of the layer reads."""
        if not self.pre_norm:
            return x
        normed: Tensor = norm(x)
        return normed

    def _finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Add what attention gave, and run the feed-forward layer."""
        return self._inner(self._add(x, mixed, self.attention_norm))

    def _inner(self, x: Tensor) -> Tensor:
        """Run the feed-forward layer, added to its input."""
        if self.pre_norm:
            return x + self._feed_forward(self.norm(x))
        total = self._feed_forward(x).add_(x)
        output: Tensor = self.norm(total)
        return output

    def _add(self, x: Tensor, mixed: Tensor, norm: nn.Module) -> Tensor:
        """Add what attention gave, normalised after it where that is the way."""
        mixed = drop(mixed, self.dropout, self.training)
        if self.pre_norm:
            # Not in place: under autocast `mixed` is bf16, and the sum that all layers add to
            # would be rounded to it.
            return x + mixed
        total: Tensor = norm(mixed.add_(x))
        return total

    def _feed_forward(self, x: Tensor) -> Tensor:
        wide = self.activation(self.up(x))  # (T, inner)
        return drop(self.down(wide), self.dropout, self.training)


class DecoderBlock(Block):
    """A causal layer that also attends to sources, between its two parts."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        eps: float = 1e-12,
        activation: str = "gelu",
        norm: Literal["pre", "post"] = "post",
    ) -> None:
        super().__init__(
            width, heads, inner, dropout, attention_dropout, eps, activation, causal=True, norm=norm
        )
        self.cross = CrossAttention(width, heads, attention_dropout)
        self.cross_norm = nn.LayerNorm(width, eps)

    def decode(
        self,
        x: Tensor,
        layout: list[Group],
        memory: Tensor,
        pairs: list[Pairing],
        biases: Biases | None = None,
    ) -> Tensor:
        """Run the layer over a stream of targets (U, D) and the vectors of their sources (S, D)."""
        x = self._attend(x, layout, biases)
        asked = self._input(self.cross_norm, x)
        return self._inner(self._add(x, self.cross(asked, memory, pairs), self.cross_norm))

    def explain_pairs(
        self,
        x: Tensor,
        layout: list[Group],
        memory: Tensor,
        pairs: list[Pairing],
        biases: Biases | None = None,
    ) -> tuple[Tensor, list[Crossed]]:
        """Run the layer and also return how each target attends to its source."""
        x = self._attend(x, layout, biases)
        mixed, crossed = self.cross.explain(self._input(self.cross_norm, x), memory, pairs)
        return self._inner(self._add(x, mixed, self.cross_norm)), crossed

    def _attend(self, x: Tensor, layout: list[Group], biases: Biases | None) -> Tensor:
        """Run the self-attention."""
        mixed = self.attention(self._input(self.attention_norm, x), layout, biases)
        return self._add(x, mixed, self.attention_norm)

    def step_pairs(
        self, x: Tensor, cache: Cache, sources: Sources, layer: int, bias: Tensor | None = None
    ) -> Tensor:
        """Run the layer for one token a row (B, D), without dropout or gradient."""
        x = self._step_attention(x, cache, layer, bias)
        cross = self._modules["cross"]._modules  # type: ignore[union-attr]
        query = step_product(self._step_input("cross_norm", x), *_weights(cross["query"]))
        mixed = sources.attend(query, layer)
        x = step_product(mixed, *_weights(cross["out"])).add_(x)
        return self._step_inner(self._step_output("cross_norm", x))


def _weights(layer: nn.Module | None) -> tuple[Tensor, Tensor]:
    """Return a layer's weight and bias."""
    held = layer._parameters  # type: ignore[union-attr]
    return held["weight"], held["bias"]  # type: ignore[return-value]


def _normalise(layer: nn.Module | None, x: Tensor) -> Tensor:
    """Apply a layer's normalisation."""
    assert isinstance(layer, nn.LayerNorm)
    return torch.layer_norm(x, x.shape[1:], *_weights(layer), layer.eps)
