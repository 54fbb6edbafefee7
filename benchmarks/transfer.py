"""What an encoder brings to a task: which of its layers, and what pretraining was worth.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.transfer [NAME ...] [--list] [--table] [--plot FOLDER] [--quick]

`features-*`: CoNLL-2003 from layers of minilm that stay as they are, with a linear head and with a biLSTM of two layers below it
(`features-bilstm-*`), as the table in BERT's paper has it. `value-*`: SST-2 and CoNLL-2003 from 100, 1,000 and 10,000 examples with
random weights, with a BERT that was pretrained here for 20 minutes, and with minilm, all with Firth's own defaults. A cell that is in
benchmarks/results/transfer.jsonl is not made again; models stand under FIRTH_MODELS and are made when they are missing. `--quick`
takes a few steps on a few rows and writes nothing down.
"""

import gzip
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.cells import Cells, command_line, commit
from firth import finetune, pretrain
from firth.base.threads import keep_heap, usual
from firth.folders.read import load
from firth.folders.write import save
from firth.models.bert import Bert
from firth.pages.chart import chart, stacked
from firth.recipes.start import begun

CELLS = Cells("transfer")
TASKS = {"sst2": ("classify", "accuracy"), "conll2003": ("tag", "f1")}
SIZES = (100, 1_000, 10_000)
WEIGHTS = {"random": "random weights", "own": "pretrained here, 20 minutes", "minilm": "minilm"}
FEATURES = {
    "embeddings": ("0", "sum"),
    "last": ("-1", "sum"),
    "sum-all": ("1..6", "sum"),
    "second-to-last": ("-2", "sum"),
    "sum-last-four": ("-4..-1", "sum"),
    "concat-last-four": ("-4..-1", "concat"),
    "learned-last-four": ("-4..-1", "weights"),
    "learned-all": ("0..6", "weights"),
}
# Dev F1 of BERT-base below a biLSTM, in BERT's paper.
PAPER = {
    "embeddings": 91.0,
    "last": 94.9,
    "sum-all": 95.5,
    "second-to-last": 95.6,
    "sum-last-four": 95.9,
    "concat-last-four": 96.1,
}
PAPER_FINETUNED = 96.4
BILSTM = "bilstm-"
CORPUS = "corpus/wikipedia_en.txt.gz"
PRETRAINING: dict[str, Any] = {"minutes": 20.0}
SEED = 1

QUICK_ROWS = 200
QUICK_STEPS = 20
QUICK_CORPUS = "corpus/nltk_inaugural.txt.gz"
QUICK_PRETRAINING: dict[str, Any] = {"steps": QUICK_STEPS, "size": "tiny"}

NAMES = [
    *(f"features-{name}" for name in FEATURES),
    *(f"features-{BILSTM}{name}" for name in PAPER),
    *(f"value-{task}-{weights}-{size}" for task in TASKS for size in SIZES for weights in WEIGHTS),
]


def make(name: str, data: Path, models: Path, quick: bool = False) -> dict[str, Any]:
    """Make one cell; quickly, from a few rows and for a few steps."""
    begun = time.time()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        options: dict[str, Any] = {"seed": SEED, "length": 128}
        size = None  # all rows
        if name.startswith("features-"):
            rest = name.removeprefix("features-")
            layers, how = FEATURES[rest.removeprefix(BILSTM)]
            head = "bilstm" if rest.startswith(BILSTM) else "linear"
            task, model = "conll2003", "minilm"
            options |= {"features": layers, "combine": how, "head": head}
        else:
            _, task, weights, count = name.split("-")
            model, size = weights, int(count)
            if weights != "minilm":
                model = str(_model(weights, data, place if quick else models, quick))

        kind, _ = TASKS[task]
        train = data / task / "train.jsonl.gz"
        dev = data / task / "dev.jsonl.gz"
        if quick:
            options["steps"] = QUICK_STEPS
            size = min(size or QUICK_ROWS, QUICK_ROWS)
            dev = _some(dev, QUICK_ROWS, place / "dev.jsonl")
        if size:
            train = _some(train, size, place / "train.jsonl")
        taught = finetune(kind, model, train, place / "out", dev=str(dev), **options)
    scores = {score: interval._asdict() for score, interval in taught.scores.items()}
    return {
        "name": name,
        "seed": SEED,
        "scores": scores,
        "steps": taught.outcome.steps,
        "best_step": taught.outcome.best,
        "seconds": round(time.time() - begun, 1),
        "commit": commit(),
    }


def _model(weights: str, data: Path, models: Path, quick: bool) -> Path:
    """A BERT that was pretrained here, or the same one as it began."""
    own = models / "transfer-own"
    if not own.exists():
        corpus, options = (QUICK_CORPUS, QUICK_PRETRAINING) if quick else (CORPUS, PRETRAINING)
        pretrain([data / corpus], own, seed=SEED, resume=True, **options)
    if weights == "own":
        return own
    fresh = models / "transfer-random"
    if not fresh.exists():
        bundle = load(own)
        assert isinstance(bundle.model, Bert)
        settings = bundle.model.settings
        save(begun(settings, bundle.tokenizer, SEED, settings.pooler), fresh)
    return fresh


def _some(path: Path, size: int, target: Path) -> Path:
    """So many rows of a file, the same ones each time, in a file of their own."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = file.readlines()
    chosen = sorted(np.random.default_rng(SEED).permutation(len(lines))[:size])
    target.write_text("".join(lines[i] for i in chosen), encoding="utf-8")
    return target


def table() -> None:
    """Print the finished cells as two tables."""
    found = CELLS.by_name()

    def cell(name: str, score: str) -> str:
        if name not in found:
            return "-"
        value, low, high = found[name]["scores"][score].values()
        return f"{100 * value:.1f} ({100 * low:.1f} to {100 * high:.1f})"

    print("| features of minilm, CoNLL-2003, dev F1 | linear head | biLSTM | BERT-base, biLSTM |")
    print("|---|---|---|---|")
    for name in FEATURES:
        heads = [cell(f"features-{head}{name}", "f1") for head in ("", BILSTM)]
        print(f"| {name.replace('-', ' ')} | {' | '.join(heads)} | {PAPER.get(name, '-')} |")
    print(f"| fine-tuned | - | - | {PAPER_FINETUNED} |")
    for task, (_, score) in TASKS.items():
        print(
            f"\n| {task}, {score} | "
            + " | ".join(f"{size:,} examples" for size in SIZES)
            + " |\n|---|"
            + "---|" * len(SIZES)
        )
        for weights, words in WEIGHTS.items():
            print(
                f"| {words} | "
                + " | ".join(cell(f"value-{task}-{weights}-{size}", score) for size in SIZES)
                + " |"
            )


def plot(folder: Path) -> None:
    """Draw what pretraining was worth, by the logarithm of the number of examples."""
    found = CELLS.by_name()
    charts = []
    for task, (_, score) in TASKS.items():
        lines = {
            words: [
                (np.log10(size), found[f"value-{task}-{weights}-{size}"]["scores"][score]["value"])
                for size in SIZES
                if f"value-{task}-{weights}-{size}" in found
            ]
            for weights, words in WEIGHTS.items()
        }
        charts.append(chart(f"{task}: {score}", lines, "examples, as a power of ten"))
    (folder / "transfer.svg").write_text(stacked(charts), encoding="utf-8")


if __name__ == "__main__":
    keep_heap()
    torch.set_num_threads(usual())
    command_line(__doc__, CELLS, NAMES, make, table, plot, quick=True)
