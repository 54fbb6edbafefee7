"""Pretraining language models that descend: say of each word how likely it is after those before it."""

from typing import Any

import torch

from firth.base.errors import InputError
from firth.base.seeds import Purpose, number
from firth.corpus.shards import Shards
from firth.corpus.stream import InTurn, Lanes, Rows, Stream, by_frequency, hold_out, line_marks
from firth.data.feed import Order, Steps
from firth.data.task import Learner
from firth.folders.bundle import Bundle, load
from firth.models import bert, ffnn, rnn
from firth.models.ffnn import Ffnn, FfnnSettings
from firth.models.gpt import Gpt, GptSettings
from firth.models.ngram import NGram
from firth.models.rnn import Rnn, RnnSettings
from firth.nn.softmax import Classes, Sampled
from firth.recipes.settings import FAMILIES, PretrainSettings, refuse_start
from firth.recipes.start import set_dropout
from firth.tasks.language import Carrying, Continue
from firth.text.tokenizer import Tokenizer

SIZES: dict[str, dict[str, Any]] = {"gpt": bert.SIZES, "rnn": rnn.SIZES, "ffnn": ffnn.SIZES}
LENGTH, SPAN, DEV_ROOM = (
    128,
    35,
    512,
)  # tokens of a row of GPT; of a span of a lane; of a row that is measured on
LANES = 20
ORDER = 6  # of the feed-forward model
DROPOUT = {"gpt": 0.1, "rnn": 0.4, "ffnn": 0.2}
DROPOUTS = ("dropout", "embedding_dropout", "attention_dropout")
GPT_RATE_TIMES_WIDTH = 0.25
GOING_ON = 0.2  # of the rate, for weights that have learned already
CLASSES = (0.1, 0.5)  # shares of the vocabulary at which a class of rarer words begins
# Of networks that carry a state: no memory of gradients, and a short norm, because neighbouring spans are alike.
CARRYING = {
    "first_moment": 0.0,
    "second_moment": 0.999,
    "tiny": 1e-8,
    "decay": 0.0,
    "clip": 0.25,
    "warmup": 0.05,
}
RATES = {"lstm": 2e-3, "gru": 2e-3, "tanh": 1e-3, "ffnn": 1e-3}


class NextWords:
    """The recipe of GPT, recurrent and feed-forward models."""

    def __init__(self, settings: PretrainSettings, tokenizer: Tokenizer) -> None:
        self.s, self.tokenizer = settings, tokenizer
        self.is_gpt = settings.model == "gpt"
        begun = load(settings.init) if settings.init else None
        self.start, self.end = (
            (begun.language.settings.start, begun.end)
            if begun
            else line_marks(tokenizer, apart=not self.is_gpt)
        )
        most = begun.length if begun and self.is_gpt else None
        self.length = settings.length or (min(LENGTH, most or LENGTH) if self.is_gpt else SPAN)
        if most and self.length > most:
            raise InputError(f"{settings.init} reads {most} tokens, not {self.length}")
        self.sizes = tuple(SIZES[settings.model]) if self.is_gpt else ("small",)
        self.size = "mini" if self.is_gpt else "small"
        self.span = (
            self.length // 2 if self.is_gpt else self.length
        )  # of a lane; a GPT remembers about as much
        self.carries = settings.carry or not self.is_gpt
        self.batch, self.fixed = (LANES * self.span, True) if self.carries else (4096, False)

    def read(self, text: Shards, held: Shards | None) -> int:
        """Lanes for models that carry a state, rows for others."""
        if not self.is_gpt:
            refuse_start(self.s, self.tokenizer, self.start, text, held)
        whole = Stream(text, self.end)
        kept, chosen = (whole, Stream(held, self.end)) if held else hold_out(whole)
        self.counts = kept.counts(self.tokenizer.size)
        room = self.length - 1 if self.is_gpt else DEV_ROOM
        self.dev = Rows(chosen, self.tokenizer, room)
        lanes = max(1, (self.s.batch or self.batch) // self.span)
        self.train = (
            Lanes(kept, self.tokenizer, lanes, self.span)
            if self.carries
            else Rows(kept, self.tokenizer, room, fill=True)
        )
        return chosen.size

    def bundle(self, size: str | None) -> Bundle:
        """A fresh model, or one to go on with."""
        s = self.s
        dropout = DROPOUT[s.model] if s.dropout is None else s.dropout
        torch.default_generator.manual_seed(number(Purpose.WEIGHTS, s.seed))
        if size is None:
            return self._going_on(dropout)
        marks: dict[str, Any] = {
            "vocab": self.tokenizer.size,
            "start": self.start,
            "end": self.end,
            "dropout": dropout,
        }
        model: Gpt | Rnn | Ffnn
        if s.model == "gpt":
            width, depth, heads = bert.SIZES[size]
            marks |= dict.fromkeys(DROPOUTS, dropout)
            model = Gpt(
                GptSettings(
                    **marks,
                    width=width,
                    depth=depth,
                    heads=heads,
                    inner=4 * width,
                    length=self.length,
                )
            )
        elif s.model == "rnn":
            # Its memory is carried over the end of a line, which is then a word like any other.
            width, depth = rnn.SIZES[size]
            model = Rnn(
                RnnSettings(
                    **marks | self._output() | {"end": None},
                    width=width,
                    depth=depth,
                    cell=s.cell or "lstm",
                )
            )
        else:
            width = ffnn.SIZES[size]
            model = Ffnn(
                FfnnSettings(
                    **marks | self._output(), order=s.order or ORDER, width=width, inner=width
                )
            )
        if isinstance(model, Rnn | Ffnn) and isinstance(model.output, Classes | Sampled):
            model.output.rank(torch.from_numpy(self.counts))
        return Bundle(model, self.tokenizer, FAMILIES[s.model], "continue")

    def _going_on(self, dropout: float) -> Bundle:
        bundle = load(self.s.init or "")
        model = bundle.language
        assert isinstance(model, Gpt | Rnn | Ffnn)
        rates = {name: dropout for name in DROPOUTS if hasattr(model.settings, name)}
        model.settings = model.settings.model_copy(update=rates)
        set_dropout(model.requires_grad_(True), dropout)
        return bundle

    def _output(self) -> dict[str, Any]:
        output = self.s.output or "full"
        cutoffs = (
            tuple(round(share * self.tokenizer.size) for share in CLASSES)
            if output == "classes"
            else ()
        )
        return {"output": output, "cutoffs": cutoffs, "tied": output != "classes"}

    def learner(self, bundle: Bundle) -> Learner:
        """The model; one that carries a state has it for every lane."""
        model = bundle.language
        if isinstance(self.train, Lanes):
            assert not isinstance(model, NGram)
            return Carrying(model, self.train.count, int(self.train.sizes.min()))
        return Learner(model, None, Continue())

    def order(self, batch: int) -> Order:
        """Lanes in turn, rows anew in every epoch."""
        return (
            InTurn(self.train)
            if isinstance(self.train, Lanes)
            else Steps(self.train.sizes, self.s.seed, batch)
        )

    def training(self, bundle: Bundle) -> dict[str, Any]:
        """The rate, and what suits the kind of network."""
        model, on = bundle.language, GOING_ON if self.s.init else 1.0
        if isinstance(model, Gpt):
            return {"rate": self.s.rate or GPT_RATE_TIMES_WIDTH / model.width * on}
        kind = model.settings.cell if isinstance(model, Rnn) else "ffnn"
        return CARRYING | {"rate": self.s.rate or RATES[kind] * on}

    def baseline(self, most: int) -> dict[str, Any]:
        """The perplexity of held-out text for who knows only how often each token occurs."""
        return {"token_perplexity": by_frequency(self.counts, self.dev, most)}
