"""Marian's Transformer: every id has a row of the output layer, and a bias of its own.

D width, B rows, O words that are written, which are all of the vocabulary. "Marian: Fast Neural
Machine Translation in C++", Junczys-Dowmunt et al., 2018.
"""

import torch
from torch import Tensor, nn

from firth.families.marian import MarianSettings
from firth.models.protocols import Output
from firth.models.stacks import StacksState
from firth.models.transformer import Transformer


class Marian(Transformer):
    """The network."""

    settings: MarianSettings
    interleaved = False
    first = 0

    def __init__(self, settings: MarianSettings) -> None:
        super().__init__(settings)
        self.bias = nn.Parameter(torch.zeros(1, settings.targets))  # as their files have it

    @property
    def output(self) -> Output:
        """Return the output layer."""
        weight, _ = super().output
        return Output(weight, self.bias[0])

    @property
    def scale(self) -> float:
        """Return how many times larger vectors are than their rows of the table."""
        return super().scale if self.settings.scaled else 1.0

    def initialise(self, module: nn.Module) -> None:
        """Give a module fresh weights: normal matrices and zero biases."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.settings.spread)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    @torch.no_grad()
    def step(self, ids: Tensor, state: StacksState) -> tuple[Tensor, StacksState]:
        """Read a target token a row; the padding, with which a target begins, is never written."""
        scores, after = super().step(ids, state)
        if self.settings.pad is not None:
            scores[:, self.settings.pad] = -torch.inf
        return scores, after
