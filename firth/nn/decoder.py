"""The Transformer block as GPT-2 has it, which remembers what it has read, and how likely its tokens are.

T tokens in the stream, B rows, D width, H heads, K head width, M layers, C columns of the cache, V vocabulary; within a stretch: N
rows of L new tokens after P old ones. "Language Models are Unsupervised Multitask Learners", Radford et al., 2019.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from firth.nn.attention import Attention, Group, _heads, _Mix, _stream
from firth.nn.block import ACTIVATIONS, Activation
from firth.nn.dropout import drop
from firth.nn.linear import Linear

COLUMNS = 64  # of the smallest cache
PIECE = 1 << 18  # numbers of a table that stay near a core
ROWS = 256  # of scores over the vocabulary that are in memory together
NEAR = 32  # of those, rows that are finished together, while they are near the cores


class Stretch(NamedTuple):
    """Neighbouring rows that have read as much as each other and go on with as much."""

    group: Group  # their new tokens in the stream
    row: int  # the first of them
    past: int  # tokens that each has read


def stretches(past: Sequence[int], lengths: Sequence[int]) -> list[Stretch]:
    """Cut a stream into runs of like rows; rows that don't go on are left out."""
    found, start, row = [], 0, 0
    for (before, length), run in groupby(zip(past, lengths, strict=True)):
        rows = len(list(run))
        if length:
            found.append(Stretch(Group(start, rows, length), row, before))
        start, row = start + rows * length, row + rows
    return found


class Store:
    """Memory that several caches see, each up to its own end; the one that wrote last may go on in place."""

    def __init__(self, tensor: Tensor, filled: int) -> None:
        self.tensor = tensor  # (M, 2, B, C, H, K)
        self.filled = filled  # columns
        # Each layer whole (2, B, C, H, K), its keys and its values (B H C K): views, made once for many steps.
        self.layers = [(layer, *layer.transpose(2, 3).unbind(0)) for layer in tensor.unbind(0)]


class Cache(NamedTuple):
    """The keys and values of what each row has read; rows end at the same column, so that a step writes one column."""

    store: Store
    end: int  # the first column that is free, as many as the longest row has tokens
    blank: Tensor  # (B) columns before each row's first token, zeros in memory
    mask: Tensor | None  # (B, 1, 1, C) minus infinity on blank columns; None if there are none

    @classmethod
    def make(cls, tensor: Tensor, end: int, blank: Tensor) -> "Cache":
        """A cache over memory of its own, filled up to its end."""
        mask = None
        if blank.any():
            hidden = torch.arange(tensor.shape[3], device=blank.device) < blank[:, None]  # (B, C)
            mask = tensor.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[:, None, None]
        return cls(Store(tensor, end), end, blank, mask)

    @classmethod
    def empty(cls, like: Tensor, layers: int, rows: int, heads: int) -> "Cache":
        """A cache for rows of vectors as those of a table."""
        tensor = like.new_empty(layers, 2, rows, 0, heads, like.shape[-1] // heads)  # no column yet
        return cls.make(tensor, 0, torch.zeros(rows, dtype=torch.int64, device=like.device))

    @property
    def lengths(self) -> Tensor:
        """Tokens that each row has read (B)."""
        return self.end - self.blank

    def pick(self, rows: Tensor) -> "Cache":
        """The cache of the rows named, in that order."""
        rows = rows.to(self.blank.device)
        old, blank = self.store.tensor, self.blank[rows]
        first = int(blank.min()) if len(rows) else 0
        new = old.new_empty(*old.shape[:2], len(rows), *old.shape[3:])
        torch.index_select(
            old[:, :, :, first : self.end], 2, rows, out=new[:, :, :, : self.end - first]
        )
        return Cache.make(new, self.end - first, blank - first)

    def room(self) -> "Cache":
        """The same with a free column: in place, unless the memory is full or another cache has gone on in it."""
        old = self.store.tensor
        columns = old.shape[3]
        if self.end == self.store.filled < columns:
            return self
        columns = max(COLUMNS, 2 * columns) if self.end == columns else columns
        new = old.new_empty(*old.shape[:3], columns, *old.shape[4:])
        new[:, :, :, : self.end] = old[:, :, :, : self.end]
        return Cache.make(new, self.end, self.blank)

    def onward(self) -> "Cache":
        """The cache after its free column was written."""
        self.store.filled = self.end + 1
        return self._replace(end=self.end + 1)

    def longer(self, lengths: Tensor) -> "Cache":
        """A copy in which each row has so many more tokens (B), which are still to be written."""
        after = self.lengths + lengths
        end = int(after.max()) if len(after) else 0
        old, columns = self.store.tensor, COLUMNS
        while columns <= end:
            columns *= 2
        new = old.new_zeros(*old.shape[:3], columns, *old.shape[4:])
        spans = (
            zip(self.lengths.tolist(), (end - lengths).tolist(), strict=True) if self.end else ()
        )
        for row, (size, last) in enumerate(spans):
            new[:, :, row, last - size : last] = old[:, :, row, self.end - size : self.end]
        return Cache.make(new, end, end - after)

    def latest(self, most: int) -> "Cache":
        """A copy with at most so many tokens of each row, the last."""
        first = max(0, self.end - most)
        kept = self.store.tensor[:, :, :, first : self.end].clone()
        return Cache.make(kept, self.end - first, (self.blank - first).clamp(min=0))

    def write(self, layer: int, qkv: Tensor, parts: list[Stretch]) -> None:
        """Keep a layer's keys and values of a stream (T, 3 D) in the last columns."""
        memory = self.store.tensor[layer]  # (2, B, C, H, K)
        for (start, rows, length), row, _ in parts:
            piece = qkv[start : start + rows * length].view(rows, length, 3, *memory.shape[3:])
            memory[:, row : row + rows, self.end - length : self.end] = piece[:, :, 1:].permute(
                2, 0, 1, 3, 4
            )

    def past(self, layer: int, part: Stretch) -> tuple[Tensor, Tensor]:
        """A layer's keys and values of what the rows of a stretch have read, (N H P K) each."""
        rows = slice(part.row, part.row + part.group.texts)
        keys, values = (
            self.store.tensor[layer, :, rows, self.end - part.past : self.end]
            .transpose(2, 3)
            .unbind(0)
        )
        return keys, values


class CausalAttention(Attention):
    """Attention of a token on those before it, in the stream and in a cache."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__(width, heads, dropout, causal=True)

    def read(
        self, x: Tensor, parts: list[Stretch], before: Cache, after: Cache, layer: int
    ) -> Tensor:
        """Attend over a stream and what stands before it in one cache, and write it to the other."""
        qkv = self.qkv(x)  # (T, 3 D)
        after.write(layer, qkv.detach(), parts)
        rate = self.dropout if self.training else 0.0
        if before.end == 0 and (qkv.requires_grad or rate):
            return self.out(_Mix.apply(qkv, [part.group for part in parts], self.heads, True, rate))  # type: ignore[no-untyped-call, no-any-return]
        mixed = []
        for part in parts:
            q, k, v = _heads(qkv, part.group, self.heads)  # (N H L K)
            if part.past:
                keys, values = before.past(layer, part)
                k, v = torch.cat([keys.to(k), k], 2), torch.cat([values.to(v), v], 2)  # (N H P+L K)
                seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril_(
                    part.past
                )
                mixed.append(F.scaled_dot_product_attention(q, k, v, seen, rate))
            else:
                mixed.append(F.scaled_dot_product_attention(q, k, v, None, rate, is_causal=True))
        return self.out(_stream(mixed) if mixed else x)  # type: ignore[no-any-return]


class DecoderBlock(nn.Module):
    """One pre-norm layer over a ragged stream (T, D): attention and a wide layer, each of them added to what it read."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        eps: float = 1e-5,
        activation: str = "gelu_new",
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps)
        self.attention = CausalAttention(width, heads, attention_dropout)
        self.norm = nn.LayerNorm(width, eps)
        self.up = Linear(width, inner)
        self.down = Linear(inner, width)
        self.activation = ACTIVATIONS[activation]
        self.dropout = dropout

    def forward(self, x: Tensor, layout: list[Group]) -> Tensor:
        """Run the layer."""
        return self._finish(x, self.attention(self.attention_norm(x), layout))

    def explain(self, x: Tensor, layout: list[Group]) -> tuple[Tensor, list[Tensor]]:
        """Run the layer and also return its attention weights, one (H L L) a text."""
        mixed, weights = self.attention.explain(self.attention_norm(x), layout)
        return self._finish(x, mixed), weights

    def read(
        self, x: Tensor, parts: list[Stretch], before: Cache, after: Cache, layer: int
    ) -> Tensor:
        """Run the layer after what one cache holds, and keep it all in the other."""
        return self._finish(
            x, self.attention.read(self.attention_norm(x), parts, before, after, layer)
        )

    def plain(self) -> "Plain":
        """What a step needs."""
        first, (qkv, out) = (
            _pair(self.attention_norm),
            (_pair(self.attention.qkv), _pair(self.attention.out)),
        )
        return Plain(
            first,
            qkv,
            out,
            _pair(self.norm),
            _pair(self.up),
            _pair(self.down),
            self.norm.eps,
            self.activation,
        )

    def _finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        x = x + drop(mixed, self.dropout, self.training)
        wide = self.activation(self.up(self.norm(x)))  # (T, inner)
        return x + drop(self.down(wide), self.dropout, self.training)


def _pair(layer: nn.Linear | nn.LayerNorm) -> tuple[Tensor, Tensor]:
    return layer.weight, layer.bias


class Plain(NamedTuple):
    """The weights and biases of a block, out of their modules: to look them up for every token takes a fifth of a step's time."""

    attention_norm: tuple[Tensor, Tensor]
    qkv: tuple[Tensor, Tensor]
    out: tuple[Tensor, Tensor]
    norm: tuple[Tensor, Tensor]
    up: tuple[Tensor, Tensor]
    down: tuple[Tensor, Tensor]
    eps: float
    activation: Activation

    def step(self, x: Tensor, cache: Cache, layer: int) -> Tensor:
        """Run the block for one token a row (B, D), whose keys and values go to the free column of the cache."""
        memory, keys, values = cache.store.layers[layer]
        stop, width = cache.end + 1, x.shape[1:]
        qkv = F.linear(torch.layer_norm(x, width, *self.attention_norm, self.eps), *self.qkv)
        qkv = qkv.view(len(x), 3, *memory.shape[3:])  # (B, 3, H, K)
        memory[:, :, cache.end].copy_(qkv[:, 1:].transpose(0, 1))
        mask = None if cache.mask is None else cache.mask[..., :stop]
        mixed = F.scaled_dot_product_attention(
            qkv[:, 0, :, None], keys[:, :, :stop], values[:, :, :stop], mask
        )  # (B H 1 K)
        x = F.linear(mixed.view(x.shape), *self.out).add_(x)
        wide = self.activation(
            F.linear(torch.layer_norm(x, width, *self.norm, self.eps), *self.up)
        )  # (B, inner)
        return F.linear(wide, *self.down).add_(x)


def scores_of_all(x: Tensor, table: Tensor) -> Tensor:
    """Natural log-probabilities of the whole vocabulary, (B, V).

    MKL's product of 4 to 10 rows reads the table once for every three of them. Piece by piece, it comes from memory only once.
    """
    size = PIECE // x.shape[1] if 4 <= len(x) <= 10 else len(table)
    scores = x.new_empty(len(x), len(table))
    for first in range(0, len(table), size):
        piece = slice(first, first + size)
        torch.mm(x, table[piece].t(), out=scores[:, piece])
    return torch.log_softmax(scores, 1, out=scores)


def scores_of(x: Tensor, table: Tensor, answers: Tensor) -> Tensor:
    """Natural log-probabilities of the answers (T) by the scores `x @ table.T`, a few rows of which are in memory at a time.

    Where gradients are wanted, they are made together with the scores: all answers count the same in a sum or a mean, so that the
    way back only scales them. For the rare other case the scores are made once more.
    """
    rounded = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
    if torch.is_grad_enabled() and (x.requires_grad or table.requires_grad):
        return _Scores.apply(x, table, answers, rounded)  # type: ignore[no-untyped-call, no-any-return]
    return _pass(x, table, answers, rounded, (False, False))[0]


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, x: Tensor, table: Tensor, answers: Tensor, rounded: torch.dtype
    ) -> Tensor:
        result, *slopes = _pass(x, table, answers, rounded, context.needs_input_grad[:2])
        context.save_for_backward(x, table, answers, *slopes)
        context.rounded = rounded
        return result

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, table, answers, dx, dtable = context.saved_tensors
        if len(slope) and not (slope == slope[0]).all():
            _, dx, dtable = _pass(
                x, table, answers, context.rounded, context.needs_input_grad[:2], slope
            )
        else:
            dx, dtable = (None if part is None else part * slope[:1].sum() for part in (dx, dtable))
        return dx, dtable, None, None


def _pass(
    x: Tensor,
    table: Tensor,
    answers: Tensor,
    rounded: torch.dtype,
    wanted: tuple[bool, bool],
    slope: Tensor | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The answers' log-probabilities (T), and where wanted the gradients of their sum, each times its own `slope`."""
    short = table.to(rounded)
    # One array for all: fresh memory has to be cleared by the system, which takes longer than the softmax.
    memory = x.new_empty(
        min(ROWS, len(x)), len(table), dtype=torch.promote_types(rounded, torch.float32)
    )
    result = memory.new_empty(len(x))
    dx, dtable = (
        torch.zeros_like(part) if asked else None
        for part, asked in zip((x, table), wanted, strict=True)
    )
    for first in range(0, len(x), ROWS):
        rows = slice(first, first + ROWS)
        some, place = x[rows].to(rounded), answers[rows, None]
        chances = memory[: len(some)]
        result[rows] = _chances(some, short, place, chances)
        if not any(wanted):
            continue
        error = (
            chances.neg_().scatter_add_(1, place, chances.new_ones(place.shape)).to(rounded)
        )  # the truth less the probabilities
        rate = 1.0 if slope is None else slope[rows, None]
        if dx is not None:
            dx[rows] = (error @ short).mul_(rate)
        if dtable is not None:
            _add_product(dtable, error.t(), some if slope is None else (some * rate).to(rounded))
    return result, dx, dtable


def _chances(x: Tensor, table: Tensor, place: Tensor, out: Tensor) -> Tensor:
    """Probabilities of the whole vocabulary into `out`, and the log-probabilities of the answers."""
    if table.dtype == out.dtype:
        torch.mm(x, table.t(), out=out)
    else:
        out.copy_(x @ table.t())
    own = out.gather(1, place)
    for near, log in zip(out.split(NEAR), own.split(NEAR), strict=True):
        # By way of the best answer: the chance of the right one may be too small for a number.
        log.sub_(near.amax(1, keepdim=True))
        torch.softmax(near, 1, out=near)
        log.add_(near.amax(1, keepdim=True).log_())
    return own[:, 0]


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a product, in place where all have one type."""
    if a.dtype == total.dtype:
        total.addmm_(a, b)
    else:
        total += a @ b
