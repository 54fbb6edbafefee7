"""Line charts as SVG that stands alone or in a page."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

Line = Sequence[tuple[float, float]]

WIDTH = 760
HEIGHT = 300
# Margins around the lines.
LEFT = 64
RIGHT = 14
TOP = 52
BOTTOM = 40
INNER_WIDTH = WIDTH - LEFT - RIGHT
INNER_HEIGHT = HEIGHT - TOP - BOTTOM
TITLE_HEIGHT = 18  # where the title stands, and the names of the lines below it
LEGEND_HEIGHT = 38
LETTER_WIDTH = 7.5
COLOURS = ("#1f6f8b", "#c8553d", "#5b8c5a", "#7d5ba6", "#b58a00", "#444444")
FEW = 20  # points that are marked one by one
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
NAMESPACE = 'xmlns="http://www.w3.org/2000/svg"'


class _Axes(NamedTuple):
    """The range of numbers that a chart shows, to the right and upwards."""

    left: float
    right: float
    low: float
    high: float

    def x(self, number: float) -> float:
        """Return how far right a number stands in the picture."""
        share = (number - self.left) / (self.right - self.left)
        return LEFT + INNER_WIDTH * share

    def y(self, number: float) -> float:
        """Return how far down a number stands in the picture."""
        share = (self.high - number) / (self.high - self.low)
        return TOP + INNER_HEIGHT * share


def chart(title: str, lines: Mapping[str, Line], across: str, log: bool = False) -> str:
    """Draw a line for each name through its points, on axes that hold them all.

    `across` names what runs to the right. With `log` the height is that of a number's power of ten,
    and a point that has none is left out.
    """
    if log:
        lines = {name: _logarithms(line) for name, line in lines.items()}
    axes = _axes(list(lines.values()), log)
    if axes is None:
        return ""

    caption = _text(LEFT, TITLE_HEIGHT, title, size=15, colour="#222")
    parts = [caption]
    for tick in TICKS:
        parts += _tick(axes, tick, log)
    below = _text(WIDTH - RIGHT, HEIGHT - 6, across, anchor="end")
    parts.append(below)

    legend = float(LEFT)
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        parts += _drawn(axes, line, colour)
        parts.append(_text(legend, LEGEND_HEIGHT, name, colour=colour))
        legend += LETTER_WIDTH * len(name) + 18

    drawing = "".join(parts)
    size = _size(HEIGHT)
    return f'<svg {NAMESPACE} {size} font-family="sans-serif" role="img">{drawing}</svg>'


def _logarithms(line: Line) -> Line:
    """Return the points of a line with their powers of ten."""
    return [(x, math.log10(y)) for x, y in line if y > 0]


def _axes(lines: Sequence[Line], log: bool) -> _Axes | None:
    """Choose the axes that hold all points; None where there is no point."""
    points = [point for line in lines for point in line]
    if not points:
        return None
    across = [x for x, _ in points]
    upwards = [y for _, y in points]
    left = min(across)
    right = max(across)
    low = min(upwards)
    high = max(upwards)

    if log:
        # Whole powers at all ticks.
        steps = len(TICKS) - 1
        high = math.ceil(high)
        powers = math.ceil((high - low) / steps)
        low = high - steps * max(1, powers)
    elif 0 < low < 0.3 * high:
        low = 0.0  # where little is cut off, the whole is easier to read
    # A single point would have an axis without length.
    if right <= left:
        right = left + 1
    if high <= low:
        high = low + 1
    return _Axes(left, right, low, high)


def _tick(axes: _Axes, share: float, log: bool) -> list[str]:
    """Draw a line across at a share of the height, and the numbers of both axes there."""
    across = axes.left + share * (axes.right - axes.left)
    upwards = axes.low + share * (axes.high - axes.low)
    x = axes.x(across)
    y = axes.y(upwards)
    end = WIDTH - RIGHT
    line = f'<line x1="{LEFT}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'

    shown = 10**upwards if log else upwards
    height = _text(LEFT - 6, y + 4, f"{shown:.3g}", anchor="end")
    below = _text(x, HEIGHT - BOTTOM + 16, f"{across:,.4g}", anchor="middle")
    return [line, height, below]


def _drawn(axes: _Axes, line: Line, colour: str) -> list[str]:
    """Draw one line; the points of a short one are marked."""
    points = []
    corners = []
    for right, up in line:
        x = f"{axes.x(right):.1f}"
        y = f"{axes.y(up):.1f}"
        points.append((x, y))
        corners.append(f"{x},{y}")
    path = " ".join(corners)
    parts = [f'<polyline fill="none" stroke-width="1.8" stroke="{colour}" points="{path}"/>']
    if len(points) < FEW:
        for x, y in points:
            parts.append(f'<circle r="2.5" cx="{x}" cy="{y}" fill="{colour}"/>')
    return parts


def _text(
    x: float, y: float, words: str, anchor: str = "start", size: int = 12, colour: str = "#555"
) -> str:
    """Write words at a point."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    style = f'font-size="{size}" fill="{colour}"'
    return f"<text {place} {style}>{escape(words)}</text>"


def stacked(charts: Sequence[str]) -> str:
    """Put several charts below one another in one file."""
    parts = ['<rect width="100%" height="100%" fill="#fff"/>']
    for number, one in enumerate(charts):
        down = number * HEIGHT
        parts.append(f'<g transform="translate(0,{down})">{one}</g>')
    drawing = "".join(parts)
    size = _size(HEIGHT * len(charts))
    return f"<svg {NAMESPACE} {size}>{drawing}</svg>\n"


def _size(height: int) -> str:
    """Return the attributes of a picture that has a height."""
    return f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
