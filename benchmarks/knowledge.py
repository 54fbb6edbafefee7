"""From static word vectors to contextual ones: what each way to use knowledge brings to two tasks with few examples.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.knowledge pace [MODEL ...] [--quick]
    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.knowledge models [MODEL ...] [--quick]
    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.knowledge cells [ROW ...] [--quick]
    python -m benchmarks.knowledge table

`models` pretrains on one text, Wikipedia, with one vocabulary of words (BERT has one of pieces): word2vec and GloVe for 5 epochs, the
language model of two LSTM layers of 512, ELMo and BERT for so many steps as 30 quiet minutes hold. Steps are fixed in this file,
so that a busy machine changes no result; `pace` trains each for three minutes and says how many to write here. A run that was stopped
goes on where it was. Models stand under FIRTH_MODELS.

`cells` fine-tunes: SST-2 from its first 10,000 rows, measured on test, and CoNLL-2003 from its first 3,000 sentences, measured on dev,
with two seeds, 8 epochs and otherwise Firth's own defaults. A tenth of the rows is held out to choose the best epoch. A cell that is in
benchmarks/results/knowledge.jsonl is not made again.

`table` prints the mean of the seeds, each of them, and in brackets the ends of their 95 % intervals, averaged as the scores are. Its first
rows are the three ways to use knowledge with one network.

`--quick` tries a part with small models on a few rows, and writes nothing down.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

import firth
from benchmarks.cells import Cell, Cells, commit
from benchmarks.finetune import files, first_rows
from firth.base.threads import keep_heap, usual

CELLS = Cells("knowledge")
TEXT, DEV = "corpus/wikipedia_en.txt.gz", "corpus/wikipedia_en.dev.txt.gz"
SEEDS = (1, 2)
EPOCHS = 8.0  # of fine-tuning, of which the best is kept
MINUTES, PACE_MINUTES = 30, 3.0
VECTOR_EPOCHS = 5.0
LAYERS = {"width": 512, "depth": 2}

VOCABULARIES: dict[str, dict[str, Any]] = {
    "words": {"kind": "words", "size": 30_000, "case": "keep", "split": "punctuation"},
    "pieces": {"kind": "wordpiece", "size": 8_000, "case": "keep"},
}
# The steps that 30 quiet minutes hold on two cores; `pace` says how many those are.
STEPS = {"lstm": 11_600, "elmo": 3_400, "bert": 12_800}
MODELS: dict[str, dict[str, Any]] = {
    "word2vec": {"model": "word2vec", "size": "base", "vocab": "words"},
    "glove": {"model": "glove", "size": "base", "vocab": "words"},
    "lstm": {
        "model": "rnn",
        "cell": "lstm",
        "size": "small",
        "model_settings": LAYERS,
        "output": "classes",
        "batch": 700,
        "vocab": "words",
    },
    "elmo": {
        "model": "elmo",
        "size": "base",
        "output": "classes",
        "batch": 1024,
        "vocab": "words",
    },
    "bert": {"model": "bert", "size": "mini", "batch": 2048, "vocab": "pieces"},
}
QUICK_LINES, QUICK_ROWS, QUICK_STEPS, QUICK_WIDTH = 400, 120, 4, 16


class Task(NamedTuple):
    """A data set, the rows of it to learn from, and the file that is measured."""

    kind: str
    metric: str
    rows: int
    measured: str


TASKS = {
    "sst2": Task("classify", "accuracy", 10_000, "test"),
    "conll2003": Task("tag", "f1", 3_000, "dev"),
}

SCRATCH, VECTORS, TUNED = "from scratch", "pretrained vectors", "pretrained and fine-tuned"


class Row(NamedTuple):
    """A way to make a model for a task; names of models and vocabularies stand for their folders."""

    way: str
    words: str
    model: str
    options: dict[str, Any]


BOTH_WAYS = {"cell": "lstm", "bidirectional": True}
ONE_WAY = {"cell": "lstm", "model_settings": LAYERS}
WIDE = {"model_settings": {"width": 300}}  # as wide as the word vectors that are pretrained
NEW, WORD2VEC, GLOVE = {"vocab": "words"}, {"vectors": "word2vec"}, {"vectors": "glove"}
FROZEN = {"freeze": True}
ELMO = {"features": "0..2", "combine": "weights", "head": "bilstm"}
THREE = ("lstm", "lstm-word2vec", "lstm-pretrained")  # the three ways with one network
ROWS = {
    "lstm": Row(SCRATCH, "LSTM, one way, two layers of 512", "rnn", ONE_WAY | NEW),
    "lstm-word2vec": Row(VECTORS, "the same on word2vec", "rnn", ONE_WAY | WORD2VEC | FROZEN),
    "lstm-pretrained": Row(TUNED, "the same from our language model", "lstm", {}),
    "mean": Row(SCRATCH, "linear, mean of random vectors", "mean", WIDE | NEW),
    "mean-word2vec": Row(VECTORS, "linear, mean of word2vec", "mean", WORD2VEC | FROZEN),
    "bilstm": Row(SCRATCH, "biLSTM, random vectors", "rnn", BOTH_WAYS | NEW),
    "bilstm-word2vec-frozen": Row(
        VECTORS, "biLSTM, frozen word2vec", "rnn", BOTH_WAYS | WORD2VEC | FROZEN
    ),
    "bilstm-word2vec": Row(VECTORS, "biLSTM, tuned word2vec", "rnn", BOTH_WAYS | WORD2VEC),
    "bilstm-glove-frozen": Row(VECTORS, "biLSTM, frozen GloVe", "rnn", BOTH_WAYS | GLOVE | FROZEN),
    "bilstm-glove": Row(VECTORS, "biLSTM, tuned GloVe", "rnn", BOTH_WAYS | GLOVE),
    "elmo": Row(VECTORS, "biLSTM on ELMo's layers, learned weights", "elmo", ELMO),
    "elmo-tuned": Row(TUNED, "ELMo", "elmo", {}),
    "bert": Row(TUNED, "BERT", "bert", {}),
}
NAMES = [f"{row}-{task}-{seed}" for row in ROWS for task in TASKS for seed in SEEDS]


class Shelf(NamedTuple):
    """Where texts are and models go; a quick trial reads the first lines and makes small models."""

    data: Path
    models: Path
    quick: bool = False

    def text(self, name: str) -> Path:
        """A text to pretrain on or to measure by."""
        path = self.data / name
        copy = self.models / Path(name).name.removesuffix(".gz")
        return first_rows(path, QUICK_LINES if self.quick else None, copy)

    def words(self, name: str) -> Path:
        """The folder of a vocabulary, which is learned if it isn't there."""
        folder = self.models / f"knowledge-{name}"
        if not folder.exists():
            firth.vocab([self.text(TEXT)], folder, **VOCABULARIES[name])
        return folder

    def model(self, name: str) -> Path:
        """The folder of a model, which is trained if it isn't there."""
        folder = self.models / f"knowledge-{name}"
        end = {"steps": STEPS[name]} if name in STEPS else {"epochs": VECTOR_EPOCHS}
        self.train(name, folder, end)
        return folder

    def train(self, name: str, folder: Path, end: dict[str, Any]) -> None:
        """Pretrain, or go on with, one model."""
        options = {**MODELS[name], **end}
        options["vocab"] = str(self.words(options["vocab"]))
        if self.quick:
            options |= small(options)
        firth.pretrain([self.text(TEXT)], folder, dev=str(self.text(DEV)), resume=True, **options)


def small(options: dict[str, Any]) -> dict[str, Any]:
    """What a quick trial has in place of the options of a model, or of a row."""
    changed: dict[str, Any] = {}
    if "size" in options:
        changed["size"] = "tiny"
    if "model_settings" in options:
        changed["model_settings"] = {**options["model_settings"], "width": QUICK_WIDTH}
    if "steps" in options:
        changed["steps"] = QUICK_STEPS
    return changed


def pace(name: str, shelf: Shelf) -> int:
    """How many steps of a model 30 minutes hold, by the median step of three."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name
        end = {"steps": QUICK_STEPS} if shelf.quick else {"minutes": PACE_MINUTES}
        shelf.train(name, folder, end)
        journal = (folder / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in journal]
    times = [record["seconds"] for record in records if "loss" in record]
    step = statistics.median(later - sooner for sooner, later in pairwise(times))
    return int(MINUTES * 60 / step)


def make(name: str, shelf: Shelf) -> Cell:
    """Fine-tune one model and measure it."""
    begun = time.time()
    label, task_name, seed = name.rsplit("-", 2)
    row, task = ROWS[label], TASKS[task_name]
    model = str(shelf.model(row.model)) if row.model in MODELS else row.model
    options = dict(row.options)
    for option, folder in (("vocab", shelf.words), ("vectors", shelf.model)):
        if option in options:
            options[option] = str(folder(options[option]))
    rows, measured = (QUICK_ROWS, QUICK_ROWS) if shelf.quick else (task.rows, None)
    if shelf.quick:
        options |= small(options)
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "model"
        train, test = files(task_name, Path(place), rows, measured, task.measured)
        epochs = 1.0 if shelf.quick else EPOCHS
        taught = firth.finetune(
            task.kind, model, train, out, seed=int(seed), epochs=epochs, **options
        )
        (found,) = firth.evaluate(out, test).models
    return {
        "name": name,
        "seed": int(seed),
        "scores": {metric: interval._asdict() for metric, interval in found.metrics.items()},
        "best_step": taught.outcome.best,
        "steps": taught.outcome.steps,
        "seconds": round(time.time() - begun, 1),
        "commit": commit(),
    }


def table() -> None:
    """Print the finished cells: the three ways with one network, then all rows."""
    found = CELLS.by_name()
    head = [f"{name}, {task.metric}" for name, task in TASKS.items()]

    def score(label: str, task: str) -> str:
        cells = [
            found[f"{label}-{task}-{seed}"] for seed in SEEDS if f"{label}-{task}-{seed}" in found
        ]
        if not cells:
            return "-"
        intervals = [cell["scores"][TASKS[task].metric] for cell in cells]
        mean, low, high = (
            100 * statistics.mean(one[end] for one in intervals) for end in ("value", "low", "high")
        )
        each = ", ".join(f"{100 * one['value']:.1f}" for one in intervals)
        return f"{mean:.1f} ({low:.1f} to {high:.1f}); {each}"

    print(f"| way | {' | '.join(head)} |\n|---|" + "---|" * len(head))
    for label in THREE:
        print(f"| {ROWS[label].way} | {' | '.join(score(label, task) for task in TASKS)} |")
    print(f"\n| model | way | {' | '.join(head)} |\n|---|---|" + "---|" * len(head))
    for label, row in ROWS.items():
        print(f"| {row.words} | {row.way} | {' | '.join(score(label, task) for task in TASKS)} |")


def main() -> None:
    """Do the part that was asked for."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("part", choices=("pace", "models", "cells", "table"))
    arguments.add_argument("names", nargs="*", metavar="NAME", help="all without it")
    arguments.add_argument(
        "--quick",
        action="store_true",
        help="try small models on a few rows; nothing is written down",
    )
    options = arguments.parse_args()
    if options.part == "table":
        table()
        return
    cells = [name for name in NAMES if name.endswith("-1")] if options.quick else NAMES
    known = {"pace": list(STEPS), "models": list(MODELS), "cells": cells}[options.part]
    asked = {name: {name, name.rsplit("-", 2)[0]} for name in known}  # a row stands for its cells
    if strange := [
        name for name in options.names if not any(name in one for one in asked.values())
    ]:
        arguments.error(f"{strange[0]!r} is none of {', '.join(known)}")
    names = [name for name in known if not options.names or asked[name] & {*options.names}]
    with tempfile.TemporaryDirectory() as place:
        models = Path(place) if options.quick else Path(os.environ["FIRTH_MODELS"])
        shelf = Shelf(Path(os.environ["FIRTH_DATA"]), models, options.quick)
        for name in names:
            if options.part == "pace":
                print(f"{name}: {pace(name, shelf):,} steps in {MINUTES} minutes", flush=True)
            elif options.part == "models":
                print(shelf.model(name), flush=True)
            elif options.quick:
                print(json.dumps(make(name, shelf)), flush=True)
            elif name not in CELLS.by_name():
                CELLS.add(make(name, shelf))


if __name__ == "__main__":
    keep_heap()
    torch.set_num_threads(usual())
    main()
