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
        return self._finish(x, self.attention(self._attention_input(x), layout, biases))

    def explain(
        self, x: Tensor, layout: list[Group], biases: Biases | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Run the layer and also return its attention weights, one (H L L) a text."""
        mixed, weights = self.attention.explain(self._attention_input(x), layout, biases)
        return self._finish(x, mixed), weights

    def read(
        self, x: Tensor, parts: list[Stretch], before: Cache, after: Cache, layer: int
    ) -> Tensor:
        """Run a causal layer after what one cache holds, and keep it all in the other."""
        mixed = self.attention.read(self._attention_input(x), parts, before, after, layer)
        return self._finish(x, mixed)

    def step(self, x: Tensor, cache: Cache, layer: int) -> Tensor:
        """Run a causal pre-norm layer for one token a row (B, D), without dropout or gradient.

        The token's keys and values go to the free column of the cache. Weights are looked up in
        their modules' own dictionaries: by attribute they take a fifth of a step's time.
        """
        parts = self._modules
        attention = parts["attention"]._modules  # type: ignore[union-attr]
        memory, keys, values = cache.store.layers[layer]
        stop = cache.end + 1

        normed = _normalise(parts["attention_norm"], x)
        qkv = step_product(normed, *_weights(attention["qkv"]))
        qkv = qkv.view(len(x), 3, *memory.shape[3:])  # (B, 3, H, K)
        memory[:, :, cache.end].copy_(qkv[:, 1:].transpose(0, 1))

        query = qkv[:, 0, :, None]  # (B H 1 K)
        keys = keys[:, :, :stop]
        values = values[:, :, :stop]
        mask = cache.mask
        if mask is not None:
            mask = mask[..., :stop]
        mixed = F.scaled_dot_product_attention(query, keys, values, mask).view(x.shape)
        x = step_product(mixed, *_weights(attention["out"])).add_(x)

        normed = _normalise(parts["norm"], x)
        wide = step_product(normed, *_weights(parts["up"]))  # (B, inner)
        wide = self.activation(wide)
        return step_product(wide, *_weights(parts["down"])).add_(x)

    def _attention_input(self, x: Tensor) -> Tensor:
        if not self.pre_norm:
            return x
        normed: Tensor = self.attention_norm(x)
        return normed

    def _finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Add what attention gave, and run the feed-forward layer."""
        mixed = drop(mixed, self.dropout, self.training)
        if self.pre_norm:
            # Not in place: under autocast `mixed` is bf16, and the sum that all layers add to
            # would be rounded to it.
            x = x + mixed
            return x + self._feed_forward(self.norm(x))
        x = self.attention_norm(mixed.add_(x))
        total = self._feed_forward(x).add_(x)
        output: Tensor = self.norm(total)
        return output

    def _feed_forward(self, x: Tensor) -> Tensor:
        wide = self.activation(self.up(x))  # (T, inner)
        return drop(self.down(wide), self.dropout, self.training)


def _weights(layer: nn.Module | None) -> tuple[Tensor, Tensor]:
    """Return a layer's weight and bias."""
    held = layer._parameters  # type: ignore[union-attr]
    return held["weight"], held["bias"]  # type: ignore[return-value]


def _normalise(layer: nn.Module | None, x: Tensor) -> Tensor:
    """Apply a layer's normalisation."""
    assert isinstance(layer, nn.LayerNorm)
    return torch.layer_norm(x, x.shape[1:], *_weights(layer), layer.eps)
