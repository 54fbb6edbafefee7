"""How the gradient of a recurrent network fades or grows: cells and recurrent matrices compared.

"On the difficulty of training recurrent neural networks", Pascanu et al., 2013.
"""

import copy
from typing import NamedTuple

import torch
from torch import Tensor

from firth.base.errors import InputError
from firth.models.protocols import Encoder
from firth.predictor import Predictor
from firth.probes.gradient import cut, gradient
from firth.probes.row import Row

FACTORS = (0.5, 1.0, 2.0)  # that recurrent matrices are multiplied by
FRESH = {"tanh": "a fresh RNN", "lstm": "a fresh LSTM"}  # by their cells
SEED = 1


class Fading(NamedTuple):
    """The norm of the gradient at each distance, of one network with its matrices scaled."""

    name: str
    norms: dict[float, list[float]]  # by the factor; the nearest token first


def fading(predictor: Predictor, row: Row) -> list[Fading]:
    """Return how gradients fade in a model over a text, and in fresh networks of its size."""
    encoder = predictor.bundle.encoder
    language = predictor.bundle.language
    ids = [
        token
        for token, part in zip(row.encoding.ids, row.encoding.parts, strict=True)
        if part is not None
    ]
    windows = cut(torch.tensor(ids))
    before = language.opening(predictor.bundle.end)
    found = [_fading("this model", encoder, windows, before)]
    for cell, name in FRESH.items():
        settings = encoder.settings.model_copy(update={"cell": cell})
        with torch.random.fork_rng():
            torch.manual_seed(SEED)
            fresh = type(encoder)(settings)
        found.append(_fading(name, fresh.eval(), windows, before))
    return found


def _fading(name: str, network: Encoder, windows: list[Tensor], before: list[int]) -> Fading:
    """Return the norms of one network, with its recurrent matrices as they are and scaled."""
    norms = {}
    for factor in FACTORS:
        scaled = copy.deepcopy(network)
        with torch.no_grad():
            for weight in scaled.recurrent_weights():
                weight.mul_(factor)
        try:
            norms[factor] = gradient(scaled, windows, before).mean  # type: ignore[arg-type]
        except InputError:  # no token depends on one before it
            norms[factor] = []
    return Fading(name, norms)
