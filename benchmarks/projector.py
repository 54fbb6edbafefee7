"""The projector's page of 20,000 sentences in Chromium: its size, how it opens, how it moves.

    FIRTH_DATA=... python -m benchmarks.projector            a table
    FIRTH_DATA=... python -m benchmarks.projector --json     one object a line
    FIRTH_DATA=... python -m benchmarks.projector --quick    2,000 sentences

Sentences of SST-2 with their labels through minilm, and the word *film* in its sentences. Opened:
from the request to the end of the drawing, `--rounds` times. Frames: the time from one to the next
while the mouse moves over the points, and while the wheel makes the picture larger and smaller.
Made: embedding, neighbours and principal components of all layers, without UMAP; and the most
memory that the process had until then, the model and the page included.
"""

import argparse
import gzip
import json
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.view import OPENED, OPENED_IN
from firth.verbs.projector import projector
from tests.browser.browser import Browser, missing

POINTS = 20_000
QUICK = 2_000
WORD = "film"
FRAME = 33.0  # the goals
MEGABYTES = 20.0
MOVED = """
const [kind, done] = arguments;
const target = document.querySelector(".cloud .above");
const box = target.getBoundingClientRect();
const frames = [];
let last = performance.now();
let at = 0;
function step(now) {
  frames.push(now - last);
  last = now;
  if (frames.length > 200) { done(frames.slice(1)); return; }
  const clientX = box.left + box.width * (0.5 + 0.45 * Math.sin(at / 7));
  const clientY = box.top + box.height * (0.5 + 0.45 * Math.cos(at / 11));
  const place = { clientX, clientY, bubbles: true, cancelable: true };
  const deltaY = at % 40 < 20 ? -30 : 30;
  if (kind === "wheel") target.dispatchEvent(new WheelEvent("wheel", { ...place, deltaY }));
  else target.dispatchEvent(new PointerEvent("pointermove", { ...place, pointerType: "mouse" }));
  at += 1;
  requestAnimationFrame(step);
}
requestAnimationFrame(step);
"""


def sentences(count: int, target: Path) -> Path:
    """Write so many labelled sentences of SST-2 to a file."""
    data = os.environ.get("FIRTH_DATA")
    if not data:
        raise SystemExit("FIRTH_DATA names no folder of real texts")
    with gzip.open(Path(data) / "sst2" / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [line for line, _ in zip(file, range(count), strict=False)]
    target.write_text("".join(lines), encoding="utf-8")
    return target


def measure(browser: Browser, source: Path, words: list[str] | None, rounds: int) -> dict:
    """Write a page, open it several times and move mouse and wheel over it."""
    page = source.with_name("words.html" if words else "texts.html")
    began = time.perf_counter()
    made = projector("minilm", source, page, words=words, axes="pca")
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    opened = []
    for _ in range(rounds):
        browser.open(page)
        opened.append(browser.run(OPENED) / 1000)
    browser.driver.set_script_timeout(120)
    hovered = browser.driver.execute_async_script(MOVED, "pointer")
    zoomed = browser.driver.execute_async_script(MOVED, "wheel")
    return {
        "name": ", ".join(words) if words else "texts",
        "points": made.points,
        "pictures": len(made.frames),
        "megabytes": page.stat().st_size / 1e6,
        "opened": statistics.median(opened),
        "hover": statistics.median(hovered),
        "slowest hover": max(hovered),
        "zoom": statistics.median(zoomed),
        "made": seconds,
        "memory": memory,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} sentences")
    parser.add_argument("--points", type=int, help=f"sentences, by default {POINTS:,}")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    reason = missing()
    if reason is not None:
        raise SystemExit(reason)
    count = options.points or (QUICK if options.quick else POINTS)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = sentences(count, folder / "sst2.jsonl")
        browser = Browser(folder / "profile")
        browser.media()
        try:
            rows = [measure(browser, source, words, options.rounds) for words in (None, [WORD])]
        finally:
            browser.close()
    if options.json:
        for row in rows:
            print(json.dumps(row))
        return
    print(
        "           points  pictures  size (MB)  opened (s)  hover (ms)  slowest  zoom (ms)  made (s)  memory (MB)"
    )
    for row in rows:
        print(
            f"{row['name']:>8} {row['points']:8,} {row['pictures']:9} {row['megabytes']:10.1f} {row['opened']:11.2f}"
            f" {row['hover']:11.1f} {row['slowest hover']:8.1f} {row['zoom']:10.1f} {row['made']:9.1f} {row['memory']:12,.0f}"
        )
    print(f"{'goal':>8} {'':8} {'':9} {MEGABYTES:10.1f} {OPENED_IN:11.2f} {FRAME:11.1f}")


if __name__ == "__main__":
    main()
