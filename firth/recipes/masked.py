"""Masked pretraining of an encoder: guess hidden words, and whether a text follows another."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from firth.base.errors import InputError
from firth.corpus.mask import Masker, Numbers
from firth.corpus.pairs import (
    DEV_SEED,
    LENGTH,
    SPECIAL,
    Pairs,
    frequency,
    passages,
    several,
    split_dev,
)
from firth.corpus.shards import Shards
from firth.data.feed import Steps, evenly_spread
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.nn.heads import PretrainHead
from firth.recipes.descent import Descent
from firth.recipes.objectives import MaskedObjective
from firth.recipes.settings import PretrainSettings
from firth.recipes.start import Moved, expect, fresh, going_on
from firth.text.tokenizer import Tokenizer
from firth.train.learner import Learner


class Masked(Descent):
    """The recipe of encoders."""

    train: Pairs
    dev: Pairs

    def __init__(self, settings: PretrainSettings, tokenizer: Tokenizer) -> None:
        super().__init__(settings, tokenizer)
        most = LENGTH
        if settings.init and not settings.length:
            most = load(settings.init).encoder.length or LENGTH
        self.length = settings.length or min(LENGTH, most)
        self.nsp = settings.nsp and "nsp" in self.family.options
        self.moved: Moved | None = None

    def read(self, text: Shards, held: Shards | None, plan: Mapping[str, Any] | None = None) -> int:
        """Make pairs of passages with words hidden."""
        s = self.s
        room = self.length - SPECIAL
        whole = passages(text, room)
        # Runs begun by earlier versions held out nothing of a single document.
        splits_document = plan is None or plan.get("splits_document")
        if held:
            where, chosen = whole, passages(held, room)
        else:
            where, chosen = split_dev(whole, text if splits_document else None)
        if self.nsp and not several(where):
            beside = " beside the one held out" if several(whole) else ""
            raise InputError(
                f"{', '.join(s.corpus)} is a single document{beside}, and next-sentence pairs need "
                "a second one to draw from: part documents by a blank line, or say --no-nsp"
            )
        masker = Masker(self.tokenizer, s.whole_words)
        self.train = Pairs(text, where, self.tokenizer, room, s.seed, masker, self.nsp)
        pairs = self.nsp and several(chosen)
        self.dev = Pairs(held or text, chosen, self.tokenizer, room, DEV_SEED, masker, pairs)
        return int(chosen.size.sum())

    @cached_property
    def frequency(self) -> Numbers:
        """Return how often each piece stands in the text to learn from."""
        return frequency(self.train)

    def bundle(self, size: str | None) -> Bundle:
        """Return a new encoder, or one to go on with, with the heads of pretraining."""
        s = self.s
        dropout = self.family.dropout if s.dropout is None else s.dropout
        if size:
            made = fresh(
                size,
                self.tokenizer,
                self.length,
                dropout,
                self.nsp,
                s.seed,
                s.causal,
                s.model_settings,
                self.family,
            )
        else:
            tokenizer = self.tokenizer if s.vocab else None
            made, self.moved = going_on(s.init or "", tokenizer, dropout, self.nsp, s.seed)
            most = made.encoder.length or self.length
            if self.length > most:
                raise InputError(f"{s.init} reads {most} tokens, not {self.length}")
        assert isinstance(made.head, PretrainHead)
        if not made.head.masked.bias.any():  # the head is new
            expect(made.head, self.frequency)
        return made

    def remarks(self) -> list[str]:
        """Say how the vectors of another vocabulary came about."""
        return [str(self.moved)] if self.moved else []

    def learner(self, bundle: Bundle) -> Learner:
        """Return the encoder with both heads."""
        return Learner(bundle.encoder, bundle.head, MaskedObjective())

    def order(self, batch: int) -> Steps:
        """Return a new order of the pairs for every epoch."""
        return Steps(self.train.sizes, self.s.seed, batch)

    def baseline(self, most: int) -> dict[str, Any]:
        """Return how often the commonest piece of the training text would be right."""
        piece = int(self.frequency.argmax())
        right = None
        if len(self.dev.sizes):
            hidden = self.dev.batch(0, evenly_spread(self.dev, most)).targets["words"]
            right = float((hidden == piece).float().mean())
        return {"piece": self.tokenizer.piece(piece), "masked_accuracy": right}
