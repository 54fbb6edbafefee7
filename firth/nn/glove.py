"""GloVe: weighted least squares on how often words stand together (Pennington et al. 2014).

N cells of a step, V vocabulary, D width.

Of words i and j that stand together X times, the vectors and biases are to give log X:

    f(X) (w_i . c_j + b_i + d_j - log X)^2 / 2,    f(X) = min(1, (X / x_max)^alpha).

AdaGrad goes down this loss, with sums of squares that begin at 1. A word's vector is the sum of the
two that it has.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from firth.nn.rows import adagrad


class CountBatch(NamedTuple):
    """Some cells of the matrix of counts."""

    rows: Tensor  # (N,) int64
    columns: Tensor  # (N,) int64
    counts: Tensor  # (N,)


class _Errors(NamedTuple):
    """What the model gives for some cells, and how far it is off."""

    words: Tensor  # (N, D + 1)
    contexts: Tensor  # (N, D + 1)
    differences: Tensor  # (N,)
    weights: Tensor  # (N,)


class Glove:
    """Two tables (V, D + 1) of vectors, each with its bias as the last number."""

    def __init__(self, words: Tensor, contexts: Tensor, x_max: float, alpha: float) -> None:
        self.words = words
        self.contexts = contexts
        self.x_max = x_max
        self.alpha = alpha
        self.word_squares = torch.ones_like(words)
        self.context_squares = torch.ones_like(contexts)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Return all that training changes."""
        return {
            "words": self.words,
            "contexts": self.contexts,
            "word_squares": self.word_squares,
            "context_squares": self.context_squares,
        }

    @property
    def vectors(self) -> Tensor:
        """Return the vectors that are kept, (V, D)."""
        return (self.words + self.contexts)[:, :-1]

    def loss(self, cells: CountBatch) -> float:
        """Return the sum of the losses of some cells."""
        found = self._errors(cells)
        return float((found.weights * found.differences.square()).sum()) / 2

    def update(self, cells: CountBatch, rate: float) -> None:
        """Take a step down the gradient of some cells' loss."""
        words, contexts, differences, weights = self._errors(cells)
        errors = (weights * differences)[:, None]
        # The gradient of a vector is the other vector; that of a bias is 1.
        words[:, -1] = 1
        contexts[:, -1] = 1
        adagrad(self.words, self.word_squares, cells.rows, contexts.mul_(errors), rate)
        adagrad(self.contexts, self.context_squares, cells.columns, words.mul_(errors), rate)

    def _errors(self, cells: CountBatch) -> _Errors:
        words = self.words.index_select(0, cells.rows)
        contexts = self.contexts.index_select(0, cells.columns)
        scores = (words[:, :-1] * contexts[:, :-1]).sum(1)
        differences = scores + words[:, -1] + contexts[:, -1] - cells.counts.log()
        weights = (cells.counts / self.x_max).pow(self.alpha).clamp_(max=1)
        return _Errors(words, contexts, differences, weights)
