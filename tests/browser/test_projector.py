"""The projector in a browser: what is chosen, found and hidden is what Python has, by mouse and by keyboard."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth import load, projector
from tests.browser.browser import Browser, numbers
from tests.browser.test_hostile import PARTS
from tests.unit.speakers import LINES

TEXTS = [line for line in LINES if 40 < len(line) < 300][:60]
LABELS = ("north", "south", "east", "west")
CLOUD = ".cloud"
SENTENCE = ".sentence .quoted"


@pytest.fixture(scope="module")
def folder(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of texts with labels and numbers, and one of words."""
    place = tmp_path_factory.mktemp("projector")
    rows = []
    for number, text in enumerate(TEXTS):
        rows.append({"text": text, "label": LABELS[number % 4], "size": len(text)})
    source = place / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    projector(models / "bare", source, place / "texts.html", axes="pca")
    projector(
        models / "bare", source, place / "words.html", words=["the", "of", "list"], axes="pca"
    )
    return place


def rings(browser: Browser) -> list[list[float]]:
    """Where the rings around points are, in the saved picture: of the chosen one last."""
    (picture,) = browser.saved_pictures()
    found = re.findall(r'<circle cx="([\d.-]+)" cy="([\d.-]+)"', picture)
    return [[float(x), float(y)] for x, y in found]


def marks(browser: Browser) -> int:
    """How many points the saved picture has, beside its legend and the words of the table."""
    (picture,) = browser.saved_pictures()
    named = picture.count('<g transform="translate(')
    return sum(d.count("Z") for d in re.findall(r' d="([^"]*)"', picture)) - named


def point(browser: Browser, place: list[float]) -> None:
    """Move the mouse to a place of the plane."""
    width, height = browser.run(
        "const box = document.querySelector('.cloud .above').getBoundingClientRect(); return [box.width, box.height]"
    )
    browser.point(".cloud .above", 0, round(place[0] - width / 2), round(place[1] - height / 2))
    browser.settle()


def near(browser: Browser) -> tuple[list[float], list[int]]:
    """The neighbours that are listed: cosines, and numbers of points."""
    cosines = numbers(browser.texts(".nearest .cosine"))
    points = browser.run(
        "return [...document.querySelectorAll('.nearest button')].map(b => Number(b.dataset.point))"
    )
    return cosines, points


def choose(browser: Browser, list_number: int, option: int) -> None:
    """Choose from a drop-down list by the keyboard, and let the points arrive."""
    browser.focus(".controls select", list_number)
    browser.press("HOME", *["ARROW_DOWN"] * option)
    browser.driver.execute_async_script("setTimeout(arguments[0], 500)")


def unit(vectors: Any) -> Any:
    rows = np.asarray(vectors, np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_neighbours_are_those_of_python(browser: Browser, models: Path, folder: Path) -> None:
    browser.open(folder / "texts.html")
    browser.focus(CLOUD)
    browser.press("HOME")
    assert browser.text(SENTENCE) == TEXTS[0]
    for layer in (2, 1):
        if layer == 1:
            choose(browser, 0, 0)
        rows = unit(load(models / "bare").embed(TEXTS, layers=[layer]))
        cosines = rows @ rows[0]
        cosines[0] = -1
        order = np.argsort(-cosines)[:10]
        shown, points = near(browser)
        assert points == order.tolist()
        assert shown == pytest.approx(cosines[order].tolist(), abs=0.000052)
        assert browser.text(".nearest h3") == f"Nearest by cosine, layer {layer}"
    browser.click(".nearest button", 2)
    assert browser.text(SENTENCE) == TEXTS[points[2]]
    assert (
        browser.text(".sentence .note")
        == f"label: {LABELS[points[2] % 4]} · size: {len(TEXTS[points[2]])}"
    )
    browser.quiet()


def test_the_mouse_points_and_clicks(browser: Browser, folder: Path) -> None:
    browser.open(folder / "texts.html")
    browser.focus(CLOUD)
    browser.press("HOME")
    browser.settle()
    place = rings(browser)[-1]
    browser.press("PAGE_DOWN")
    assert browser.text(SENTENCE) == TEXTS[1]
    browser.press("ESCAPE")
    assert "Point at a point" in browser.text(".sentence")
    point(browser, place)
    assert browser.text(SENTENCE) == TEXTS[0]
    assert not browser.all(".nearest button")
    browser.run("window.scrollBy(0, 0)")
    browser.driver.execute_cdp_cmd("Input.synthesizeTapGesture", at_screen(browser, place))
    browser.settle()
    assert len(browser.all(".nearest button")) == 10
    browser.quiet()


def at_screen(browser: Browser, place: list[float]) -> dict[str, float]:
    """A place of the plane on the screen."""
    box = browser.run(
        "const box = document.querySelector('.cloud .above').getBoundingClientRect(); return [box.left, box.top]"
    )
    return {"x": box[0] + place[0], "y": box[1] + place[1]}


def test_arrows_go_to_the_nearest_point_that_way(browser: Browser, folder: Path) -> None:
    browser.open(folder / "texts.html")
    browser.focus(CLOUD)
    browser.press("ARROW_RIGHT")
    browser.settle()
    before = rings(browser)[-1]
    for key, axis, sign in (
        ("ARROW_RIGHT", 0, 1),
        ("ARROW_UP", 1, -1),
        ("ARROW_LEFT", 0, -1),
        ("ARROW_DOWN", 1, 1),
    ):
        browser.press(key)
        browser.settle()
        after = rings(browser)[-1]
        across = abs(after[1 - axis] - before[1 - axis])
        assert sign * (after[axis] - before[axis]) >= across - 0.2
        before = after
    browser.press("END")
    assert browser.text(SENTENCE) == TEXTS[59]
    browser.quiet()


def test_a_plane_is_zoomed_and_moved(browser: Browser, folder: Path) -> None:
    browser.open(folder / "texts.html")
    browser.focus(CLOUD)
    browser.press("HOME")
    browser.settle()
    whole = rings(browser)
    browser.press("+", "+")
    browser.settle()
    closer = rings(browser)

    def spread(places: list[list[float]]) -> float:
        return float(np.linalg.norm(np.array(places[0]) - np.array(places[-1])))

    assert spread(closer) == pytest.approx(2.25 * spread(whole), rel=0.02)
    browser.run(
        "document.querySelector('.cloud .above').dispatchEvent(new WheelEvent('wheel', {deltaY: -200, bubbles: true, cancelable: true}))"
    )
    browser.settle()
    assert spread(rings(browser)) == pytest.approx(2.25 * np.exp(0.5) * spread(whole), rel=0.02)
    before = rings(browser)[-1]
    drag(browser, 40, 25)
    browser.settle()
    after = rings(browser)[-1]
    assert np.allclose(np.subtract(after, before), [40, 25], atol=1)
    browser.press("0")
    browser.settle()
    assert rings(browser) == whole
    browser.quiet()


def test_two_fingers_zoom_and_one_moves(browser: Browser, folder: Path) -> None:
    browser.media(width=390)
    browser.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    browser.open(folder / "texts.html")
    browser.focus(CLOUD)
    browser.press("HOME")
    browser.run(
        "document.querySelector('.cloud').scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    browser.settle()
    before = rings(browser)
    spread = np.linalg.norm(np.subtract(before[0], before[-1]))

    def touch(kind: str, *places: tuple[float, float]) -> None:
        points = [
            {**at_screen(browser, list(place)), "id": number} for number, place in enumerate(places)
        ]
        browser.driver.execute_cdp_cmd(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
        )

    touch("touchStart", (150, 150), (190, 150))
    for further in (10, 20, 30, 40):
        touch("touchMove", (150 - further, 150), (190 + further, 150))
    touch("touchEnd")
    browser.settle()
    closer = rings(browser)
    assert np.linalg.norm(np.subtract(closer[0], closer[-1])) == pytest.approx(3 * spread, rel=0.1)
    touch("touchStart", (150, 150))
    for further in (10, 20, 30):
        touch("touchMove", (150 + further, 150 + further))
    touch("touchEnd")
    browser.settle()
    moved = rings(browser)
    assert np.allclose(np.subtract(moved[-1], closer[-1]), [30, 30], atol=12)
    assert browser.text(SENTENCE) == TEXTS[0]  # neither chose another point
    browser.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    browser.quiet()


def drag(browser: Browser, right: int, down: int) -> None:
    """Move the plane with the mouse."""
    from selenium.webdriver import ActionChains

    top = browser.all(".cloud .above")[0]
    chain = ActionChains(browser.driver, duration=0).move_to_element(top).click_and_hold()
    chain.move_by_offset(right, down).release().perform()


def test_groups_are_hidden_and_texts_found(browser: Browser, folder: Path) -> None:
    browser.open(folder / "texts.html")
    assert browser.texts(".group") == [f"{label}15" for label in LABELS]
    assert marks(browser) == 60
    browser.click(".group", 1)
    browser.settle()
    assert marks(browser) == 45
    browser.focus(CLOUD)
    browser.press("HOME", "PAGE_DOWN")
    assert browser.text(SENTENCE) == TEXTS[2]  # the second is hidden
    browser.click(".legend .quiet")
    browser.settle()
    assert marks(browser) == 60

    wanted = [number for number, text in enumerate(TEXTS) if "and" in text.lower()]
    browser.focus("input[type=search]")
    browser.press(*"and")
    browser.settle()
    assert browser.text(".found") == f"{len(wanted)} points"
    browser.press("ENTER")
    first = next((number for number in wanted if number > 2), wanted[0])
    assert browser.text(SENTENCE) == TEXTS[first]
    browser.press("ENTER")
    assert browser.text(SENTENCE) == TEXTS[wanted[(wanted.index(first) + 1) % len(wanted)]]

    choose(browser, 1, 2)
    sizes = [len(text) for text in TEXTS]
    assert browser.text(".legend.shades") == f"{min(sizes)}{max(sizes)}"
    choose(browser, 1, 0)
    assert not browser.all(".group, .legend.shades")
    browser.quiet()


def test_one_point_becomes_a_cloud(browser: Browser, folder: Path) -> None:
    browser.open(folder / "words.html")
    table = [cell.split() for cell in browser.texts("#words tbody tr")]
    assert browser.texts("#words th[scope=row]") == ["the", "of", "list"]
    assert len(table) == 3
    counts = [int(count) for count in browser.texts("#words td:last-child")]
    browser.focus(CLOUD)
    browser.press("HOME")
    sentence = browser.text(SENTENCE)
    assert browser.text(f"{SENTENCE} mark").lower() in ("the", "of", "list")
    browser.settle()
    assert marks(browser) == sum(counts)
    (picture,) = browser.saved_pictures()
    assert re.findall(r">(\w+)</text>", picture) == ["the", "of", "list"] * 2  # with the legend
    browser.press("END")
    assert browser.text(SENTENCE) == "list: its row in the embedding table"
    assert len(browser.all(".nearest button")) == 10
    choose(browser, 0, 0)
    browser.focus(CLOUD)
    browser.press("HOME")
    places: dict[str, list[float]] = {}
    for _ in range(8):
        browser.settle()
        word = browser.text(f"{SENTENCE} mark").lower()
        assert rings(browser)[-1] == places.setdefault(word, rings(browser)[-1])
        browser.press("PAGE_DOWN")
    assert 1 < len(places) == len(set(map(tuple, places.values())))
    assert "one point a word" in browser.text(".nearest")
    browser.press("HOME")
    assert browser.text(SENTENCE) == sentence
    browser.quiet()


def test_a_phone_and_the_dark(browser: Browser, folder: Path) -> None:
    for dark in (False, True):
        browser.media(dark=dark, width=390)
        for name in ("texts", "words"):
            browser.open(folder / f"{name}.html")
            assert browser.run("return document.documentElement.scrollWidth") <= 390
            ids = browser.run("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
            assert len(ids) == len(set(ids))
            browser.quiet()


def test_hostile_texts_and_columns(browser: Browser, models: Path, tmp_path: Path) -> None:
    rows = [
        {"text": f"the {part} the", part: part[:30], "label": part}
        for part in PARTS
        if part.isprintable()
    ]
    rows *= 3
    source = tmp_path / "<b>rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    made = projector(
        models / "bare", source, tmp_path / "page.html", words=["the", "script"], axes="pca"
    )
    browser.open(tmp_path / "page.html")
    browser.focus(CLOUD)
    for _ in range(len(PARTS)):
        browser.press("PAGE_DOWN")
    assert made.points > len(rows)
    assert (
        browser.all("section img, iframe, object, embed, style + style, base, a[href^=javascript]")
        == []
    )
    (picture,) = browser.saved_pictures()
    assert picture.startswith("<svg")
    assert "var(" not in picture
    browser.quiet()
