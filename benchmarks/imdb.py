"""Reviews of films as good or bad with minilm: the usual introductory example, cut at 256 tokens and read whole in windows.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.imdb [cut slide] [--rows 200]
    python -m benchmarks.imdb --table

5,000 reviews to learn from and 5,000 to measure on, drawn from the two files by a fixed seed. Each cell is one command of Firth's,
with 3 epochs of batches of 16 and a constant rate of 5e-5, on one thread, and a second that evaluates the model:

    firth finetune classify --model minilm --train train.jsonl -o reviews/ --epochs 3 --batch 16 --rate 5e-5 --schedule constant --warmup 0 --length 256
    firth evaluate reviews/ test.jsonl

`slide` adds --long slide. A tenth of the reviews to learn from is held out to choose the best epoch by. Finished cells are in
benchmarks/results/imdb.jsonl and are not made again; a training that was broken off goes on.
"""

import argparse
import gzip
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import firth
from benchmarks.cells import Cells, commit
from firth.base.threads import keep_heap

CELLS = Cells("imdb")
WAYS = ("cut", "slide")
ROWS = 5000
DRAW = 2026  # the seed of the drawn reviews
RECIPE: dict[str, Any] = {
    "epochs": 3.0,
    "batch": 16,
    "rate": 5e-5,
    "schedule": "constant",
    "warmup": 0.0,
    "length": 256,
    "seed": 1,
}


def drawn(name: str, rows: int, place: Path) -> Path:
    """Write some reviews of a file of the data set, always the same."""
    path = Path(os.environ["FIRTH_DATA"]) / "imdb" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        every = list(lines)
    chosen = random.Random(DRAW).sample(every, rows)
    target = place / f"imdb-{name}-{rows}.jsonl"
    target.write_text("".join(chosen), encoding="utf-8")
    return target


def make(way: str, rows: int, place: Path, threads: int) -> dict[str, Any]:
    """Fine-tune one model and measure it."""
    train = drawn("train", rows, place)
    test = drawn("test", rows, place)
    out = place / f"imdb-{way}-{rows}"
    options: Any = {**RECIPE, "long": way, "threads": threads}
    begun = time.monotonic()
    tuned = firth.finetune("classify", "minilm", train, out, resume=True, **options)
    trained = time.monotonic() - begun
    begun = time.monotonic()
    (found,) = firth.evaluate(out, test, threads=threads).models
    accuracy = list(found.metrics["accuracy"])
    return {
        "name": way,
        "accuracy": accuracy,
        "held_out": tuned.scores["accuracy"].value,
        "rows": {"train": rows, "test": rows},
        "steps": tuned.outcome.steps,
        "best_step": tuned.outcome.best,
        "seconds": {"finetune": round(trained), "evaluate": round(time.monotonic() - begun)},
        "threads": threads,
        "commit": commit(),
    }


def table() -> None:
    """Print what the finished cells came to."""
    print(
        "| reviews | accuracy | 95 % interval | fine-tuning | evaluation |\n|---|---|---|---|---|"
    )
    for cell in CELLS():
        value, low, high = cell["accuracy"]
        seconds = cell["seconds"]
        minutes = f"{seconds['finetune'] / 60:.0f} min | {seconds['evaluate'] / 60:.1f} min"
        print(f"| {cell['name']} | {value:.1%} | {low:.1%} to {high:.1%} | {minutes} |")


def main() -> None:
    """Make the cells that are not there yet."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rows", type=int, help="try so many rows; nothing is written down")
    arguments.add_argument("--table", action="store_true", help="print the finished cells")
    options = arguments.parse_args()
    if options.table:
        table()
        return
    keep_heap()
    place = Path(os.environ["FIRTH_MODELS"])
    done = CELLS.by_name()
    for way in options.ways or WAYS:
        if options.rows:
            print(json.dumps(make(way, options.rows, place, options.threads)), flush=True)
        elif way not in done:
            CELLS.add(make(way, ROWS, place, options.threads))


if __name__ == "__main__":
    main()
