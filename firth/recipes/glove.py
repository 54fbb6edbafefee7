"""Word vectors from counts: words that stand together are counted, then GloVe learns the counts.

V vocabulary, D width.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from firth.base.errors import InputError
from firth.base.seeds import Purpose, generator
from firth.corpus import cooccurrence
from firth.corpus.cooccurrence import Counts
from firth.data.feed import Numbers
from firth.families.glove import GloveSettings
from firth.nn.glove import CountBatch, Glove
from firth.recipes.piles import Counter, Piles
from firth.recipes.updates import StepLoss, UpdateSettings
from firth.recipes.vectors import Vectors, VectorUpdates

TOKENS = 1 << 19  # in a part that is counted, about: its pairs are ten times as many


class GloveRecipe(Vectors):
    """The recipe of GloVe."""

    batch = 4096

    def updates(self, settings: Any, training: UpdateSettings, folder: Path) -> VectorUpdates:
        """Count the text, and return what the loop trains."""
        counter = self.counter(settings)
        counts = Piles(self.lines.kept, counter, folder / "counts", TOKENS).total()
        if not counts.size:
            raise InputError("no two words of the text stand in one line: nothing can be counted")
        # Vectors with a bias as their last number.
        wide = settings.model_copy(update={"width": settings.width + 1})
        words, contexts = (self.fresh(wide, which).table.detach() for which in (0, 1))
        objective = Glove(words, contexts, settings.x_max, settings.alpha)
        return GloveUpdates(objective, cooccurrence.cells(counts), training)

    def counter(self, settings: GloveSettings) -> Counter[Counts]:
        """Return how words that stand together are counted."""
        known = self.counts > 0
        vocab = settings.vocab
        window = settings.window

        def of_part(ids: Numbers) -> Counts:
            """Count a part; what is no known word is left out, and others close up."""
            stays = known[ids]
            lines = np.cumsum(ids == self.end)
            return cooccurrence.count_pairs(ids[stays], lines[stays], vocab, window)

        read = partial(cooccurrence.of_arrays, vocab=vocab, window=window)
        return Counter(of_part, cooccurrence.merge_counts, read)


class GloveUpdates(VectorUpdates):
    """The cells of a matrix of counts, in an order of their own in each epoch."""

    def __init__(
        self, objective: Glove, cells: cooccurrence.Cells, training: UpdateSettings
    ) -> None:
        self.objective = objective
        self.cells = cells
        self.training = training
        self.per_epoch = -(-len(cells.counts) // training.batch)
        self._epoch = -1
        self._order = np.zeros(0, np.int64)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Return all that steps change."""
        return self.objective.tensors

    @property
    def vectors(self) -> Tensor:
        """Return the vectors that are kept, (V, D)."""
        return self.objective.vectors

    def loss(self, step: int) -> StepLoss:
        """Return the loss of a step's cells, before it is taken."""
        cells = self._read(step)
        return StepLoss(self.objective.loss(cells), len(cells.counts))

    def update(self, step: int, rate: float) -> None:
        """Take a step."""
        self.objective.update(self._read(step), rate)

    def measure(self) -> dict[str, float]:
        """Return nothing: how often words stand together depends on how long a text is."""
        return {}

    def baseline(self) -> dict[str, Any]:
        """Return nothing, as nothing is measured."""
        return {}

    def _read(self, step: int) -> CountBatch:
        epoch, number = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            draws = generator(Purpose.CELLS, self.training.seed, epoch)
            self._order = draws.permutation(len(self.cells.counts))
            self._epoch = epoch
        size = self.training.batch
        places = self._order[number * size : (number + 1) * size]
        rows, columns, counts = (torch.from_numpy(array[places]) for array in self.cells)
        return CountBatch(rows.long(), columns.long(), counts)
