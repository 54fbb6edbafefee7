"""What stacks of recurrent layers compute for one text, step by step, to be looked at.

T tokens, D width.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from firth.models.protocols import LayerSteps
from firth.nn.recurrent import Tanh


def layer_steps(layers: Iterable[nn.Module], x: Tensor, added: bool = False) -> list[LayerSteps]:
    """Return the steps of layers one above the other over a text (T, inputs).

    With `added` each but the first gives the sum of what it computes and what it reads.
    """
    found = []
    for number, layer in enumerate(layers, 1):
        values = _steps(layer, x)
        found.append(LayerSteps(f"layer {number}", values))
        x = values["h"] + x if added and number > 1 else values["h"]
    return found


def both_ways_steps(
    forwards: Iterable[nn.Module], backwards: Iterable[nn.Module], x: Tensor
) -> list[LayerSteps]:
    """Return the steps of layers that read both ways, each of which reads both ways of the last."""
    found = []
    for number, (ahead, behind) in enumerate(zip(forwards, backwards, strict=True), 1):
        onwards = _steps(ahead, x)
        back = in_text_order(_steps(behind, x.flip(0)))
        found.append(LayerSteps(f"layer {number}, forwards", onwards))
        found.append(LayerSteps(f"layer {number}, backwards", back))
        x = torch.cat([onwards["h"], back["h"]], 1)
    return found


def in_text_order(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return what was computed from the last token to the first in the order of the text."""
    return {name: value.flip(0) for name, value in values.items()}


def _steps(layer: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the steps of one layer from a state of zeros."""
    assert isinstance(layer, Tanh)
    state = x.new_zeros(layer.states, layer.keep.in_features)
    return layer.explain(x, state)
