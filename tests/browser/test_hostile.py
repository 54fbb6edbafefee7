"""Texts, labels and names that try to be markup: a page shows them, and nothing in them runs."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from firth import load, report, view
from firth.folders.write import save
from firth.output.page import page_sections
from firth.pages.page import PageSection, write_page
from firth.probes.row import read_row
from tests.browser.browser import Browser
from tests.conftest import SOAK

PARTS = (
    "<script>alert('fired')</script>",
    "</script><script>alert('fired')</script>",
    "</script><img src=x onerror=\"alert('fired')\">",
    '"><svg onload=alert("fired")>',
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "<!--<script>",
    "]]><script>alert('fired')</script>",
    "javascript:alert('fired')",
    "<a href=javascript:alert('fired')>x</a>",
    "<style>*{display:none}</style>",
    "<base href=http://example.com/>",
    "<meta http-equiv=refresh content=0;url=http://example.com/>",
    "${alert('fired')}",
    "{{constructor.constructor('alert(1)')()}}",
    "\u202egnp.exe",
    "\u2066\u2069\u200f\u061c",
    "\x1b[31mred\x1b[0m\x07\x1b]0;title\x07",
    "\u2028\u2029",
    "&lt;script&gt;alert('fired')&lt;/script&gt;",
    "%3Cscript%3Ealert('fired')%3C/script%3E",
    "__proto__",
    "constructor",
    "w" * 3000,
    "\u0301" * 50,
    "\U0001f469\u200d\U0001f4bb",
    "\ufeff\x00\x7f\x85",
    "onfocus=alert('fired') autofocus",
    "' or 1=1 --",
    "\\u003cscript\\u003ealert('fired')",
)
MANY = 500 if SOAK else len(PARTS)
COUNT = "return document.querySelectorAll('*').length"


def hostile(number: int) -> str:
    """A text of hostile parts: each of them first, and then several together."""
    draw = random.Random(number)
    if number < len(PARTS):
        return f"a {PARTS[number]} b"
    return " ".join(draw.choices(PARTS, k=draw.randint(2, 5)))


def spoiled(data: Any, text: str) -> Any:
    """Data in which every text is this one."""
    if isinstance(data, str):
        return text
    if isinstance(data, dict):
        return {key: spoiled(value, text) for key, value in data.items()}
    if isinstance(data, list):
        return [spoiled(value, text) for value in data]
    return data


def test_hostile_texts_are_shown_and_nothing_runs(
    browser: Browser, models: Path, tmp_path: Path
) -> None:
    """A page that has a hostile text wherever it has one has as many elements as a tame page."""
    sections = {}
    for name in ("bert", "queues", "rnn", "counts"):
        predictor = load(models / name)
        pair = "b c" if name == "bert" else None
        row = read_row(predictor, "a [MASK] b" if pair else "a text of words", pair)
        sections[name] = page_sections(predictor, row)
    sections["report"] = report_sections(models / "queues", tmp_path)
    page = tmp_path / "page.html"

    def elements(name: str, text: str) -> int:
        spoilt = [one._replace(title=text, data=spoiled(one.data, text)) for one in sections[name]]
        page.write_text(write_page(text, [text], spoilt), encoding="utf-8")
        browser.open(page)
        if name == "queues":
            browser.click(".word", 1)
        if name == "report":
            browser.click("#counts [data-cell]", 1)
        shown = browser.run("return document.querySelector('h1').textContent")
        assert shown.replace("U+", "").strip()
        browser.quiet()
        return int(browser.run(COUNT))

    tame = {name: elements(name, "a tame text") for name in sections}
    for number in range(MANY):
        name = list(sections)[number % len(sections)]
        assert elements(name, hostile(number)) == tame[name], hostile(number)


def report_sections(model: Path, folder: Path) -> list[PageSection]:
    """The sections of a page of answers, as the page holds them."""
    data = folder / "few.csv"
    data.write_text("text,label\na parcel,billing\nthe lid,praise\nno light,delivery\n")
    found = re.search(r'id="data">(.*?)</script>', report(model, data).page, re.DOTALL)
    assert found is not None
    return [PageSection(**one) for one in json.loads(found[1])["sections"]]


def test_a_hostile_text_is_read_by_the_model(
    browser: Browser, models: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    text = " ".join(part for part in PARTS[:6])
    made = view(models / "bare", text, page)
    browser.open(page)
    assert len(browser.all(".word")) == made.tokens
    assert browser.text("h1") == text
    browser.quiet()


@pytest.mark.parametrize("name", ["queues", "names"])
def test_hostile_labels_and_folders(
    browser: Browser, models: Path, tmp_path: Path, name: str
) -> None:
    bundle = load(models / name).bundle
    folder = tmp_path / "<img src=x onerror=alert(1)> \u202e"
    if name == "queues":
        bundle.labels = ("<script>alert('fired')</script>", "\u202eb", "onerror=alert(1)")
        bundle.values = bundle.labels
    save(bundle, folder)
    page = tmp_path / "page.html"
    view(folder, "a text of words", page)
    browser.open(page)
    assert "<img src=x onerror=alert(1)> U+202E" in browser.text(".lead")
    if name == "queues":
        titles = browser.texts(".bar-name title")
        assert set(titles) == {"<script>alert('fired')</script>", "U+202Eb", "onerror=alert(1)"}
    assert browser.all("img, iframe, object, embed, style + style, base") == []
    browser.quiet()


def test_hostile_labels_texts_and_files_of_a_report(
    browser: Browser, models: Path, tmp_path: Path
) -> None:
    """Labels of the model and of the file, texts, the file and the folder, spelled out on the page."""
    bundle = load(models / "queues").bundle
    bundle.labels = ("<script>alert('fired')</script>", "\u202eb", "onerror=alert(1)")
    bundle.values = bundle.labels
    model = tmp_path / "<img src=x onerror=alert(1)> \u202e"
    save(bundle, model)
    shown = [part for part in PARTS if "\x00" not in part and part.strip()]
    rows = [{"text": part, "label": bundle.labels[at % 3]} for at, part in enumerate(shown)]
    rows += [{"text": f"unknown {part}", "label": part} for part in shown]
    data = tmp_path / "<svg onload=alert(1)>\u202e.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    page = tmp_path / "page.html"
    report(model, data, page)
    browser.open(page)
    assert browser.text("h1") == "How good <img src=x onerror=alert(1)> U+202E is"
    assert "<svg onload=alert(1)>U+202E.jsonl" in browser.text(".lead")
    assert "which count as wrong" in browser.text("#said")
    names = browser.texts("#counts .row-name title")
    assert {"<script>alert('fired')</script>", "U+202Eb", "onerror=alert(1)"} <= set(names)
    browser.run("document.querySelector('#more').click(); document.querySelector('#more').click()")
    texts = browser.texts(".case .quoted")
    assert "U+202Egnp.exe" in texts
    assert "</script><script>alert('fired')</script>" in texts
    assert any("unknown ${alert('fired')}" in text for text in texts)
    assert browser.run("return document.documentElement.scrollWidth") <= 1280
    assert not any("\u202e" in text or "\u2066" in text for text in browser.texts("main *"))
    assert browser.all("img, iframe, object, embed, style + style, base, main script") == []
    browser.quiet()


def test_only_the_one_script_may_run(browser: Browser, tmp_path: Path) -> None:
    """A script that comes into the page in any way is refused by its policy."""
    page = tmp_path / "page.html"
    page.write_text(write_page("a title", ["a line"], []), encoding="utf-8")
    browser.open(page)
    browser.run(
        """
const script = document.createElement("script");
script.textContent = "document.title = 'fired'";
document.body.append(script);
const image = document.createElement("div");
image.innerHTML = "<img src='data:,' onerror='document.title = 1'><b style='color: red'>b</b>";
document.body.append(image);
"""
    )
    browser.settle()
    assert browser.run("return document.title") == "a title"
    colour = browser.run("return getComputedStyle(document.querySelector('b')).color")
    assert colour != "rgb(255, 0, 0)"
    assert len(browser.complaints()) >= 2


def test_data_can_not_end_its_element() -> None:
    page = write_page("</script><script>", ["<!--"], [])
    assert page.count("</script>") == 2  # of the data and of the script
    assert "<!--" not in page
