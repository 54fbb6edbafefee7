"""A running average of the weights: of the last share of the steps so far, however many come.

"Stochastic gradient descent for non-smooth optimization", Shamir and Zhang, 2013: with a share of
0.1, a weight of a tenth of the way back counts a third as much as the newest.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class RunningAverage:
    """The average of a module's weights, by their names."""

    def __init__(self, module: nn.Module, share: float) -> None:
        self.share = share
        self.parameters = dict(module.named_parameters())
        self.weights = {name: one.detach().clone() for name, one in self.parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        newest = 1 / max(1.0, self.share * step)
        torch._foreach_lerp_(list(self.weights.values()), list(self.parameters.values()), newest)

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from the averages of a checkpoint."""
        for name, weight in self.weights.items():
            weight.copy_(weights[name])

    @torch.no_grad()
    def use(self) -> None:
        """Give the module the averages."""
        for name, parameter in self.parameters.items():
            parameter.copy_(self.weights[name])

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the module have the averages, and then its own weights again."""
        own = {name: one.detach().clone() for name, one in self.parameters.items()}
        self.use()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, parameter in self.parameters.items():
                    parameter.copy_(own[name])
