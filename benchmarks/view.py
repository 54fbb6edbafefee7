"""The size of a page and how fast it is in Chromium: 12 layers x 12 heads, 128 tokens and 512.

    python -m benchmarks.view            a table
    python -m benchmarks.view --json     one object a line

A BERT of the usual size with random weights, whose queries are large enough to look somewhere. What
is opened in which time: from the request to the end of the last section, `--rounds` times. Frames:
the time from one to the next while the mouse moves over the words, every 16 ms one further, and
over the matrix.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import torch

from firth.families.bert import BertSettings
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.bert import Bert
from firth.samples.library import documents
from firth.text.tokenizer import Tokenizer
from firth.verbs.view import view
from tests.browser.browser import Browser, missing

TOKENS = (128, 512)
PIECES = 4000
MEGABYTES = {128: 20.0, 512: 15.0}  # the goals
OPENED_IN = 2.0
FRAME = 33.0
SPREAD = 0.08  # of the weights: attention is neither even nor a single word
HOVER = """
const [selector, across, done] = arguments;
const target = document.querySelector(selector);
const frames = [];
let last = performance.now();
let at = 0;
function step(now) {
  frames.push(now - last);
  last = now;
  if (frames.length > 200) { done(frames.slice(1)); return; }
  const box = target.getBoundingClientRect();
  const right = across ? 0.2 + 0.6 * Math.abs(Math.sin(at)) : 0.2;
  const clientX = box.left + box.width * right;
  const clientY = box.top + box.height * (0.02 + (0.9 * (at % 100)) / 100);
  target.dispatchEvent(new MouseEvent("mousemove", { clientX, clientY, bubbles: true }));
  at += 1;
  requestAnimationFrame(step);
}
requestAnimationFrame(step);
"""
OPENED = """
const [entry] = performance.getEntriesByType("navigation");
return performance.now() - entry.startTime;
"""


def make_model(folder: Path) -> Path:
    """Save a BERT of the usual size, with a vocabulary of Python's own documentation."""
    paragraphs = [paragraph for document in documents() for paragraph in document]
    words = Tokenizer.train(paragraphs[:400], size=PIECES)
    torch.manual_seed(0)
    settings = BertSettings(
        vocab=words.size, width=768, depth=12, heads=12, inner=3072, length=512, spread=SPREAD
    )
    return save(Bundle(Bert(settings).eval(), words), folder / "base")


def measure(browser: Browser, model: Path, tokens: int, rounds: int, folder: Path) -> dict:
    """Write a page of so many tokens, open it several times and move the mouse over it."""
    text = " ".join(paragraph for document in documents() for paragraph in document)
    page = folder / f"{tokens}.html"
    made = view(model, _cut(model, text, tokens), page)
    assert made.tokens == tokens, made.tokens
    opened = []
    for _ in range(rounds):
        browser.open(page)
        opened.append(browser.run(OPENED) / 1000)
    browser.driver.set_script_timeout(60)
    browser.run("document.querySelector('.scroll.tall').scrollIntoView()")
    lines = browser.driver.execute_async_script(HOVER, ".tall svg", False)
    matrix = browser.driver.execute_async_script(HOVER, "canvas.matrix", True)
    return {
        "tokens": tokens,
        "megabytes": page.stat().st_size / 1e6,
        "opened": statistics.median(opened),
        "frame": max(statistics.median(lines), statistics.median(matrix)),
        "slowest": max(*lines, *matrix),
    }


def _cut(model: Path, text: str, tokens: int) -> str:
    """Return the beginning of a text that has so many tokens, marks included."""
    words = Tokenizer.open(model)
    (encoding,) = words.encode([text[: 12 * tokens]])
    end = encoding.offsets[tokens - 2][1]  # without the two marks
    return text[:end]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    reason = missing()
    if reason is not None:
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = make_model(folder)
        browser = Browser(folder / "profile")
        browser.media()
        try:
            rows = [measure(browser, model, count, options.rounds, folder) for count in TOKENS]
        finally:
            browser.close()
    if options.json:
        for row in rows:
            print(json.dumps(row))
        return
    print("tokens   size (MB)   opened (s)   median frame (ms)   slowest frame (ms)")
    for row in rows:
        goal = MEGABYTES[row["tokens"]]
        print(
            f"{row['tokens']:6}   {row['megabytes']:9.1f}   {row['opened']:10.2f}"
            f"   {row['frame']:17.1f}   {row['slowest']:18.1f}"
        )
        print(f"  goal   {goal:9.1f}   {OPENED_IN:10.2f}   {FRAME:17.1f}")


if __name__ == "__main__":
    main()
