"""Recipes of word vectors: what they share, whatever the vectors are learned from.

V vocabulary, D width.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firth.base.errors import InputError
from firth.base.seeds import Purpose, number
from firth.corpus.shards import Shards
from firth.corpus.stream import line_marks
from firth.corpus.windows import word_counts
from firth.families.registry import by_name
from firth.families.vectors import VectorFamily
from firth.folders.bundle import Bundle
from firth.models.protocols import Encoder
from firth.nn.draws import new_weights
from firth.recipes.lines import read_lines
from firth.recipes.recipe import Trained
from firth.recipes.session import Session
from firth.recipes.settings import PretrainSettings
from firth.recipes.updates import UpdateLoop, Updates, UpdateSettings
from firth.text.tokenizer import Tokenizer


class VectorUpdates(Updates):
    """What the loop trains, of which vectors are kept."""

    @property
    @abstractmethod
    def vectors(self) -> Tensor:
        """Return the vectors that are kept, (V, D)."""

    @abstractmethod
    def baseline(self) -> dict[str, Any]:
        """Return how well held-out text is predicted by frequency alone."""


class Vectors(ABC):
    """A recipe whose model is a table of vectors, one a word."""

    batch: int  # words, or whatever a step reads, where nothing is said

    def __init__(self, settings: PretrainSettings, tokenizer: Tokenizer) -> None:
        self.s = settings
        self.tokenizer = tokenizer
        family = by_name(settings.model)
        assert isinstance(family, VectorFamily)
        self.family = family
        if tokenizer.kind != "words":
            raise InputError(
                f"{settings.model} gives vectors to whole words, and this vocabulary is one of "
                f"{tokenizer.kind}: firth vocab --kind words learns another"
            )
        _, self.end = line_marks(tokenizer)

    def check(self, session: Session) -> None:
        """Refuse several processes: each step changes rows that the next one reads."""
        if session.processes.count > 1:
            raise InputError(
                f"{self.s.model} is trained by one process: start it without torchrun (--threads)"
            )

    def read(self, text: Shards, held: Shards | None, plan: Mapping[str, Any] | None = None) -> int:
        """Take the lines of the text."""
        self.lines = read_lines(text, held, self.end)
        self.counts = word_counts(self.lines.kept, self.tokenizer)
        if not self.counts.any():
            raise InputError(f"the vocabulary knows no word of {', '.join(self.s.corpus)}")
        return self.lines.held.size

    def decide(self, session: Session) -> dict[str, Any]:
        """Decide the size and what the settings left open."""
        s = self.s
        size = s.size or self.family.default_size
        epochs = s.epochs
        if not (s.epochs or s.steps or s.minutes):
            epochs = self.family.epochs
        training = UpdateSettings(
            seed=s.seed,
            steps=s.steps,
            epochs=epochs,
            seconds=s.minutes * 60 if s.minutes else None,
            batch=s.batch or self.batch,
            lr=s.rate or self.family.rate,
            decays=self.family.decays,
            check_every=s.check_every,
        )
        return {"size": size, "updates": training.model_dump()}

    def run(self, session: Session, plan: Mapping[str, Any]) -> Trained:
        """Learn the vectors, and put them into a model."""
        settings = self.family.settings_for(
            plan["size"], self.s.model_settings, vocab=self.tokenizer.size
        )
        training = UpdateSettings(**plan["updates"] | {"save_every": self.s.save_every})
        updates = self.updates(settings, training, session.run.folder)
        outcome = UpdateLoop(updates, training, session.run, session.clock).train()
        model = self.fresh(settings)
        with torch.no_grad():
            model.table.copy_(updates.vectors)
        tokenizer = self.tokenizer.without_marks()
        bundle = Bundle(model, tokenizer, self.family.model_type)
        return Trained(bundle, outcome, updates.baseline())

    @abstractmethod
    def updates(self, settings: Any, training: UpdateSettings, folder: Path) -> VectorUpdates:
        """Return what the loop trains; `folder` may keep what is made on the way."""

    def fresh(self, settings: Any, which: int = 0) -> Encoder:
        """Return a new model, of several with different weights.

        What the text doesn't have has no vector: marks, the unknown word, and words of a vocabulary
        that was learned elsewhere.
        """
        with new_weights(number(Purpose.WEIGHTS, self.s.seed, which)):
            model: Encoder = self.family.network(settings)
        with torch.no_grad():
            model.table[torch.from_numpy(self.counts == 0)] = 0
        return model
