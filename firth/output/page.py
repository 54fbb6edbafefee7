"""What a page shows of a model and a text: all that the model can show, as sections."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.base.errors import InputError
from firth.pages.attention import FIRST, WHOLE, Chosen, Heads, attention_section
from firth.pages.live import live_section
from firth.pages.page import PageSection
from firth.pages.sections import (
    AnswerFigures,
    Bars,
    BlankBars,
    NextBars,
    StepNumbers,
    answer_section,
    backoff_section,
    blanks_section,
    fading_section,
    mix_section,
    movement_section,
    next_section,
    note_section,
    pair_section,
    positions_section,
    steps_section,
)
from firth.predictor import Predictor
from firth.probes.ablation import Said, ablation
from firth.probes.fading import fading
from firth.probes.guesses import (
    Guess,
    NextGuess,
    blank_guesses,
    next_guesses,
    next_probability,
)
from firth.probes.inside import Inside, look_inside
from firth.probes.movement import movement
from firth.probes.portable import PortableModel, portable_model
from firth.probes.row import Row

Tensors = Mapping[str, Tensor]


def page_sections(predictor: Predictor, row: Row, with_model: bool = False) -> list[PageSection]:
    """Return the sections of a page in the order in which they are read.

    With the model inside, attention and what is filled in at blanks follow what is typed.
    """
    bundle = predictor.bundle
    if with_model:
        return list(_of_portable(predictor, row))
    if bundle.is_language_model and bundle.language.backs_off:
        return [_backoff(predictor, row), _next(predictor, row)]
    return list(_of_network(predictor, row))


def _of_network(predictor: Predictor, row: Row) -> Iterator[PageSection]:
    """Yield the sections of a network."""
    bundle = predictor.bundle
    gives_vectors = bundle.gives_vectors
    attends = gives_vectors and bool(bundle.encoder.attention_layers())
    if attends:
        yield attention_of(predictor, row)
    if bundle.is_language_model:
        yield _next(predictor, row)
    if not gives_vectors:
        return
    yield from _guesses(predictor, row)
    if attends or (bundle.kind is not None and not bundle.is_language_model):
        yield answer_of(predictor, row)
    yield from _steps(predictor, row)
    if len(row.tokens) > 1:
        yield _movement(predictor, row)
    yield from _tables(predictor)


def _of_portable(predictor: Predictor, row: Row) -> Iterator[PageSection]:
    """Yield the sections of a page that runs the model itself."""
    yield _live(row.example.text, portable_model(predictor.bundle))
    yield answer_of(predictor, row)
    if len(row.tokens) > 1:
        yield _movement(predictor, row)
    yield from _tables(predictor)


def attention_of(predictor: Predictor, row: Row, chosen: Chosen = FIRST) -> PageSection:
    """Return the attention of a text; a layer, a head and a word that looks may be chosen."""
    heads = heads_of(look_inside(predictor, row))
    return attention_section(row.tokens, row.encoding.parts, heads, chosen)


def heads_of(inside: Inside) -> Heads:
    """Return what heads compute as arrays."""
    return Heads(
        as_array(inside.weights),
        as_array(inside.queries),
        as_array(inside.keys),
        as_array(inside.values),
        as_array(inside.sums),
        None if inside.bias is None else as_array(inside.bias),
        inside.causal,
        inside.scaled,
    )


def _live(text: str, model: PortableModel) -> PageSection:
    settings = {
        "mask": model.mask,
        "length": model.length,
        "heads": model.heads,
        "eps": model.eps,
        "activation": model.activation,
        "headActivation": model.head_activation,
        "causal": model.causal,
    }
    return live_section(text, model.rules._asdict(), settings, model.tensors)


def _next(predictor: Predictor, row: Row) -> PageSection:
    """Return what a language model expects after each token."""
    return next_section(row.tokens, next_bars(next_guesses(predictor, row)))


def next_bars(guesses: Iterable[NextGuess]) -> list[NextBars]:
    """Return what is expected at each step as a picture has it."""
    return [NextBars(_bars(one.guess), one.came, one.probability, one.rank) for one in guesses]


def _guesses(predictor: Predictor, row: Row) -> Iterator[PageSection]:
    """Yield what is filled in at blanks, and whether a second text is the next one."""
    blanks = blank_guesses(predictor, row)
    if blanks:
        shown = [BlankBars(one.place, list(map(_bars, one.layers))) for one in blanks]
        yield blanks_section(row.tokens, shown)
    probability = next_probability(predictor, row)
    if probability is not None:
        yield pair_section(row.example.text, row.example.second or "", probability)


def answer_of(predictor: Predictor, row: Row) -> PageSection:
    """Return the answer and what heads have to do with it, or why it is not shown."""
    if len(row.tokens) > WHOLE:
        said = f"Heads are switched off one by one for texts of up to {WHOLE} tokens."
        return note_section("The answer", said)
    try:
        found = ablation(predictor, row)
    except InputError as error:
        return note_section("The answer", f"There is none to show: {error}.")
    without = [[_figures(one) for one in layer] for layer in found.without]
    return answer_section(_figures(found.whole), without)


def _steps(predictor: Predictor, row: Row) -> Iterator[PageSection]:
    """Yield what recurrent layers compute, and how their gradients fade."""
    encoder = predictor.bundle.encoder
    with predictor.computing(), torch.inference_mode():
        every = encoder.recurrent_steps(torch.tensor(row.encoding.ids))
    if not every:
        return
    yield steps_section(row.tokens, steps_of(every))
    own = [part for part in row.encoding.parts if part is not None]
    if predictor.bundle.is_language_model and len(own) > 1:
        with predictor.computing():
            found = fading(predictor, row)
        yield fading_section([(one.name, one.norms) for one in found])


def steps_of(layers: Iterable[tuple[str, Tensors, Tensors]]) -> list[StepNumbers]:
    """Return what recurrent layers compute, and what each held before, as arrays."""
    return [StepNumbers(name, _arrays(values), _arrays(before)) for name, values, before in layers]


def _arrays(tensors: Tensors) -> dict[str, NDArray[np.float32]]:
    return {letter: as_array(tensor) for letter, tensor in tensors.items()}


def _movement(predictor: Predictor, row: Row) -> PageSection:
    found = movement(predictor, row)
    return movement_section(
        row.tokens,
        found.first,
        as_array(found.to_first),
        as_array(found.to_before),
        as_array(found.plane),
        found.variance,
    )


def _tables(predictor: Predictor) -> Iterator[PageSection]:
    """Yield what a model has whatever it reads: weights of layers, and positions."""
    encoder = predictor.bundle.encoder
    features = predictor.bundle.features
    weights = encoder.layer_weights()
    if features is not None and features.mix.learned:
        numbers = [layer % (encoder.depth + 1) for layer in features.layers]
        yield mix_section(numbers, features.mix.shares.detach().softmax(0).tolist())
    elif weights is not None:
        yield mix_section(range(len(weights)), weights.tolist())
    positions = encoder.position_table
    if positions is not None:
        yield positions_section(as_array(positions))


def _backoff(predictor: Predictor, row: Row) -> PageSection:
    """Return how each word came by its probability."""
    model: Any = predictor.bundle.language
    parts = row.encoding.parts
    ids = [token for token, part in zip(row.encoding.ids, parts, strict=True) if part is not None]
    words = [word for word, part in zip(row.tokens, parts, strict=True) if part is not None]
    found = model.explain(torch.tensor(ids))
    orders = [one.order for one in found]
    return backoff_section(words, orders, [one.parts for one in found])


def _bars(guess: Guess) -> Bars:
    return Bars(guess.pieces, guess.probabilities, guess.rest)


def _figures(said: Said) -> AnswerFigures:
    return AnswerFigures(said.line, said.figures)


def as_array(tensor: Tensor) -> NDArray[np.float32]:
    """Return a tensor as an array of single precision."""
    array: NDArray[np.float32] = tensor.detach().float().cpu().numpy()
    return array
