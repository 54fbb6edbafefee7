"""The sections that only the demo's page has: tables, shades of cosines, a curve, a command."""

from pathlib import Path

import numpy as np
import pytest

from firth.pages.demo import (
    CaptionedTable,
    Near,
    command_section,
    cosines_section,
    demo_page,
    nearest_section,
    pretraining_section,
    tables_section,
)
from tests.browser.browser import Browser, numbers

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
TOPICS = {"Snow is expected tonight.": "weather", "Let the dough rest.": "cooking", HOSTILE: "law"}
QUERIES = ["winter", "how do I bake bread?"]
COSINES = np.array([[0.51, -0.02, 0.1], [0.03, 0.4, -0.3]])
COMMAND = 'firth view minilm "She sat by the bank of the river."'
CURVE = [(float(step), 400.0 / step) for step in range(1, 200)]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with small numbers."""
    nearest = [
        Near(query, topic, text, float(cosine))
        for query, row in zip(QUERIES, COSINES, strict=True)
        for (text, topic), cosine in zip(TOPICS.items(), row, strict=True)
    ]
    sections = [
        nearest_section(nearest),
        cosines_section(QUERIES, TOPICS, COSINES),
        pretraining_section(
            {"training": CURVE},
            CaptionedTable("Perplexity", ["step", "loss"], [["1", "6.0"]], 1),
            "A note.",
        ),
        tables_section(
            "A task",
            HOSTILE,
            [
                CaptionedTable("Answers", ["ticket", "sure"], [[HOSTILE, "89%"]], 1),
                CaptionedTable("Words", ["a"], [["b"]]),
            ],
        ),
        command_section("A sentence of your own", "What it does:", COMMAND),
    ]
    path = tmp_path_factory.mktemp("demo") / "demo.html"
    path.write_text(demo_page("minilm", sections), encoding="utf-8")
    return path


def test_tables_and_commands_are_shown(browser: Browser, page: Path) -> None:
    browser.open(page)
    rows = [
        row.split("|")
        for row in browser.run(
            "return [...document.querySelectorAll('#section-1 tbody tr')]"
            ".map((row) => [...row.children].map((cell) => cell.textContent).join('|'))"
        )
    ]
    assert [row[0] for row in rows] == [QUERIES[0], "", "", QUERIES[1], "", ""]
    assert [row[1] for row in rows[:2]] == list(TOPICS)[:2]
    assert rows[2][1] == "<img src=x onerror=alert(1)>U+202E"
    assert [float(row[3].replace("−", "-")) for row in rows] == COSINES.ravel().tolist()
    assert browser.texts("#section-4 caption") == ["Answers", "Words"]
    assert browser.texts("#section-4 td") == ["<img src=x onerror=alert(1)>U+202E", "89%", "b"]
    assert browser.text("#section-5 pre") == COMMAND
    assert browser.all("img") == []
    browser.quiet()


def test_shades_and_curve(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.focus("#section-2 canvas")
    browser.press("ARROW_RIGHT", "ARROW_RIGHT", "ARROW_DOWN")
    browser.settle()
    said = browser.text("#section-2 .said")
    assert said.startswith("how do I bake bread?, cooking: ")
    assert numbers([said.rpartition(" ")[2]]) == [COSINES[1, 1]]
    points = browser.run(
        "return document.querySelector('#section-3 polyline').getAttribute('points')"
    )
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert len(heights) == len(CURVE)
    assert heights == sorted(heights)  # what falls goes down
    assert len(browser.saved_pictures()) == 2
    browser.quiet()


@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_is_as_wide_as_the_screen(browser: Browser, page: Path, width: int) -> None:
    browser.media(width=width)
    browser.open(page)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.quiet()
