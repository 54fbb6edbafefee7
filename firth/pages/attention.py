"""The section of attention: every head's weights and, of short texts, the vectors behind them.

N layers, H heads, L tokens, K head width.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from firth.pages.page import Array, Fixed, PageSection, fixed

WHOLE = 128  # tokens of a text whose weights and vectors are all in the page
LARGEST = 32  # weights of each query that are in the page of a longer one
UNIT = 10**4  # weights have four decimals


class Heads(NamedTuple):
    """What the heads of every layer compute for a text."""

    weights: Array  # (N, H, L, L)
    queries: Array  # (N, H, L, K)
    keys: Array
    values: Array
    sums: Array
    bias: Array | None  # (H, L, L)
    causal: bool


def attention_section(
    tokens: Sequence[str],
    parts: Sequence[int | None],
    heads: Heads,
    query: int | None = None,
    layer: int = 0,
    head: int = 0,
) -> PageSection:
    """Return the section; of a text of up to 128 tokens it holds every number.

    Of a longer one it holds the 32 largest weights of each query and the sum of the others.
    """
    depth, count, length, _ = heads.weights.shape
    whole = length <= WHOLE
    pack = _all_weights if whole else _largest_weights
    data: dict[str, Any] = {
        "tokens": list(tokens),
        "parts": list(parts),
        "heads": count,
        "width": heads.queries.shape[-1],
        "causal": heads.causal,
        "weights": [pack(heads.weights[layer]) for layer in range(depth)],
        "chosen": {"layer": layer, "head": head, "query": query},
    }
    if whole:
        data["vectors"] = [_vectors(heads, layer) for layer in range(depth)]
    return PageSection("attention", "Attention", data)


def _all_weights(weights: Array) -> dict[str, Any]:
    """Return all weights of a layer (H, L, L)."""
    return {"all": _in_units(weights)}


def _largest_weights(weights: Array) -> dict[str, Any]:
    """Return the largest weights of each query of a layer, by falling weight, and what is left."""
    largest = np.argpartition(-weights, LARGEST - 1, axis=-1)[..., :LARGEST]
    found = np.take_along_axis(weights, largest, axis=-1)
    order = np.argsort(-found, axis=-1, kind="stable")
    index = np.take_along_axis(largest, order, axis=-1)
    kept = np.take_along_axis(found, order, axis=-1)
    rest = 1 - kept.sum(-1, dtype=np.float64)
    return {
        "index": index.astype(np.uint16),
        "weight": _in_units(kept),
        "rest": _in_units(rest.clip(0, 1)),
    }


def _in_units(weights: Array) -> Fixed:
    """Return weights from 0 to 1 as they are printed."""
    return Fixed(np.rint(weights.astype(np.float64) * UNIT).astype(np.uint16), 4)


def _vectors(heads: Heads, layer: int) -> dict[str, Any]:
    """Return the vectors of a layer by the names that the page has for them."""
    found: dict[str, Any] = {
        "q": fixed(heads.queries[layer]),
        "k": fixed(heads.keys[layer]),
        "v": fixed(heads.values[layer]),
        "sum": fixed(heads.sums[layer]),
    }
    if heads.bias is not None:
        found["bias"] = fixed(heads.bias)
    return found
