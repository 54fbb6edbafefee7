"""What a pretraining run is told."""

import shlex
from typing import Literal

from pydantic import Field, model_validator

from firth.base.arguments import MOST_THREADS
from firth.base.errors import InputError
from firth.base.settings import Settings
from firth.corpus.pairs import SPECIAL
from firth.corpus.shards import Shards
from firth.text.tokenizer import Tokenizer

BERT_ONLY = ("nsp", "whole_words", "causal")
# What says how to go down a loss, or for how long: nothing to one that counts.
OF_STEPS = (
    *("minutes", "steps", "epochs", "size", "init"),
    *("length", "batch", "micro", "rate", "dropout", "save_every", "check_every"),
)
FAMILIES = {
    "bert": "bert",
    "gpt": "gpt2",
    "rnn": "firth-rnn",
    "ffnn": "firth-ffnn",
    "ngram": "firth-ngram",
}
KINDS: dict[
    str, Literal["wordpiece", "bytes", "words"]
] = {  # of vocabulary that is learned where none is given
    "bert": "wordpiece",
    "gpt": "bytes",
    "rnn": "words",
    "ffnn": "words",
    "ngram": "words",
}
OWN = {
    "cell": ("rnn",),
    "order": ("ngram", "ffnn"),
    "output": ("rnn", "ffnn"),
}  # options of some language models only


class PretrainSettings(Settings):
    """What to learn from, what to learn, and for how long."""

    corpus: list[str]
    out: str
    model: Literal["bert", "gpt", "rnn", "ffnn", "ngram"] = "bert"
    minutes: float | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, gt=0)
    epochs: float | None = Field(default=None, gt=0)
    size: Literal["tiny", "mini", "small", "medium", "base", "large"] | None = None
    cell: Literal["tanh", "gru", "lstm"] | None = None
    order: int | None = Field(default=None, ge=1, le=64)
    output: Literal["full", "classes", "sampled"] | None = None
    carry: bool = False
    vocab: str | None = None
    split: Literal["auto", "punctuation", "spaces"] | None = (
        None  # None is auto, so that runs without it go on
    )
    init: str | None = None
    dev: str | None = None
    length: int | None = Field(default=None, ge=SPECIAL + 2, le=8192)
    batch: int | None = Field(default=None, gt=0)
    micro: int = Field(default=4096, gt=0)
    rate: float | None = Field(default=None, gt=0, lt=1)
    dropout: float | None = Field(default=None, ge=0, lt=1)
    nsp: bool = True
    whole_words: bool = False
    causal: bool = False  # a token sees only those before it: to compare with, from Python only
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    save_every: int | None = Field(default=None, gt=0)
    check_every: int | None = Field(default=None, gt=0)
    workers: int = Field(default=1, ge=0, le=64)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: int | None = Field(default=None, gt=0, le=MOST_THREADS)
    timeout: float = Field(default=110.0, gt=0)
    field: str = Field(default="text", min_length=1)
    encoding: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> "PretrainSettings":
        given = sum(given is not None for given in (self.minutes, self.steps, self.epochs))
        fields = type(self).model_fields
        of_steps = [
            f"--{name.replace('_', '-')}"
            for name in OF_STEPS
            if getattr(self, name) != fields[name].default
        ]
        if self.model == "ngram" and of_steps:
            raise ValueError(f"an n-gram counts its text once: leave {' and '.join(of_steps)} out")
        if self.model != "ngram" and given != 1:
            raise ValueError("say how long to train: --minutes, --steps or --epochs, one of them")
        if self.size and self.init:
            raise ValueError(
                "--init takes the size of the model that it begins with; leave --size out"
            )
        if self.init and self.vocab and self.model != "bert":
            raise ValueError(f"a {self.model} goes on with its own vocabulary: leave --vocab out")
        for name, models in OWN.items():
            if getattr(self, name) is not None and (self.model not in models or self.init):
                raise ValueError(
                    f"--{name} is for a new {' or '.join(models)}, not for {self.init or self.model}"
                )
        if self.split and (KINDS[self.model] != "words" or self.vocab or self.init):
            raise ValueError(
                "--split is for a vocabulary of words that is learned here (of an ngram, ffnn or rnn, without --vocab and --init)"
            )
        if self.model == "ffnn" and self.order == 1:
            raise ValueError("an ffnn sees at least one word before the next: --order is 2 or more")
        if self.carry and self.model != "gpt":
            raise ValueError(
                f"--carry is for gpt, not for {self.model}: an rnn always remembers the text before, others never do"
            )
        if self.model != "bert" and any(
            getattr(self, name) != fields[name].default for name in BERT_ONLY
        ):
            raise ValueError(f"--no-nsp and --whole-words are for bert, not for {self.model}")
        return self


def refuse_start(
    settings: PretrainSettings, tokenizer: Tokenizer, start: int, text: Shards, held: Shards | None
) -> None:
    """Refuse text that holds the mark which begins one: most language models give it no probability inside a line."""
    for shards, paths in ((text, settings.corpus), (held, [settings.dev or ""])):
        if shards and any((shard.ids == start).any() for shard in shards.shards):
            mark = tokenizer.piece(start)
            raise InputError(
                f"the text holds the start mark {mark!r}, which has no probability inside a line: leave it out "
                f"(grep -rnF {shlex.join([mark, *paths])} finds it)"
            )
