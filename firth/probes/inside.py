"""What attention computes for one text, layer by layer and in all its parts.

N layers, H heads, L tokens, Q tokens that look at them, D width, K head width. In self-attention
the tokens of a text look at each other, in cross-attention those of a target at those of a source.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from firth.nn.attention import Attention, attend
from firth.nn.cross import Crossed
from firth.predictor import Predictor
from firth.probes.row import Row
from firth.tasks.attention import check_attention


class Inside(NamedTuple):
    """What the heads of all layers compute, from the first layer to the last."""

    weights: Tensor  # (N, H, Q, L)
    queries: Tensor  # (N, H, Q, K)
    keys: Tensor  # (N, H, L, K)
    values: Tensor
    sums: Tensor  # (N, H, Q, K) of values, as each head gives them
    bias: Tensor | None = None  # (H, L, L) what the model adds to the scaled products of each layer
    causal: bool = False
    scaled: bool = True  # whether products are divided by the root of K, as all but T5 do


def look_inside(predictor: Predictor, row: Row) -> Inside:
    """Return what a model with attention computes for a text."""
    encoder = predictor.bundle.encoder
    check_attention(encoder)
    layers = encoder.attention_layers()
    with predictor.computing(), torch.inference_mode(), caught(layers) as (qkv, mixed):
        encoder(*row.batch().stream, weights=True)  # attends by the same steps
        bias = encoder.attention_bias(len(row.tokens))
        return of_self_attention(layers, qkv, mixed, bias)


def of_self_attention(
    layers: Sequence[Attention],
    qkv: Sequence[Tensor],
    mixed: Sequence[Tensor],
    bias: Tensor | None = None,
) -> Inside:
    """Return the parts of layers whose products (L, 3 D) and sums (L, D) were caught."""
    heads = layers[0].heads
    causal = layers[0].causal
    parts = torch.stack([*qkv])  # (N, L, 3 D)
    depth, length, _ = parts.shape
    by_head = parts.view(depth, length, 3, heads, -1).permute(2, 0, 3, 1, 4)  # (3, N, H, L, K)
    queries, keys, values = by_head.unbind(0)
    _, weights = attend(queries, keys, values, causal, bias)  # (N, H, L, L)
    sums = torch.stack([*mixed]).view(depth, length, heads, -1).transpose(1, 2)  # (N, H, L, K)
    return Inside(weights, queries, keys, values, sums, bias, causal)


def of_cross_attention(layers: Sequence[Crossed]) -> Inside:
    """Return the parts of what each layer looks at of a source."""
    parts = (torch.stack([*every]) for every in zip(*(one[:-1] for one in layers), strict=True))
    queries, keys, values, weights = parts
    sums = weights @ values
    return Inside(weights, queries, keys, values, sums, scaled=layers[0].scale != 1)


@contextmanager
def caught(layers: Sequence[Attention]) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Catch what attention's two products are made of: queries, keys and values, and their sums."""
    qkv: list[Tensor] = []
    mixed: list[Tensor] = []

    def after(_module: nn.Module, _given: Any, result: Tensor) -> None:
        qkv.append(result)

    def before(_module: nn.Module, given: Sequence[Tensor]) -> None:
        mixed.append(given[0])

    handles = []
    for attention in layers:
        handles.append(attention.qkv.register_forward_hook(after))
        handles.append(attention.out.register_forward_pre_hook(before))
    try:
        yield qkv, mixed
    finally:
        for handle in handles:
            handle.remove()
