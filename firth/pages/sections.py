"""The sections of a page beside attention: each is made of what its picture shows.

N layers, H heads, L tokens, D width.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from firth.pages.page import Array, PageSection, fixed

POSITIONS = 64  # rows of a table of positions that are drawn
UNITS = 128  # numbers of a vector that are drawn
USUAL = 0.99  # of the numbers have a shade of their own


class Bars(NamedTuple):
    """Probabilities by their names, the largest first, and the sum of all others."""

    names: Sequence[str]
    values: Sequence[float]
    rest: float


class BlankBars(NamedTuple):
    """What every layer would fill in at one blank."""

    place: int
    layers: Sequence[Bars]


class NextBars(NamedTuple):
    """What is expected at a step, and what came."""

    bars: Bars
    came: str | None  # None at the end of a text
    probability: float | None
    rank: int | None  # None also for what is never written


class StepNumbers(NamedTuple):
    """What a recurrent layer computes, by the letters of the papers."""

    name: str
    values: Mapping[str, Array]  # (L, D)
    before: Mapping[str, Array]  # (D) of the state before the first step


class AnswerFigures(NamedTuple):
    """An answer: a line, and its figures by their names."""

    line: str
    figures: Mapping[str, float]


def movement_section(
    tokens: Sequence[str],
    first: int,
    to_first: Array,
    to_before: Array,
    plane: Array,
    variance: Sequence[float],
) -> PageSection:
    """Return how vectors move: cosines (N + 1, L) and (N, L), and places (N + 1, L, 2)."""
    data = {
        "tokens": list(tokens),
        "first": first,
        "toFirst": fixed(to_first),
        "toBefore": fixed(to_before),
        "plane": fixed(plane),
        "variance": list(variance),
    }
    return PageSection("movement", "The way through the layers", data)


def blanks_section(tokens: Sequence[str], blanks: Sequence[BlankBars]) -> PageSection:
    """Return what each layer would fill in."""
    shown = [{"place": one.place, "layers": list(map(_bars, one.layers))} for one in blanks]
    data = {"tokens": list(tokens), "blanks": shown}
    return PageSection("blanks", "What each layer would fill in", data)


def pair_section(first: str, second: str, probability: float) -> PageSection:
    """Return whether the second text of a pair follows the first."""
    data = {"first": first, "second": second, "probability": probability}
    return PageSection("pair", "Next or not next", data)


def answer_section(whole: AnswerFigures, without: Sequence[Sequence[AnswerFigures]]) -> PageSection:
    """Return an answer, and what it is with each head off (N, H), where there are heads."""
    names = list(whole.figures)
    data: dict[str, object] = {
        "line": whole.line,
        "names": names,
        "whole": list(whole.figures.values()),
    }
    # A tagger that finds nothing has no figure to compare.
    if not without or not names:
        return PageSection("ablation", "The answer", data)
    values = [[[one.figures[name] for name in names] for one in layer] for layer in without]
    data["without"] = np.array(values, np.float32).reshape(len(without), -1, len(names))
    data["lines"] = [[one.line for one in layer] for layer in without]
    return PageSection("ablation", "The answer, and heads switched off", data)


def note_section(title: str, text: str) -> PageSection:
    """Return a section that says why it has no picture."""
    return PageSection("note", title, {"text": text})


def next_section(tokens: Sequence[str], guesses: Sequence[NextBars]) -> PageSection:
    """Return what a language model expects after each token."""
    data = {"tokens": list(tokens), "places": list(map(step_data, guesses))}
    return PageSection("next", "What comes next", data)


def step_data(one: NextBars) -> dict[str, object]:
    """Return what is expected at a step, and what came."""
    return _bars(one.bars) | {"came": one.came, "probability": one.probability, "rank": one.rank}


def steps_section(
    tokens: Sequence[str], layers: Sequence[StepNumbers], title: str = "The network step by step"
) -> PageSection:
    """Return what recurrent layers compute."""
    shown = []
    for name, values, before in layers:
        kept = {letter: fixed(numbers[:, :UNITS]) for letter, numbers in values.items()}
        held = {letter: fixed(numbers[:UNITS]) for letter, numbers in before.items()}
        width = next(iter(values.values())).shape[1]
        shown.append({"name": name, "values": kept, "before": held, "width": width})
    data = {"tokens": list(tokens), "layers": shown}
    return PageSection("steps", title, data)


def fading_section(lines: Sequence[tuple[str, Mapping[float, Sequence[float]]]]) -> PageSection:
    """Return gradients by distance: of each network, by the factor of its recurrent matrix."""
    shown = []
    for name, norms in lines:
        factors = [{"factor": factor, "norms": list(line)} for factor, line in norms.items()]
        shown.append({"name": name, "factors": factors})
    return PageSection("fading", "How the gradient fades", {"networks": shown})


def backoff_section(
    words: Sequence[str], orders: Sequence[int], parts: Sequence[Sequence[float]]
) -> PageSection:
    """Return how each word came by its probability: what the uniform and each order add."""
    data = {"words": list(words), "orders": list(orders), "parts": [list(one) for one in parts]}
    return PageSection("backoff", "Back-off, word by word", data)


def mix_section(layers: Sequence[int], weights: Sequence[float]) -> PageSection:
    """Return how much of each layer is in a token's vector; layer 0 is the embedding."""
    data = {"layers": list(layers), "weights": list(weights)}
    return PageSection("mix", "The weights of the layers", data)


def positions_section(table: Array) -> PageSection:
    """Return the vectors of the first positions, and the cosine of every two of them."""
    some = table[:POSITIONS].astype(np.float64)
    lengths = np.linalg.norm(some, axis=1, keepdims=True)
    unit = some / np.where(lengths == 0, 1, lengths)
    # A few numbers of a table may be so large that the others could not be told apart.
    usual = float(np.quantile(np.abs(some[:, :UNITS]), USUAL))
    data = {
        "vectors": fixed(some[:, :UNITS]),
        "usual": usual or 1.0,
        "cosines": fixed(unit @ unit.T),
    }
    return PageSection("positions", "The vectors of positions", data)


def _bars(bars: Bars) -> dict[str, object]:
    return {"names": list(bars.names), "values": list(bars.values), "rest": bars.rest}
