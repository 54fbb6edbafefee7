"""What an encoder computes for one text, layer by layer: attention in all its parts, and vectors.

N layers, H heads, L tokens, D width, K head width.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from firth.models.protocols import Encoder
from firth.predictor import Predictor
from firth.probes.row import Row
from firth.tasks.attention import check_attention


class Inside(NamedTuple):
    """What one pass over a text leaves, from the first layer to the last."""

    weights: Tensor  # (N, H, L, L)
    queries: Tensor  # (N, H, L, K)
    keys: Tensor
    values: Tensor
    sums: Tensor  # of values, as each head gives them
    layers: Tensor  # (N + 1, L, D) the embedding and every layer
    bias: Tensor | None  # (H, L, L) what the model adds to the scaled products in every layer
    causal: bool


def look_inside(predictor: Predictor, row: Row) -> Inside:
    """Return what a model with attention computes for a text."""
    encoder = predictor.bundle.encoder
    check_attention(encoder)
    with predictor.computing(), torch.inference_mode(), _caught(encoder) as (qkv, mixed):
        hidden = encoder(*row.batch().stream, layers=True, weights=True)
    attention = encoder.attention_layers()
    heads = attention[0].heads
    weights = torch.stack([layer[0] for layer in hidden.weights])  # (N, H, L, L)
    causal = attention[0].causal
    parts = torch.stack(qkv)  # (N, L, 3 D)
    depth, length, _ = parts.shape
    by_head = parts.view(depth, length, 3, heads, -1).permute(2, 0, 3, 1, 4)  # (3, N, H, L, K)
    queries, keys, values = by_head.unbind(0)
    sums = torch.stack(mixed).view(depth, length, heads, -1).transpose(1, 2)  # (N, H, L, K)
    layers = torch.stack([layer.float() for layer in hidden.layers])
    with torch.inference_mode():
        bias = encoder.attention_bias(length)
    return Inside(weights, queries, keys, values, sums, layers, bias, causal)


@contextmanager
def _caught(encoder: Encoder) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Catch what attention's two products are made of: queries, keys and values, and their sums."""
    qkv: list[Tensor] = []
    mixed: list[Tensor] = []

    def after(_module: nn.Module, _given: Any, result: Tensor) -> None:
        qkv.append(result)

    def before(_module: nn.Module, given: Sequence[Tensor]) -> None:
        mixed.append(given[0])

    handles = []
    for attention in encoder.attention_layers():
        handles.append(attention.qkv.register_forward_hook(after))
        handles.append(attention.out.register_forward_pre_hook(before))
    try:
        yield qkv, mixed
    finally:
        for handle in handles:
            handle.remove()
