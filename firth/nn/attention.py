"""Attention over a ragged stream of texts: each token sees the tokens of its own text and no others.

T tokens in the stream, B texts, D width, H heads, K head width; within a group: N texts of L tokens.
"Attention Is All You Need", Vaswani et al., 2017.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from firth.nn.dropout import drop_factors
from firth.nn.linear import Linear


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
    q, k, v = (
        _rows(qkv, group)
        .view(group.texts, group.length, 3, heads, -1)
        .permute(2, 0, 3, 1, 4)
        .unbind(0)
    )
    return q, k, v


def _stream(mixed: list[Tensor]) -> Tensor:
    """Put groups (N H L K) back one after another, (T, D)."""
    flat = [group.transpose(1, 2).flatten(0, 1).flatten(1) for group in mixed]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


class Attention(nn.Module):
    """Multi-head attention of a text on itself, one matrix for queries, keys and values; `causal` sees only what came before."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.causal = causal
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width)

    def forward(self, x: Tensor, layout: list[Group]) -> Tensor:
        """Attend with torch's fused kernel or, where gradients are wanted, with a pair of passes of our own."""
        qkv = self.qkv(x)  # (T, 3 D)
        rate = self.dropout if self.training else 0.0
        if qkv.requires_grad or rate:
            return self.out(_Mix.apply(qkv, layout, self.heads, self.causal, rate))  # type: ignore[no-untyped-call, no-any-return]
        heads = (_heads(qkv, group, self.heads) for group in layout)
        mixed = [F.scaled_dot_product_attention(*qkv, is_causal=self.causal) for qkv in heads]
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
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # (... L L)
    shares = (scores.masked_fill(_later(scores), -torch.inf) if causal else scores).softmax(
        -1
    )  # (... L L)
    return shares @ v, shares


def _later(scores: Tensor) -> Tensor:
    """Which keys come after which queries (L L)."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)


class _Mix(torch.autograd.Function):
    """Queries, keys and values of a stream (T, 3 D) to mixed values (T, D), with its gradient.

    The fused kernel's gradient on a CPU takes twice as long as this, and torch's own way back from a part of a stream fills an
    array as large as the stream for every group. In single precision also where layers are in bf16: such small products of
    ever new shapes take three to nine times as long in bf16.
    """

    @staticmethod
    @torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]
    def forward(
        context: Any, qkv: Tensor, layout: list[Group], heads: int, causal: bool, rate: float
    ) -> Tensor:
        qkv = qkv.to(torch.promote_types(qkv.dtype, torch.float32))
        width = qkv.shape[1] // 3
        mixed = qkv.new_empty(len(qkv), width)
        saved: list[Tensor] = []
        for group in layout:
            piece = _rows(qkv, group).view(group.texts, group.length, 3, heads, -1)
            q, k, v = (
                piece.permute(2, 0, 3, 1, 4)
                .reshape(3, group.texts * heads, group.length, -1)
                .unbind(0)
            )  # (N H, L, K)
            q = q * q.shape[-1] ** -0.5  # half as large as the scores
            scores = torch.bmm(q, k.transpose(1, 2))
            if causal:
                scores.masked_fill_(_later(scores), -torch.inf)
            shares = torch.softmax(scores, -1)
            factors = drop_factors(shares, rate)
            out = torch.bmm(shares if factors is None else shares * factors, v)
            _rows(mixed, group).view(group.texts, group.length, heads, -1).copy_(_apart(out, group))
            saved += [q, k, v, shares, *([] if factors is None else [factors])]
        context.save_for_backward(*saved)
        context.layout, context.heads, context.rate = layout, heads, rate
        return mixed

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor, None, None, None, None]:
        heads, dropped = context.heads, context.rate > 0
        result = slope.new_empty(len(slope), 3 * slope.shape[1])
        saved = iter(context.saved_tensors)
        for group in context.layout:
            q, k, v, shares = (next(saved) for _ in range(4))
            factors = next(saved) if dropped else None
            rows = _rows(slope, group).view(group.texts, group.length, heads, -1)
            above = rows.permute(0, 2, 1, 3).reshape(
                group.texts * heads, group.length, -1
            )  # (N H, L, K)
            used = shares if factors is None else shares * factors
            dv = torch.bmm(used.transpose(1, 2), above)
            ds = torch.bmm(above, v.transpose(1, 2))
            if factors is not None:
                ds *= factors
            ds = torch.ops.aten._softmax_backward_data(ds, shares, -1, shares.dtype)
            place = _rows(result, group).view(group.texts, group.length, 3, heads, -1)
            dq = torch.bmm(ds, k).mul_(q.shape[-1] ** -0.5)
            for part, gradient in enumerate((dq, torch.bmm(ds.transpose(1, 2), q), dv)):
                place[:, :, part].copy_(_apart(gradient, group))
        return result, None, None, None, None


def _rows(stream: Tensor, group: Group) -> Tensor:
    return stream.narrow(0, group.start, group.texts * group.length)


def _apart(x: Tensor, group: Group) -> Tensor:
    """Heads of a group (N H, L, K) in the order of the stream, (N, L, H, K)."""
    return x.view(group.texts, -1, *x.shape[1:]).permute(0, 2, 1, 3)
