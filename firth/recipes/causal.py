"""Causal pretraining of a language model: how likely is each token after those before it?"""

from collections.abc import Mapping
from typing import Any

import torch

from firth.base.errors import InputError
from firth.base.seeds import Purpose, number
from firth.corpus.shards import Shards
from firth.corpus.stream import (
    LineRows,
    StatefulOrder,
    StatefulRows,
    line_marks,
    unigram_perplexity,
)
from firth.data.feed import Order, Steps
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.models.protocols import NeuralLanguageModel
from firth.nn.draws import new_weights
from firth.recipes.descent import Descent
from firth.recipes.lines import read_lines, refuse_start
from firth.recipes.objectives import CausalObjective, StatefulLearner
from firth.recipes.settings import PretrainSettings
from firth.text.tokenizer import Tokenizer
from firth.train.learner import Learner

LENGTH = 128  # tokens of a row
SPAN = 35  # of a lane, for a model that reads rows of any length
DEV_ROOM = 512  # of a row that such a model is measured on
LANES = 20


class Causal(Descent):
    """The recipe of language models that are networks.

    One that carries its state from step to step reads lanes of the text, a span of each at a time;
    others read rows of whole lines.
    """

    train: StatefulRows | LineRows
    dev: LineRows

    def __init__(self, settings: PretrainSettings, tokenizer: Tokenizer) -> None:
        super().__init__(settings, tokenizer)
        begun = load(settings.init) if settings.init else None
        if begun:
            self.start, self.end = begun.language.settings.start, begun.end
        else:
            self.start, self.end = line_marks(tokenizer, apart=not self.family.one_mark)
        self.length = self._length(begun)
        # A model with a limited length remembers about as much as it reads at once.
        self.span = self.length // 2 if self.family.has_length else self.length
        self.carries = settings.carry or not self.family.has_length
        if self.carries:
            self.batch = LANES * self.span
            self.fixed = True

    def _length(self, begun: Bundle | None) -> int:
        """Return how many tokens are read at once."""
        s = self.s
        if not self.family.has_length:
            return s.length or SPAN
        most = begun.length if begun else None
        length = s.length or min(LENGTH, most or LENGTH)
        if most and length > most:
            raise InputError(f"{s.init} reads {most} tokens, not {length}")
        return length

    def read(self, text: Shards, held: Shards | None, plan: Mapping[str, Any] | None = None) -> int:
        """Make lanes for models that carry a state, rows for others."""
        if not self.family.has_length:
            refuse_start(self.s, self.tokenizer, self.start, text, held)
        lines = read_lines(text, held, self.end)
        self.counts = lines.kept.counts(self.tokenizer.size)
        room = self.length - 1 if self.family.has_length else DEV_ROOM
        self.dev = LineRows(lines.held, self.tokenizer, room)
        if self.carries:
            count = max(1, (self.s.batch or self.batch) // self.span)
            self.train = StatefulRows(lines.kept, self.tokenizer, count, self.span)
        else:
            self.train = LineRows(lines.kept, self.tokenizer, room, fill=True)
        return lines.held.size

    def bundle(self, size: str | None) -> Bundle:
        """Return a new model, or one to go on with."""
        s = self.s
        dropout = self.family.dropout if s.dropout is None else s.dropout
        if size is None:
            bundle = load(s.init or "")
            bundle.network.requires_grad_(True)
        else:
            with new_weights(number(Purpose.WEIGHTS, s.seed)):
                model = self._fresh(size)
            bundle = Bundle(model, self.tokenizer, self.family.model_type, "continue")
        bundle.network.set_dropout(dropout)
        return bundle

    def _fresh(self, size: str) -> Any:
        s = self.s
        settings = self.family.settings_for(
            size,
            s.model_settings,
            vocab=self.tokenizer.size,
            start=self.start,
            # Where memory is carried over the end of a line, the end is a word like any other.
            end=None if self.family.end_is_word else self.end,
            length=self.length,
            cell=s.cell,
            order=s.order,
            output=s.output,
        )
        model: NeuralLanguageModel = self.family.network(settings)
        model.learn_frequencies(torch.from_numpy(self.counts))
        return model

    def learner(self, bundle: Bundle) -> Learner:
        """Return the model; one that carries a state has it for every lane."""
        if isinstance(self.train, StatefulRows):
            kept = int(self.train.sizes.min())
            return StatefulLearner(bundle.language, self.train.count, kept)
        return Learner(bundle.language, None, CausalObjective())

    def order(self, batch: int) -> Order:
        """Return lanes in turn, or a new order of the rows for every epoch."""
        if isinstance(self.train, StatefulRows):
            return StatefulOrder(self.train)
        return Steps(self.train.sizes, self.s.seed, batch)

    def baseline(self, most: int) -> dict[str, Any]:
        """Return the perplexity for who knows only how often each token occurs."""
        return {"token_perplexity": unigram_perplexity(self.counts, self.dev, most)}
