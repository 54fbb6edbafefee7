"""What `firth finetune` prints."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from firth.data.record import shortened
from firth.evaluation.figures import named, percent, score_lines
from firth.metrics.decisions import Decided, Sheet
from firth.verbs.finetune import FinetuneResult


def result_as_json(result: FinetuneResult) -> dict[str, object]:
    """Return what came of fine-tuning as a JSON object."""
    page: dict[str, object] = {
        "out": result.out,
        "steps": result.outcome.steps,
        "metrics": {name: interval._asdict() for name, interval in result.scores.items()},
        "decisions": result.sheet.page() if result.sheet else {},
    }
    more: dict[str, object] = {
        "each": result.each,
        "kept": result.kept,
        "selected_by": result.selected_by,
    }
    if "f1" in result.scores:
        more["positive"] = result.positive
    return page | {name: value for name, value in more.items() if value}


def result_lines(result: FinetuneResult) -> Iterator[str]:
    """Yield the metrics and, for classes, what the model may decide alone."""
    outcome = result.outcome
    kept = f"{result.kept.replace('-', ' ')} is kept, " if result.kept else ""
    by = f" (by {result.selected_by})" if result.selected_by else ""
    best = f"{kept}{outcome.steps:,} steps, the best was step {outcome.best:,}{by}"
    yield f"{result.out}: {best}; on held-out examples, with 95 % intervals:"
    yield from score_lines(result.scores, result.positive)
    if result.each:
        yield from _spread_lines(result.each, result.positive)
    if result.sheet:
        yield from _decision_lines(result.sheet)


def _spread_lines(each: Mapping[str, Mapping[str, float]], positive: str | None) -> Iterator[str]:
    """Yield the mean and the standard deviation of every metric over seeds or folds."""
    what = next(iter(each)).partition("-")[0]
    columns = f"{'mean':>12}{'deviation':>12}{'lowest':>10}{'highest':>10}"
    yield f"Over {len(each)} {what}s:{columns}"
    for name in dict.fromkeys(name for scores in each.values() for name in scores):
        values = np.array([scores[name] for scores in each.values() if name in scores])
        deviation = f"{values.std(ddof=1):12.4f}" if len(values) > 1 else f"{'-':>12}"
        extremes = f"{values.min():10.4f}{values.max():10.4f}"
        some = "" if len(values) == len(each) else f"   in {len(values)} of {len(each)}"
        yield f"  {named(name, positive):14}{values.mean():12.4f}{deviation}{extremes}{some}"


def _decision_lines(sheet: Sheet) -> Iterator[str]:
    """Yield what the model may decide alone at each precision."""
    yield "May decide alone, if it is to be right so often (>= is the low end of how often it is):"
    asked = "".join(f"{percent(decided.precision):>26}" for decided in sheet.all)
    yield f"  answer{'':14}{asked}"
    for name, row in [("all", sheet.all), *sheet.labels.items()]:
        cells = "".join(f"{_cell(decided):>26}" for decided in row)
        yield f"  {shortened(name)[1:-1]:20}{cells}"


def _cell(decided: Decided) -> str:
    if decided.threshold is None:
        return "none"
    value, low, high = decided.decided
    right = math.floor(100 * decided.right.low)
    return f"{value:.0%} ({100 * low:.0f} to {high:.0%}) >= {right}%"
