"""A source and a target as a translator reads and names them, and what it computes for them.

S source tokens, U target tokens.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from firth.base.errors import InputError
from firth.data.examples import Line, TextToText
from firth.predictor import Predictor
from firth.probes.inside import Inside, caught, of_cross_attention, of_self_attention
from firth.probes.row import Row, readable, readable_piece
from firth.tasks.translate import Translate


class Pair(NamedTuple):
    """A source, and the target that is named token by token."""

    source: Row
    target: str
    ids: list[int]  # of the target, the end mark last, unless the translation was cut
    tokens: list[str]  # of the target, as a person reads them
    read: list[str]  # what the decoder reads before it names each of them: the start mark first
    parts: list[int | None]  # of the target: 0, None for marks

    def streams(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return both sides as streams of one text: ids and length of the source, of the target."""
        source = torch.tensor(self.source.encoding.ids)
        target = torch.tensor(self.ids)
        return source, torch.tensor([len(source)]), target, torch.tensor([len(target)])


class PairInside(NamedTuple):
    """What attention computes on both sides and between them, where a model has it."""

    cross: Inside | None  # Q target tokens, as each is named, look at L source tokens
    encoder: Inside | None
    decoder: Inside | None


def read_pair(predictor: Predictor, text: str, target: str | None = None) -> Pair:
    """Return what a translator reads of a text, with a given target or its own translation.

    A text that is too long is cut off at the end.
    """
    bundle = predictor.bundle
    model = bundle.translator
    task = predictor.task()
    assert isinstance(task, Translate)
    if not text.strip():
        raise InputError("the text is empty: there is nothing to translate")
    example = Line(text)
    ((encoding,),) = task.encode([example], bundle.tokenizer)
    (window,) = task.windows(encoding, bundle.length, "cut")
    tokens = readable(bundle.tokenizer, example, window.row)
    source = Row(example, window.row, tokens, len(encoding) - len(window.row))
    if target is None:
        with predictor.computing(), torch.inference_mode():
            ((best, *_),) = task.search(model, source.batch())
        ids = best.ids
        target = task.text(best, model.end)
    else:
        ids = _given(predictor, task, TextToText(text, target))

    written = bundle.targets
    named = [readable_piece(written, token) for token in ids]
    start = readable_piece(written, model.start)
    parts = [None if token == model.end else 0 for token in ids]
    return Pair(source, target, ids, named, [start, *named[:-1]], parts)


def _given(predictor: Predictor, task: Translate, pair: TextToText) -> list[int]:
    """Return the tokens of a target that was given, its end mark last."""
    bundle = predictor.bundle
    if not pair.target.strip():
        raise InputError("--pair is empty: it is the target to look at")
    (ids,) = task.encode_targets([pair], bundle.targets, bundle.translator.end)
    most = bundle.translator.length
    if most is not None and len(ids) > most:
        raise InputError(f"--pair has {len(ids):,} tokens, and the model takes {most:,}")
    return ids


def look_inside_pair(predictor: Predictor, pair: Pair) -> PairInside:
    """Return what a translator's attention computes for a source and its target."""
    model = predictor.bundle.translator
    encoder, decoder = model.attention_layers()
    layers = [*encoder, *decoder]
    with predictor.computing(), torch.inference_mode(), caught(layers) as (qkv, mixed):
        crossed = [layer[0] for layer in model.cross_attention(*pair.streams())]
        cross = of_cross_attention(crossed) if crossed else None
        sides: list[Inside | None] = []
        for own, part in ((encoder, slice(len(encoder))), (decoder, slice(len(encoder), None))):
            sides.append(of_self_attention(own, qkv[part], mixed[part]) if own else None)
    return PairInside(cross, *sides)
