"""The metrics of a model as a page shows them: the figures of `firth evaluate`."""

from collections.abc import Sequence

from firth.data.record import figure
from firth.evaluation.figures import named
from firth.evaluation.report import Measured
from firth.pages.page import PageSection


def metrics_section(measured: Measured, said: Sequence[str]) -> PageSection:
    """Return each metric with its interval, and what was said while the file was read."""
    rows = [_row(named(name, measured.positive), *one) for name, one in measured.metrics.items()]
    sure = measured.confidence
    if sure is not None:
        rows.append(_row("confidence", sure.mean))
        rows.append(_row("calibration error", sure.calibration_error))
        if sure.answered and sure.right:
            rows.append(_row("answered", *sure.answered))
            if sure.answered.value:
                rows.append(_row("right of these", *sure.right))
    data = {
        "rows": rows,
        "signatures": [f"{name} {one}" for name, one in measured.signatures.items()],
        "said": list(said),
    }
    return PageSection("metrics", "Metrics", data)


def _row(name: str, value: float, low: float | None = None, high: float | None = None) -> list[str]:
    """Return a figure as `firth evaluate` prints it."""
    interval = "" if low is None or high is None else f"{figure(low)} to {figure(high)}"
    return [name, figure(value), interval]
