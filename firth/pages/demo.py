"""The sections of the demo's page that no other page has, and how its page is known again."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from firth.pages.page import Array, PageSection, page_head, write_page
from firth.pages.textbook import NumberSheet, sheets_section

TITLE = "Firth's demo"
LEAD = "Every number on this page was computed as the demo ran."


class CaptionedTable(NamedTuple):
    """Rows of texts, of which the last columns may hold numbers."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: int = 0  # columns at the end


class Near(NamedTuple):
    """A query and a text with a similar vector."""

    query: str
    topic: str
    text: str
    cosine: float


def demo_page(lead: str, sections: Sequence[PageSection]) -> str:
    """Return the page of a demo."""
    return write_page(TITLE, [LEAD, lead], sections)


def is_demo_page(page: str) -> bool:
    """Tell whether a file's text is the page of a demo, which the next demo may overwrite."""
    head = page_head(page)
    if head is None:
        return False
    title, lead = head
    return title == TITLE and lead[:1] == [LEAD]


def tables_section(title: str, note: str, tables: Sequence[CaptionedTable]) -> PageSection:
    """Return tables below a sentence."""
    shown = [table._asdict() for table in tables]
    return PageSection("tables", title, {"note": note, "tables": shown})


def nearest_section(nearest: Sequence[Near]) -> PageSection:
    """Return the texts nearest to each query."""
    rows = []
    before = ""
    for one in nearest:
        query = one.query if one.query != before else ""
        before = one.query
        rows.append([query, one.text, one.topic, f"{one.cosine:.2f}"])
    note = (
        "Queries and texts became vectors; these texts have the vectors most similar to a query's."
    )
    table = CaptionedTable("", ["query", "text", "its topic", "cosine"], rows, 1)
    return tables_section("Nearest texts", note, [table])


def cosines_section(
    queries: Sequence[str], topics: Mapping[str, str], cosines: Array
) -> PageSection:
    """Return the cosine of each query and each text (Q, T); texts are named by their topics."""
    columns = [f"{topic}: {text}" for text, topic in topics.items()]
    note = "A row is a query, a column a text. Blue is above 0, orange below."
    sheet = NumberSheet("Cosines", note, queries, columns, cosines)
    return sheets_section("Every query and every text", [sheet])


def pretraining_section(
    curves: Mapping[str, Sequence[tuple[float, float]]], table: CaptionedTable, note: str
) -> PageSection:
    """Return how a run's perplexity fell: curves by step, some moments, and what came of it."""
    lines = [{"name": name, "points": list(points)} for name, points in curves.items()]
    data = {
        "title": table.caption,
        "across": "step",
        "lines": lines,
        "heads": list(table.heads),
        "rows": [list(row) for row in table.rows],
        "note": note,
    }
    return PageSection("distances", "A BERT of its own", data)


def command_section(title: str, about: str, command: str) -> PageSection:
    """Return a command to type, below what it does."""
    return PageSection("command", title, {"about": about, "command": command})
