"""Cross-attention: each target token sees all tokens of its own source, and of no other.

S source tokens, U target tokens, D width, H heads, K head width; within a pairing: N pairs of L
target tokens and at most M source tokens. "Attention Is All You Need", Vaswani et al., 2017.

Runs of pairs that are alike in both lengths are short: a batch of 4,000 tokens has a hundred. So
rectangles are cut by the lengths of targets alone, and the source tokens that a pair lacks are
masked in the logits. Of what a layer computes the logits are some per cent; the calls would be
half. No vector is made for what is lacking.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from firth.nn.attention import scale_of, unweigh, weigh
from firth.nn.linear import Linear
from firth.nn.ragged import Group, groups, row_places

T = TypeVar("T")  # what was found for a target


class Pairing(NamedTuple):
    """Neighbouring targets of one length, and where the tokens of their sources stand."""

    group: Group  # their tokens in the stream of targets
    places: Tensor  # (N M) in the stream of sources, S for those that a source lacks
    lacking: Tensor | None  # (N, 1, M) whether it does; None where all are of one length
    lengths: list[int]  # (N) of the sources


def pairings(
    target_lengths: Sequence[int], starts: Tensor, lengths: Tensor, device: torch.device
) -> list[Pairing]:
    """Return the layout of a stream of targets and of their sources (B), which may stand anywhere.

    Few where targets are sorted by length, right in any order.
    """
    found = []
    row = 0
    beyond = int(lengths.sum())
    for group in groups(target_lengths):
        rows = slice(row, row + group.texts)
        row += group.texts
        own = lengths[rows]
        offsets = torch.arange(int(own.max()))
        places = starts[rows, None] + offsets  # (N, M)
        lacking = None
        if own.min() < len(offsets):
            lacking = offsets >= own[:, None]
            places = places.masked_fill(lacking, beyond)
            lacking = lacking[:, None].to(device)
        flat = places.flatten().to(device)
        found.append(Pairing(group, flat, lacking, own.tolist()))
    return found


class Arrangement(NamedTuple):
    """A stream of targets sorted by length, those of one length by the length of their source."""

    rows: Tensor  # (B) the targets in this order
    lengths: Tensor  # (B) of the targets, in this order
    places: Tensor  # (U) where the tokens of the order stand in the stream given
    back: Tensor  # (U) and the reverse
    pairs: list[Pairing]

    @property
    def groups(self) -> list[Group]:
        """Return the layout of the targets alone."""
        return [pairing.group for pairing in self.pairs]

    def restore(self, found: Sequence[T]) -> list[T]:
        """Return what was found for each target of the order in the order given."""
        by_row = dict(zip(self.rows.tolist(), found, strict=True))
        return [by_row[row] for row in range(len(found))]


def arrange(
    target_lengths: Tensor, starts: Tensor, lengths: Tensor, device: torch.device
) -> Arrangement:
    """Sort targets (B) whose sources have these lengths and stand anywhere in their stream (B)."""
    longest = int(lengths.max())
    rows = (target_lengths * (longest + 1) + lengths).argsort(stable=True)
    ordered = target_lengths[rows]
    places = row_places(target_lengths, rows)
    back = torch.empty_like(places)
    back[places] = torch.arange(len(places))
    pairs = pairings(ordered.tolist(), starts[rows], lengths[rows], device)
    return Arrangement(rows, ordered, places.to(device), back.to(device), pairs)


def cross_stream(
    q: Tensor,
    kv: Tensor,
    layout: list[Pairing],
    heads: int,
    dropout: float,
    scale: float | None = None,
) -> Tensor:
    """Attend queries (U, D) to keys and values (S, 2 D); return (U, D), in single precision."""
    given = (q, kv, layout, heads, dropout, scale)
    mixed: Tensor = _Cross.apply(*given)  # type: ignore[no-untyped-call]
    return mixed


class Crossed(NamedTuple):
    """How a target attends to its source, of L and M tokens."""

    queries: Tensor  # (H, L, K)
    keys: Tensor  # (H, M, K)
    values: Tensor  # (H, M, K)
    weights: Tensor  # (H, L, M)
    scale: float  # what the products of queries and keys are multiplied by


def explain_cross(
    q: Tensor, kv: Tensor, layout: list[Pairing], heads: int, scale: float | None = None
) -> list[Crossed]:
    """Return how each target attends to its source, in the order of the targets."""
    keys, all_values = _source_heads(kv, heads)
    found: list[Crossed] = []
    for pairing in layout:
        queries = _by_head(q, pairing, heads)  # (H, N, L, K)
        k = _sources(keys, pairing, heads)  # (H N, M, K)
        v = _sources(all_values, pairing, heads)
        weights = _logits(_queries(q, pairing, heads, scale), k, pairing, heads).softmax(-1)
        apart = [x.view(heads, pairing.group.texts, *x.shape[1:]) for x in (k, v, weights)]
        for number, length in enumerate(pairing.lengths):
            of_keys, of_values, shares = (x[:, number] for x in apart)
            crossed = (of_keys[:, :length], of_values[:, :length], shares[:, :, :length])
            found.append(Crossed(queries[:, number], *crossed, scale_of(queries, scale)))
    return found


class CrossAttention(nn.Module):
    """Multi-head attention of targets to their sources.

    Heads share the width, unless they have one of their own.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        head_width: int | None = None,
        scale: float | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        inside = heads * head_width if head_width else width
        self.heads = heads
        self.dropout = dropout
        self.scale = scale
        self.query = Linear(width, inside, bias)
        self.kv = Linear(width, 2 * inside, bias)
        self.out = Linear(inside, width, bias)

    def forward(self, x: Tensor, memory: Tensor, layout: list[Pairing]) -> Tensor:
        """Attend a stream of targets (U, D) to what an encoder made of their sources (S, D)."""
        dropout = self.dropout if self.training else 0.0
        q = self.query(x)
        kv = self.kv(memory)
        mixed = cross_stream(q, kv, layout, self.heads, dropout, self.scale)
        projected: Tensor = self.out(mixed)
        return projected

    def explain(
        self, x: Tensor, memory: Tensor, layout: list[Pairing]
    ) -> tuple[Tensor, list[Crossed]]:
        """Attend and also return how each target attends to its source."""
        crossed = explain_cross(self.query(x), self.kv(memory), layout, self.heads, self.scale)
        return self(x, memory, layout), crossed


class LookBack(nn.Module):
    """Attention above recurrent layers: what they hold, joined with the source's like tokens.

    Luong's general score, divided by the root of the width: keys are made of source vectors (S, D),
    values are these vectors.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.keys = Linear(width, width, bias=False)
        self.join = Linear(2 * width, width)

    def forward(self, x: Tensor, memory: Tensor, layout: list[Pairing]) -> Tensor:
        """Return vectors of targets (U, D) that know of the sources too."""
        mixed = cross_stream(x, self.read(memory), layout, 1, 0.0)
        return self.joined(x, mixed)

    def read(self, memory: Tensor) -> Tensor:
        """Return keys and values (S, 2 D)."""
        return torch.cat([self.keys(memory), memory], 1)

    def joined(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Return what vectors (B, D) become by what they attended to."""
        return torch.tanh(self.join(torch.cat([mixed, x], 1)))


class Sources(NamedTuple):
    """Keys and values of sources, made once, and which source each row of a search has."""

    layers: list[tuple[Tensor, Tensor]]  # keys and values (N H M K) of each layer
    mask: Tensor | None  # (N, 1, 1, M) minus infinity where a source lacks a token
    each: int  # rows of each source, which stand side by side
    scale: float | None = None  # of the logits

    @classmethod
    def make(
        cls,
        layers: Sequence[Tensor],
        lengths: Tensor,
        starts: Tensor,
        heads: int,
        scale: float | None = None,
    ) -> "Sources":
        """Take each layer's keys and values (S, 2 D) of sources that stand anywhere in a stream."""
        ones = [1] * len(lengths)
        # As one rectangle: every step reads all of it.
        (pairing,) = pairings(ones, starts, lengths, layers[0].device)
        count = len(lengths)
        made = []
        for kv in layers:
            keys, values = _source_heads(kv, heads)[:, :, pairing.places].unflatten(2, (count, -1))
            made.append((keys.transpose(0, 1).contiguous(), values.transpose(0, 1).contiguous()))
        mask = None
        if pairing.lacking is not None:
            mask = torch.zeros_like(pairing.lacking, dtype=made[0][0].dtype)
            mask = mask.masked_fill_(pairing.lacking, -torch.inf)[:, None]
        return cls(made, mask, 1, scale)

    def pick(self, rows: Tensor) -> "Sources":
        """Return those of the rows named, in that order.

        The rows of a beam mostly keep their source: then nothing is copied.
        """
        of = (rows // self.each).tolist()
        kept, each = _runs(of)
        if kept == list(range(len(self.layers[0][0]))):
            return self._replace(each=each)
        chosen = torch.tensor(kept, dtype=torch.long, device=self.layers[0][0].device)
        layers = [(keys[chosen], values[chosen]) for keys, values in self.layers]
        mask = None if self.mask is None else self.mask[chosen]
        return Sources(layers, mask, each, self.scale)

    def attend(self, query: Tensor, layer: int) -> Tensor:
        """Attend one token a row (B, D) with a layer's keys and values."""
        keys, values = self.layers[layer]
        sources, heads, _, head_width = keys.shape
        q = query.view(sources, self.each, heads, head_width).transpose(1, 2)  # (N H each K)
        mixed = F.scaled_dot_product_attention(q, keys, values, self.mask, scale=self.scale)
        by_row: Tensor = mixed.transpose(1, 2).reshape(query.shape)
        return by_row


def _runs(sources: list[int]) -> tuple[list[int], int]:
    """Return the sources of rows and how many rows each has; where they differ, each row's."""
    runs = [(source, len(list(run))) for source, run in groupby(sources)]
    sizes = {size for _, size in runs}
    if len(sizes) != 1:
        return sources, 1
    return [source for source, _ in runs], sizes.pop()


def _source_heads(kv: Tensor, heads: int) -> Tensor:
    """Return keys and values (S, 2 D) by heads, (2, H, S + 1, K), zeros after the last token."""
    tokens, width = kv.shape
    head_width = width // (2 * heads)
    found = kv.new_empty(2, heads, tokens + 1, head_width)
    found[:, :, tokens] = 0
    found[:, :, :tokens] = kv.view(tokens, 2, heads, head_width).permute(1, 2, 0, 3)
    return found


def _by_head(q: Tensor, pairing: Pairing, heads: int) -> Tensor:
    """Return a pairing's queries by heads, (H, N, L, K)."""
    group = pairing.group
    own = group.of(q).view(group.texts, group.length, heads, -1)
    return own.permute(2, 0, 1, 3)


def _queries(q: Tensor, pairing: Pairing, heads: int, scale: float | None) -> Tensor:
    """Return a pairing's queries by heads, (H N, L, K), scaled."""
    group = pairing.group
    by_head = _by_head(q, pairing, heads)
    scaled = by_head * scale_of(by_head, scale)
    return scaled.reshape(heads * group.texts, group.length, -1)


def _sources(of_heads: Tensor, pairing: Pairing, heads: int) -> Tensor:
    """Return a pairing's part of keys or values (H, S + 1, K), by heads: (H N, M, K)."""
    chosen = of_heads.index_select(1, pairing.places)  # (H, N M, K)
    by_pair: Tensor = chosen.view(heads * pairing.group.texts, -1, chosen.shape[2])
    return by_pair


def _logits(q: Tensor, k: Tensor, pairing: Pairing, heads: int) -> Tensor:
    """Return the logits of a pairing (H N, L, M); what a source lacks is masked."""
    logits = torch.bmm(q, k.transpose(1, 2))
    if pairing.lacking is not None:
        by_head = logits.view(heads, pairing.group.texts, *logits.shape[1:])
        by_head.masked_fill_(pairing.lacking, -torch.inf)
    return logits


class _Cross(torch.autograd.Function):
    """Passes of our own, as of self-attention in nn/attention.py."""

    @staticmethod
    @torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]
    def forward(
        context: Any,
        q: Tensor,
        kv: Tensor,
        layout: list[Pairing],
        heads: int,
        dropout: float,
        scale: float | None,
    ) -> Tensor:
        dtype = torch.promote_types(q.dtype, torch.float32)
        q = q.to(dtype)
        keys, all_values = _source_heads(kv.to(dtype), heads).unbind(0)
        mixed = torch.empty_like(q)
        saved: list[Tensor] = []
        for pairing in layout:
            group = pairing.group
            own = _queries(q, pairing, heads, scale)  # (H N, L, K)
            k = _sources(keys, pairing, heads)  # (H N, M, K)
            v = _sources(all_values, pairing, heads)
            logits = _logits(own, k, pairing, heads)  # (H N, L, M)
            values, weights, factors = weigh(logits, v, dropout)
            place = group.of(mixed).view(group.texts, group.length, heads, -1)
            place.copy_(_tokens_first(values, group))
            saved += [own, k, v, weights]
            if factors is not None:
                saved.append(factors)
        context.save_for_backward(*saved)
        context.layout = layout
        context.heads = heads
        context.scale = scale
        context.tokens = len(kv)
        context.dropped = len(saved) > 4 * len(layout)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        heads = context.heads
        _, width = grad.shape
        head_width = width // heads
        result = torch.empty_like(grad)
        slopes = grad.new_empty(2, heads, context.tokens + 1, head_width)
        saved = iter(context.saved_tensors)
        for pairing in context.layout:
            group = pairing.group
            own = next(saved)  # (H N, L, K), scaled
            k = next(saved)
            v = next(saved)
            weights = next(saved)  # (H N, L, M)
            factors = next(saved) if context.dropped else None

            above = group.of(grad).view(group.texts, group.length, heads, -1)
            above = above.permute(2, 0, 1, 3).reshape(own.shape)  # (H N, L, K)
            dv, dlogits = unweigh(above, v, weights, factors)
            dq = torch.bmm(dlogits, k).mul_(scale_of(own, context.scale))
            dk = torch.bmm(dlogits.transpose(1, 2), own)

            place = group.of(result).view(group.texts, group.length, heads, -1)
            place.copy_(_tokens_first(dq, group))
            # A source has one target, so that nothing is added up.
            for part, gradient in zip(slopes, (dk, dv), strict=True):
                part.index_copy_(1, pairing.places, gradient.view(heads, -1, head_width))
        dkv = slopes[:, :, :-1].permute(2, 0, 1, 3).reshape(context.tokens, 2 * width)
        return result, dkv, None, None, None, None


def _tokens_first(x: Tensor, group: Group) -> Tensor:
    """Return a pairing's heads (H N, L, K) in the order of the stream, (N, L, H, K)."""
    by_head = x.view(-1, group.texts, *x.shape[1:])
    return by_head.permute(1, 2, 0, 3)
