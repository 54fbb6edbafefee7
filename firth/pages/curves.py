"""The page of a run's curves: loss, accuracy and learning rate by step, for any browser."""

from collections.abc import Sequence
from html import escape
from typing import Any

from firth.pages.chart import Line, chart

Records = Sequence[dict[str, Any]]  # of a run's journal

POINTS = 400  # a line is drawn through so many means
# The policy keeps the page offline, whatever stands in a title.
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 800px; margin: 2em auto; padding: 0 1em;\
 color: #222; background: #fff }}
svg {{ width: 100%; height: auto; margin: 1em 0 }}
table {{ border-collapse: collapse }} td, th {{ padding: .2em .9em; text-align: right;\
 border-bottom: 1px solid #ddd }}
</style></head><body><h1>{title}</h1>{body}</body></html>
"""


def curves(records: Records, title: str) -> str:
    """Make the page of a journal."""
    steps = [record for record in records if "loss" in record]
    checks = [record for record in records if "dev" in record]
    losses = {
        "training": _means(steps, "loss"),
        "held out": _measured(checks, "loss"),
    }
    accuracies = {}
    for key in _metrics(checks):
        if key.endswith("accuracy"):
            accuracies[_title(key)] = _measured(checks, key)

    charts = [chart("Loss", losses, "step")]
    if accuracies:
        charts.append(chart("Accuracy on held-out text", accuracies, "step"))
    rates = {"rate": _means(steps, "rate")}
    charts.append(chart("Learning rate", rates, "step"))

    body = "".join(charts) + _table(checks)
    return PAGE.format(title=escape(title), body=body)


def _metrics(checks: Records) -> list[str]:
    """Return the names of what was measured on held-out text."""
    if not checks:
        return []
    return list(checks[-1]["dev"])


def _title(key: str) -> str:
    """Return the name of a metric as a person reads it."""
    return key.replace("_", " ")


def _measured(checks: Records, key: str) -> Line:
    """Return a metric on held-out text by step."""
    points = []
    for record in checks:
        metrics = record["dev"]
        if key in metrics:
            step = float(record["step"])
            points.append((step, float(metrics[key])))
    return points


def _means(records: Records, key: str) -> Line:
    """Return means over neighbouring steps, so that a long run is as light to draw as a short."""
    size = max(1, len(records) // POINTS)
    points = []
    for begin in range(0, len(records), size):
        group = records[begin : begin + size]
        step = float(group[-1]["step"])
        total = sum(float(record[key]) for record in group)
        points.append((step, total / len(group)))
    return points


def _table(checks: Records) -> str:
    """Make the table of what was measured on held-out text."""
    keys = _metrics(checks)
    if not keys:
        return ""
    head = "".join(f"<th>{escape(_title(key))}</th>" for key in keys)
    rows = []
    for record in checks:
        metrics = record["dev"]
        cells = "".join(f"<td>{metrics[key]:.4g}</td>" for key in keys)
        rows.append(f"<tr><td>{record['step']:,}</td>{cells}</tr>")
    head = f"<tr><th>step</th>{head}</tr>"
    body = "".join(rows)
    return f"<h2>On held-out text</h2><table>{head}{body}</table>"
