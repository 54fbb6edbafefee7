"""Whether span corruption helps where pairs are few: a part of benchmarks.translate.

A small Transformer writes what was taken out of `wikipedia_en`, for so many steps as 20 minutes hold, and is then trained on the
first 1,000 pairs of Multi30k English-German; others of the same size and vocabulary begin with those pairs. The vocabulary is
learned from both sides of the pairs and as much of the text. All are trained on the pairs for the same steps with dropout 0.3, and
the step with the lowest perplexity on the dev set is kept. `spans` has the learning rate that fine-tuning a folder has, `spans-fast` that
of a new model, as `scratch` has. Three seeds: they draw new weights and the order of the pairs; the text is learned from once.
"""

import argparse
import gzip
import json
import statistics
import tempfile
import time
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import firth
from benchmarks.cells import Cell, Cells, commit
from benchmarks.finetune import first_rows
from benchmarks.translate import GERMAN, QUICK_STEPS, Shelf, measured, pairs
from firth.text.tokenizer import Tokenizer

CELLS = Cells("translate-spans")
TEXT, DEV = "corpus/wikipedia_en.txt.gz", "corpus/wikipedia_en.dev.txt.gz"
PAIRS, QUICK_PAIRS = 1_000, 100
QUICK_LINES = 2_000  # of the text
PIECES, QUICK_PIECES = 2_000, 600
SENTINELS = 32
MINUTES, PACE_STEPS = 20, 300
STEPS = 2_400  # that so many minutes hold on two quiet cores; `spans pace` says how many those are
PAIR_STEPS = 1_500
SEEDS = (1, 2, 3)
FULL_RATE = 0.25 / 128  # of a new model of width 128
ARMS: dict[str, dict[str, Any]] = {
    "scratch": {"rate": FULL_RATE},
    "spans": {},
    "spans-fast": {"rate": FULL_RATE},
}
NAMES = [f"{arm}-{seed}" for arm in ARMS for seed in SEEDS]


class FewPairs:
    """The files and models of the comparison, each made when it is first asked for."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.size = "tiny" if shelf.quick else "mini"

    def pairs(self) -> Path:
        """The few pairs to learn from."""
        count = QUICK_PAIRS if self.shelf.quick else PAIRS
        path = self.shelf.data / GERMAN / "train.jsonl.gz"
        return first_rows(path, count, self.shelf.models / "translate-few.jsonl")

    def text(self) -> Path:
        """The text to learn from."""
        path = self.shelf.data / TEXT
        copy = self.shelf.models / "wikipedia.txt"
        return first_rows(path, QUICK_LINES if self.shelf.quick else None, copy)

    def vocabulary(self) -> Path:
        """The folder of a vocabulary of both languages: of the pairs, and of as much of the text."""
        folder = self.shelf.models / "translate-few-vocab"
        if folder.exists():
            return folder
        sides = [row[side] for row in pairs(self.pairs()) for side in ("src", "tgt")]
        with gzip.open(self.shelf.data / TEXT, "rt", encoding="utf-8") as lines:
            text = "".join(islice(lines, QUICK_LINES))[: sum(map(len, sides))]
        pieces = QUICK_PIECES if self.shelf.quick else PIECES
        tokenizer = Tokenizer.train(
            [*sides, *text.splitlines()], "bytes", pieces, end_last=True, sentinels=SENTINELS
        )
        tokenizer.save(folder)
        return folder

    def pretrain(self, out: Path, steps: int) -> None:
        """Learn from the text, or go on with it."""
        begun = out.exists() or out.with_name(f"{out.name}.run").exists()
        firth.pretrain(
            self.text(),
            out,
            model="transformer",
            size=self.size,
            vocab=self.vocabulary(),
            dev=self.shelf.data / DEV,
            steps=steps,
            resume=begun,
        )

    def base(self) -> Path:
        """The folder of the model that learned from the text."""
        folder = self.shelf.models / "translate-few-base"
        if not (folder / "firth.json").exists():
            self.pretrain(folder, QUICK_STEPS if self.shelf.quick else STEPS)
        return folder

    def tuned(self, arm: str, seed: int) -> Path:
        """The folder of a model that learned from the pairs."""
        out = self.shelf.models / f"translate-few-{arm}-{seed}"
        begun = out.exists() or out.with_name(f"{out.name}.run").exists()
        new = {"size": self.size, "vocab": self.vocabulary()} if arm == "scratch" else {}
        firth.finetune(
            "translate",
            "transformer" if new else self.base(),
            self.pairs(),
            out,
            dev=self.shelf.file("transformer", "dev"),
            steps=QUICK_STEPS if self.shelf.quick else PAIR_STEPS,
            dropout=0.3,
            seed=seed,
            resume=begun,
            **new,
            **ARMS[arm],
        )
        return out

    def make(self, name: str) -> Cell:
        """Train a model on the few pairs and measure its translations."""
        begun = time.time()
        arm, seed = name.rsplit("-", 1)
        folder = self.tuned(arm, int(seed))
        made = json.loads((folder / "firth.json").read_text())["made"]
        rows = pairs(self.shelf.file("transformer", "test"))
        said = firth.load(folder).translate([row["src"] for row in rows])
        cell: Cell = {
            "name": name,
            "steps": made["steps"],
            "best_step": made["best_step"],
            "rate": made["settings"]["rate"],
            "perplexity": made["metrics"]["perplexity"],
            **measured(rows, [one.translation for one in said], "de"),
            "commit": commit(),
        }
        if arm != "scratch":
            base = json.loads((self.base() / "firth.json").read_text())["made"]
            cell["pretrained"] = {key: base[key] for key in ("steps", "dev", "baseline")}
        return cell | {"seconds": round(time.time() - begun, 1)}

    def pace(self) -> int:
        """How many steps of pretraining its minutes hold, by the median step."""
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "base"
            self.pretrain(out, QUICK_STEPS if self.shelf.quick else PACE_STEPS)
            journal = (out / "metrics.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in journal]
        times = [record["seconds"] for record in records if "rate" in record]
        step = statistics.median(later - sooner for sooner, later in pairwise(times))
        return int(MINUTES * 60 / step)


def table() -> None:
    """Print the finished cells, and the mean of each arm."""
    done = CELLS.by_name()
    print("| run | best step | sacreBLEU | chrF | perplexity |")
    print("|---|---|---|---|---|")
    for arm in ARMS:
        found = [done[f"{arm}-{seed}"] for seed in SEEDS if f"{arm}-{seed}" in done]
        for cell in found:
            value, low, high = (cell["scores"]["bleu"][key] for key in ("value", "low", "high"))
            figures = (
                f"{cell['best_step']:,}",
                f"{value:.1f} ({low:.1f} to {high:.1f})",
                f"{cell['scores']['chrf']['value']:.1f}",
                f"{cell['perplexity']:.2f}",
            )
            print(f"| {cell['name']} | {' | '.join(figures)} |")
        if found:
            mean = statistics.mean(cell["scores"]["bleu"]["value"] for cell in found)
            print(f"| {arm}, mean of {len(found)} | | {mean:.1f} | | |")


def spans(options: argparse.Namespace, shelf: Shelf) -> None:
    """Make the cells that were asked for and aren't there, print them, or measure the pace."""
    if strange := [name for name in options.names if name not in (*NAMES, "pace", "table")]:
        raise SystemExit(f"{strange[0]!r} is none of {', '.join(NAMES)}, pace, table")
    trial = FewPairs(shelf)
    for name in options.names or NAMES:
        if name == "table":
            table()
        elif name == "pace":
            print(f"spans: {trial.pace():,} steps in {MINUTES} minutes", flush=True)
        elif options.quick:
            print(json.dumps(trial.make(name)), flush=True)
        elif name not in CELLS.by_name():
            CELLS.add(trial.make(name))
