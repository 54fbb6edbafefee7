"""Log-probabilities over a vocabulary: the logits `x @ table.T + bias`, a few rows at a time.

T vectors, D width, V vocabulary; R rows of a chunk.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from firth.nn.linear import linear, product, step_product

CHUNK = 512  # rows of logits that are in memory together
NEAR = 32  # of those, rows that are finished together, while they are in the cores' caches
PIECE = 1 << 18  # numbers of a table that stay in a core's cache


class Gradients(NamedTuple):
    """Gradients of the sum of some log-probabilities; None where none is wanted."""

    x: Tensor | None  # (T, D)
    table: Tensor | None  # (V, D)
    bias: Tensor | None  # (V)


def cross_entropy(
    x: Tensor,
    table: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    smoothing: float = 0.0,
) -> Tensor:
    """Return the summed cross-entropy of targets (T) after vectors (T, D).

    A sum: whoever calls knows over how many targets the whole step runs. `smoothing` is that of
    `target_log_probs`.
    """
    return -target_log_probs(x, table, targets, bias, smoothing).sum()


def target_log_probs(
    x: Tensor,
    table: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    smoothing: float = 0.0,
) -> Tensor:
    """Return the natural log-probability of each target (T) after its vector (T, D).

    With label smoothing e it is the mean over all V words, each weighted by what is then the truth:
    1 - e + e / V for the target and e / V for any other ("Rethinking the Inception Architecture for
    Computer Vision", Szegedy et al., 2015).

    Gradients are made together with each chunk of logits, so that no array (T, V) is kept for the
    backward pass: where all targets count the same, as in a sum or a mean, the way back only scales
    them. For the rare other case the logits are made once more.
    """
    dtype = x.dtype
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
    learned = x.requires_grad or table.requires_grad
    if bias is not None:
        learned = learned or bias.requires_grad
    if not torch.is_grad_enabled() or not learned:
        found: Tensor
        found, _ = _chunked(x, table, bias, targets, dtype, smoothing)
        return found
    given = (x, table, bias, targets, dtype, smoothing)
    result: Tensor = _TargetLogProbs.apply(*given)  # type: ignore[no-untyped-call]
    return result


def log_probs(x: Tensor, table: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the natural log-probabilities of the whole vocabulary, (T, V)."""
    logits = _logits(x, table, bias)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    logits = logits.to(dtype)
    if logits.requires_grad:
        return logits.log_softmax(1)
    return torch.log_softmax(logits, 1, out=logits)


def _logits(x: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
    """Return all logits (T, V).

    MKL's product of 4 to 10 rows reads the table once for every three of them. Piece by piece, it
    comes from memory only once.
    """
    if torch.is_grad_enabled():
        return linear(x, table, bias)
    if not 4 <= len(x) <= 10:
        return step_product(x, table, bias)
    words = max(1, PIECE // x.shape[1])
    logits = x.new_empty(len(x), len(table))
    for piece, columns in zip(table.split(words), logits.split(words, 1), strict=True):
        torch.mm(x, piece.t(), out=columns)  # in place: to join pieces costs some per cent
    if bias is not None:
        logits.add_(bias)
    return logits


class _TargetLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        x: Tensor,
        table: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        dtype: torch.dtype,
        smoothing: float,
    ) -> Tensor:
        wanted = context.needs_input_grad[:3]
        result: Tensor
        result, gradients = _chunked(x, table, bias, targets, dtype, smoothing, wanted)
        context.save_for_backward(x, table, bias, targets, *gradients)
        context.how = dtype, smoothing
        return result

    @staticmethod
    @once_differentiable
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, table, bias, targets, *saved = context.saved_tensors
        gradients = Gradients(*saved)
        if len(grad) and not (grad == grad[0]).all():
            wanted = context.needs_input_grad[:3]
            _, gradients = _chunked(x, table, bias, targets, *context.how, wanted, grad)
            return (*gradients, None, None, None)
        scale = grad[:1].sum()
        scaled = (None if part is None else part * scale for part in gradients)
        return (*scaled, None, None, None)


@torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator] # types are chosen here
def _chunked(
    x: Tensor,
    table: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    dtype: torch.dtype,
    smoothing: float,
    wanted: tuple[bool, ...] = (False, False, False),
    grad: Tensor | None = None,
) -> tuple[Tensor, Gradients]:
    """Return log-probabilities (T) and the wanted gradients of their sum, each times its `grad`.

    Products are made in `dtype`, sums and exponentials in single precision at least.
    """
    wants_x, wants_table, wants_bias = wanted
    count = len(x)
    short = table.to(dtype)
    precise = torch.promote_types(dtype, torch.float32)
    result = x.new_empty(count, dtype=precise)
    dx = torch.zeros_like(x) if wants_x else None
    dtable = table.new_zeros(table.shape) if wants_table and not count else None
    dbias = torch.zeros_like(bias) if wants_bias and bias is not None else None
    for first in range(0, count, CHUNK):
        rows = slice(first, first + CHUNK)
        some = x[rows].to(dtype)
        place = targets[rows, None]
        logits = product(some, short).to(precise)  # (R, V)
        result[rows] = _softmax(logits, bias, place, smoothing)
        if not any(wanted):
            continue

        # The logits' gradient, in their own memory: the truth less the probabilities.
        truth = logits.new_full(place.shape, 1 - smoothing)
        error = logits.neg_().scatter_add_(1, place, truth)
        if smoothing:
            error += smoothing / len(table)
        scale = None if grad is None else grad[rows, None]
        if dbias is not None:
            dbias += error.sum(0) if scale is None else (error * scale).sum(0)
        error = error.to(dtype)
        if dx is not None:
            above = product(error, short.t())
            dx[rows] = above if scale is None else above.mul_(scale)
        if wants_table:
            scaled = some if scale is None else (some * scale).to(dtype)
            part = product(error.t(), scaled.t())  # (V, D)
            part = part.to(table.dtype)
            # The first as it is: to clear so large an array and add to it takes some per cent.
            dtable = part if dtable is None else dtable.add_(part)
    return result, Gradients(dx, dtable, dbias)


def _softmax(logits: Tensor, bias: Tensor | None, place: Tensor, smoothing: float) -> Tensor:
    """Turn logits (R, V) into probabilities in place; return the targets' log-probabilities (R)."""
    found = logits.new_empty(len(logits), 1)
    parts = (part.split(NEAR) for part in (logits, found, place))
    for near, log, target in zip(*parts, strict=True):
        if bias is not None:
            near.add_(bias)
        # By way of the best word: the target's own probability may be too small for a number.
        best = near.amax(1, keepdim=True)
        chosen = near.gather(1, target)
        if smoothing:
            chosen = torch.lerp(chosen, near.mean(1, keepdim=True), smoothing)
        torch.sub(chosen, best, out=log)
        torch.softmax(near, 1, out=near)
        log_best = near.amax(1, keepdim=True).log_()
        log.add_(log_best)
    return found[:, 0]
