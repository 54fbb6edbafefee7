"""What a page shows of numbers: those predicted against the true ones, and how far off they are."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.data.examples import Example, Labelled
from firth.data.record import figure
from firth.metrics.numbers import Numbers
from firth.metrics.sums import Figures
from firth.pages.page import PageSection
from firth.reports.case import Case, passage, unread
from firth.reports.kept import Kept
from firth.reports.report import TaskReport
from firth.tasks.regress import Number, NumberScoring

MOST_CASES = 200  # examples in a page: the plot has a large point for each
MOST_POINTS = 2000  # small ones
BARS = 30  # of the histogram


class NumberReport(TaskReport):
    """Looks at numbers; all pairs are those that the metrics keep."""

    def __init__(self, scoring: NumberScoring) -> None:
        super().__init__()
        self.kept = Kept(MOST_CASES)
        self.tally: Numbers = scoring.tally

    def case(self, line: int, example: Example, graded: Number) -> Case:
        """Return a text with its numbers; none is right or wrong, but some are far off."""
        assert isinstance(example, Labelled)
        assert isinstance(example.label, float)
        residual = graded.value - example.label
        sign = "+" if residual > 0 else ""
        return Case(
            line,
            False,
            abs(residual),
            (),
            tuple(passage(text) for text in example.texts),
            figure(example.label),
            figure(graded.value),
            notes=(f"off by {sign}{figure(residual)}", *unread(graded.truncated_tokens)),
            point=(example.label, graded.value),
        )

    def sections(self) -> Iterator[PageSection]:
        """Yield the plot with the texts that are furthest off, and the residuals."""
        truths, predicted = self.tally.columns()
        chosen = spread_out(truths)
        points = np.stack([truths, predicted], 1)[chosen]
        plot = {"points": points.astype(np.float32), "total": len(truths)}
        yield self.cases_section("Predicted against true, and texts", plot=plot)
        yield _residuals(predicted - truths)


def spread_out(truths: Figures, most: int = MOST_POINTS) -> NDArray[np.intp]:
    """Return which points are drawn: all, or some spread evenly over the order of their truths."""
    order = np.argsort(truths, kind="stable")
    places = np.linspace(0, len(truths) - 1, min(most, len(truths))).round()
    chosen: NDArray[np.intp] = order[places.astype(int)]
    return chosen


def _residuals(residuals: Figures) -> PageSection:
    """Return how often predictions are so far off."""
    counts, edges = np.histogram(residuals, BARS)
    data: dict[str, Any] = {
        "counts": counts.tolist(),
        "edges": edges.tolist(),
        "figures": [
            ["mean error", figure(float(residuals.mean()))],
            ["mean absolute error", figure(float(np.abs(residuals).mean()))],
            ["standard deviation", figure(float(residuals.std()))],
        ],
    }
    return PageSection("residuals", "Residuals", data)
