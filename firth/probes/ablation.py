"""What a model answers with each of its heads switched off, one at a time.

N layers, H heads, C copies of a text, L tokens, D width, K head width.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.data.batch import make_batch
from firth.data.examples import is_pair
from firth.data.window import Window
from firth.models.protocols import Encoder
from firth.predictor import Predictor
from firth.probes.row import Row
from firth.tasks.embed import Embed
from firth.tasks.encoded import TOKENS_PER_BATCH, EncodedTask, encode_examples
from firth.tasks.fill import Fill

MOST_PIECES = 1000  # of a blank, whose probabilities are compared
SHOWN = 12  # figures of an answer, the largest
MOST_LINES = 8  # of an answer in words
LIKELIHOOD = "log-probability of a token (mean)"
COSINE = "cosine to the whole model's vector"

Head = tuple[int, int]  # a layer and a head of it


class Said(NamedTuple):
    """What is answered: a line, and the numbers by which two answers are compared."""

    line: str
    figures: dict[str, float]


class Ablation(NamedTuple):
    """The answer of a whole model, and of the same with each head off (N, H), where it has any."""

    whole: Said
    without: list[list[Said]]


def ablation(predictor: Predictor, row: Row) -> Ablation:
    """Return what is answered to a text with each head off; figures are those of the whole model.

    Of a language model that is how likely the text is, and of an encoder without a head, or with no
    blank to fill, the vector of the text.
    """
    encoder = predictor.bundle.encoder
    layers = encoder.attention_layers()
    heads = [(layer, head) for layer, one in enumerate(layers) for head in range(one.heads)]
    asked = _question(predictor, row)
    with predictor.computing(), torch.inference_mode():
        (whole,) = asked.say(predictor, [None])
        most = max(1, TOKENS_PER_BATCH // len(row.tokens))
        found: list[Said] = []
        for first in range(0, len(heads), most):
            some = heads[first : first + most]
            with switched_off(encoder, some):
                found += asked.say(predictor, some)

    named = sorted(whole.figures, key=lambda name: -whole.figures[name])[:SHOWN]
    said = [Said(one.line, {name: one.figures.get(name, 0.0) for name in named}) for one in found]
    kept = Said(whole.line, {name: whole.figures[name] for name in named})
    of_head = dict(zip(heads, said, strict=True))
    rows = [[of_head[layer, head] for head in range(one.heads)] for layer, one in enumerate(layers)]
    return Ablation(kept, rows)


@contextmanager
def switched_off(encoder: Encoder, heads: Sequence[Head]) -> Iterator[None]:
    """Switch a head off in each row of a stream, whose rows have one length, while in here.

    What the head gives is replaced by zeros, before all heads are joined.
    """
    handles = []
    for number, attention in enumerate(encoder.attention_layers()):
        rows = [copy for copy, (layer, _) in enumerate(heads) if layer == number]
        if not rows:
            continue
        own = [heads[copy][1] for copy in rows]
        hook = _silencer(len(heads), rows, own, attention.heads)
        handles.append(attention.out.register_forward_pre_hook(hook))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _silencer(copies: int, rows: list[int], own: list[int], heads: int) -> Any:
    """Return a hook that sets a head of some copies to zero."""

    def silence(_module: nn.Module, given: Sequence[Tensor]) -> tuple[Tensor]:
        x = given[0].clone()  # (C L, D)
        by_head = x.view(copies, -1, heads, x.shape[-1] // heads)  # (C, L, H, K)
        by_head[rows, :, own] = 0
        return (x,)

    return silence


class _TaskQuestion(NamedTuple):
    """What a task answers to an example."""

    task: EncodedTask[Any, Any]
    row: Row

    def say(self, predictor: Predictor, copies: Sequence[Head | None]) -> list[Said]:
        """Return the answers to so many copies of the example, which are read together."""
        bundle = predictor.bundle
        (encoded,) = encode_examples(self.task, [self.row.example], bundle, "cut")
        if len(encoded.encodings) > 1:
            raise InputError("a text with options to choose from is read several times")
        window: Window = encoded.windows[0][0]
        windows = [window] * len(copies)
        batch = make_batch([window.row] * len(copies))
        model = self.task.model(bundle)
        found = []
        for logits in self.task.logits(model, bundle.head, batch, windows):
            combined = [self.task.combine([window], [logits])]
            example = self.row.example
            answer = self.task.answer(example, encoded.encodings, combined, encoded.truncated)
            lines = self.task.line(example, answer).splitlines()
            found.append(Said("\n".join(lines[:MOST_LINES]), answer.figures()))
        return found


class _VectorQuestion(NamedTuple):
    """How far a text's vector moves."""

    task: Embed
    row: Row
    whole: Tensor

    def say(self, predictor: Predictor, copies: Sequence[Head | None]) -> list[Said]:
        """Return the cosine of each copy's vector to that of the whole model."""
        found = []
        for vector in _vectors(predictor, self.task, self.row, len(copies)):
            cosine = float(torch.cosine_similarity(vector, self.whole, dim=0))
            found.append(Said(f"{cosine:.4f}  {COSINE}", {COSINE: cosine}))
        return found


class _LikelihoodQuestion(NamedTuple):
    """How likely a language model finds a text."""

    row: Row

    def say(self, predictor: Predictor, copies: Sequence[Head | None]) -> list[Said]:
        """Return the mean log-probability of the text's tokens for each copy."""
        ids = [
            token
            for token, part in zip(self.row.encoding.ids, self.row.encoding.parts, strict=True)
            if part is not None
        ]
        stream = torch.tensor(ids * len(copies))
        lengths = torch.tensor([len(ids)] * len(copies))
        logs, _ = predictor.bundle.language.score(stream, lengths)
        found = []
        for mean in logs.view(len(copies), -1).double().mean(1).tolist():
            perplexity = float(np.exp(-mean))
            line = f"perplexity {perplexity:,.1f}"
            found.append(Said(line, {LIKELIHOOD: mean}))
        return found


def _question(
    predictor: Predictor, row: Row
) -> _TaskQuestion | _VectorQuestion | _LikelihoodQuestion:
    """Return what is asked of a model about a text."""
    bundle = predictor.bundle
    if bundle.is_language_model:
        return _LikelihoodQuestion(row)
    fills = bundle.kind in Fill.kinds
    has_blank = bundle.tokenizer.mask in row.encoding.ids
    if bundle.kind is None or (fills and not has_blank and not is_pair(row.example)):
        task = predictor.embedder()
        with predictor.computing(), torch.inference_mode():
            (whole,) = _vectors(predictor, task, row, 1)
        return _VectorQuestion(task, row, whole)
    options = {"top": MOST_PIECES} if fills else {}
    chosen = predictor.task(**options)
    if not isinstance(chosen, EncodedTask):
        raise InputError("what this model answers is not one pass over a text")
    return _TaskQuestion(chosen, row)


def _vectors(predictor: Predictor, task: Embed, row: Row, copies: int) -> list[Tensor]:
    """Return the vector of each of several copies of a text."""
    batch = row.batch(copies)
    windows = [Window(row.encoding, 0)] * copies
    return task.logits(predictor.bundle.encoder, None, batch, windows)
