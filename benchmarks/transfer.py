"""What an encoder brings to a task: which of its layers, and what pretraining was worth.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.transfer [NAME ...] [--list] [--table] [--plot FOLDER]

`features-*`: CoNLL-2003 from layers of minilm that stay as they are, as the table in BERT's paper has it. `value-*`: SST-2 and
CoNLL-2003 from 100, 1,000 and 10,000 examples with random weights, with a BERT that was pretrained here for 20 minutes, and with
minilm, all with Firth's own defaults. A cell that is in benchmarks/results/transfer.jsonl is not made again; models stand under
FIRTH_MODELS and are made when they are missing.
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
from firth.base.threads import available, keep_heap
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
    "sum-last-four": ("-4..-1", "sum"),
    "concat-last-four": ("-4..-1", "concat"),
    "learned-last-four": ("-4..-1", "weights"),
    "learned-all": ("0..6", "weights"),
}
PRETRAINING = {"corpus": "corpus/wikipedia_en.txt.gz", "minutes": 20.0}
SEED = 1

NAMES = [
    *(f"features-{name}" for name in FEATURES),
    *(f"value-{task}-{weights}-{size}" for task in TASKS for size in SIZES for weights in WEIGHTS),
]


def make(name: str, data: Path, models: Path) -> dict[str, Any]:
    """Make one cell."""
    begun = time.time()
    with tempfile.TemporaryDirectory() as place:
        if name.startswith("features-"):
            layers, how = FEATURES[name.removeprefix("features-")]
            task, model, train = "conll2003", "minilm", data / "conll2003" / "train.jsonl.gz"
            options: dict[str, Any] = {"features": layers, "combine": how}
        else:
            _, task, weights, size = name.split("-")
            model = "minilm" if weights == "minilm" else str(_model(weights, data, models))
            train, options = _some(data / task / "train.jsonl.gz", int(size), Path(place)), {}
        kind, _ = TASKS[task]
        dev = str(data / task / "dev.jsonl.gz")
        taught = finetune(
            kind, model, train, Path(place) / "out", dev=dev, seed=SEED, length=128, **options
        )
    scores = {score: interval._asdict() for score, interval in taught.scores.items()}
    return {
        "name": name,
        "seed": SEED,
        "scores": scores,
        "seconds": round(time.time() - begun, 1),
        "commit": commit(),
    }


def _model(weights: str, data: Path, models: Path) -> Path:
    """A BERT that was pretrained here, or the same one as it began."""
    own = models / "transfer-own"
    if not own.exists():
        pretrain(
            [data / PRETRAINING["corpus"]],
            own,
            minutes=PRETRAINING["minutes"],
            seed=SEED,
            resume=True,
        )
    if weights == "own":
        return own
    fresh = models / "transfer-random"
    if not fresh.exists():
        bundle = load(own)
        assert isinstance(bundle.model, Bert)
        settings = bundle.model.settings
        save(begun(settings, bundle.tokenizer, SEED, settings.pooler), fresh)
    return fresh


def _some(path: Path, size: int, place: Path) -> Path:
    """So many rows of a file, the same ones each time."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = file.readlines()
    chosen = sorted(np.random.default_rng(SEED).permutation(len(lines))[:size])
    target = place / "train.jsonl"
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

    print("| features of minilm, CoNLL-2003 | dev F1 |\n|---|---|")
    for name in FEATURES:
        print(f"| {name.replace('-', ' ')} | {cell(f'features-{name}', 'f1')} |")
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
    torch.set_num_threads(available())
    command_line(__doc__, CELLS, NAMES, make, table, plot)
