"""Rows of a table that a step touches: gradients of the same row are summed, then added once.

N gradients, R different rows, D width.

A gradient of the whole table, as autograd makes one, would cost a hundred times the step itself.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

EPS = 1e-8  # a row without a gradient so far isn't divided by 0


class RowSums(NamedTuple):
    """The sum of the gradients of each row, in the order of the rows."""

    rows: Tensor  # (R,)
    sums: Tensor  # (R, D)
    counts: Tensor  # (R,) gradients of each


def sum_rows(rows: Tensor, gradients: Tensor) -> RowSums:
    """Sum gradients (N, D) that belong to rows (N), always in the same order."""
    ordered, places = torch.sort(rows, stable=True)
    found, counts = torch.unique_consecutive(ordered, return_counts=True)
    starts = counts.cumsum(0) - counts
    sums = functional.embedding_bag(places, gradients, starts, mode="sum")  # (R, D)
    return RowSums(found, sums, counts)


def descend(table: Tensor, rows: Tensor, steps: Tensor, rate: float, limit: float) -> None:
    """Subtract steps (N, D), which are gradients times the rate, from the rows of a table.

    The gradients of a step are all of the same weights. A row with many would be moved too far:
    `limit` bounds the rate times their number.
    """
    found, sums, counts = sum_rows(rows, steps)
    scale = (limit / (rate * counts.to(sums.dtype))).clamp_(max=1)
    sums *= scale[:, None]
    table.index_add_(0, found, sums, alpha=-1)


def adagrad(table: Tensor, squares: Tensor, rows: Tensor, gradients: Tensor, rate: float) -> None:
    """Take a step of AdaGrad (Duchi et al. 2011) in the rows of a table.

    `squares` has the sums of squared gradients so far, and gets those of this step.
    """
    found, sums, _ = sum_rows(rows, gradients)
    squares.index_add_(0, found, sums.square())
    root = squares.index_select(0, found).sqrt_()
    table.index_add_(0, found, sums.div_(root.add_(EPS)), alpha=-rate)
