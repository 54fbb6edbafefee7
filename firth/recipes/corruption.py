"""Pretraining of an encoder-decoder by span corruption: write what was taken out of a text."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from firth.base.errors import InputError
from firth.base.seeds import Purpose, number
from firth.corpus.corruption import MARKS, CorruptedTexts, longest_text
from firth.corpus.pairs import DEV_SEED, LENGTH, passages, split_dev
from firth.corpus.shards import Shards
from firth.data.batch import TARGET
from firth.data.feed import Numbers, Steps, evenly_spread
from firth.data.sides import SAID
from firth.families.layout import TRANSLATOR
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.nn.draws import new_weights
from firth.recipes.descent import Descent
from firth.recipes.lines import refuse_pieces
from firth.recipes.newpair import target_marks
from firth.recipes.settings import PretrainSettings
from firth.tasks.translate import Translate
from firth.text.tokenizer import Tokenizer
from firth.train.learner import Learner


class SpanCorruption(Descent):
    """The recipe of encoder-decoders: texts with spans taken out are pairs like any other."""

    train: CorruptedTexts
    dev: CorruptedTexts

    def __init__(self, settings: PretrainSettings, tokenizer: Tokenizer) -> None:
        super().__init__(settings, tokenizer)
        self.start, self.end = target_marks(tokenizer)
        self.length = settings.length or LENGTH
        written = [sentinel for sentinel in tokenizer.sentinels if sentinel > self.end]
        if not written or len(written) < len(tokenizer.sentinels):
            where = settings.init or tokenizer.source
            raise InputError(
                f"the vocabulary of {where} has no sentinels (<extra_id_0> ...) after its end "
                "mark, which span corruption writes: "
                "begin a new model, which learns a vocabulary with them or adds them to --vocab"
            )
        most = longest_text(len(written)) + MARKS
        if self.length > most:
            raise InputError(
                f"--length {self.length}: {len(written)} sentinels are enough for {most} tokens"
            )

    def read(self, text: Shards, held: Shards | None, plan: Mapping[str, Any] | None = None) -> int:
        """Cut the text into passages of whole sentences."""
        sentinels = dict.fromkeys(self.tokenizer.sentinels, "the sentinel")
        why = "which stands for what is taken out of it"
        refuse_pieces(self.s, self.tokenizer, sentinels, why, text, held)
        room = self.length - MARKS
        where = passages(text, room)
        if held:
            chosen = passages(held, room)
        else:
            where, chosen = split_dev(where, text)
        marks = (self.start, self.end)
        self.train = CorruptedTexts(text, where, self.tokenizer, *marks, self.s.seed)
        self.dev = CorruptedTexts(held or text, chosen, self.tokenizer, *marks, DEV_SEED)
        return int(chosen.size.sum())

    def bundle(self, size: str | None) -> Bundle:
        """Return a new model, or one to go on with."""
        s = self.s
        bundle = load(s.init or "") if size is None else self._fresh(size)
        if bundle.target_tokenizer is not None:
            raise InputError(
                f"{s.init} has a vocabulary of its own for targets, "
                "where span corruption has one text on both sides"
            )
        most = bundle.translator.length or self.length
        if self.length > most:
            raise InputError(f"{s.init or s.model} reads {most} tokens, not {self.length}")
        bundle.network.requires_grad_(True)
        bundle.network.set_dropout(self.family.dropout if s.dropout is None else s.dropout)
        return bundle

    def _fresh(self, size: str) -> Bundle:
        s = self.s
        settings = self.family.settings_for(
            size,
            s.model_settings,
            vocab=self.tokenizer.size,
            start=self.start,
            end=self.end,
            cell=s.cell,
        )
        with new_weights(number(Purpose.WEIGHTS, s.seed)):
            model = self.family.network(settings)
        return Bundle(model, self.tokenizer, self.family.model_type, TRANSLATOR)

    def learner(self, bundle: Bundle) -> Learner:
        """Return the model with the objective of text to text."""
        return Learner(bundle.translator, None, Translate())

    def order(self, batch: int) -> Steps:
        """Return a new order of the passages for every epoch."""
        return Steps(self.train.sizes, self.s.seed, batch)

    def baseline(self, most: int) -> dict[str, Any]:
        """Return the perplexity for who knows only how often each token occurs in targets."""
        held = self._written(self.dev, most)
        if not len(held):
            return {"perplexity": None}
        learned = self._written(self.train, most)
        seen = np.bincount(learned, minlength=self.tokenizer.size) + 1.0  # none is impossible
        mean = np.log(seen[held] / seen.sum()).mean()
        return {"perplexity": math.exp(-mean)}

    def _written(self, feed: CorruptedTexts, most: int) -> Numbers:
        """Return the target tokens of evenly spread passages."""
        chosen = evenly_spread(feed, most)
        if not len(chosen):
            return chosen
        targets = feed.batch(0, chosen).targets
        found: Numbers = targets[TARGET][targets[SAID]].numpy()
        return found
