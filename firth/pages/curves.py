"""How a run went, as one page that needs nothing but a browser: what was lost, step by step, on the text and on text held out."""

from collections.abc import Sequence
from html import escape
from typing import Any

from firth.pages.chart import Line, chart

POINTS = 400  # a line is drawn through so many means
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 800px; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }}
svg {{ width: 100%; height: auto; margin: 1em 0 }}
table {{ border-collapse: collapse }} td, th {{ padding: .2em .9em; text-align: right; border-bottom: 1px solid #ddd }}
</style></head><body><h1>{title}</h1>{body}</body></html>
"""


def curves(records: Sequence[dict[str, Any]], title: str) -> str:
    """The page for a journal."""
    steps = [record for record in records if "loss" in record]
    checks = [record for record in records if "dev" in record]
    charts = [
        chart(
            "Loss", {"training": _thinned(steps, "loss"), "held out": _held(checks, "loss")}, "step"
        )
    ]
    accuracies = {
        key.replace("_", " "): _held(checks, key)
        for key in _keys(checks)
        if key.endswith("accuracy")
    }
    charts += [chart("Accuracy on held-out text", accuracies, "step")] if accuracies else []
    charts.append(chart("Learning rate", {"rate": _thinned(steps, "rate")}, "step"))
    return PAGE.format(title=escape(title), body="".join(charts) + _table(checks))


def _keys(checks: Sequence[dict[str, Any]]) -> list[str]:
    return list(checks[-1]["dev"]) if checks else []


def _held(checks: Sequence[dict[str, Any]], key: str) -> Line:
    return [
        (float(record["step"]), float(record["dev"][key]))
        for record in checks
        if key in record["dev"]
    ]


def _thinned(records: Sequence[dict[str, Any]], key: str) -> Line:
    """Means of neighbouring steps, so that a long run is as light to draw as a short one."""
    size = max(1, len(records) // POINTS)
    groups = [records[i : i + size] for i in range(0, len(records), size)]
    return [
        (float(group[-1]["step"]), sum(float(r[key]) for r in group) / len(group))
        for group in groups
    ]


def _table(checks: Sequence[dict[str, Any]]) -> str:
    keys = _keys(checks)
    if not keys:
        return ""
    head = "".join(f"<th>{escape(key.replace('_', ' '))}</th>" for key in keys)
    rows = []
    for record in checks:
        cells = "".join(f"<td>{record['dev'][key]:.4g}</td>" for key in keys)
        rows.append(f"<tr><td>{record['step']:,}</td>{cells}</tr>")
    return f"<h2>On held-out text</h2><table><tr><th>step</th>{head}</tr>{''.join(rows)}</table>"
