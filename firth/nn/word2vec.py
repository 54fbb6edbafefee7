"""The objectives of word2vec: skip-gram and CBOW with negative sampling (Mikolov et al. 2013).

N words of a block, T tiles, C words of a tile, W window, G groups, K noise words of a group,
V vocabulary, D width.

With u.v the score of a pair, s the logistic function and k the number of negatives, a pair of words
that stand together costs

    -log s(u.v) - k E[log s(-u.n)],    n drawn in proportion to count^0.75.

Published code draws k words for each pair. Here K words are shared by a group, and each counts k/K
times for each pair: the expected loss is the same, and scores become products of matrices.
Gradients are written out: that of a score is s(u.v) - 1 for a pair, and s(u.n) for noise.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from firth.nn.rows import descend
from firth.nn.tiles import NOISE, Tiles, WordBlock


class PairLoss(NamedTuple):
    """The loss of a block, and the pairs that it is of."""

    total: float
    pairs: int


class NegativeSampling(ABC):
    """An objective over words, those around them and noise, with a table of two vectors a word.

    The table is (V, 2 D): its first half has the vectors of words that predict others, its second
    those of words that are predicted.
    """

    limit: ClassVar[float]  # of the learning rate times the gradients of a row in a step

    def __init__(self, table: Tensor, window: int, negatives: float) -> None:
        self.table = table
        self.width = table.shape[1] // 2
        self.share = negatives / NOISE
        self.tiles = Tiles(self.width, window)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Return all that training changes."""
        return {"table": self.table}

    @property
    def vectors(self) -> Tensor:
        """Return the vectors that are kept, (V, D)."""
        return self.table[:, : self.width]

    @property
    def predicted(self) -> Tensor:
        """Return the vectors that words are predicted by, (V, D)."""
        return self.table[:, self.width :]

    @abstractmethod
    def loss(self, block: WordBlock) -> PairLoss:
        """Return the loss of a block without learning from it."""

    @abstractmethod
    def update(self, block: WordBlock, rate: float) -> None:
        """Take a step down the gradient of a block's loss."""

    def noise(self, block: WordBlock) -> Tensor:
        """Return the vectors of noise words, (G, K, D)."""
        return self.predicted.index_select(0, block.noise).view(-1, NOISE, self.width)

    def pairs(self, block: WordBlock) -> Tensor:
        """Return how many words each window has, (T, C, 1)."""
        counts = block.left + block.right
        return counts.view(-1, self.tiles.tile, 1).to(self.table.dtype)

    def grouped(self, tiles: Tensor) -> Tensor:
        """Return what is in tiles (T, C, ...) by groups, (G, group, ...)."""
        return tiles.view(-1, self.tiles.group, tiles.shape[-1])


class SkipGram(NegativeSampling):
    """A word predicts each word in its window."""

    limit = 0.2  # a gradient is that of some six pairs

    def loss(self, block: WordBlock) -> PairLoss:
        """Return the loss of a block without learning from it."""
        tiles = self.tiles
        tiles.read(self.table, block.words)
        scores = tiles.own(0) @ tiles.around(1).mT  # (T, C, C + 2 W)
        band = tiles.band(block)
        noise_scores = tiles.own(0, tiles.group) @ self.noise(block).mT  # (G, group, K)
        weights = self.grouped(self.pairs(block)) * self.share
        found = -(logsigmoid(scores) * band).sum() - (logsigmoid(-noise_scores) * weights).sum()
        return PairLoss(float(found), int(band.sum()))

    def update(self, block: WordBlock, rate: float) -> None:
        """Take a step down the gradient of a block's loss."""
        tiles = self.tiles
        tiles.read(self.table, block.words)
        words = tiles.own(0)
        around = tiles.around(1)
        errors = torch.bmm(words, around.mT)  # (T, C, C + 2 W)
        errors.sigmoid_().sub_(1).mul_(tiles.band(block)).mul_(rate)

        noise = self.noise(block)
        grouped = tiles.own(0, tiles.group)
        noise_errors = torch.bmm(grouped, noise.mT)  # (G, group, K)
        weights = self.grouped(self.pairs(block)).mul_(rate * self.share)
        noise_errors.sigmoid_().mul_(weights)

        own = torch.bmm(errors, around)  # (T, C, D)
        self.grouped(own).baddbmm_(noise_errors, noise)
        tiles.gradient(0).copy_(own)
        tiles.fold(torch.bmm(errors.mT, words), 1)
        noise_gradient = torch.bmm(noise_errors.mT, grouped)  # (G, K, D)

        descend(self.table, block.words, tiles.gradients, rate, self.limit)
        descend(self.predicted, block.noise, noise_gradient.view(-1, self.width), rate, self.limit)


class Context(NegativeSampling):
    """A word is predicted by all words in its window at once."""

    @abstractmethod
    def weights(self, block: WordBlock) -> Tensor:
        """Return how much each word around a tile counts for those of it, (T, C, C + 2 W)."""

    def loss(self, block: WordBlock) -> PairLoss:
        """Return the loss of a block without learning from it."""
        tiles = self.tiles
        tiles.read(self.table, block.words)
        context = self.weights(block) @ tiles.around(0)  # (T, C, D)
        known = self.pairs(block).clamp_(max=1)
        scores = (context * tiles.own(1)).sum(2, keepdim=True)
        noise_scores = self.grouped(context) @ self.noise(block).mT  # (G, group, K)
        found = -(logsigmoid(scores) * known).sum()
        found -= (logsigmoid(-noise_scores) * self.grouped(known)).sum() * self.share
        return PairLoss(float(found), int(known.sum()))

    def gradients(self, block: WordBlock, rate: float) -> Tensor:
        """Return the gradients of noise words (G, K, D); those of words are then in the tiles.

        All are multiplied by the rate.
        """
        tiles = self.tiles
        tiles.read(self.table, block.words)
        weights = self.weights(block)
        context = torch.bmm(weights, tiles.around(0))  # (T, C, D)
        own = tiles.own(1)
        # A word without others around it teaches nothing.
        known = self.pairs(block).clamp_(max=1).mul_(rate)
        errors = (context * own).sum(2, keepdim=True).sigmoid_().sub_(1).mul_(known)  # (T, C, 1)

        noise = self.noise(block)
        grouped = self.grouped(context)
        noise_errors = torch.bmm(grouped, noise.mT)  # (G, group, K)
        noise_errors.sigmoid_().mul_(self.grouped(known).mul_(self.share))

        back = errors * own  # (T, C, D)
        self.grouped(back).baddbmm_(noise_errors, noise)
        torch.mul(errors, context, out=tiles.gradient(1))
        tiles.fold(torch.bmm(weights.mT, back), 0)
        return torch.bmm(noise_errors.mT, grouped)


class Cbow(Context):
    """The mean of the words in its window predicts a word.

    The gradient is that of the loss: each word around gets its share of the mean's. Published code
    gives each the whole.
    """

    limit = 1.2

    def weights(self, block: WordBlock) -> Tensor:
        """Return how much each word around a tile counts for those of it, (T, C, C + 2 W)."""
        return self.tiles.band(block) / self.pairs(block).clamp_(min=1)

    def update(self, block: WordBlock, rate: float) -> None:
        """Take a step down the gradient of a block's loss."""
        noise_gradient = self.gradients(block, rate)
        descend(self.table, block.words, self.tiles.gradients, rate, self.limit)
        descend(self.predicted, block.noise, noise_gradient.view(-1, self.width), rate, self.limit)
