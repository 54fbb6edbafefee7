"""Attention over a ragged stream of texts: each token sees the tokens of its own text and no others.

T tokens in the stream, B texts, D width, H heads, K head width; within a group: N texts of L tokens.
"Attention Is All You Need", Vaswani et al., 2017.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Group(NamedTuple):
    """Neighbouring texts of one length: a rectangle as it stands in the stream, attended in one kernel call."""

    start: int  # first token in the stream
    texts: int
    length: int


def groups(lengths: Sequence[int]) -> list[Group]:
    """Cut a stream into runs of equal length; few where it is sorted by length, right in any order.

    Padding near-equal lengths into one rectangle was measured and never paid: a call costs less than the copies and the mask.
    """
    found, start = [], 0
    for length, run in groupby(lengths):
        found.append(Group(start, len(list(run)), length))
        start += found[-1].texts * length
    return found


def _heads(qkv: Tensor, group: Group, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """A group's queries, keys and values, each (N H L K): views of the stream, nothing is copied."""
    piece = qkv.narrow(0, group.start, group.texts * group.length)  # (N L, 3 D)
    q, k, v = piece.view(group.texts, group.length, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    return q, k, v


def _stream(mixed: list[Tensor]) -> Tensor:
    """Put groups (N H L K) back one after another, (T, D)."""
    flat = [group.transpose(1, 2).flatten(0, 1).flatten(1) for group in mixed]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


class Attention(nn.Module):
    """Multi-head attention of a text on itself, with one matrix for queries, keys and values; `causal` sees only what was before."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.causal = causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, layout: list[Group]) -> Tensor:
        """Attend with the fused kernel."""
        qkv = self.qkv(x)  # (T, 3 D)
        rate = self.dropout if self.training else 0.0
        mixed = []
        for group in layout:
            q, k, v = _heads(qkv, group, self.heads)
            # A lone token sees itself alone; the kernel's gradient of that certainty would be rounding noise, not zero.
            alone = group.length == 1 and not rate
            mixed.append(v if alone else F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=self.causal))
        return self.out(_stream(mixed))  # type: ignore[no-any-return]

    def explain(self, x: Tensor, layout: list[Group]) -> tuple[Tensor, list[Tensor]]:
        """Attend step by step and also return the weights of each text, (H L L) with its own L, in stream order."""
        qkv = self.qkv(x)  # (T, 3 D)
        mixed: list[Tensor] = []
        weights: list[Tensor] = []
        for group in layout:
            values, shares = attend(*_heads(qkv, group, self.heads), self.causal)
            mixed.append(values)
            weights += shares.unbind(0)
        return self.out(_stream(mixed)), weights


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention in the open: the mixed values and the share that each query gives each key."""
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5  # (N H L L)
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), -torch.inf)
    shares = scores.softmax(-1)  # (N H L L)
    return shares @ v, shares
