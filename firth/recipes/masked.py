"""Pretraining BERT: guess hidden words, and whether a text follows another."""

from functools import cached_property
from typing import Any

from firth.base.errors import InputError
from firth.corpus.mask import Masker, Numbers
from firth.corpus.pairs import SPECIAL, Pairs, frequency, passages, several, split_dev
from firth.corpus.shards import Shards
from firth.data.feed import Steps
from firth.data.task import Learner
from firth.folders.bundle import Bundle, load
from firth.models.bert import SIZES
from firth.nn.heads import PretrainHead
from firth.recipes.settings import PretrainSettings
from firth.recipes.start import Moved, expect, fresh, going_on
from firth.tasks.pretrain import Hide
from firth.text.tokenizer import Tokenizer
from firth.train.evaluate import some

LENGTH = 128
DEV_SEED = 0  # held-out text has the same words hidden in every run
RATE_TIMES_WIDTH = 0.25  # wider models need smaller steps
GOING_ON = 0.2  # of that, for weights that have learned already


class HiddenWords:
    """The recipe of BERT."""

    size, sizes = "mini", tuple(SIZES)
    batch, fixed = 4096, False
    splits_document = True  # whether part of a single document is held out; runs begun by earlier versions held out nothing

    def __init__(self, settings: PretrainSettings, tokenizer: Tokenizer) -> None:
        self.s, self.tokenizer = settings, tokenizer
        most = (
            load(settings.init).encoder.length if settings.init and not settings.length else LENGTH
        )
        self.length = settings.length or min(LENGTH, most)
        self.moved: Moved | None = None

    def read(self, text: Shards, held: Shards | None) -> int:
        """Pairs of passages with words hidden."""
        s, room = self.s, self.length - SPECIAL
        whole = passages(text, room)
        where, chosen = (
            (whole, passages(held, room))
            if held
            else split_dev(whole, text if self.splits_document else None)
        )
        if s.nsp and not several(where):
            beside = " beside the one held out" if several(whole) else ""
            raise InputError(
                f"{', '.join(s.corpus)} is a single document{beside}, and next-sentence pairs need a second one to draw from: "
                "part documents by a blank line, or say --no-nsp"
            )
        masker = Masker(self.tokenizer, s.whole_words)
        self.train = Pairs(text, where, self.tokenizer, room, s.seed, masker, s.nsp)
        self.dev = Pairs(
            held or text, chosen, self.tokenizer, room, DEV_SEED, masker, s.nsp and several(chosen)
        )
        return int(chosen.size.sum())

    @cached_property
    def frequency(self) -> Numbers:
        """How often each piece stands in the text to learn from."""
        return frequency(self.train)

    def bundle(self, size: str | None) -> Bundle:
        """A fresh BERT, or an encoder to go on with."""
        s = self.s
        if size:
            made = fresh(
                size, self.tokenizer, self.length, s.dropout or 0.0, s.nsp, s.seed, s.causal
            )
        else:
            made, self.moved = going_on(
                s.init or "", self.tokenizer if s.vocab else None, s.dropout or 0.0, s.nsp, s.seed
            )
            if self.length > made.encoder.length:
                raise InputError(f"{s.init} reads {made.encoder.length} tokens, not {self.length}")
        assert isinstance(made.head, PretrainHead)
        if not made.head.masked.bias.any():  # the head is new
            expect(made.head, self.frequency)
        return made

    def learner(self, bundle: Bundle) -> Learner:
        """The encoder with both heads."""
        return Learner(bundle.encoder, bundle.head, Hide())

    def order(self, batch: int) -> Steps:
        """Anew in every epoch."""
        return Steps(self.train.sizes, self.s.seed, batch)

    def training(self, bundle: Bundle) -> dict[str, Any]:
        """The rate."""
        return {
            "rate": self.s.rate
            or RATE_TIMES_WIDTH / bundle.encoder.width * (GOING_ON if self.s.init else 1)
        }

    def baseline(self, most: int) -> dict[str, Any]:
        """What always guessing the commonest piece of the training text would name on held-out text."""
        piece = int(self.frequency.argmax())
        hidden = (
            self.dev.batch(0, some(self.dev, most)).targets["words"]
            if len(self.dev.sizes)
            else None
        )
        right = None if hidden is None else float((hidden == piece).float().mean())
        return {"piece": self.tokenizer.piece(piece), "masked_accuracy": right}
