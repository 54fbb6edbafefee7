"""Attention over a ragged stream of texts: each token sees the tokens of its own text and no others.

T tokens in the stream, B texts, D width, H heads, K head width; within a group: N texts, L tokens of its longest text.
"Attention Is All You Need", Vaswani et al., 2017.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# A run of equal lengths with this many tokens is worth a kernel call of its own; shorter ones share a padded rectangle.
TOKENS_WORTH_A_CALL = 384
MOST_PADDING = 1.25  # tokens of such a rectangle over its real tokens


class Group(NamedTuple):
    """Neighbouring texts that attend in one kernel call; the last three are None where all have one length."""

    start: int  # first token in the stream
    stop: int
    texts: int
    longest: int
    rows: Tensor | None  # (N L) token of the stream for each cell; cells past a text's end repeat its last token
    mask: Tensor | None  # (N 1 1 L) true where a cell holds a token
    cells: Tensor | None  # (stop - start) cell of each token


def groups(lengths: Sequence[int], device: torch.device | None = None) -> list[Group]:
    """Cut a stream into groups of near-equal length; best on a stream that is sorted by length, right on any."""
    runs: list[list[int]] = []  # each a list of lengths that share a rectangle
    for length in lengths:
        if runs and _joins(runs[-1], length):
            runs[-1].append(length)
        else:
            runs.append([length])
    found, start = [], 0
    for run in runs:
        found.append(_group(run, start, device))
        start = found[-1].stop
    return found


def _joins(run: list[int], length: int) -> bool:
    if length == run[-1] == run[0]:
        return True
    real = sum(run)
    if run[0] == run[-1] and real >= TOKENS_WORTH_A_CALL:
        return False
    return max(length, *run) * (len(run) + 1) <= MOST_PADDING * (real + length)


def _group(run: list[int], start: int, device: torch.device | None) -> Group:
    longest, total = max(run), sum(run)
    if min(run) == longest:
        return Group(start, start + total, len(run), longest, None, None, None)
    sizes = torch.tensor(run, device=device)  # (N)
    column = torch.arange(longest, device=device)  # (L)
    mask = column < sizes[:, None]  # (N L)
    first = sizes.cumsum(0) - sizes + start  # (N)
    rows = first[:, None] + torch.minimum(column, sizes[:, None] - 1)  # (N L)
    return Group(start, start + total, len(run), longest, rows.flatten(), mask[:, None, None], mask.flatten().nonzero()[:, 0])


def _heads(qkv: Tensor, group: Group, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Give a group's queries, keys and values as rectangles; without padding they are views of the stream."""
    piece = qkv[group.start : group.stop] if group.rows is None else qkv[group.rows]  # (N L, 3 D)
    q, k, v = piece.view(group.texts, group.longest, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)  # each (N H L K)
    return q, k, v


def _stream(out: Tensor, group: Group) -> Tensor:
    flat = out.transpose(1, 2).reshape(group.texts * group.longest, -1)  # (N L, D)
    return flat if group.cells is None else flat[group.cells]


class Attention(nn.Module):
    """Multi-head attention of a text on itself, with one matrix for queries, keys and values."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, layout: list[Group]) -> Tensor:
        """Attend with the fused kernel."""
        qkv = self.qkv(x)  # (T, 3 D)
        rate = self.dropout if self.training else 0.0
        outs = []
        for group in layout:
            q, k, v = _heads(qkv, group, self.heads)
            # A lone token sees itself alone; the kernel's gradient of that certainty would be rounding noise, not zero.
            alone = group.longest == 1 and not rate
            mixed = v if alone else F.scaled_dot_product_attention(q, k, v, group.mask, rate)
            outs.append(_stream(mixed, group))
        x = outs[0] if len(outs) == 1 else torch.cat(outs)  # (T, D)
        return self.out(x)  # type: ignore[no-any-return]

    def explain(self, x: Tensor, layout: list[Group]) -> tuple[Tensor, list[Tensor]]:
        """Attend step by step and also return the weights of each text, (H L L) with its own L, in stream order."""
        qkv = self.qkv(x)  # (T, 3 D)
        outs, weights = [], []
        for group in layout:
            q, k, v = _heads(qkv, group, self.heads)
            mixed, shares = attend(q, k, v, group.mask)
            outs.append(_stream(mixed, group))
            sizes = [group.longest] * group.texts if group.mask is None else group.mask.sum(-1).flatten().tolist()
            weights += [shares[i, :, :size, :size] for i, size in enumerate(sizes)]
        return self.out(torch.cat(outs)), weights


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention in the open: the mixed values and the share that each query gives each key."""
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5  # (N H L L)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    shares = scores.softmax(-1)
    return shares @ v, shares
