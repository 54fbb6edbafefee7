"""Real pretraining runs, each made by one call, measured on text that none of them saw, and written down.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.runs [NAME ...] [--list] [--plot FOLDER]

A run that was stopped goes on where it was; one that is in benchmarks/results/runs.jsonl is not made again. The models stand
under FIRTH_MODELS.
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from firth import pretrain, vocab
from firth.base.threads import keep_heap
from firth.bundle import load
from firth.data.cloze import Cloze
from firth.data.mask import Masker
from firth.data.pairs import SPECIAL, Pairs, passages
from firth.data.shards import open_shards
from firth.data.task import Learner
from firth.models.bert import SIZES
from firth.tasks.pretrain import Hide
from firth.train.evaluate import evaluate, some
from firth.train.processes import Processes
from firth.view.chart import chart, stacked

RESULTS = Path(__file__).parent / "results" / "runs.jsonl"
ENGLISH = {"corpus": "corpus/wikipedia_en.txt.gz", "dev": "corpus/wikipedia_en.dev.txt.gz"}
SWEDISH = {"corpus": "tatoeba_en_sv/train.jsonl.gz", "dev": "tatoeba_en_sv/dev.jsonl.gz", "field": "tgt"}
STEPS, BATCH, ROOM = 2000, 4096, 128 - SPECIAL
CLOZE_WORDS, CLOZE_SEED = 2000, 1
COMPARED = ("tiny", "mini", "small")

RUNS: dict[str, dict[str, Any]] = {
    "scratch": {**ENGLISH, "minutes": 60.0},
    "minilm": {**ENGLISH, "minutes": 30.0, "init": "minilm"},
    **{f"{size}-full": {**ENGLISH, "size": size, "steps": STEPS, "batch": BATCH, "vocab": "english"} for size in COMPARED},
    **{
        f"{size}-causal": {**ENGLISH, "size": size, "steps": STEPS, "batch": BATCH, "vocab": "english", "causal": True}
        for size in COMPARED
    },
    "mini-full-no-nsp": {**ENGLISH, "size": "mini", "steps": STEPS, "batch": BATCH, "vocab": "english", "nsp": False},
    **{f"swedish-scratch-{n}": {**SWEDISH, "minutes": float(n), "vocab": "swedish"} for n in (5, 10)},
    **{f"swedish-minilm-{n}": {**SWEDISH, "minutes": float(n), "vocab": "swedish", "init": "minilm"} for n in (5, 10)},
}
VOCABULARIES = {"english": (ENGLISH, 8000), "swedish": (SWEDISH, 8000)}


def make(name: str, data: Path, models: Path) -> dict[str, Any]:
    """Make one run and measure it."""
    options = {key: value for key, value in RUNS[name].items() if key != "corpus"} | {"dev": str(data / RUNS[name]["dev"])}
    if "vocab" in options:
        options["vocab"] = str(vocabulary(options["vocab"], data, models))
    begun = time.time()
    pretrain([data / RUNS[name]["corpus"]], models / name, resume=True, **options)
    made = json.loads((models / name / "firth.json").read_text())["made"]
    result = {
        "name": name,
        "settings": RUNS[name],
        "seed": made["settings"]["seed"],
        "size": json.loads((models / name / "config.json").read_text())["hidden_size"],
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip(),
        "steps": made["steps"],
        "best_step": made["best_step"],
        "batch": made["training"]["batch"],
        "dev": made["dev"],
        "baseline": made["baseline"],
        "seconds": round(time.time() - begun, 1),
    }
    return result | measured(models / name, data / RUNS[name]["dev"], RUNS[name].get("field", "text"), models / "encoded")


def vocabulary(name: str, data: Path, models: Path) -> Path:
    """A vocabulary that several runs share."""
    source, size = VOCABULARIES[name]
    folder = models / f"words-{name}"
    if not folder.exists():
        vocab([data / source["corpus"]], folder, size=size, field=source.get("field", "text"))
    return folder


def measured(folder: Path, dev: Path, field: str, place: Path) -> dict[str, Any]:
    """What a model makes of held-out text, on the same words for every run with its vocabulary, however long the run was.

    Pieces that the vocabulary doesn't know; masked accuracy over all of the text (at most 100,000 tokens); and cloze accuracy, the
    share of 2,000 hidden words, one in each passage, that the model names first, where the text has so many passages.
    """
    bundle = load(folder)
    shards = open_shards(place, [dev], bundle.tokenizer, field)
    where, learner = passages(shards, ROOM), Learner(bundle.encoder, bundle.head, Hide())
    pairs = Pairs(shards, where, bundle.tokenizer, ROOM, 0, Masker(bundle.tokenizer), False)
    accuracy = evaluate(learner, pairs, some(pairs, 100_000), 4096, Processes())["masked_accuracy"]
    found = {"dev_unknown": shards.unknown, "dev_masked_accuracy": accuracy}
    if len(where.size) > CLOZE_WORDS:
        feed = Cloze(shards, where, bundle.tokenizer, CLOZE_SEED, CLOZE_WORDS)
        found["cloze"] = evaluate(learner, feed, np.arange(CLOZE_WORDS), 4096, Processes())["masked_accuracy"]
    return found


def plot(folder: Path) -> None:
    """Draw what the finished runs say of direction, size and next sentences, and the curves of the long ones."""
    found = {record["name"]: record for record in finished()}
    body = {size: 12 * width * width * depth / 1e6 for size, (width, depth, _) in SIZES.items()}
    lines = {
        how: [(body[size], found[f"{size}-{how}"]["cloze"]) for size in COMPARED if f"{size}-{how}" in found]
        for how in ("full", "causal")
    }
    names = {"full": "sees both sides", "causal": "sees what came before"}
    drawn = chart(
        "Hidden words named first, by million weights in the body", {names[how]: line for how, line in lines.items()}, "million"
    )
    (folder / "direction.svg").write_text(stacked([drawn]), encoding="utf-8")


def finished() -> list[dict[str, Any]]:
    """What is written down."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def main() -> None:
    """Make what was asked for and isn't there."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("names", nargs="*", metavar="NAME")
    arguments.add_argument("--list", action="store_true", help="name the runs")
    arguments.add_argument("--plot", type=Path, help="draw the finished runs into a folder")
    options = arguments.parse_args()
    done = {record["name"] for record in finished()}
    if options.list:
        print("\n".join(f"{name}{' (done)' if name in done else ''}" for name in RUNS))
        return
    if options.plot:
        plot(options.plot)
        return
    keep_heap()
    data, models = Path(os.environ["FIRTH_DATA"]), Path(os.environ["FIRTH_MODELS"])
    for name in options.names or RUNS:
        if name not in done:
            result = make(name, data, models)
            RESULTS.parent.mkdir(exist_ok=True)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
