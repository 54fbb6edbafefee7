"""One vector a text from the vectors of its tokens.

T tokens in the stream, B texts, D width.
"""

import torch
from torch import Tensor


def first_tokens(lengths: Tensor) -> Tensor:
    """Return the row of each text's first token in the stream, (B)."""
    return lengths.cumsum(0) - lengths


def pool(x: Tensor, lengths: Tensor, how: str) -> Tensor:
    """Reduce a stream (T, D) to one vector a text (B, D): `mean`, `max` or first token (`cls`)."""
    if how == "cls":
        return x[first_tokens(lengths).to(x.device)]
    if how not in ("mean", "max"):
        raise ValueError(f"unknown pooling {how!r}")
    return torch.segment_reduce(x, how, lengths=lengths.to(x.device))
