"""What `firth finetune` prints."""

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from firth.data.record import shortened
from firth.evaluation.figures import named, percent, score_lines
from firth.metrics.decisions import Decided, Sheet
from firth.verbs.finetune import FinetuneResult


def result_as_json(result: FinetuneResult) -> dict[str, object]:
    """Return what came of fine-tuning as a JSON object."""
    metrics = {name: interval._asdict() for name, interval in result.scores.items()}
    decisions = result.sheet.page() if result.sheet else {}
    page: dict[str, object] = {
        "out": result.out,
        "steps": result.outcome.steps,
        "metrics": metrics,
        "decisions": decisions,
    }
    more: dict[str, object] = {
        "each": result.each,
        "kept": result.kept,
        "selected_by": result.selected_by,
    }
    if "f1" in result.scores:
        more["positive"] = result.positive
    known = {name: value for name, value in more.items() if value}
    return page | known


def result_lines(result: FinetuneResult) -> Iterator[str]:
    """Yield the metrics and, for classes, what the model may decide alone."""
    outcome = result.outcome
    best = f"{outcome.steps:,} steps, the best was step {outcome.best:,}"
    if result.kept:
        name = result.kept.replace("-", " ")
        best = f"{name} is kept, {best}"
    if result.selected_by:
        best += f" (by {result.selected_by})"
    yield f"{result.out}: {best}; on held-out examples, with 95 % intervals:"

    yield from score_lines(result.scores, result.positive)
    if result.each:
        yield from _spread_lines(result.each, result.positive)
    if result.sheet:
        yield from _decision_lines(result.sheet)


def _spread_lines(each: Mapping[str, Mapping[str, float]], positive: str | None) -> Iterator[str]:
    """Yield the mean and the standard deviation of every metric over seeds or folds."""
    trainings = len(each)
    what, _, _ = next(iter(each)).partition("-")
    columns = f"{'mean':>12}{'deviation':>12}{'lowest':>10}{'highest':>10}"
    yield f"Over {trainings} {what}s:{columns}"

    by_metric: dict[str, list[float]] = {}
    for scores in each.values():
        for name, score in scores.items():
            by_metric.setdefault(name, []).append(score)

    for name, found in by_metric.items():
        values = np.array(found)
        deviation = f"{'-':>12}"
        if len(found) > 1:
            deviation = f"{values.std(ddof=1):12.4f}"
        extremes = f"{values.min():10.4f}{values.max():10.4f}"
        line = f"  {named(name, positive):14}{values.mean():12.4f}{deviation}{extremes}"
        # Not every seed or fold has every metric.
        if len(found) < trainings:
            line += f"   in {len(found)} of {trainings}"
        yield line


def _decision_lines(sheet: Sheet) -> Iterator[str]:
    """Yield what the model may decide alone at each precision."""
    yield "May decide alone, if it is to be right so often (>= is the low end of how often it is):"
    precisions = [percent(decided.precision) for decided in sheet.all]
    yield f"  answer{'':14}{_columns(precisions)}"
    for name, row in [("all", sheet.all), *sheet.labels.items()]:
        label = shortened(name)[1:-1]  # without its quotation marks
        cells = map(_cell, row)
        yield f"  {label:20}{_columns(cells)}"


def _columns(cells: Iterable[str]) -> str:
    """Return the cells of a line of the table of decisions, one for each precision."""
    columns = [f"{cell:>26}" for cell in cells]
    return "".join(columns)


def _cell(decided: Decided) -> str:
    """Return how many texts are decided, with its interval, and the low end of how many right."""
    if decided.threshold is None:
        return "none"
    value, low, high = decided.decided
    right = math.floor(100 * decided.right.low)
    return f"{value:.0%} ({100 * low:.0f} to {high:.0%}) >= {right}%"
