"""Pretraining of ELMo: how likely is each word after those before it, and before those after it?"""

from collections.abc import Mapping
from typing import Any

import torch

from firth.base.errors import InputError
from firth.base.seeds import Purpose, number
from firth.corpus.shards import Shards
from firth.corpus.stream import MarkedRows, line_marks, unigram_perplexity
from firth.data.feed import Steps
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.nn.draws import new_weights
from firth.nn.softmax import ClassSoftmax, SampledSoftmax
from firth.recipes.descent import Descent
from firth.recipes.lines import read_lines, refuse_start
from firth.recipes.objectives import BidirectionalObjective
from firth.recipes.settings import PretrainSettings
from firth.tasks.bidirectional import KIND, check_marks
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer
from firth.train.learner import Learner

LENGTH = 128  # tokens of a row


class BothDirections(Descent):
    """The recipe of a forward and a backward language model, which read the same rows of lines."""

    train: MarkedRows
    dev: MarkedRows

    def __init__(self, settings: PretrainSettings, tokenizer: Tokenizer) -> None:
        super().__init__(settings, tokenizer)
        self.start, self.end = line_marks(tokenizer)
        check_marks(tokenizer, self.start, self.end)
        self.length = settings.length or LENGTH

    def read(self, text: Shards, held: Shards | None, plan: Mapping[str, Any] | None = None) -> int:
        """Make rows of whole lines."""
        refuse_start(self.s, self.tokenizer, self.start, text, held)
        lines = read_lines(text, held, self.end)
        self.counts = lines.kept.counts(self.tokenizer.size)
        self.train = MarkedRows(lines.kept, self.tokenizer, self.length, self.start)
        self.dev = MarkedRows(lines.held, self.tokenizer, self.length, self.start)
        return lines.held.size

    def bundle(self, size: str | None) -> Bundle:
        """Return a new model, or one to go on with, with its output layer."""
        s = self.s
        if size is None:
            bundle = load(s.init or "")
            if bundle.kind != KIND:
                raise InputError(
                    f"{s.init} has no output layer to go on with, which fine-tuning leaves out: "
                    "go on from the folder that it was fine-tuned from"
                )
            bundle.network.requires_grad_(True)
            assert bundle.head is not None
            bundle.head.requires_grad_(True)
        else:
            bundle = self._fresh(size)
        bundle.network.set_dropout(self.family.dropout if s.dropout is None else s.dropout)
        network: Any = bundle.network
        network.mix.requires_grad_(False)  # how layers are mixed is learned with a task
        return bundle

    def _fresh(self, size: str) -> Bundle:
        s = self.s
        settings = self.family.settings_for(
            size,
            s.model_settings,
            vocab=self.tokenizer.size,
            start=self.start,
            end=self.end,
            output=s.output,
        )
        with new_weights(number(Purpose.WEIGHTS, s.seed)):
            model = self.family.network(settings)
            head = make_head(KIND, model)
        if isinstance(head, ClassSoftmax | SampledSoftmax):
            head.rank(torch.from_numpy(self.counts))
        return Bundle(model, self.tokenizer, self.family.model_type, KIND, head)

    def learner(self, bundle: Bundle) -> Learner:
        """Return the encoder with its output layer."""
        return Learner(bundle.encoder, bundle.head, BidirectionalObjective())

    def order(self, batch: int) -> Steps:
        """Return a new order of the rows for every epoch."""
        return Steps(self.train.sizes, self.s.seed, batch)

    def baseline(self, most: int) -> dict[str, Any]:
        """Return the perplexity for who knows only how often each token occurs."""
        return {"mean_perplexity": unigram_perplexity(self.counts, self.dev, most)}
