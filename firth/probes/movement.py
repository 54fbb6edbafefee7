"""How the vectors of a text's tokens move through the layers.

N layers, L tokens, D width.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.predictor import Predictor
from firth.probes.axes import project
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
