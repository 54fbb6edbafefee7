"""Lines over numbers, drawn as SVG that stands alone or in a page."""

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 300, 64, 14, 52, 40
COLOURS = ("#1f6f8b", "#c8553d", "#5b8c5a", "#7d5ba6", "#b58a00", "#444444")
FEW = 20  # points that are marked one by one
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
Line = Sequence[tuple[float, float]]


def chart(title: str, lines: Mapping[str, Line], across: str, log: bool = False) -> str:
    """One picture: a line for each name through its points, on axes that hold them all; `across` names what runs to the right.

    With `log` the height is that of a number's power of ten, and a point that has none is left out.
    """
    if log:
        lines = {
            name: [(x, math.log10(y)) for x, y in line if y > 0] for name, line in lines.items()
        }
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    near, far = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    if log:
        high = math.ceil(high)
        low = high - (len(TICKS) - 1) * max(
            1, math.ceil((high - low) / (len(TICKS) - 1))
        )  # whole powers at all ticks
    elif 0 < low < 0.3 * high:
        low = 0.0  # where little is cut off, the whole is easier to read
    far, high = far if far > near else near + 1, high if high > low else low + 1

    def place(x: float, y: float) -> tuple[float, float]:
        right, down = (x - near) / (far - near), (high - y) / (high - low)
        return LEFT + (WIDTH - LEFT - RIGHT) * right, TOP + (HEIGHT - TOP - BOTTOM) * down

    parts = [_text(LEFT, 18, title, size=15, colour="#222")]
    for tick in TICKS:
        x, y = place(near + tick * (far - near), low + tick * (high - low))
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        )
        height = low + tick * (high - low)
        parts.append(_text(LEFT - 6, y + 4, f"{10**height if log else height:.3g}", anchor="end"))
        parts.append(
            _text(x, HEIGHT - BOTTOM + 16, f"{near + tick * (far - near):,.4g}", anchor="middle")
        )
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 6, across, anchor="end"))
    at = float(LEFT)
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        drawn = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line)
        parts.append(
            f'<polyline fill="none" stroke-width="1.8" stroke="{colour}" points="{drawn}"/>'
        )
        for x, y in (place(*point) for point in line if len(line) < FEW):
            parts.append(f'<circle r="2.5" cx="{x:.1f}" cy="{y:.1f}" fill="{colour}"/>')
        parts.append(_text(at, 38, name, colour=colour))
        at += 7.5 * len(name) + 18
    drawing = "".join(parts)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img">{drawing}</svg>'


def _text(
    x: float, y: float, words: str, anchor: str = "start", size: int = 12, colour: str = "#555"
) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(words)}</text>'


def stacked(charts: Sequence[str]) -> str:
    """Several pictures below one another in one file."""
    drawing = "".join(
        f'<g transform="translate(0,{number * HEIGHT})">{drawing}</g>'
        for number, drawing in enumerate(charts)
    )
    size = f'viewBox="0 0 {WIDTH} {HEIGHT * len(charts)}" width="{WIDTH}" height="{HEIGHT * len(charts)}"'
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{background}{drawing}</svg>\n'
