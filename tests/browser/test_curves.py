"""The page of training runs in a browser: its numbers are the journals', and it grows with a run that goes on."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.base.journal import Journal
from firth.output.server import PageServer
from firth.pages.curves import RunCurves, RunRecords, curves_page
from firth.verbs.curves import followed
from tests.browser.browser import PATIENCE, Browser, numbers
from tests.browser.test_hostile import PARTS

EARLIER = Path(__file__).parents[1] / "earlier"


def record(step: int, loss: float, seconds: float) -> dict[str, Any]:
    return {"step": step, "loss": loss, "rate": 0.001 / step, "tokens": 100, "seconds": seconds}


def check(step: int, seconds: float, **metrics: float) -> dict[str, Any]:
    return {"step": step, "dev": metrics, "seconds": seconds}


def begin(folder: Path, records: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    (folder / "lock").write_text("1")
    asked = {"corpus": ["text"], "model": "gpt"}
    (folder / "plan.json").write_text(json.dumps({"asked": asked, "training": {}}))
    for one in records:
        Journal(folder / "metrics.jsonl").add(**one)
    return folder


def short_run() -> list[dict[str, Any]]:
    """Eight steps, with a lowest loss on held-out text in the middle."""
    steps = [record(step, 8.0 / step, 10.0 + 60 * step) for step in range(1, 9)]
    checks = {
        0: check(0, 10.0, loss=9.0, accuracy=0.0),
        4: check(4, 251.0, loss=2.5, accuracy=0.75),
        8: check(8, 491.0, loss=3.25, accuracy=0.5),
    }
    found = [checks[0]]
    for one in steps:
        found += [one, *([checks[one["step"]]] if one["step"] in checks else [])]
    return found


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Two runs on a page, one of them long."""
    begin(tmp_path / "short.run", short_run())
    long = [record(step, 5.0 + step % 2, 20.0 + step) for step in range(1, 1001)]
    begin(tmp_path / "long.run", [*long, check(1000, 1021.0, loss=4.5, accuracy=0.25)])
    path = tmp_path / "page.html"
    firth.curves([tmp_path / "short.run", tmp_path / "long.run"], path)
    return path


def reads(browser: Browser, title: str) -> list[str]:
    """What a picture says of each run at the cursor, after the place itself."""
    script = """
const figure = [...document.querySelectorAll("figure")].find((one) => one.querySelector("figcaption span").textContent === arguments[0]);
return [...figure.querySelectorAll(".reads .where, .reads [data-run]")].map((one) => one.textContent);
"""
    return list(browser.run(script, title))


def choose(browser: Browser, number: int, key: str) -> None:
    browser.focus("select", number)
    browser.press(key)
    browser.settle()


def test_a_page_has_the_numbers_of_the_journals(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.text("h1") == "short.run, long.run"
    titles = ["Loss", "Held-out accuracy", "Learning rate", "Tokens a second"]
    assert browser.texts("figcaption span") == titles
    rows = browser.run(
        "return [...document.querySelectorAll('#runs-table tr')].map((row) => [...row.children].map((one) => one.textContent))"
    )
    assert rows == [
        ["short.run", "pretrain gpt", "stopped", "8", "8.167 min", "1.67", "1", "2.5 (step 4)"],
        [
            "long.run",
            "pretrain gpt",
            "stopped",
            "1,000",
            "17 min",
            "100",
            "5.5",
            "4.5 (step 1,000)",
        ],
    ]
    # Where nobody points: the newest of each.
    assert reads(browser, "Loss") == [
        "newest",
        "training 1, held out 3.25",
        "training 5.5, held out 4.5",
    ]
    assert reads(browser, "Held-out accuracy") == ["newest", "0.5", "0.25"]
    table = browser.texts("#held-out tr")
    assert len(table) == 4
    assert browser.texts("#held-out .best") == ["★ 2.5", "★ 0.75", "★ 4.5", "★ 0.25"]
    assert "mean of 1 to 4 noted steps" in browser.text(".plots + .note")
    lines = browser.run(
        "return [...document.querySelectorAll('figure:first-of-type path.line')].map((one) => [one.getAttribute('stroke'), one.getAttribute('stroke-dasharray')])"
    )
    assert len({tuple(line) for line in lines}) == 2  # two lines of each of two runs
    browser.quiet()


def test_mouse_and_keyboard_read_every_run_at_a_step(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.focus(".plot")
    browser.press("HOME")
    assert reads(browser, "Loss") == ["step 0", "training –, held out 9", "training –, held out –"]
    browser.press("ARROW_RIGHT", "ARROW_RIGHT")
    assert reads(browser, "Loss")[:2] == ["step 2", "training 4, held out 9 (step 0)"]
    # All pictures show the same place.
    assert reads(browser, "Learning rate")[:2] == ["step 2", "5e−4"]
    assert reads(browser, "Tokens a second")[:2] == ["step 2", "1.667"]
    assert reads(browser, "Held-out accuracy")[:2] == ["step 2", "0 (step 0)"]
    browser.press("ARROW_RIGHT", "ARROW_RIGHT")
    assert reads(browser, "Loss") == [
        "step 4",
        "training 2, held out 2.5",
        "training 5.5, held out –",
    ]
    browser.press("END")
    assert reads(browser, "Loss") == [
        "step 1,000",
        "training 1 (step 8), held out 3.25 (step 8)",
        "training 5.5, held out 4.5",
    ]
    browser.press("PAGE_UP")
    assert reads(browser, "Loss")[0] == "step 960"
    assert browser.run("return document.activeElement.querySelectorAll('circle').length") > 0
    browser.press("ESCAPE")
    assert reads(browser, "Loss")[0] == "newest"
    # By the mouse: from the left edge of a picture's axes to its right edge.
    width = browser.run("return document.querySelector('.plot svg').getBoundingClientRect().width")
    left = round(width * (58 / 480 - 0.5))
    browser.point(".plot", 0, left + 2)
    (place,) = numbers([reads(browser, "Learning rate")[0].removeprefix("step ")])
    assert place < 8
    browser.point(".plot", 0, left + round(width * 408 / 480 / 2))
    (place,) = numbers([reads(browser, "Learning rate")[0].removeprefix("step ")])
    assert place == pytest.approx(500, abs=8)
    browser.quiet()


def test_time_scale_and_smoothing(browser: Browser, page: Path) -> None:
    browser.open(page)
    choose(browser, 0, "END")
    browser.focus(".plot")
    browser.press("END")
    assert reads(browser, "Loss")[0] == "17.02 min"
    assert reads(browser, "Loss")[1] == "training 1 (8.167 min), held out 3.25 (8.183 min)"
    ticks = "return [...document.querySelectorAll('figure svg text')].map((one) => one.textContent)"
    assert "minutes" in browser.run(ticks)
    before = browser.run("return document.querySelector('path.line').getAttribute('d')")
    choose(browser, 1, "END")
    assert browser.run("return document.querySelector('path.line').getAttribute('d')") != before
    assert "3" in browser.run(ticks)
    choose(browser, 1, "HOME")
    assert browser.run("return document.querySelector('path.line').getAttribute('d')") == before
    # Smoothed: the raw line stands behind, and the numbers stay those of the journal.
    assert not browser.all("path.raw")
    said = reads(browser, "Loss")
    browser.focus("input[type=range]")
    browser.press(*["ARROW_RIGHT"] * 50)
    assert browser.text("output") == "0.49"
    assert browser.run("return document.querySelector('path.raw').getAttribute('d')") == before
    assert reads(browser, "Loss") == said
    smooth = browser.run("return document.querySelector('path.line').getAttribute('d')")
    assert path_heights(smooth) == pytest.approx(smoothed(path_heights(before), 0.495), abs=0.2)
    browser.press("HOME")
    assert not browser.all("path.raw")
    browser.quiet()


def path_heights(path: str) -> list[float]:
    return [float(place.split()[1]) for place in path.replace("M", "L").split("L")[1:]]


def smoothed(values: list[float], weight: float) -> list[float]:
    """The running mean in which what came before fades."""
    found = []
    for at in range(len(values)):
        weights = [weight ** (at - before) for before in range(at + 1)]
        total = sum(w * value for w, value in zip(weights, values, strict=False))
        found.append(total / sum(weights))
    return found


@pytest.mark.parametrize("kind", ["bert", "gpt", "classify", "regress", "tag"])
def test_runs_of_every_kind(browser: Browser, tmp_path: Path, kind: str) -> None:
    found = firth.curves(EARLIER / kind, tmp_path / "page.html")
    assert found.path is not None
    lines = (EARLIER / kind / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    losses = {one["step"]: one["loss"] for one in records if "loss" in one}
    checks = {one["step"]: one["dev"] for one in records if "dev" in one}
    browser.open(found.path)
    browser.focus(".plot")
    browser.press("HOME")
    for step in sorted({*losses, *checks}):
        at, said = reads(browser, "Loss")
        assert at == f"step {step}"
        training, held_out = said.removeprefix("training ").split(", held out ")
        if step in losses:
            assert numbers([training]) == [pytest.approx(losses[step], rel=1e-3)]
        if step in checks:
            assert numbers([held_out]) == [pytest.approx(checks[step]["loss"], rel=1e-3)]
            for name, value in checks[step].items():
                if name != "loss":
                    (shown,) = reads(browser, f"Held-out {name.replace('_', ' ')}")[1:]
                    assert numbers([shown]) == [pytest.approx(value, rel=1e-3)]
        browser.press("ARROW_RIGHT")
    for width in (360, 1280):
        browser.media(width=width)
        assert browser.run("return document.documentElement.scrollWidth") <= width
    pictures = browser.saved_pictures()
    assert len(pictures) == len(browser.all("figure"))
    for picture in pictures:
        assert picture.startswith("<svg")
        assert "var(" not in picture
        assert f">{kind}</text>" in picture
    browser.quiet()


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    runs = []
    for at, part in enumerate(PARTS[:20]):
        records = [record(1, 2.0, 1.0), check(1, 2.0, **{"loss": 1.0, part: 0.5})]
        runs.append(RunCurves(f"{at} {part}", RunRecords(records), part, part, 1, part))
    path = tmp_path / "page.html"
    path.write_text(curves_page(runs), encoding="utf-8")
    browser.open(path)
    assert len(browser.texts("#runs-table tr")) == len(runs)
    others = "return document.querySelectorAll('script, iframe, img, base, a').length"
    assert browser.run(others) == 2  # the data and the script
    browser.quiet()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Path, PageServer]]:
    """A run that has noted nothing yet, and the server that follows it."""
    folder = begin(tmp_path / "live.run", [])
    with followed([str(folder)]) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield folder, server
        server.shutdown()
        thread.join()


def wait(browser: Browser, script: str, *arguments: object) -> None:
    latest = time.monotonic() + PATIENCE
    while not browser.run(script, *arguments):
        assert time.monotonic() < latest, browser.text("body")
        time.sleep(0.05)


def test_a_page_grows_with_its_run(browser: Browser, live: tuple[Path, PageServer]) -> None:
    folder, server = live
    browser.visit(server.address)
    assert browser.text(".notes li") == "live.run: nothing is noted yet"
    assert reads(browser, "Loss") == ["newest", "training –"]
    records = short_run()
    journal = Journal(folder / "metrics.jsonl")
    for one in records[:6]:
        journal.add(**one)
    at_loss = """
const figure = document.querySelector("figure");
return figure.querySelector("[data-run]").textContent === arguments[0];
"""
    wait(browser, at_loss, "training 2, held out 2.5")
    assert browser.texts("figcaption span")[1] == "Held-out accuracy"
    assert not browser.all(".notes li")
    # The keyboard stays where it is while news come.
    browser.focus(".plot")
    browser.press("HOME", "ARROW_RIGHT")
    for one in records[6:]:
        journal.add(**one)
    wait(browser, "return document.querySelectorAll('#held-out tr').length === 3")
    assert reads(browser, "Loss") == ["step 1", "training 8, held out 9 (step 0)"]
    browser.press("ARROW_RIGHT")
    assert reads(browser, "Loss")[0] == "step 2"
    # Killed and resumed: steps after the checkpoint are forgotten.
    journal.cut(6)
    wait(browser, "return document.querySelectorAll('#held-out tr').length === 2")
    browser.press("END")
    assert reads(browser, "Loss") == ["step 4", "training 2, held out 2.5"]
    (folder / "curves.html").touch()
    wait(browser, "return document.querySelector('#runs-table').textContent.includes('finished')")
    assert browser.text(".live") == "Live, but no run is going on now."
    asked = set(browser.requests())
    assert asked == {f"{server.address}runs.json"}
    # firth view ends: the page says so, and keeps what it has.
    server.shutdown()
    server.server_close()
    wait(
        browser,
        "return document.querySelector('.live').textContent.includes('firth view has ended')",
    )
    assert reads(browser, "Loss") == ["step 4", "training 2, held out 2.5"]
    complaints = [one for one in browser.complaints() if "ERR_CONNECTION_REFUSED" not in one]
    assert not complaints
    assert browser.dialog() is None
