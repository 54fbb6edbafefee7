"""The textbooks' pictures in a browser: the numbers on each page are those of the record."""

import re
from collections.abc import Mapping

import pytest

from firth import ExampleView, example, examples
from tests.browser.browser import Browser, numbers

NAMES = [picture.name for picture in examples()]
BOXES = "svg text.number"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ExampleView]:
    """Every picture, and its page."""
    folder = tmp_path_factory.mktemp("examples")
    return {name: example(name, out=folder / f"{name}.html") for name in NAMES}


def open_page(browser: Browser, view: ExampleView) -> None:
    assert view.path is not None
    browser.open(view.path)


def table(browser: Browser) -> list[tuple[str, str, str, str]]:
    """Return the rows of the numbers: a name, what comes out, the book's, and the verdict."""
    script = """
return [...document.querySelectorAll("table.printed tbody tr")].map((row) => {
  const cells = ["[data-cell=value]", "[data-cell=book]", "[data-cell=agrees]"];
  const texts = cells.map((cell) => row.querySelector(cell)?.textContent ?? "");
  return [row.querySelector("th").textContent, ...texts];
});
"""
    return [(row[0], row[1], row[2], row[3]) for row in browser.run(script)]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_the_numbers(
    browser: Browser, drawn: Mapping[str, ExampleView], name: str
) -> None:
    view = drawn[name]
    open_page(browser, view)
    assert browser.texts("h2") == list(view.sections)
    rows = table(browser)
    assert [row[0] for row in rows] == [number.name for number in view.numbers]
    for (_, value, book, verdict), number in zip(rows, view.numbers, strict=True):
        assert numbers([value]) == [pytest.approx(number.value, abs=0.000051)]
        assert book == (number.book or "")
        assert verdict == {True: "the same", False: "differs", None: ""}[number.agrees]
    assert browser.texts(".notes li") == list(view.notes)
    ids = browser.run("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    for width in (360, 1280):
        browser.media(width=width)
        assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.quiet()


def test_arithmetic_stands_in_boxes(browser: Browser, drawn: Mapping[str, ExampleView]) -> None:
    open_page(browser, drawn["thinking-machines"])
    assert browser.texts(BOXES) == ["112", "96", "14", "12", "0.8808", "0.1192"]
    books = [f"book {one}" for one in ("112", "96", "14", "12", ".88", ".12")]
    assert browser.texts("svg text.book") == books
    open_page(browser, drawn["computers"])
    assert browser.texts(BOXES)[-1] == "[0.2331  0.5464]"
    # The same table as of any model's head follows the word that is chosen.
    assert browser.texts("#arithmetic [data-cell=weight]") == [
        "0.2979",
        "0.2106",
        "0.1284",
        "0.3631",
    ]
    assert browser.text("#sum [data-cell=sum]") == "[0.2331  0.5464]"
    browser.click(".word", 0)
    browser.settle()
    assert browser.texts("#arithmetic [data-cell=dot]") == ["0.68", "0.36", "−0.38", "0.70"]
    browser.quiet()


def test_two_sentences_on_one_page_are_apart(
    browser: Browser, drawn: Mapping[str, ExampleView]
) -> None:
    open_page(browser, drawn["animal"])
    said = [text for text in browser.texts(".said") if text.startswith("Layer 5")]
    assert len(said) == 2
    assert all(": it looks at" in text for text in said)
    browser.click("#section-2 .word", 3)
    again = [text for text in browser.texts(".said") if text.startswith("Layer 5")]
    assert again[0] == said[0]
    assert again[1] != said[1]
    browser.focus("#section-2 canvas[tabindex]")
    browser.press("ARROW_RIGHT")
    described = browser.run("return document.activeElement.getAttribute('aria-describedby')")
    assert "→" in browser.text(f"#{described}")
    assert browser.text("#matrix-said") == "Point at a cell."
    browser.quiet()


def test_a_layer_is_chosen_and_a_sentence_pointed_at(
    browser: Browser, drawn: Mapping[str, ExampleView]
) -> None:
    open_page(browser, drawn["bank"])
    browser.point("[data-point]", 1)
    assert browser.text(".plane + .said").endswith("(by a river)")
    first = browser.text(".plane + .said")
    browser.focus(".plane")
    browser.press("ARROW_DOWN")
    assert browser.text(".plane + .said") != first
    places = browser.run("return document.querySelector('[data-point]').getAttribute('transform')")
    browser.focus("select")
    browser.press("HOME")
    browser.settle()
    script = "return [...document.querySelectorAll('[data-point]')].map((one) => one.getAttribute('transform'))"
    table_of_words = browser.run(script)
    assert len(set(table_of_words)) == 1
    assert table_of_words[0] != places
    browser.quiet()


def test_sheets_are_read_by_mouse_and_keyboard(
    browser: Browser, drawn: Mapping[str, ExampleView]
) -> None:
    open_page(browser, drawn["sinusoids"])
    browser.focus("canvas[tabindex]")
    browser.press("ARROW_RIGHT", "ARROW_RIGHT")
    assert browser.text("#sheet-1-said") == "position 0, number 1: 1.0000"
    browser.press("ARROW_DOWN")
    assert browser.text("#sheet-1-said") == "position 1, number 1: 0.5403"
    browser.point("canvas[tabindex]", 1)
    found = re.fullmatch(r"position (\d+), number (\d+): (\S+)", browser.text("#sheet-2-said"))
    assert found is not None
    browser.quiet()


@pytest.mark.parametrize("name", ["computers", "analogies", "one-hot"])
def test_every_picture_is_saved_as_svg(
    browser: Browser, drawn: Mapping[str, ExampleView], name: str
) -> None:
    open_page(browser, drawn[name])
    texts = browser.saved_pictures()
    assert len(texts) == len(browser.all("figure"))
    assert all(text.startswith("<svg") and "var(" not in text for text in texts)
