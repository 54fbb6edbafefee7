"""Maps from one space of vectors into another: a rotation, and a network with one hidden layer.

N pairs of vectors, D width of the first space, E of the second, H of the hidden layer.
"""

import torch
from torch import Tensor, nn

from firth.nn.linear import Linear


def procrustes(source: Tensor, target: Tensor) -> Tensor:
    """Return the orthogonal matrix, (D, E), that brings vectors (N, D) nearest to others (N, E).

    Schönemann (1966): it neither stretches nor shrinks, so that distances in the first space stay
    as they are.
    """
    # In double precision: what is orthogonal only nearly would be a rotation only nearly.
    left, _, right = torch.linalg.svd(source.double().T @ target.double(), full_matrices=False)
    rotation: Tensor = (left @ right).float()
    return rotation


class HiddenMap(nn.Module):
    """A network with one hidden layer."""

    def __init__(self, source: int, hidden: int, target: int) -> None:
        super().__init__()
        self.hidden = Linear(source, hidden)
        self.out = Linear(hidden, target)

    def forward(self, vectors: Tensor) -> Tensor:
        """Map vectors (N, D) to others (N, E)."""
        mapped: Tensor = self.out(torch.tanh(self.hidden(vectors)))
        return mapped
