"""The section of attention: every head's weights and, of short texts, the vectors behind them.

N layers, H heads, K head width, Q tokens that look, L tokens that are looked at: those of one text
in self-attention, those of a target and of its source in cross-attention.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from firth.pages.page import Array, Fixed, PageSection, fixed

WHOLE = 128  # tokens of a text whose weights and vectors are all in the page
LARGEST = 32  # weights of each query that are in the page of a longer one
UNIT = 10**4  # weights have four decimals


class Heads(NamedTuple):
    """What the heads of every layer compute."""

    weights: Array  # (N, H, Q, L)
    queries: Array  # (N, H, Q, K)
    keys: Array  # (N, H, L, K)
    values: Array
    sums: Array  # (N, H, Q, K)
    bias: Array | None  # (H, L, L)
    causal: bool
    scaled: bool = True  # whether products are divided by the root of K


class Chosen(NamedTuple):
    """What is chosen when the page is opened."""

    layer: int = 0
    head: int = 0
    query: int | None = None


FIRST = Chosen()  # the first head of the first layer, and all tokens


def attention_section(
    tokens: Sequence[str],
    parts: Sequence[int | None],
    heads: Heads,
    chosen: Chosen = FIRST,
    title: str = "Attention",
) -> PageSection:
    """Return the section of a text that looks at itself."""
    return PageSection("attention", title, attention_data(tokens, parts, heads, chosen))


def attention_data(
    tokens: Sequence[str],
    parts: Sequence[int | None],
    heads: Heads,
    chosen: Chosen,
    keys: Sequence[str] | None = None,
    mean: bool = False,
) -> dict[str, Any]:
    """Return the numbers; of texts of up to 128 tokens all of them.

    Of longer ones the 32 largest weights of each query and the sum of the others. `keys` are the
    tokens looked at, where they are others than those that look, and `mean` adds that of the heads.
    """
    depth, count, *sizes = heads.weights.shape
    whole = max(sizes) <= WHOLE
    pack = _all_weights if whole else _largest_weights
    weights = heads.weights
    if mean:
        weights = np.concatenate([weights, weights.mean(1, keepdims=True)], 1)  # (N, H + 1, Q, L)
    data: dict[str, Any] = {
        "tokens": list(tokens),
        "parts": list(parts),
        "keys": None if keys is None else list(keys),
        "heads": count,
        "mean": mean,
        "width": heads.queries.shape[-1],
        "causal": heads.causal,
        "scaled": heads.scaled,
        "weights": [pack(weights[layer]) for layer in range(depth)],
        "chosen": chosen._asdict(),
    }
    if whole:
        data["vectors"] = [_vectors(heads, layer) for layer in range(depth)]
    return data


def _all_weights(weights: Array) -> dict[str, Any]:
    """Return all weights of a layer (H, Q, L)."""
    return {"all": _in_units(weights)}


def _largest_weights(weights: Array) -> dict[str, Any]:
    """Return the largest weights of each query of a layer, by falling weight, and what is left."""
    kept = min(LARGEST, weights.shape[-1])
    largest = np.argpartition(-weights, kept - 1, axis=-1)[..., :kept]
    found = np.take_along_axis(weights, largest, axis=-1)
    order = np.argsort(-found, axis=-1, kind="stable")
    index = np.take_along_axis(largest, order, axis=-1)
    weight = np.take_along_axis(found, order, axis=-1)
    rest = 1 - weight.sum(-1, dtype=np.float64)
    return {
        "index": index.astype(np.uint16),
        "weight": _in_units(weight),
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
