"""Word vectors from words in windows: skip-gram, CBOW and Bernoulli embeddings.

V vocabulary, D width.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.corpus.stream import TokenStream
from firth.corpus.windows import POWER, Windows, kept_shares, word_counts
from firth.families.bernoulli import BernoulliSettings
from firth.families.vectors import WindowSettings
from firth.nn.bernoulli import Bernoulli
from firth.nn.tiles import NOISE, WordBlock, group_size
from firth.nn.word2vec import Cbow, NegativeSampling, SkipGram
from firth.recipes.recipe import DEV_TOKENS
from firth.recipes.updates import StepLoss, UpdateSettings
from firth.recipes.vectors import Vectors, VectorUpdates

Floats = NDArray[np.float64]


def skip_gram(table: Tensor, settings: WindowSettings, _: Floats) -> NegativeSampling:
    """Return the objective of skip-gram."""
    return SkipGram(table, settings.window, settings.negatives)


def cbow(table: Tensor, settings: WindowSettings, _: Floats) -> NegativeSampling:
    """Return the objective of CBOW."""
    return Cbow(table, settings.window, settings.negatives)


def bernoulli(table: Tensor, settings: BernoulliSettings, occurrences: Floats) -> NegativeSampling:
    """Return the objective of Bernoulli embeddings."""
    return Bernoulli(
        table,
        settings.window,
        settings.negatives,
        settings.precision,
        torch.from_numpy(occurrences).to(table.dtype),
    )


class Windowed(Vectors):
    """The recipe of vectors by which words in a window are told from noise."""

    batch = 1024  # more is faster, and a little worse

    def updates(self, settings: Any, training: UpdateSettings, folder: Path) -> VectorUpdates:
        """Return what the loop trains."""
        table = torch.zeros(settings.vocab, 2 * settings.width)
        table[:, : settings.width] = self.fresh(settings).table.detach()
        assert self.family.objective is not None
        kept = kept_shares(self.counts, settings.sample)
        objective = self.family.objective(table, settings, self.counts * kept)
        return WindowUpdates(self, objective, settings, training)


class WindowUpdates(VectorUpdates):
    """An objective, the text that it learns from, and that on which it is measured."""

    def __init__(
        self,
        recipe: Windowed,
        objective: NegativeSampling,
        settings: WindowSettings,
        training: UpdateSettings,
    ) -> None:
        self.recipe = recipe
        self.objective = objective
        self.settings = settings
        self.training = training
        held = recipe.lines.held
        self.train = self._windows(recipe.lines.kept)
        self.dev = self._windows(held.part(0, min(held.size, DEV_TOKENS)))
        self.per_epoch = self.train.count

    def _windows(self, stream: TokenStream) -> Windows:
        s = self.settings
        return Windows(
            stream,
            self.recipe.counts,
            window=s.window,
            sample=s.sample,
            drawn=s.draws_window,
            size=self.training.batch,
            seed=self.training.seed,
        )

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Return all that steps change."""
        return self.objective.tensors

    @property
    def vectors(self) -> Tensor:
        """Return the vectors that are kept, (V, D)."""
        return self.objective.vectors

    def loss(self, step: int) -> StepLoss:
        """Return the loss of what a step reads, before it is taken."""
        block = self._block(self.train, *divmod(step, self.per_epoch))
        return StepLoss(*self.objective.loss(block))

    def update(self, step: int, rate: float) -> None:
        """Take a step."""
        block = self._block(self.train, *divmod(step, self.per_epoch))
        self.objective.update(block, rate)

    def measure(self) -> dict[str, float]:
        """Return the loss of a pair of held-out text, where there is one."""
        blocks = [self._block(self.dev, 0, number) for number in range(self.dev.count)]
        losses = [self.objective.loss(block) for block in blocks]
        pairs = sum(loss.pairs for loss in losses)
        if not pairs:
            return {}
        return {"loss": sum(loss.total for loss in losses) / pairs}

    def baseline(self) -> dict[str, Any]:
        """Return the loss of who knows only how often each word occurs.

        Such a one's best score for a word is the logarithm of its share of what is predicted, over
        that of what is drawn as noise.
        """
        recipe = self.recipe
        held = word_counts(self.dev.stream, recipe.tokenizer) * self.train.kept
        known = recipe.counts > 0
        if not held.any():
            return {}
        seen = recipe.counts[known] * self.train.kept[known]
        noise = recipe.counts[known] ** POWER
        noise *= self.settings.negatives / noise.sum()
        scores = np.log(seen / seen.sum()) - np.log(noise)
        found = held[known] / held.sum()
        loss = found @ np.logaddexp(0, -scores) + noise @ np.logaddexp(0, scores)
        return {"loss": float(loss)}

    def _block(self, windows: Windows, epoch: int, number: int) -> WordBlock:
        """Return a stretch of text as tensors, padded to whole groups."""
        span = windows.read(epoch, number)
        group = group_size(windows.window)
        groups = max(1, -(-len(span.words) // group))
        room = groups * group - len(span.words)
        noise = windows.noise(epoch, number, groups * NOISE)
        return WordBlock(
            torch.from_numpy(np.pad(span.words, (0, room), constant_values=self.recipe.end)),
            torch.from_numpy(np.pad(span.left, (0, room))),
            torch.from_numpy(np.pad(span.right, (0, room))),
            torch.from_numpy(noise),
        )
