"""How the vectors of a text's tokens move through the layers.

N layers, L tokens, D width.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.predictor import Predictor
from firth.probes.row import Row


class Movement(NamedTuple):
    """Where each token's vector is after each layer; the first is the embedding, or layer 1."""

    first: int  # number of the first layer: 0 for the embedding
    to_first: Tensor  # (N + 1, L) cosine to the first of these layers
    to_before: Tensor  # (N, L) cosine to the layer before
    plane: Tensor  # (N + 1, L, 2) at length 1, on the two axes of most variance over all layers
    variance: tuple[float, float]  # of which the two axes have these parts


def movement(predictor: Predictor, row: Row) -> Movement:
    """Return how the vectors of a text move."""
    with predictor.computing(), torch.inference_mode():
        hidden = predictor.bundle.encoder(*row.batch().stream, layers=True)
    return of_layers(list(hidden.layers))


def of_layers(layers: list[Tensor]) -> Movement:
    """Return how vectors move, given every layer (L, D); an embedding of another width is left out.

    It can't be compared with the layers above it.
    """
    first = 0 if layers[0].shape == layers[-1].shape else 1
    x = torch.stack([layer.float() for layer in layers[first:]])  # (N + 1, L, D)
    to_first = F.cosine_similarity(x, x[:1], dim=-1)
    to_before = F.cosine_similarity(x[1:], x[:-1], dim=-1)
    plane, variance = project(F.normalize(x, dim=-1).flatten(0, 1))
    return Movement(first, to_first, to_before, plane.view(*x.shape[:2], 2), variance)


def project(vectors: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """Return vectors (M, D) on their two principal axes (M, 2), and the variance of each.

    The sign of an axis is the one by which its largest loading is positive.
    """
    centred = (vectors - vectors.mean(0)).double()
    _, sizes, axes = torch.linalg.svd(centred, full_matrices=False)
    axes = F.pad(axes, (0, 0, 0, max(0, 2 - len(axes))))[:2]  # (2, D)
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    axes = axes * torch.where(largest < 0, -1.0, 1.0)
    total = float(sizes.square().sum()) or 1.0
    parts = [float(size) ** 2 / total for size in sizes[:2]] + [0.0, 0.0]
    return (centred @ axes.T).float(), (parts[0], parts[1])
