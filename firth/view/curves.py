"""How a run went, as one page that needs nothing but a browser: what was lost, step by step, on the text and on text held out."""

from collections.abc import Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 260, 60, 30, 14
POINTS = 400  # a line is drawn through so many means
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 800px; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }}
svg {{ width: 100%; height: auto }} text {{ font-size: 12px; fill: #555 }}
.grid {{ stroke: #ddd }} .line {{ fill: none; stroke-width: 1.6 }}
table {{ border-collapse: collapse }} td, th {{ padding: .2em .9em; text-align: right; border-bottom: 1px solid #ddd }}
</style></head><body><h1>{title}</h1>{body}</body></html>
"""
COLOURS = ("#1f6f8b", "#c8553d", "#5b8c5a", "#7d5ba6")
Series = list[tuple[float, float]]


def curves(records: Sequence[dict[str, Any]], title: str) -> str:
    """The page for a journal."""
    steps = [record for record in records if "loss" in record]
    checks = [record for record in records if "dev" in record]
    charts = [_chart("Loss", {"training": _thinned(steps, "loss"), "held out": _held(checks, "loss")})]
    accuracies = {key.replace("_", " "): _held(checks, key) for key in _keys(checks) if key.endswith("accuracy")}
    charts += [_chart("Accuracy on held-out text", accuracies)] if accuracies else []
    charts.append(_chart("Rate", {"rate": _thinned(steps, "rate")}))
    return PAGE.format(title=escape(title), body="".join(charts) + _table(checks))


def _keys(checks: Sequence[dict[str, Any]]) -> list[str]:
    return list(checks[-1]["dev"]) if checks else []


def _held(checks: Sequence[dict[str, Any]], key: str) -> Series:
    return [(float(record["step"]), float(record["dev"][key])) for record in checks if key in record["dev"]]


def _thinned(records: Sequence[dict[str, Any]], key: str) -> Series:
    """Means of neighbouring steps, so that a long run is as light to draw as a short one."""
    size = max(1, len(records) // POINTS)
    groups = [records[i : i + size] for i in range(0, len(records), size)]
    return [(float(group[-1]["step"]), sum(float(r[key]) for r in group) / len(group)) for group in groups]


def _chart(name: str, series: dict[str, Series]) -> str:
    points = [point for line in series.values() for point in line]
    if not points:
        return ""
    far = max(x for x, _ in points) or 1.0
    low, high = min(y for _, y in points), max(y for _, y in points)
    low, high = (min(low, 0.0), high) if low < 0.25 * high else (low, high)
    high = high if high > low else low + 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT - 10) * x / far, TOP + (HEIGHT - TOP - BOTTOM) * (high - y) / (high - low)

    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        value = low + share * (high - low)
        _, y = place(0, value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
        x, _ = place(share * far, low)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{share * far:,.0f}</text>')
    for colour, (label, line) in zip(COLOURS, series.items(), strict=False):
        drawn = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line)
        parts.append(f'<polyline class="line" stroke="{colour}" points="{drawn}"><title>{escape(label)}</title></polyline>')
    names = ", ".join(
        f'<span style="color:{colour}">{escape(label)}</span>' for colour, label in zip(COLOURS, series, strict=False)
    )
    drawing = "".join(parts)
    return f'<h2>{escape(name)}</h2><p>{names}, by step</p><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{drawing}</svg>'


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
