"""Attention over a ragged stream of texts: each token sees the tokens of its own text only.

T tokens in the stream, B texts, D width, H heads, K head width; within a group: N texts of L
tokens, within a stretch after P tokens read before. "Attention Is All You Need", Vaswani et al.,
2017. A bias (H L L) for each group is added to the logits of all its texts.

Products of queries, keys and values are batches of small ones, for which torch's kernels are the
fastest; nn/linear.py takes one large product at a time.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from firth.nn.cache import Cache
from firth.nn.draws import generator_on
from firth.nn.dropout import drop_factors
from firth.nn.linear import Linear
from firth.nn.ragged import Group, Stretch

Biases = Sequence[Tensor]  # one (H L L) a group


class Attention(nn.Module):
    """Multi-head self-attention, one matrix for queries, keys and values.

    `causal` sees only a token and those before it.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.causal = causal
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width)

    def forward(self, x: Tensor, layout: list[Group], biases: Biases | None = None) -> Tensor:
        """Attend with torch's fused kernel or, where gradients are wanted, with our own passes."""
        qkv = self.qkv(x)  # (T, 3 D)
        dropout = self.dropout if self.training else 0.0
        if qkv.requires_grad or dropout:
            attended = attend_stream(qkv, layout, self.heads, self.causal, dropout, biases)
            return self._project(attended)
        mixed = []
        for number, group in enumerate(layout):
            q, k, v = _split_heads(qkv, group, self.heads)
            bias = biases[number].to(q) if biases else None
            mixed.append(F.scaled_dot_product_attention(q, k, v, bias, is_causal=self.causal))
        return self._project(_join(mixed))

    def read(
        self, x: Tensor, parts: list[Stretch], before: Cache, after: Cache, layer: int
    ) -> Tensor:
        """Attend over a stream and what one cache holds of its rows, and write it to the other."""
        qkv = self.qkv(x)  # (T, 3 D)
        after.write(layer, qkv.detach(), parts)
        dropout = self.dropout if self.training else 0.0
        if before.end == 0 and (qkv.requires_grad or dropout):
            layout = [part.group for part in parts]
            attended = attend_stream(qkv, layout, self.heads, True, dropout)
            return self._project(attended)
        mixed = []
        for part in parts:
            q, k, v = _split_heads(qkv, part.group, self.heads)  # (N H L K)
            if part.past:
                old_k, old_v = before.past(layer, part)
                k = torch.cat([old_k.to(k), k], 2)  # (N H P+L K)
                v = torch.cat([old_v.to(v), v], 2)
            elif not dropout:
                mixed.append(F.scaled_dot_product_attention(q, k, v, is_causal=True))
                continue
            seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
            seen.tril_(part.past)
            if dropout:
                mixed.append(_attend_with_dropout(q, k, v, seen, dropout))
            else:
                mixed.append(F.scaled_dot_product_attention(q, k, v, seen))
        return self._project(_join(mixed) if mixed else x)

    def explain(
        self, x: Tensor, layout: list[Group], biases: Biases | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Attend step by step and also return each text's weights (H L L), in stream order."""
        qkv = self.qkv(x)  # (T, 3 D)
        mixed: list[Tensor] = []
        weights: list[Tensor] = []
        for number, group in enumerate(layout):
            q, k, v = _split_heads(qkv, group, self.heads)
            bias = biases[number] if biases else None
            values, shares = attend(q, k, v, self.causal, bias)
            mixed.append(values)
            weights += shares.unbind(0)
        return self._project(_join(mixed)), weights

    def _project(self, mixed: Tensor) -> Tensor:
        """Apply the output layer (T, D)."""
        projected: Tensor = self.out(mixed)
        return projected


def attend(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return scaled dot-product attention's values and the weight of each key for each query."""
    logits = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # (... L L)
    if bias is not None:
        logits = logits + bias
    if causal:
        logits = logits.masked_fill(_later(logits), -torch.inf)
    weights = logits.softmax(-1)
    return weights @ v, weights


def attend_stream(
    qkv: Tensor,
    layout: list[Group],
    heads: int,
    causal: bool,
    dropout: float,
    biases: Biases | None = None,
) -> Tensor:
    """Attend a stream's queries, keys and values (T, 3 D) to (T, D), in single precision.

    The fused kernel's gradient on a CPU takes twice as long as this, and torch's own way back from
    a part of a stream fills an array as large as the stream for every group. In single precision
    also where layers are in bf16: such small products of ever new shapes take three to nine times
    as long in bf16.
    """
    given = (qkv, layout, heads, causal, dropout, *(biases or ()))
    mixed: Tensor = _Attend.apply(*given)  # type: ignore[no-untyped-call]
    return mixed


@torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]
def _attend_with_dropout(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, dropout: float) -> Tensor:
    """Attend to the keys seen, as torch does without its kernel, which takes no generator."""
    dtype = q.dtype
    q, k, v = (x.to(torch.promote_types(dtype, torch.float32)) for x in (q, k, v))
    scale = q.shape[-1] ** -0.25  # of either side, so that bf16's large numbers stay finite
    logits = (q * scale) @ (k * scale).transpose(-1, -2)  # (N H L P+L)
    weights = logits.masked_fill(~seen, -torch.inf).softmax(-1)
    generator = generator_on(q.device)
    kept = torch.empty_like(weights).bernoulli_(1 - dropout, generator=generator)
    mixed: Tensor = weights * kept.div_(1 - dropout) @ v
    return mixed.to(dtype)


def _later(logits: Tensor) -> Tensor:
    """Return which keys come after which queries (L L)."""
    return torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)


def _split_heads(qkv: Tensor, group: Group, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a group's queries, keys and values, each (N H L K): views, nothing is copied."""
    parts = group.of(qkv).view(group.texts, group.length, 3, heads, -1)
    q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
    return q, k, v


def _join(mixed: list[Tensor]) -> Tensor:
    """Put groups (N H L K) back one after another, (T, D)."""
    flat = [group.transpose(1, 2).flatten(0, 1).flatten(1) for group in mixed]
    if len(flat) == 1:  # no copy
        return flat[0]
    return torch.cat(flat)


class _Attend(torch.autograd.Function):
    @staticmethod
    @torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]
    def forward(
        context: Any,
        qkv: Tensor,
        layout: list[Group],
        heads: int,
        causal: bool,
        dropout: float,
        *biases: Tensor,
    ) -> Tensor:
        qkv = qkv.to(torch.promote_types(qkv.dtype, torch.float32))
        mixed = qkv.new_empty(len(qkv), qkv.shape[1] // 3)
        saved: list[Tensor] = []
        for number, group in enumerate(layout):
            parts = group.of(qkv).view(group.texts, group.length, 3, heads, -1)
            parts = parts.permute(2, 0, 3, 1, 4)  # (3, N, H, L, K)
            q, k, v = parts.reshape(3, group.texts * heads, group.length, -1).unbind(0)
            q = q * q.shape[-1] ** -0.5  # half as large as the logits
            logits = torch.bmm(q, k.transpose(1, 2))  # (N H, L, L)
            if biases:
                _by_heads(logits, heads).add_(biases[number])
            if causal:
                logits.masked_fill_(_later(logits), -torch.inf)
            weights = torch.softmax(logits, -1)
            factors = drop_factors(weights, dropout)
            used = weights if factors is None else weights * factors
            values = torch.bmm(used, v)  # (N H, L, K)
            place = group.of(mixed).view(group.texts, group.length, heads, -1)
            place.copy_(_heads_last(values, group))
            saved += [q, k, v, weights]
            if factors is not None:
                saved.append(factors)
        context.save_for_backward(*saved)
        context.layout = layout
        context.heads = heads
        context.dropped = len(saved) > 4 * len(layout)
        context.biased = bool(biases)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        heads = context.heads
        result = grad.new_empty(len(grad), 3 * grad.shape[1])
        saved = iter(context.saved_tensors)
        slopes: list[Tensor] = []  # of the biases
        for group in context.layout:
            q, k, v, weights = (next(saved) for _ in range(4))
            factors = next(saved) if context.dropped else None
            above = group.of(grad).view(group.texts, group.length, heads, -1)
            above = above.permute(0, 2, 1, 3).reshape(q.shape)  # (N H, L, K)
            used = weights if factors is None else weights * factors
            dv = torch.bmm(used.transpose(1, 2), above)
            dweights = torch.bmm(above, v.transpose(1, 2))  # (N H, L, L)
            if factors is not None:
                dweights *= factors
            dlogits = torch.ops.aten._softmax_backward_data(dweights, weights, -1, weights.dtype)
            if context.biased:
                slopes.append(_by_heads(dlogits, heads).sum(0))
            dq = torch.bmm(dlogits, k).mul_(q.shape[-1] ** -0.5)
            dk = torch.bmm(dlogits.transpose(1, 2), q)
            place = group.of(result).view(group.texts, group.length, 3, heads, -1)
            for part, gradient in enumerate((dq, dk, dv)):
                place[:, :, part].copy_(_heads_last(gradient, group))
        return result, None, None, None, None, *slopes


def _by_heads(x: Tensor, heads: int) -> Tensor:
    """Return a group's logits (N H, L, L) as (N, H, L, L), a view."""
    return x.view(-1, heads, *x.shape[1:])


def _heads_last(x: Tensor, group: Group) -> Tensor:
    """Return a group's heads (N H, L, K) in the order of the stream, (N, L, H, K)."""
    return x.view(group.texts, -1, *x.shape[1:]).permute(0, 2, 1, 3)
