"""Multiple choice with minilm: ARC-Easy against transformers' own Trainer, and PIQA.

    FIRTH_DATA=... python -m benchmarks.choice [NAME ...] [--seeds 1,2,3] [--threads 1]
    python -m benchmarks.choice --table

A name is a data set and a contender, as `arc-firth`, `arc-trainer` or `piqa-firth`. Only the files of evaluation are there: each
is split once, without the 7 rows of ARC's 2,376 that have an option twice, by a fixed seed: 63 % to learn from, 7 % to choose the
best epoch by, 30 % to measure on, once. Both contenders read the same rows and take as many epochs with batches of 16 rows, a
rate of 5e-5 that falls in a line to nothing without a rise, dropout 0.1 (the folder's), gradients clipped to a norm of 1, AdamW
with betas of 0.9 and 0.999, and pairs cut at 128 tokens. What differs is as benchmarks/finetune.py says: Firth's weight decay is
0.01 and the Trainer's 0, and the Trainer leaves a smaller last batch. Where a row of a batch has fewer options than another,
transformers gets its last one again.

The bar: the lower end of the 95 % interval of accuracy is above chance.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import firth
from benchmarks.cells import Cells, commit
from firth.base.threads import keep_heap
from firth.data.options import Options
from firth.folders.find import find
from firth.metrics.choices import Choices
from firth.reading.readers import Reading
from firth.tasks.registry import readers

CELLS = Cells("choice")
BATCH = 16
RATE = 5e-5
LENGTH = 128
SHARES = (0.63, 0.7)  # where rows to choose by begin, and those to measure on
SPLIT = 2026  # the seed of the split, the same for all


class Case(NamedTuple):
    """A data set, and for how many epochs it is learned."""

    folder: str
    epochs: int


CASES = {"arc": Case("mc_arc_easy", 4), "piqa": Case("mc_piqa", 4)}
NAMES = ("arc-firth", "arc-trainer", "piqa-firth")
Row = dict[str, Any]


class Parts(NamedTuple):
    """Rows to learn from, to choose the best epoch by, and to measure on."""

    train: Path
    dev: Path
    test: Path


def split(folder: str, place: Path, most: int | None) -> Parts:
    """Write the three parts of a data set as files."""
    path = Path(os.environ["FIRTH_DATA"]) / folder / "eval.jsonl.gz"
    every = [row.content for row in Reading(path, readers=readers("choice")) if row.example]
    order = np.random.default_rng(SPLIT).permutation(len(every))[:most]
    cuts = [round(share * len(order)) for share in SHARES]
    parts = Parts(*(place / f"{name}.jsonl" for name in Parts._fields))
    for target, numbers in zip(parts, np.split(order, cuts), strict=True):
        lines = (json.dumps(every[number]) + "\n" for number in numbers)
        target.write_text("".join(lines), encoding="utf-8")
    return parts


def questions(path: Path) -> list[Options]:
    """Return the examples of a file as Firth reads them."""
    found = (row.example for row in Reading(path, readers=readers("choice")))
    return [one for one in found if isinstance(one, Options)]


def ours(parts: Parts, epochs: int, seed: int, threads: int, place: Path) -> list[int]:
    """Teach `firth finetune` and return what it chooses on the held-out rows."""
    out = place / "model"
    firth.finetune(
        "choice",
        "minilm",
        parts.train,
        out,
        dev=str(parts.dev),
        epochs=epochs,
        batch=BATCH,
        rate=RATE,
        length=LENGTH,
        warmup=0.0,
        dropout=0.1,
        seed=seed,
        threads=threads,
    )
    model = firth.load(out, threads=threads)
    answers = model.predict(questions(parts.test))
    return [answer.choice for answer in answers if isinstance(answer, firth.Choice)]


def theirs(parts: Parts, epochs: int, seed: int, place: Path) -> list[int]:
    """Teach transformers' BertForMultipleChoice by its Trainer, and return what it chooses."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import (
        AutoModelForMultipleChoice,
        AutoTokenizer,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(find("minilm"))
    arguments = TrainingArguments(
        output_dir=str(place),
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_only_model=True,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        seed=seed,
        num_train_epochs=epochs,
        per_device_train_batch_size=BATCH,
        learning_rate=RATE,
        remove_unused_columns=False,
    )
    trainer = Trainer(
        model=AutoModelForMultipleChoice.from_pretrained(find("minilm")),
        args=arguments,
        data_collator=lambda rows: padded(tokenizer, rows),
        train_dataset=encoded(tokenizer, questions(parts.train)),
        eval_dataset=encoded(tokenizer, questions(parts.dev)),
        compute_metrics=accuracy,
    )
    trainer.train()
    found = trainer.predict(encoded(tokenizer, questions(parts.test))).predictions
    return [int(number) for number in found.argmax(-1)]


def accuracy(found: Any) -> dict[str, float]:
    """Return the share of right choices, by which the Trainer keeps the best epoch."""
    return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}


def encoded(tokenizer: Any, examples: Sequence[Options]) -> list[Row]:
    """Encode every option with its context, as transformers' own example of multiple choice does."""
    rows = []
    for one in examples:
        contexts = [one.text] * len(one.candidates)
        columns = tokenizer(
            contexts,
            list(one.candidates),
            truncation=True,
            max_length=LENGTH,
            return_token_type_ids=True,
        )
        rows.append({**columns, "labels": one.right})
    return rows


def padded(tokenizer: Any, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
    """Pad the options of some rows to the longest, and missing ones to the row with most."""
    labels = torch.tensor([row["labels"] for row in rows])
    most = max(len(row["input_ids"]) for row in rows)
    flat = []
    for row in rows:
        options = [
            {name: values[at] for name, values in row.items() if name != "labels"}
            for at in range(len(row["input_ids"]))
        ]
        flat.append(options + options[-1:] * (most - len(options)))
    batch = tokenizer.pad(list(chain.from_iterable(flat)), return_tensors="pt")
    shaped = {name: values.view(len(rows), most, -1) for name, values in batch.items()}
    return shaped | {"labels": labels}


def make(name: str, seed: int, threads: int, most: int | None = None) -> dict[str, Any]:
    """Teach one contender, and measure it by Firth's scorer."""
    data, _, who = name.partition("-")
    case = CASES[data]
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        parts = split(case.folder, place, most)
        if who == "firth":
            chosen = ours(parts, case.epochs, seed, threads, place)
        else:
            chosen = theirs(parts, case.epochs, seed, place)
        truth = questions(parts.test)
        trained = len(questions(parts.train))
    tally = Choices()
    for one, choice in zip(truth, chosen, strict=True):
        tally.add(choice == one.right, len(one.candidates))
    scores = {metric: list(interval) for metric, interval in tally.scores().items()}
    settings = {"epochs": case.epochs, "batch": BATCH, "rate": RATE, "length": LENGTH}
    rows = {"trained": trained, "held_out": len(truth)}
    made = {"name": f"{name}-{seed}", "seed": seed, "metrics": scores, "examples": rows}
    return {**made, **settings, "threads": threads, "commit": commit()}


def table() -> None:
    """Print what the finished cells came to."""
    print("| cell | accuracy | 95 % interval | chance | beyond chance |\n|---|---|---|---|---|")
    for cell in CELLS():
        value, low, high = cell["metrics"]["accuracy"]
        chance = cell["metrics"]["chance"][0]
        said = "yes" if low > chance else "no"
        interval = f"{low:.1%} to {high:.1%}"
        print(f"| {cell['name']} | {value:.1%} | {interval} | {chance:.1%} | {said} |")


def main() -> None:
    """Make the cells that are not there yet."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    arguments.add_argument("--seeds", default="1,2,3")
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rows", type=int, help="try so many rows; nothing is written down")
    arguments.add_argument("--table", action="store_true", help="print the finished cells")
    options = arguments.parse_args()
    if options.table:
        table()
        return
    keep_heap()
    done = CELLS.by_name()
    for name in options.names or NAMES:
        for seed in map(int, options.seeds.split(",")):
            if options.rows:
                print(json.dumps(make(name, seed, options.threads, options.rows)), flush=True)
            elif f"{name}-{seed}" not in done:
                CELLS.add(make(name, seed, options.threads))


if __name__ == "__main__":
    main()
