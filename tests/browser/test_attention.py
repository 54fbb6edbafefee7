"""The page of attention in a browser: what it shows are the model's numbers, by mouse and by keyboard."""

import html
import re
from pathlib import Path

import numpy as np
import pytest

from firth import FirthWarning, load, view
from firth.pages.page import Fixed, fixed
from tests.browser.browser import Browser, numbers
from tests.journey.command import run

TEXT = "the module returns a list of strings because it was told to"
LINES = ".scroll.tall svg:first-child"


@pytest.fixture(scope="module")
def page(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a text."""
    path = tmp_path_factory.mktemp("attention") / "view.html"
    view(models / "bert", TEXT, path)
    return path


def shown_weights(browser: Browser) -> list[float]:
    return numbers(browser.texts("#arithmetic [data-cell=weight]"))


def test_every_number_is_the_models(browser: Browser, models: Path, page: Path) -> None:
    (record,) = load(models / "bert").attention([TEXT])
    depth, heads, length, _ = record.weights.shape
    browser.open(page)
    assert browser.texts(".word") == record.tokens
    browser.click(".word", 3)
    for layer in range(depth):
        for head in range(heads):
            browser.click(".small", layer * heads + head)
            browser.settle()
            assert shown_weights(browser) == [
                float(f"{weight:.4f}") for weight in record.weights[layer, head, 3]
            ]
    assert length == len(record.tokens)
    browser.quiet()


def test_the_arithmetic_adds_up(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.click(".word", 4)
    browser.click(".chooser input")
    browser.settle()

    def rows(name: str) -> np.ndarray:
        texts = browser.texts(f"#arithmetic [data-cell={name}]")
        return np.array([numbers(text.strip("[]").split()) for text in texts])

    query = np.array(numbers(re.findall(r"\[(.*)\]", browser.text("#query"))[0].split()))
    keys, values = rows("key"), rows("value")
    scaled = np.array(numbers(browser.texts("#arithmetic [data-cell=scaled]")))
    weights = np.array(shown_weights(browser))
    assert np.allclose(keys @ query / len(query) ** 0.5, scaled, atol=0.0051)
    logits = keys @ query / len(query) ** 0.5
    assert np.allclose(np.exp(logits) / np.exp(logits).sum(), weights, atol=0.001)
    sums = np.array(numbers(browser.text("#sum [data-cell=sum]").strip("[]").split()))
    assert np.allclose(weights @ values, sums, atol=0.005)
    assert np.allclose(rows("weighed"), weights[:, None] * values, atol=0.0006)


def test_a_mouse_and_a_keyboard_choose_the_same(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.point(f"{LINES} text", 5)
    hovered = browser.text("#attention-said")
    assert browser.texts(".word")[5] in hovered
    browser.point("h1")
    assert browser.text("#attention-said") != hovered
    browser.focus(".word")
    browser.press(*["ARROW_RIGHT"] * 5)
    assert browser.text("#attention-said") == hovered
    assert len(browser.all(".word[aria-pressed=true]")) == 1
    browser.focus(".small")
    browser.press("ARROW_DOWN", "ARROW_RIGHT")
    assert browser.text("#attention-said").startswith("Layer 2, head 2:")
    browser.focus("canvas[tabindex]")
    browser.press("ARROW_RIGHT", "ARROW_DOWN")
    row = browser.text("#matrix-said")
    first, second = browser.texts(".word")[1], browser.texts(".word")[1]
    assert row.startswith(f"{first} → {second}: 0.")
    browser.focus(".scroll.tall")
    browser.press("ARROW_DOWN")
    assert browser.texts(".word")[6] in browser.text("#attention-said")
    browser.quiet()


def test_the_matrix_says_what_is_under_the_pointer(
    browser: Browser, models: Path, page: Path
) -> None:
    (record,) = load(models / "bert").attention([TEXT])
    browser.open(page)
    browser.point("canvas[tabindex]", 0, 40, 40)
    found = re.fullmatch(r"(\S+) → (\S+): (0\.\d{4})", browser.text("#matrix-said"))
    assert found is not None
    query, key = record.tokens.index(found[1]), record.tokens.index(found[2])
    assert f"{record.weights[0, 0, query, key]:.4f}" == found[3]
    browser.click("canvas[tabindex]")
    assert len(browser.all(".word[aria-pressed=true]")) == 1


def test_every_picture_can_be_saved_as_svg(browser: Browser, page: Path) -> None:
    browser.open(page)
    script = """
const made = [];
const before = URL.createObjectURL;
URL.createObjectURL = (blob) => { made.push(blob); return before(blob); };
const save = [...document.querySelectorAll("figcaption button")];
for (const button of save) button.click();
const done = arguments[0];
Promise.all(made.map((blob) => blob.text())).then((texts) => {
  const errors = texts.map((text) => new DOMParser().parseFromString(text, "image/svg+xml"));
  done([save.length, texts, errors.map((one) => one.querySelectorAll("parsererror").length)]);
});
"""
    buttons, texts, errors = browser.driver.execute_async_script(script)
    assert buttons == len(browser.all("figure"))
    assert len(texts) == buttons
    assert errors == [0] * buttons
    for text in texts:
        assert text.startswith("<svg")
        assert "var(" not in text
    assert all(f"{word}</text>" in texts[0] for word in browser.texts(".word")[:4])


def test_a_long_text_has_the_largest_weights(
    browser: Browser, models: Path, tmp_path: Path
) -> None:
    text = " ".join(f"{TEXT} {number}" for number in range(40))
    with pytest.warns(FirthWarning, match="tokens are not in the page"):
        found = view(models / "bert", text, tmp_path / "long.html")
    assert found.tokens == 160
    assert found.truncated_tokens > 0
    with pytest.warns(FirthWarning, match="were cut"):
        (record,) = load(models / "bert").attention([text], long="cut")
    browser.open(tmp_path / "long.html")
    browser.click(".word", 70)
    browser.settle()
    keys = [int(row.get_attribute("data-key")) for row in browser.all("#weights tr")[:-1]]
    *shown, rest = numbers(browser.texts("#weights td:last-child"))
    row = record.weights[0, 0, 70]
    assert len(keys) == 32
    assert np.abs(np.array(shown) - row[keys]).max() < 0.005
    assert abs(rest - (1 - row[keys].sum())) < 0.005
    assert shown == sorted(shown, reverse=True)
    assert min(shown) >= row[[key for key in range(160) if key not in keys]].max() - 0.0001
    browser.quiet()


def test_colours_are_dark_or_light(browser: Browser, page: Path) -> None:
    script = "return getComputedStyle(document.body).backgroundColor"
    browser.open(page)
    light = browser.run(script)
    browser.click("header button")
    dark = browser.run(script)
    assert light != dark
    browser.media(dark=True)
    browser.open(page)
    assert browser.run(script) == dark
    browser.click("header button")
    assert browser.run(script) == light
    browser.quiet()


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_nothing_is_wider_than_the_screen(browser: Browser, page: Path, width: int) -> None:
    browser.media(width=width)
    browser.open(page)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.quiet()


def test_a_command_says_where_the_page_is(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run("view", models / "bert", TEXT)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("view.html: attention")
    assert ended.out.count("\n") == 1
    assert TEXT in (tmp_path / "view.html").read_text(encoding="utf-8")
    again = run("view", models / "bert", TEXT)
    assert again.code == 2
    assert "view.html exists" in again.err
    assert run("view", models / "bert", TEXT, "--force").code == 0


def test_a_notebook_shows_the_page(browser: Browser, models: Path, tmp_path: Path) -> None:
    """In a frame of its own, where it works as it does alone and can't reach the notebook."""
    found = view(models / "bert", TEXT)
    assert found.path is None
    shown = re.search(r'srcdoc="([^"]*)"', found._repr_html_())
    assert shown is not None
    assert html.unescape(shown[1]) == found.page
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<html data-ready=yes><body>{found._repr_html_()}", encoding="utf-8")
    browser.open(notebook)
    browser.driver.switch_to.frame(0)
    try:
        while not browser.run("return document.documentElement.dataset.ready === 'yes'"):
            browser.settle()
        browser.click(".word", 2)
        assert browser.texts(".word")[2] in browser.text("#attention-said")
        assert browser.run("try { return parent.document.title } catch { return null }") is None
    finally:
        browser.driver.switch_to.default_content()


def test_numbers_are_held_as_they_are_printed() -> None:
    small = fixed(np.array([0.12344, -1.5, 3.2], np.float32))
    assert isinstance(small, Fixed)
    assert (small.decimals, small.whole.tolist()) == (4, [1234, -15000, 32000])
    large = fixed(np.array([-1234.5], np.float32))
    assert isinstance(large, np.ndarray)
