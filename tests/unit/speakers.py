"""Small language models and translators of every family, with a vocabulary of real text, for the tests of what they are used for."""

from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import torch

from firth.families.registry import families
from firth.folders.bundle import Bundle
from firth.models.counts import NGramSettings, Sentences
from firth.models.elmo import Elmo, ElmoSettings
from firth.models.ffnn import Ffnn, FfnnSettings
from firth.models.gpt import Gpt, GptSettings
from firth.models.ngram import NGram
from firth.models.rnn import Rnn, RnnSettings
from firth.samples.library import documents
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer

LINES = [paragraph for document in islice(documents(), 12) for paragraph in document]
HELD_OUT, TRAIN = LINES[::8], [line for number, line in enumerate(LINES) if number % 8]
LENGTH = 24  # of the GPT
NAMES = ("ngram", "ffnn", "ffnn, carrying", "rnn", "rnn, carrying", "gpt")
CARRYING = ("ffnn, carrying", "rnn, carrying")


@cache
def tokenizer(kind: str) -> Tokenizer:
    """One of the text's own."""
    return Tokenizer.train(TRAIN, kind, 2000 if kind == "words" else 600)  # type: ignore[arg-type]


@cache
def bundle(name: str, seed: int = 0) -> Bundle:
    """A model of a family: counts of the text, or lively weights that learned nothing."""
    words = tokenizer("bytes" if name == "gpt" else "words")
    marks: dict[str, Any] = {"vocab": words.size, "start": words.cls, "end": words.sep}
    torch.manual_seed(seed)
    if name == "ngram":
        rows = [[*encoding.ids, words.sep] for encoding in words.encode(TRAIN, special=False)]
        text = Sentences(
            np.array([token for row in rows for token in row]), np.array([len(row) for row in rows])
        )
        return Bundle(
            NGram.fit([text], NGramSettings(**marks, order=4)), words, "firth-ngram", "continue"
        )
    if name == "gpt":
        model = Gpt(
            GptSettings(**marks, width=32, depth=2, heads=2, inner=64, length=LENGTH, spread=0.4)
        )
        return Bundle(model.eval(), words, "gpt2", "continue")
    if name == "elmo":
        encoder = Elmo(ElmoSettings(**marks, width=16, spread=0.5))
        head = make_head("bidirectional", encoder)
        assert head is not None
        return Bundle(encoder.eval(), words, "firth-elmo", "bidirectional", head.eval())
    marks |= {"spread": 0.5, "width": 16} | ({"end": None} if name in CARRYING else {})
    if name.startswith("rnn"):
        return Bundle(Rnn(RnnSettings(**marks)).eval(), words, "firth-rnn", "continue")
    return Bundle(
        Ffnn(FfnnSettings(**marks, order=4, inner=20)).eval(), words, "firth-ffnn", "continue"
    )


TRANSLATORS = ("seq2seq", "attention", "transformer", "marian")


@cache
def translator(name: str, seed: int = 0) -> Bundle:
    """An encoder-decoder with lively weights that learned nothing, and a vocabulary for both sides."""
    words = Tokenizer.train(TRAIN, "bytes", 600, end_last=True)
    (record,) = (family for family in families() if family.name == name)
    sizes: dict[str, Any] = {"vocab": words.size, "start": words.cls, "end": words.sep, "width": 16}
    sizes |= {"heads": 4, "inner": 24, "depth": 3, "length": 32, "dropout": 0.0}
    fields = record.settings.model_fields
    settings = record.settings(**{key: value for key, value in sizes.items() if key in fields})
    torch.manual_seed(seed)
    model = record.network(settings).eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.3 * torch.randn(tensor.shape))
    return Bundle(model, words, record.model_type, "translate", settings={"length": 32})
