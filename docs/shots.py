"""Write the screenshots of the docs: pages of `firth view`, opened in Chromium.

    python -m docs.shots [NAME...]

Each page is written by the commands that its reader would type. A new picture is one more entry of
SHOTS; tests/policy/test_shots.py wants it in a page of the docs.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.browser.browser import Browser

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs"
WIDTH = 1000
MARGIN = 14  # around what is shown
BOX = """
const boxes = arguments[0].flatMap((one) => [...document.querySelectorAll(one)])
  .map((one) => one.getBoundingClientRect());
const all = (side) => boxes.map((box) => box[side]);
const [left, top] = [Math.min(...all("left")), Math.min(...all("top"))];
const [right, bottom] = [Math.max(...all("right")), Math.max(...all("bottom"))];
return [left + scrollX, top + scrollY, right + scrollX, bottom + scrollY];
"""

Step = Callable[["Browser"], None]  # what a reader does on a page


class Shot(NamedTuple):
    """A picture: commands of which the last writes its page, what is done there, what is shown."""

    name: str
    commands: Sequence[str]
    steps: Sequence[Step]
    parts: Sequence[str]  # selectors; the picture is the box around all that they find
    width: int = WIDTH
    dark: bool = False


def click(selector: str, number: int = 0) -> Step:
    """Return the step that clicks an element."""
    return lambda browser: browser.click(selector, number)


def click_word(word: str) -> Step:
    """Return the step that clicks a word of the text."""
    return lambda browser: browser.click(".word", browser.texts(".word").index(word))


def click_head(layer: int, head: int, heads: int) -> Step:
    """Return the step that chooses a head of a layer, counted from 1."""
    return click(".small", (layer - 1) * heads + head - 1)


def press(selector: str, *keys: str) -> Step:
    """Return the step that presses keys on an element."""

    def step(browser: "Browser") -> None:
        browser.focus(selector)
        browser.press(*keys)

    return step


ANIMAL = 'firth view minilm "The animal didn\'t cross the street because it was too tired."'
ON_IT = (click_word("it"), click_head(4, 2, heads=12))
AT_ANIMAL = press("canvas.matrix", *["ARROW_DOWN"] * 10, "ARROW_RIGHT", "ARROW_RIGHT")
SAMPLES = "firth demo --files samples/"
BASE = (
    SAMPLES,
    "firth pretrain samples/daybook.txt -o base/ --size tiny --steps 300 --batch 512 --length 32",
)
CHARGED = "The customer was charged twice for the wall clock."
LIVE = f'firth view base/ "{CHARGED}" --with-model -o live.html'
TRIAGE = (
    SAMPLES,
    "firth finetune classify --model minilm --train samples/tickets-train.csv --text message "
    "--label queue -o triage/ --features -4..-1 --epochs 8",
)
TICKET = 'firth view triage/ "I sent the lamp back and you still took the money." -o ticket.html'
REPORT = "firth view triage/ --data samples/tickets-test.csv -o report.html"
LAYER_3_HEAD_2 = ["ARROW_RIGHT"] * 2 + ["ARROW_DOWN"] * 2
LSTM = (
    SAMPLES,
    "firth pretrain samples/daybook.txt -o lstm/ --model rnn --size tiny --steps 100",
)
GATES = 'firth view lstm/ "The courier left the clock in Cork." -o gates.html'
TANH = "firth pretrain samples/daybook.txt -o tanh/ --model rnn --cell tanh --size tiny --steps 100"
RUNS = "firth view lstm.run tanh.run -o runs.html"
POINTS = "firth view minilm samples/tickets-train.csv --text message --projector -o points.html"
SHOTS = (
    Shot(
        "attention",
        [ANIMAL],
        [*ON_IT, AT_ANIMAL],
        ["#section-1 > :not(h2, figure, div:last-child)"],
    ),
    Shot("heads", [ANIMAL], ON_IT, ["figure:has(.heads)"], width=900, dark=True),
    Shot("arithmetic", [ANIMAL], ON_IT, [".block"], width=1120),
    Shot(
        "live",
        [*BASE, LIVE],
        [click_word("charged")],
        ["#section-1 > :not(:last-child)", "#section-1 h3:first-child + .controls + .beside"],
    ),
    Shot(
        "switched-off",
        [*TRIAGE, TICKET],
        [press("#ablation", *LAYER_3_HEAD_2, "ENTER")],
        ["#section-2 > *"],
    ),
    Shot(
        "gates",
        [*LSTM, GATES],
        [press("#section-2 .chooser + .chooser select", "ARROW_DOWN", "ARROW_DOWN")],
        ["#section-2 > *"],
    ),
    Shot(
        "report",
        [*TRIAGE, REPORT],
        [click('[data-cell="4,2"]')],  # returns that were taken for deliveries
        ["#section-2 figure", ".case:nth-child(-n+2)"],
    ),
    Shot(
        "points",
        [SAMPLES, POINTS],
        [press(".cloud", "ARROW_RIGHT", "ARROW_RIGHT", "ENTER")],
        ["#section-1 > .controls", ".legend", ".projector"],
    ),
    Shot("runs", [*LSTM, TANH, RUNS], [], [".controls", ".plots"]),
)


class Pages:
    """Pages that were written in a folder, where each command is typed once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.typed: set[str] = set()

    def written_by(self, commands: Sequence[str]) -> Path:
        """Return the page that the last of some commands writes."""
        for command in commands:
            if command not in self.typed:
                self._type(command)
                self.typed.add(command)
        words = shlex.split(commands[-1])
        name = words[words.index("-o") + 1] if "-o" in words else "view.html"
        return self.folder / name

    def _type(self, command: str) -> None:
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        words = [sys.executable, "-m", *shlex.split(command)]
        environment = {**os.environ, "PYTHONPATH": paths}
        subprocess.run(words, cwd=self.folder, env=environment, check=True)  # noqa: S603 - ours


def take(shot: Shot, page: Path, browser: "Browser") -> bytes:
    """Return a picture of a page as a PNG file."""
    scrollbars = "Emulation.setScrollbarsHidden"
    browser.driver.execute_cdp_cmd(scrollbars, {"hidden": True})
    browser.media(dark=shot.dark, width=shot.width)
    browser.open(page)
    for step in shot.steps:
        step(browser)
        browser.settle()
    # What is out of sight is not drawn; mouse and focus would leave their marks.
    whole = int(browser.run("return document.documentElement.scrollHeight"))
    browser.media(dark=shot.dark, width=shot.width, height=whole)
    browser.point("h1")
    browser.run("document.activeElement.blur()")
    browser.settle()
    left, top, right, bottom = browser.run(BOX, shot.parts)
    x = max(0, left - MARGIN)
    y = max(0, top - MARGIN)
    width = min(shot.width, right + MARGIN) - x
    clip = {"x": x, "y": y, "width": width, "height": bottom + MARGIN - y, "scale": 1}
    options = {"format": "png", "clip": clip, "captureBeyondViewport": True}
    found = browser.driver.execute_cdp_cmd("Page.captureScreenshot", options)
    browser.driver.execute_cdp_cmd(scrollbars, {"hidden": False})
    return b64decode(found["data"])


def take_all(names: Sequence[str], target: Path) -> None:
    """Write the pictures of some names, or all, to a folder."""
    from tests.browser.browser import Browser, missing

    reason = missing()
    if reason is not None:
        raise SystemExit(reason)
    unknown = set(names) - {shot.name for shot in SHOTS}
    if unknown:
        raise SystemExit(f"there is no picture {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pages = Pages(folder)
        with closing(Browser(folder / "profile")) as browser:
            for shot in SHOTS:
                if names and shot.name not in names:
                    continue
                file = target / f"{shot.name}.png"
                file.write_bytes(take(shot, pages.written_by(shot.commands), browser))
                print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    take_all(sys.argv[1:], FOLDER)
