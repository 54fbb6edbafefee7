"""How fast a page that holds its model follows what is typed: a mini with 8,000 pieces in Chromium.

    python -m benchmarks.live            a table
    python -m benchmarks.live --json     one object

Random weights; sentences of 20 words of Python's own documentation with one word masked, `--rounds`
of them. Computed: tokens, every layer and the guesses. Followed: from the key until the pictures of
the new text are there.
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
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer
from firth.verbs.view import view
from tests.browser.browser import Browser, missing

PIECES = 8000
WORDS = 20
MASKED = 7  # word of each sentence
SPREAD = 0.08
MEGABYTES = 15.0  # the goals
MILLISECONDS = 100.0
TYPE = """
const [text, done] = arguments;
const section = document.querySelector("#section-1");
const box = document.querySelector("#sentence");
const begun = performance.now();
new MutationObserver((_, observer) => {
  if (section.getAttribute("aria-busy") === "true") return;
  observer.disconnect();
  const followed = performance.now() - begun;
  const amount = document.querySelector("#live-amount").textContent;
  const [, tokens, computed] = /(\\d+) tokens in (\\d+) ms/.exec(amount).map(Number);
  done({ tokens, computed, followed });
}).observe(section, { attributes: true });
box.value = text;
box.dispatchEvent(new Event("input"));
"""


def make_model(folder: Path, paragraphs: list[str]) -> Path:
    """Save a mini with a head for masked words."""
    words = Tokenizer.train(paragraphs, size=PIECES)
    torch.manual_seed(0)
    sizes = {"width": 256, "depth": 4, "heads": 4, "inner": 1024}
    encoder = Bert(BertSettings(vocab=PIECES, length=512, spread=SPREAD, **sizes)).eval()
    head = make_head("fill", encoder)
    assert head is not None
    return save(Bundle(encoder, words, kind="fill", head=head.eval()), folder / "mini")


def sentences(paragraphs: list[str], count: int) -> list[str]:
    """Return texts of so many words, one of them masked."""
    found = []
    for paragraph in paragraphs:
        words = paragraph.split()[:WORDS]
        if len(words) == WORDS:
            words[MASKED] = "[MASK]"
            found.append(" ".join(words))
    return found[:count]


def measure(browser: Browser, page: Path, texts: list[str]) -> dict[str, float]:
    """Open a page and type texts into it, the first two to warm up."""
    browser.open(page)
    found = [browser.driver.execute_async_script(TYPE, text) for text in texts][2:]
    row = {
        name: statistics.median(one[name] for one in found)
        for name in ("tokens", "computed", "followed")
    }
    return row | {"megabytes": page.stat().st_size / 1e6}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    reason = missing()
    if reason is not None:
        raise SystemExit(reason)
    paragraphs = [paragraph for document in documents() for paragraph in document]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        page = folder / "live.html"
        view(make_model(folder, paragraphs), "a list of [MASK]", page, with_model=True)
        browser = Browser(folder / "profile")
        browser.media()
        try:
            row = measure(browser, page, sentences(paragraphs, options.rounds + 2))
        finally:
            browser.close()
    if options.json:
        print(json.dumps(row))
        return
    print("tokens   size (MB)   computed (ms)   followed (ms)")
    print(
        f"{row['tokens']:6.0f}   {row['megabytes']:9.1f}   {row['computed']:13.0f}"
        f"   {row['followed']:13.0f}"
    )
    print(f"  goal   {MEGABYTES:9.1f}   {MILLISECONDS:13.0f}")


if __name__ == "__main__":
    main()
