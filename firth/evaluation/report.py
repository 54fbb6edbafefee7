"""What an evaluation found, and how it is printed."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from firth.evaluation.scorer import Scores, named, table
from firth.metrics.decisions import Share
from firth.metrics.perplexity import Band
from firth.metrics.sums import RESAMPLES, Difference, Interval


class Confidence(NamedTuple):
    """How sure a model is of classes or labels, and what that is worth."""

    mean: float
    calibration_error: float
    threshold: float | None  # below it the model is unsure; None where it always answers
    answered: Share | None  # of all texts, where there is a threshold
    right: Share | None  # of those


class Amount(NamedTuple):
    """How much text a language model read, and how well it foretold words by how often they occur in a training text."""

    words: int
    tokens: int
    unknown: int  # tokens that stand for words that the vocabulary doesn't have
    bands: tuple[Band, ...]


class Measured(NamedTuple):
    """How good one model is."""

    model: str
    metrics: Scores
    confidence: Confidence | None  # of classes and labels
    cut: int  # texts that were longer than the model reads
    text: Amount | None = None  # of a language model: what it read
    positive: str | None = None  # the class that `f1` is of, where there are two
    trained_on: int | None = (
        None  # rows whose text the model was trained on; None where its folder doesn't tell
    )


class Compared(NamedTuple):
    """How much higher a model's scores are than those of the first, on the same examples."""

    model: str
    against: str
    metrics: dict[str, Difference]


class Evaluation(NamedTuple):
    """What came of it, in the form that `--json` prints."""

    data: str
    examples: int  # for language models lines
    left_out: int  # rows that can't be used
    models: tuple[Measured, ...]
    differences: tuple[Compared, ...]  # of every model but the first
    unlabelled: int | None = (
        None  # rows without a label, which were skipped; None for language models
    )


def show(found: Evaluation, as_json: bool) -> None:
    """Print the scores and the differences."""
    print(json.dumps(_page(found)) if as_json else "\n".join(_lines(found)))


def _page(found: Evaluation) -> dict[str, Any]:
    """One object; the scores of a single model also stand at its top, as plain numbers."""
    models = [
        {"model": one.model, "metrics": _asdict(one.metrics), "cut": one.cut}
        | ({} if one.trained_on is None else {"trained_on": one.trained_on})
        | ({"positive": one.positive} if "f1" in one.metrics and one.positive else {})
        | ({"confidence": _confidence_page(one.confidence)} if one.confidence else {})
        | (_amount_page(one.text) if one.text else {})
        for one in found.models
    ]
    single = (
        {name: interval.value for name, interval in found.models[0].metrics.items()}
        if len(models) == 1
        else None
    )
    return {
        "data": found.data,
        "examples": found.examples,
        "left_out": found.left_out,
        **({} if found.unlabelled is None else {"unlabelled": found.unlabelled}),
        **({"metrics": single} if single else {}),
        "models": models,
        "differences": [
            {"model": one.model, "against": one.against, "metrics": _asdict(one.metrics)}
            for one in found.differences
        ],
    }


def _asdict(scores: Mapping[str, Interval | Difference | Share]) -> dict[str, Any]:
    return {name: figures._asdict() for name, figures in scores.items()}


def _confidence_page(sure: Confidence) -> dict[str, Any]:
    page: dict[str, Any] = {"mean": sure.mean, "calibration_error": sure.calibration_error}
    if sure.answered and sure.right:
        page |= {
            "threshold": sure.threshold,
            **_asdict({"answered": sure.answered, "right": sure.right}),
        }
    return page


def _amount_page(read: Amount) -> dict[str, Any]:
    bands = [
        {"times": band.times, "words": band.words, "perplexity": band.perplexity._asdict()}
        for band in read.bands
    ]
    return {"words": read.words, "tokens": read.tokens, "unknown": read.unknown} | (
        {"frequency": bands} if bands else {}
    )


def _lines(found: Evaluation) -> Iterator[str]:
    what = "lines" if any(one.text for one in found.models) else "examples"
    yield f"{found.data}: {found.examples:,} {what}, with 95 % intervals"
    for one in found.models:
        yield one.model
        yield from table(one.metrics, one.positive)
        if one.confidence:
            yield from _confidence_lines(one.confidence)
        if one.text:
            yield from _amount_lines(one.text)
    for compared in found.differences:
        yield f"{compared.model} against {compared.against}, on the same {what}"
        names = [named(name, found.models[0].positive) for name in compared.metrics]
        width = max(14, *map(len, names))
        for name, (value, low, high, chance) in zip(names, compared.metrics.values(), strict=True):
            said = f"{chance:.3f}" if chance >= 2 / RESAMPLES else f"below {2 / RESAMPLES:.3f}"
            yield f"  {name:{width}} {value:+8.4f}   {low:+.4f} to {high:+.4f}   chance {said}"


def _confidence_lines(sure: Confidence) -> Iterator[str]:
    yield f"  {'confidence':14} {sure.mean:8.4f}   on average; calibration error {sure.calibration_error:.4f}"
    if sure.answered and sure.right:
        yield from table({"answered": Interval(*sure.answered)})
        yield from (
            table({"right of these": Interval(*sure.right)})
            if sure.answered.value
            else ["  right of these  none was answered"]
        )


def _amount_lines(read: Amount) -> Iterator[str]:
    unknown = (
        f"; {read.unknown:,} of them stand for words that the vocabulary doesn't have"
        if read.unknown
        else ""
    )
    yield f"  {read.words:,} words in {read.tokens:,} tokens{unknown}"
    if read.bands:
        yield "  perplexity of words by how often they occur in the training text"
        for times, words, (value, low, high) in read.bands:
            yield f"  {times:>14} {value:8.4f}   {low:.4f} to {high:.4f}   {words:,} words"
