"""Bernoulli embeddings (Rudolph et al. 2016): a probabilistic model of which word stands where.

N words of a block, T tiles, C words of a tile, W window, V vocabulary, D width.

Whether word v stands at a place is a coin with the probability s(rho_v . sum of alpha_u), over the
words u in its window; rho and alpha have a Gaussian prior. Of the coins that fell the other way a
few are drawn, in proportion to count^0.75, as in the published experiments. What is minimised is
the negative logarithm of the posterior, by AdaGrad; rho is kept.

The prior is of a word, the data are its occurrences. So that a step touches no other rows, each
occurrence carries its share of the prior: a pass over the text has all of it once.
"""

import torch
from torch import Tensor

from firth.nn.rows import adagrad
from firth.nn.tiles import WordBlock
from firth.nn.word2vec import Context


class Bernoulli(Context):
    """The sum of the words in its window predicts a word, with a prior on all vectors.

    The table (V, 2 D) has alpha and rho. `occurrences` (V) says how often a pass over the text has
    each word.
    """

    def __init__(
        self,
        table: Tensor,
        window: int,
        negatives: float,
        precision: float,
        occurrences: Tensor,
    ) -> None:
        super().__init__(table, window, negatives)
        self.squares = torch.zeros_like(table)
        self.prior = precision / occurrences.clamp(min=1)  # (V,)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Return all that training changes."""
        return super().tensors | {"squares": self.squares}

    @property
    def vectors(self) -> Tensor:
        """Return rho, (V, D)."""
        return self.predicted

    def weights(self, block: WordBlock) -> Tensor:
        """Return how much each word around a tile counts for those of it, (T, C, C + 2 W)."""
        return self.tiles.band(block).to(self.table.dtype)

    def update(self, block: WordBlock, rate: float) -> None:
        """Take a step down the gradient of a block's loss and prior."""
        noise_gradient = self.gradients(block, 1.0).view(-1, self.width)
        gradients = self.tiles.gradients  # (N, 2 D)
        shares = self.prior.index_select(0, block.words)
        gradients.addcmul_(self.tiles.values, shares[:, None])
        adagrad(self.table, self.squares, block.words, gradients, rate)
        squares = self.squares[:, self.width :]
        adagrad(self.predicted, squares, block.noise, noise_gradient, rate)
