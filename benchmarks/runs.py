"""Real pretraining runs, each made by one call, measured on text that none of them saw, and written down.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.runs [NAME ...] [--list] [--table] [--plot FOLDER]

A run that was stopped goes on where it was; one that is in benchmarks/results/runs.jsonl is not made again. The models stand
under FIRTH_MODELS.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.cells import Cells, command_line, commit
from firth import pretrain, vocab
from firth.base.threads import keep_heap, usual
from firth.corpus.cloze import Cloze
from firth.corpus.mask import Masker
from firth.corpus.pairs import SPECIAL, Pairs, passages
from firth.corpus.shards import open_shards
from firth.data.feed import evenly_spread
from firth.families.stack import SIZES
from firth.folders.read import load
from firth.pages.chart import chart, stacked
from firth.recipes.objectives import MaskedObjective
from firth.train.evaluate import evaluate_learner
from firth.train.learner import Learner
from firth.train.processes import Processes

CELLS = Cells("runs")
ENGLISH = {"corpus": "corpus/wikipedia_en.txt.gz", "dev": "corpus/wikipedia_en.dev.txt.gz"}
SWEDISH = {
    "corpus": "tatoeba_en_sv/train.jsonl.gz",
    "dev": "tatoeba_en_sv/dev.jsonl.gz",
    "field": "tgt",
}
STEPS, BATCH, ROOM = 2000, 2048, 128 - SPECIAL
CLOZE_WORDS, CLOZE_SEED = 2000, 1
COMPARED = ("tiny", "mini", "small")

RUNS: dict[str, dict[str, Any]] = {
    "scratch": {**ENGLISH, "minutes": 60.0, "vocab": "english"},
    "minilm": {**ENGLISH, "minutes": 30.0, "init": "minilm"},
    **{
        f"{size}-full": {
            **ENGLISH,
            "size": size,
            "steps": STEPS,
            "batch": BATCH,
            "vocab": "english",
        }
        for size in COMPARED
    },
    **{
        f"{size}-causal": {
            **ENGLISH,
            "size": size,
            "steps": STEPS,
            "batch": BATCH,
            "vocab": "english",
            "causal": True,
        }
        for size in COMPARED
    },
    "mini-full-no-nsp": {
        **ENGLISH,
        "size": "mini",
        "steps": STEPS,
        "batch": BATCH,
        "vocab": "english",
        "nsp": False,
    },
    **{
        f"swedish-scratch-{n}": {**SWEDISH, "minutes": float(n), "vocab": "swedish"}
        for n in (5, 10)
    },
    **{
        f"swedish-minilm-{n}": {
            **SWEDISH,
            "minutes": float(n),
            "vocab": "swedish",
            "init": "minilm",
        }
        for n in (5, 10)
    },
}
VOCABULARIES = {"english": (ENGLISH, 8000), "swedish": (SWEDISH, 8000)}


def make(name: str, data: Path, models: Path) -> dict[str, Any]:
    """Make one run and measure it."""
    options = {key: value for key, value in RUNS[name].items() if key != "corpus"} | {
        "dev": str(data / RUNS[name]["dev"])
    }
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
        "commit": commit(),
        "steps": made["steps"],
        "best_step": made["best_step"],
        "batch": made["training"]["batch"],
        "dev": made["dev"],
        "baseline": made["baseline"],
        "seconds": round(time.time() - begun, 1),
        "curve": curve(models / name / "metrics.jsonl"),
    }
    return result | measured(
        models / name, data / RUNS[name]["dev"], RUNS[name].get("field", "text"), models / "encoded"
    )


def curve(journal: Path) -> list[tuple[int, float, float]]:
    """Each measurement during a run: the step, the minute and the masked accuracy."""
    records = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return [
        (
            record["step"],
            round(record["seconds"] / 60, 2),
            round(record["dev"]["masked_accuracy"], 4),
        )
        for record in records
        if "dev" in record
    ]


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
    where, learner = passages(shards, ROOM), Learner(bundle.encoder, bundle.head, MaskedObjective())
    pairs = Pairs(shards, where, bundle.tokenizer, ROOM, 0, Masker(bundle.tokenizer), False)
    accuracy = evaluate_learner(learner, pairs, evenly_spread(pairs, 100_000), 4096, Processes())[
        "masked_accuracy"
    ]
    found = {"dev_unknown": shards.unknown, "dev_masked_accuracy": accuracy}
    if len(where.size) > CLOZE_WORDS:
        feed = Cloze(shards, where, bundle.tokenizer, CLOZE_SEED, CLOZE_WORDS)
        found["cloze"] = evaluate_learner(learner, feed, np.arange(CLOZE_WORDS), 4096, Processes())[
            "masked_accuracy"
        ]
    return found


def table() -> None:
    """Print what the finished runs came to."""
    print("| run | steps | masked accuracy | cloze | minutes |\n|---|---|---|---|---|")
    for cell in CELLS():
        cloze = f"{cell['cloze']:.1%}" if "cloze" in cell else "-"
        print(
            f"| {cell['name']} | {cell['steps']:,} | {cell['dev_masked_accuracy']:.1%} | {cloze} | {cell['seconds'] / 60:.1f} |"
        )


def plot(folder: Path) -> None:
    """Draw what the finished runs say of direction, of size and of next sentences, and the curves of the long ones."""
    found = CELLS.by_name()
    body = {size: 12 * one["width"] ** 2 * one["depth"] / 1e6 for size, one in SIZES.items()}
    sides = {"full": "sees both sides", "causal": "sees what came before"}
    by_size = {
        words: [
            (body[size], found[f"{size}-{how}"]["cloze"])
            for size in COMPARED
            if f"{size}-{how}" in found
        ]
        for how, words in sides.items()
    }

    def by_step(title: str, names: dict[str, str]) -> str:
        lines = {
            words: [(step, accuracy) for step, _, accuracy in found[name]["curve"]]
            for words, name in names.items()
            if name in found
        }
        return chart(title, lines, "steps")

    pictures = {
        "direction": [
            chart("Hidden words named first, by million weights in the body", by_size, "million"),
            by_step(
                "Masked accuracy of mini", {words: f"mini-{how}" for how, words in sides.items()}
            ),
        ],
        "size": [
            by_step(
                "Masked accuracy by size, both sides seen",
                {size: f"{size}-full" for size in COMPARED},
            )
        ],
        "next": [
            by_step(
                "Masked accuracy of mini",
                {"with next sentences": "mini-full", "without": "mini-full-no-nsp"},
            )
        ],
        "long": [
            chart(
                f"Masked accuracy: {words}",
                {words: [(minute, accuracy) for _, minute, accuracy in found[name]["curve"]]},
                "minutes",
            )
            for name, words in (("scratch", "from nothing"), ("minilm", "from minilm"))
            if name in found
        ],
    }
    for name, charts in pictures.items():
        (folder / f"{name}.svg").write_text(
            stacked([drawn for drawn in charts if drawn]), encoding="utf-8"
        )


if __name__ == "__main__":
    keep_heap()
    torch.set_num_threads(usual())
    command_line(__doc__, CELLS, list(RUNS), make, table, plot)
