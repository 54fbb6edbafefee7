"""Attention over a ragged stream of texts: each token sees the tokens of its own text only.

T tokens in the stream, B texts, D width, H heads, K head width; within a group: N texts of L
tokens, within a stretch after P tokens read before. "Attention Is All You Need", Vaswani et al.,
2017. A bias (H L L) for each group is added to the logits of all its texts. Logits are divided by
the root of K, unless another scale is given.

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

    `causal` sees only a token and those before it. Heads share the width, unless they have one of
    their own.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        causal: bool = False,
        head_width: int | None = None,
        scale: float | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        inside = heads * head_width if head_width else width
        self.heads = heads
        self.dropout = dropout
        self.causal = causal
        self.scale = scale
        self.qkv = Linear(width, 3 * inside, bias)
        self.out = Linear(inside, width, bias)

    def forward(self, x: Tensor, layout: list[Group], biases: Biases | None = None) -> Tensor:
        """Attend with torch's fused kernel or, where gradients are wanted, with our own passes."""
        qkv = self.qkv(x)  # (T, 3 D)
        dropout = self.dropout if self.training else 0.0
        if qkv.requires_grad or dropout:
            attended = attend_stream(
                qkv, layout, self.heads, self.causal, dropout, biases, self.scale
            )
            return self._project(attended)

        mixed = []
        for number, group in enumerate(layout):
            q, k, v = _split_heads(qkv, group, self.heads)  # (N H L K)
            bias = None
            causal = self.causal
            if biases:
                bias = biases[number].to(q)[None]  # of three dimensions it would take twice as long
                if causal:  # torch's kernel takes a bias or is causal, not both
                    bias = bias.masked_fill(_later(bias), -torch.inf)
                    causal = False
            values = F.scaled_dot_product_attention(
                q, k, v, bias, is_causal=causal, scale=self.scale
            )
            mixed.append(values)
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
            attended = attend_stream(qkv, layout, self.heads, True, dropout, scale=self.scale)
            return self._project(attended)
        if not parts:
            return self._project(x)

        mixed = []
        for part in parts:
            q, k, v = _split_heads(qkv, part.group, self.heads)  # (N H L K)
            if part.past:
                past_k, past_v = before.past(layer, part)
                k = torch.cat([past_k.to(k), k], 2)  # (N H P+L K)
                v = torch.cat([past_v.to(v), v], 2)
            if dropout:
                seen = _seen(q, k, part.past)
                values = _attend_with_dropout(q, k, v, seen, dropout, self.scale)
            elif part.past:
                seen = _seen(q, k, part.past)
                values = F.scaled_dot_product_attention(q, k, v, seen, scale=self.scale)
            else:
                # Without a mask, torch may take its fused kernel.
                values = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
            mixed.append(values)
        return self._project(_join(mixed))

    def explain(
        self, x: Tensor, layout: list[Group], biases: Biases | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Attend step by step and also return each text's weights (H L L), in stream order."""
        qkv = self.qkv(x)  # (T, 3 D)
        mixed: list[Tensor] = []
        weights: list[Tensor] = []
        for number, group in enumerate(layout):
            q, k, v = _split_heads(qkv, group, self.heads)  # (N H L K)
            bias = biases[number] if biases else None
            values, shares = attend(q, k, v, self.causal, bias, self.scale)
            mixed.append(values)
            weights += shares.unbind(0)
        projected = self._project(_join(mixed))
        return projected, weights

    def _project(self, mixed: Tensor) -> Tensor:
        """Apply the output layer (T, D)."""
        projected: Tensor = self.out(mixed)
        return projected


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = False,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return scaled dot-product attention's values and the weight of each key for each query."""
    scale = scale_of(q, scale)
    logits = q @ k.transpose(-1, -2) * scale  # (... L L)
    if bias is not None:
        logits = logits + bias
    if causal:
        logits = logits.masked_fill(_later(logits), -torch.inf)
    weights = logits.softmax(-1)
    values = weights @ v
    return values, weights


def attend_stream(
    qkv: Tensor,
    layout: list[Group],
    heads: int,
    causal: bool,
    dropout: float,
    biases: Biases | None = None,
    scale: float | None = None,
) -> Tensor:
    """Attend a stream's queries, keys and values (T, 3 D) to (T, D), in single precision.

    The fused kernel's gradient on a CPU takes twice as long as this, and torch's own way back from
    a part of a stream fills an array as large as the stream for every group. In single precision
    also where layers are in bf16: such small products of ever new shapes take three to nine times
    as long in bf16.
    """
    given = (qkv, layout, heads, causal, dropout, scale, *(biases or ()))
    mixed: Tensor = _Attend.apply(*given)  # type: ignore[no-untyped-call]
    return mixed


def scale_of(q: Tensor, scale: float | None) -> float:
    """Return what logits are multiplied by: what is given, or one over the root of K."""
    return q.shape[-1] ** -0.5 if scale is None else scale


@torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]
def _attend_with_dropout(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor, dropout: float, scale: float | None
) -> Tensor:
    """Attend to the keys seen, as torch does without its kernel, which takes no generator."""
    given_dtype = q.dtype
    dtype = torch.promote_types(given_dtype, torch.float32)
    q = q.to(dtype)
    k = k.to(dtype)
    v = v.to(dtype)

    root = scale_of(q, scale) ** 0.5  # of either side, so that bf16's large numbers stay finite
    q = q * root
    k = k * root
    logits = q @ k.transpose(-1, -2)  # (N H L P+L)
    weights = logits.masked_fill(~seen, -torch.inf).softmax(-1)

    kept = torch.empty_like(weights)
    kept.bernoulli_(1 - dropout, generator=generator_on(q.device))
    factors = kept.div_(1 - dropout)
    mixed: Tensor = weights * factors @ v
    return mixed.to(given_dtype)


def _seen(q: Tensor, k: Tensor, past: int) -> Tensor:
    """Return which keys each query may see (L P+L): all of the past, and none that comes later."""
    queries = q.shape[2]
    keys = k.shape[2]
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    return seen.tril_(past)


def _later(logits: Tensor) -> Tensor:
    """Return which keys come after which queries (L L)."""
    size = logits.shape[-2:]
    pairs = torch.ones(size, dtype=torch.bool, device=logits.device)
    return pairs.triu(1)


def _split_heads(qkv: Tensor, group: Group, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a group's queries, keys and values, each (N H L K): views, nothing is copied."""
    own = group.of(qkv)  # (N L, 3 D)
    parts = own.view(group.texts, group.length, 3, heads, -1)
    by_head = parts.permute(2, 0, 3, 1, 4)  # (3, N, H, L, K)
    q, k, v = by_head.unbind(0)
    return q, k, v


def _join(mixed: list[Tensor]) -> Tensor:
    """Put groups (N H L K) back one after another, (T, D)."""
    flat = []
    for group in mixed:
        by_token = group.transpose(1, 2)  # (N L H K)
        flat.append(by_token.flatten(0, 1).flatten(1))
    if len(flat) == 1:  # no copy
        return flat[0]
    return torch.cat(flat)


def weigh(logits: Tensor, v: Tensor, dropout: float) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return what batches of logits (Z L M) make of values (Z M K).

    The mixed values (Z L K), the weights (Z L M), and the factors of dropout, if any.
    """
    weights = torch.softmax(logits, -1)
    factors = drop_factors(weights, dropout)
    used = weights if factors is None else weights * factors
    return torch.bmm(used, v), weights, factors


def unweigh(
    above: Tensor, v: Tensor, weights: Tensor, factors: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the gradients of values (Z M K) and logits (Z L M), given that of mixed values."""
    used = weights if factors is None else weights * factors
    dv = torch.bmm(used.transpose(1, 2), above)
    dweights = torch.bmm(above, v.transpose(1, 2))
    if factors is not None:
        dweights *= factors
    dlogits = torch.ops.aten._softmax_backward_data(dweights, weights, -1, weights.dtype)
    return dv, dlogits


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
        scale: float | None,
        *biases: Tensor,
    ) -> Tensor:
        dtype = torch.promote_types(qkv.dtype, torch.float32)
        qkv = qkv.to(dtype)
        tokens, width = qkv.shape
        mixed = qkv.new_empty(tokens, width // 3)
        saved: list[Tensor] = []
        for number, group in enumerate(layout):
            parts = group.of(qkv).view(group.texts, group.length, 3, heads, -1)
            parts = parts.permute(2, 0, 3, 1, 4)  # (3, N, H, L, K)
            flat = parts.reshape(3, group.texts * heads, group.length, -1)
            q, k, v = flat.unbind(0)  # (N H, L, K)

            # Queries are scaled: there are half as many as logits.
            q = q * scale_of(q, scale)
            logits = torch.bmm(q, k.transpose(1, 2))  # (N H, L, L)
            if biases:
                _by_heads(logits, heads).add_(biases[number])
            if causal:
                logits.masked_fill_(_later(logits), -torch.inf)
            values, weights, factors = weigh(logits, v, dropout)
            place = group.of(mixed).view(group.texts, group.length, heads, -1)
            place.copy_(_heads_last(values, group))

            saved += [q, k, v, weights]
            if factors is not None:
                saved.append(factors)

        context.save_for_backward(*saved)
        context.layout = layout
        context.heads = heads
        context.scale = scale
        context.dropped = len(saved) > 4 * len(layout)
        context.biased = bool(biases)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        heads = context.heads
        tokens, width = grad.shape
        result = grad.new_empty(tokens, 3 * width)
        saved = iter(context.saved_tensors)
        slopes: list[Tensor] = []  # of the biases
        for group in context.layout:
            q = next(saved)  # (N H, L, K), scaled
            k = next(saved)
            v = next(saved)
            weights = next(saved)  # (N H, L, L)
            factors = next(saved) if context.dropped else None

            above = group.of(grad).view(group.texts, group.length, heads, -1)
            above = above.permute(0, 2, 1, 3).reshape(q.shape)  # (N H, L, K)
            dv, dlogits = unweigh(above, v, weights, factors)
            if context.biased:
                slopes.append(_by_heads(dlogits, heads).sum(0))
            dq = torch.bmm(dlogits, k).mul_(scale_of(q, context.scale))
            dk = torch.bmm(dlogits.transpose(1, 2), q)

            place = group.of(result).view(group.texts, group.length, 3, heads, -1)
            for part, gradient in enumerate((dq, dk, dv)):
                place[:, :, part].copy_(_heads_last(gradient, group))
        return result, None, None, None, None, None, *slopes


def _by_heads(x: Tensor, heads: int) -> Tensor:
    """Return a group's logits (N H, L, L) as (N, H, L, L), a view."""
    _, queries, keys = x.shape
    return x.view(-1, heads, queries, keys)


def _heads_last(x: Tensor, group: Group) -> Tensor:
    """Return a group's heads (N H, L, K) in the order of the stream, (N, L, H, K)."""
    _, length, head_width = x.shape
    by_text = x.view(group.texts, -1, length, head_width)  # (N, H, L, K)
    return by_text.permute(0, 2, 1, 3)
