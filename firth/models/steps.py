"""What stacks of recurrent layers compute for one text, step by step, to be looked at.

T tokens, D width.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from firth.models.protocols import LayerSteps
from firth.nn.recurrent import Tanh


def layer_steps(
    layers: Iterable[nn.Module], x: Tensor, added: bool = False, states: Tensor | None = None
) -> list[LayerSteps]:
    """Return the steps of layers one above the other over a text (T, inputs).

    With `added` each but the first gives the sum of what it computes and what it reads. They begin
    with `states` (N, K, D), else with zeros.
    """
    found = []
    for number, layer in enumerate(layers, 1):
        state = None if states is None else states[number - 1]
        one = _steps(f"layer {number}", layer, x, state)
        found.append(one)
        x = one.values["h"] + x if added and number > 1 else one.values["h"]
    return found


def both_ways_steps(
    forwards: Iterable[nn.Module], backwards: Iterable[nn.Module], x: Tensor
) -> list[LayerSteps]:
    """Return the steps of layers that read both ways, each of which reads both ways of the last."""
    found = []
    for number, (ahead, behind) in enumerate(zip(forwards, backwards, strict=True), 1):
        onwards = _steps(f"layer {number}, forwards", ahead, x)
        back = in_text_order(_steps(f"layer {number}, backwards", behind, x.flip(0)))
        found += [onwards, back]
        x = torch.cat([onwards.values["h"], back.values["h"]], 1)
    return found


def in_text_order(steps: LayerSteps) -> LayerSteps:
    """Return what was computed from the last token to the first in the order of the text."""
    return steps._replace(values={name: value.flip(0) for name, value in steps.values.items()})


def _steps(name: str, layer: nn.Module, x: Tensor, state: Tensor | None = None) -> LayerSteps:
    """Return the steps of one layer from a state (K, D), or from zeros."""
    assert isinstance(layer, Tanh)
    if state is None:
        state = x.new_zeros(layer.states, layer.keep.in_features)
    before = dict(zip(("h", "c"), state, strict=False))
    return LayerSteps(name, layer.explain(x, state), before)
