"""How far back language models look, as one page that needs nothing but a browser."""

from collections.abc import Mapping, Sequence
from html import escape

from firth.pages.chart import chart
from firth.pages.curves import PAGE

SHOWN = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50)  # distances in tables
WHAT = (
    "How much the log-probability of a token depends on a token before it, by the distance between the two: the norm of the "
    "gradient with respect to that token's vector, as a share of what the nearest token has, by the geometric mean over places in "
    "the text. A line ends where a model sees no further."
)


def page(lines: Mapping[str, Sequence[float]], title: str) -> str:
    """The page for what each model has left of the gradient at the distances 1, 2, 3 ..."""
    drawn = chart(
        "What is left of the gradient",
        {name: list(enumerate(line, 1)) for name, line in lines.items()},
        "tokens before",
        log=True,
    )
    head = "".join(f"<th>{escape(name)}</th>" for name in lines)
    rows = "".join(
        f"<tr><td>{distance}</td>{''.join(f'<td>{share}</td>' for share in shares)}</tr>"
        for distance, shares in table(lines)
    )
    body = f"<p>{WHAT}</p>{drawn}<table><tr><th>distance</th>{head}</tr>{rows}</table>"
    return PAGE.format(title=escape(title), body=body)


def table(lines: Mapping[str, Sequence[float]]) -> list[tuple[int, list[str]]]:
    """What is left at some distances, in words; nothing where a line has ended."""
    longest = max(map(len, lines.values()), default=0)
    return [
        (
            distance,
            [
                f"{line[distance - 1]:.3g}" if distance <= len(line) else "-"
                for line in lines.values()
            ],
        )
        for distance in SHOWN
        if distance <= longest
    ]
