"""The page of how far back language models look: gradients by distance, for any browser."""

from collections.abc import Mapping, Sequence

from firth.pages.page import PageSection, write_page

Lines = Mapping[str, Sequence[float]]  # by model: what is left at the distances 1, 2, 3 ...

SHOWN = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50)  # distances in tables
WHAT = (
    "How much the log-probability of a token depends on a token before it, by the distance between "
    "the two: the norm of the gradient with respect to that token's vector, as a share of what the "
    "nearest token has, by the geometric mean over places in the text. A line ends where a model "
    "sees no further."
)


def page(lines: Lines, title: str) -> str:
    """Make the page of what each model has left of the gradient at each distance."""
    drawn = [{"name": name, "points": list(enumerate(line, 1))} for name, line in lines.items()]
    rows = [[str(distance), *shares] for distance, shares in gradient_rows(lines)]
    data = {
        "title": "What is left of the gradient",
        "across": "tokens before",
        "lines": drawn,
        "heads": ["distance", *lines],
        "rows": rows,
        "note": WHAT,
    }
    return write_page(title, [], [PageSection("distances", "Gradients by distance", data)])


def gradient_rows(lines: Lines) -> list[tuple[int, list[str]]]:
    """Return what is left at some distances as text; a dash where a line has ended."""
    longest = max(map(len, lines.values()), default=0)
    rows = []
    for distance in SHOWN:
        if distance > longest:
            break
        shares = [_share(line, distance) for line in lines.values()]
        rows.append((distance, shares))
    return rows


def _share(line: Sequence[float], distance: int) -> str:
    """Return what a line has left at a distance."""
    if distance > len(line):
        return "-"
    return f"{line[distance - 1]:.3g}"
