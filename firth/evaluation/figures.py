"""Metrics as a person reads them."""

from firth.data.record import figure, on_a_line
from firth.metrics.sums import Interval

Scores = dict[str, Interval]

NARROWEST = 14  # characters of a metric's name


def named(score: str, positive: str | None) -> str:
    """Return a metric's name as a person reads it, of F1 with the class that it is of."""
    if score == "f1" and positive is not None:
        return on_a_line(f"f1 ({positive})")
    return on_a_line(score.replace("_", " "))


def score_lines(scores: Scores, positive: str | None = None) -> list[str]:
    """Return metrics with their intervals, one a line."""
    names = [named(name, positive) for name in scores]
    width = max([NARROWEST, *map(len, names)])
    lines = []
    for name, (value, low, high) in zip(names, scores.values(), strict=True):
        score = figure(value)
        interval = f"{figure(low)} to {figure(high)}"
        lines.append(f"  {name:{width}} {score:>8}   {interval}")
    return lines


def percent(share: float) -> str:
    """Return a share in per cent, with as many digits as it needs."""
    return f"{100 * share:.4g}%"
