"""The running average of weights: over the last share of the steps, and exact over a checkpoint."""

import pytest
import torch
from torch import nn

from firth.train.average import RunningAverage


def walked(share: float, steps: int, average: RunningAverage | None = None) -> float:
    """Return the average of a weight that goes up by one a step."""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(layer.weight)
    average = RunningAverage(layer, share)
    for step in range(1, steps + 1):
        with torch.no_grad():
            layer.weight.add_(1.0)
        average.update(step)
    (found,) = average.weights.values()
    return float(found)


def test_with_a_share_of_one_it_is_the_mean_of_all_steps() -> None:
    assert walked(1.0, 9) == pytest.approx(5.0)


def test_with_a_small_share_only_late_steps_count() -> None:
    assert walked(0.1, 1000) == pytest.approx(1000 * (1 - 0.1 / 1.1), rel=0.01)
    assert walked(0.1, 10) == 10.0  # the share is one step


def test_the_average_is_lent_and_restored_to_the_bit(seed: int) -> None:
    torch.manual_seed(seed)
    layer = nn.Linear(3, 2)
    average = RunningAverage(layer, 0.5)
    with torch.no_grad():
        layer.weight.mul_(3)
    average.update(4)
    own = layer.weight.detach().clone()
    with average.used():
        assert torch.equal(layer.weight, average.weights["weight"])
        assert not torch.equal(layer.weight, own)
    assert torch.equal(layer.weight, own)

    other = RunningAverage(nn.Linear(3, 2), 0.5)
    other.restore(average.weights)
    assert torch.equal(other.weights["weight"], average.weights["weight"])
    average.use()
    assert torch.equal(layer.weight, average.weights["weight"])
