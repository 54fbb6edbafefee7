"""Fine-tuning minilm: Firth against transformers' own Trainer, by what both learn and by how fast.

    FIRTH_DATA=... python -m benchmarks.finetune scores [TASK ...] [--seeds 1,2,3] [--who firth,trainer,better]
    FIRTH_DATA=... python -m benchmarks.finetune speed [sst2 mrpc imdb] [--steps 200] [--json]
    python -m benchmarks.finetune table

Both read the same rows and train with batches of 32, a rate of 5e-5 that falls in a line to nothing without a rise, dropout 0.1,
gradients clipped to a norm of 1, AdamW with betas of 0.9 and 0.999, and texts cut at 128 tokens, those that are measured too (33 of
RTE's 277 held-out pairs and 3 of CoNLL's 3,250 sentences have more). Both are measured equally often on the held-out examples and
keep the best by the same score, Firth's own choice: accuracy, Pearson's correlation, entity F1. `better` is Firth with its own
defaults, which cut texts at 256 tokens.

What differs: Firth's weight decay is 0.01 and the Trainer's, by its default, 0 (over a run it takes a few ten-thousandths off the
weights). Firth cuts an epoch into steps of nearly 32 examples, where the Trainer leaves a smaller last batch. Of given words, Firth
learns every part that the tokenizer sees as a word, the Trainer only the first piece.

`scores` makes one run for each task, seed and contender, in a process of its own, and adds it to benchmarks/results/finetune.jsonl;
what is there is not made again. Seconds are those of the steps, without measuring and without saving the best.

`speed` has both processes alive at once and lets them train in turns of 20 steps, so that never two compute; neither measures nor
saves in its turn. Batches are made in the loop itself on both sides. The Trainer pads each batch, as it comes, to its longest row.

`table` prints what is in the results file. The bar: the mean is at most half a point below the Trainer's, or the interval of the
difference (95 %, Welch) has room for none.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import firth
from benchmarks.cells import Cells, commit
from benchmarks.contender import Contender, answering, peak_memory
from benchmarks.table import Row, show
from firth.base.threads import keep_heap, usual
from firth.data.examples import Example
from firth.reading.columns import Named
from firth.reading.readers import Reading
from firth.tasks.registry import readers

CELLS = Cells("finetune")
MODULE = "benchmarks.finetune"
BATCH, RATE, LENGTH, DROPOUT = 32, 5e-5, 128, 0.1
OURS, THEIRS, BETTER = "firth", "trainer", "better"
WHO = (OURS, THEIRS, BETTER)
TURN, WARM_UP = 20, 3  # steps
AHEAD = 8  # epochs for each measured step, so that a run is stopped long before it measures or ends
CHECKS = (
    4  # measurements in a run of many short epochs, else one an epoch: as `firth finetune` has it
)
HALF_A_POINT = 0.005


class Task(NamedTuple):
    """What is learned, for how long, and the scores that are published for it."""

    kind: str
    epochs: int
    shown: tuple[str, ...]
    folder: str
    rows: int | None = None  # of the examples to learn from, the first; all without it
    alone: bool = False  # one run of ours is all that is wanted


TASKS = {
    "mrpc": Task("classify", 3, ("accuracy", "f1"), "mrpc"),
    "rte": Task("classify", 5, ("accuracy",), "rte"),
    "stsb": Task("regress", 3, ("pearson", "spearman"), "stsb"),
    "cola": Task("classify", 3, ("matthews",), "cola"),
    "conll2003": Task("tag", 3, ("f1",), "conll2003"),
    "sst2": Task("classify", 1, ("accuracy",), "sst2", 10_000),
    "sst2-all": Task("classify", 1, ("accuracy",), "sst2", None, True),
}


class Case(NamedTuple):
    """A data set of classes to measure speed on."""

    length: int
    goal: float


CASES = {"sst2": Case(128, 2.0), "mrpc": Case(128, 1.5), "imdb": Case(256, 1.5)}


def files(
    folder: str, place: Path, rows: int | None, dev_rows: int | None, dev: str = "dev"
) -> tuple[Path, Path]:
    """The files to learn from and to measure on; of those of which only the first rows are wanted, a copy."""
    data = Path(os.environ["FIRTH_DATA"]) / folder
    wanted = (("train.jsonl.gz", rows, "train.jsonl"), (f"{dev}.jsonl.gz", dev_rows, "dev.jsonl"))
    train, held = (first_rows(data / name, count, place / copy) for name, count, copy in wanted)
    return train, held


def first_rows(path: Path, rows: int | None, copy: Path) -> Path:
    """A file, or a copy of its first rows."""
    if rows is None:
        return path
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        copy.write_text("".join(islice(lines, rows)), encoding="utf-8")
    return copy


def read(path: Path, kind: str) -> list[Example]:
    """The examples of a file as Firth reads them."""
    return [
        row.example
        for row in Reading(path, Named.of(), None, readers(kind))
        if row.example is not None
    ]


def run(name: str, who: str, seed: int, threads: int, rows: int | None) -> dict[str, Any]:
    """Teach one contender and say what came of it."""
    task = TASKS[name]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        train, dev = files(task.folder, place, rows or task.rows, rows)
        found = (
            theirs(task, train, dev, seed, place)
            if who == THEIRS
            else ours(task, train, dev, seed, threads, who, place)
        )
    found |= {"threads": torch.get_num_threads(), "commit": commit()}
    return {"task": name, "who": who, "seed": seed} | found


def ours(
    task: Task, train: Path, dev: Path, seed: int, threads: int, who: str, place: Path
) -> dict[str, Any]:
    """`firth finetune`, with the settings of the comparison or with its own."""
    same = {
        "epochs": task.epochs,
        "batch": BATCH,
        "rate": RATE,
        "length": LENGTH,
        "warmup": 0.0,
        "dropout": DROPOUT,
    }
    options: dict[str, Any] = {} if who == BETTER else same
    out = place / "model"
    taught = firth.finetune(
        task.kind, "minilm", train, out, dev=str(dev), seed=seed, threads=threads, **options
    )
    made = json.loads((out / "firth.json").read_text())["made"]
    journal = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    marks = [record["seconds"] if "rate" in record else None for record in journal]
    measured = [record["step"] for record in journal if "dev" in record and record["step"]]
    scores = {metric: interval.value for metric, interval in taught.scores.items()}
    settings, examples, steps = made["settings"], made["examples"]["trained"], taught.outcome.steps
    return _result(scores, examples, settings, steps, taught.outcome.best, measured, marks)


def theirs(task: Task, train: Path, dev: Path, seed: int, place: Path) -> dict[str, Any]:
    """The Trainer, which measures and keeps the best as `firth finetune` does."""
    from benchmarks.trainer import Marks, Pupil

    examples = read(train, task.kind)
    pupil, marks = Pupil(task.kind, examples, read(dev, task.kind), LENGTH, seed), Marks()
    per_epoch = -(-len(examples) // BATCH)
    steps = task.epochs * per_epoch
    trainer = pupil.trainer(
        place,
        [marks],
        num_train_epochs=task.epochs,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        learning_rate=RATE,
        eval_strategy="steps",
        eval_steps=max(1, min(max(per_epoch, -(-steps // CHECKS)), -(-steps // 2))),
        save_strategy="best",
        save_only_model=True,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="worth",
        greater_is_better=True,
    )
    trainer.train()
    measured = [record["step"] for record in trainer.state.log_history if "eval_worth" in record]
    settings = {"epochs": task.epochs, "batch": BATCH, "rate": RATE, "length": LENGTH}
    best = trainer.state.best_global_step
    return _result(
        pupil.scores(trainer), len(examples), settings, steps, best, measured, marks.times
    )


def _result(
    scores: dict[str, float],
    examples: int,
    settings: dict[str, Any],
    steps: int,
    best: int,
    measured: list[int],
    marks: Iterable[float | None],
) -> dict[str, Any]:
    """A run's figures; a step before which something was measured or saved says nothing of the pace."""
    seconds = steps * statistics.mean(
        b - a for a, b in pairwise(marks) if a is not None and b is not None
    )
    return {
        "metrics": {metric: round(value, 6) for metric, value in scores.items()},
        "examples": examples,
        **{key: settings[key] for key in ("epochs", "batch", "rate", "length")},
        "steps": steps,
        "best_step": best,
        "measured": measured,
        "seconds": round(seconds, 1),
        "examples_per_second": round(examples * settings["epochs"] / seconds, 1),
    }


def make(
    names: Sequence[str], seeds: Sequence[int], who: Sequence[str], threads: int, rows: int | None
) -> None:
    """Make the runs that are not there yet, one after another."""
    done = {(row["task"], row["who"], row["seed"]) for row in CELLS()}
    for name, seed, contender in ((n, s, w) for n in names for s in seeds for w in who):
        if TASKS[name].alone and (contender != OURS or seed != seeds[0]):
            continue
        if (name, contender, seed) in done and rows is None:
            print(f"{name}, {contender}, seed {seed}: done", flush=True)
            continue
        command = [sys.executable, "-m", MODULE, "--contender", contender, "scores", name]
        command += [
            "--seeds",
            str(seed),
            "--threads",
            str(threads),
            *(["--rows", str(rows)] if rows else []),
        ]
        line = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        if rows is None:
            CELLS.add(json.loads(line))
        else:
            print(line, end="", flush=True)


class Turns:
    """Lets a training loop take as many steps as it is told over standard input, and answers with the seconds that they took."""

    def __init__(self, **questions: Callable[[], float]) -> None:
        self.questions = {"memory": peak_memory, **questions}
        self.answers = answering()
        self.left, self.begun = 0, 0.0
        register_optimizer_step_post_hook(self.after_step)

    def after_step(self, *_: object) -> None:
        """Go on, or wait to be told; a turn lasts from the end of a step to the end of another, so that nothing is left out."""
        self.left -= 1
        if self.left > 0:
            return
        if self.begun:
            print(time.perf_counter() - self.begun, file=self.answers, flush=True)
        for line in sys.stdin:
            question = self.questions.get(line.strip())
            if question is None:
                self.left, self.begun = int(line), time.perf_counter()
                return
            print(question(), file=self.answers, flush=True)
        sys.exit()


def train_in_turns(name: str, who: str, steps: int, threads: int, rows: int | None) -> None:
    """Train one contender until nobody asks any more."""
    Turns()
    length = CASES[name].length
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        train, dev = files(name, place, rows, BATCH, "train")
        epochs = AHEAD * steps
        if who == OURS:
            firth.finetune(
                "classify",
                "minilm",
                train,
                place / "model",
                dev=str(dev),
                epochs=epochs,
                batch=BATCH,
                rate=RATE,
                length=length,
                dropout=DROPOUT,
                threads=threads,
                workers=0,
                save_every=1 << 40,
            )
        else:
            from benchmarks.trainer import Pupil

            pupil = Pupil("classify", read(train, "classify"), [], length, 1)
            settings = {
                "num_train_epochs": epochs,
                "per_device_train_batch_size": BATCH,
                "learning_rate": RATE,
            }
            pupil.trainer(place, save_strategy="no", **settings).train()


def compare(name: str, steps: int, threads: int, rows: int | None) -> list[Row]:
    """Let both train in turn on one data set."""
    options = [
        "speed",
        name,
        "--steps",
        str(steps),
        "--threads",
        str(threads),
        *(["--rows", str(rows)] if rows else []),
    ]
    both = {}
    for who in (OURS, THEIRS):
        both[who] = Contender(MODULE, who, *options)
        both[who].ask(str(WARM_UP))  # the other is started when this one waits
    turns = [min(TURN, steps - begun) for begun in range(0, steps, TURN)]
    taken: dict[str, list[float]] = {who: [] for who in both}
    for turn in turns:
        for who, contender in both.items():
            taken[who].append(contender.ask(str(turn)) / turn)
    memory = {who: contender.ask("memory") for who, contender in both.items()}
    for contender in both.values():
        contender.process.communicate()  # at the end of its input it ends too
    mean = {
        who: sum(s * turn for s, turn in zip(taken[who], turns, strict=True)) / steps
        for who in both
    }
    middle = {who: statistics.median(taken[who]) for who in both}
    against = "transformers' Trainer"
    return [
        Row(
            name,
            BATCH / mean[OURS],
            BATCH / mean[THEIRS],
            against,
            mean[THEIRS] / mean[OURS],
            "examples/s",
            CASES[name].goal,
        ),
        Row(
            f"{name}, median turn",
            BATCH / middle[OURS],
            BATCH / middle[THEIRS],
            against,
            middle[THEIRS] / middle[OURS],
            "examples/s",
        ),
        Row(
            f"{name}, peak memory",
            memory[OURS],
            memory[THEIRS],
            against,
            memory[THEIRS] / memory[OURS],
            "MB",
            1.0,
        ),
    ]


def table() -> str:
    """The results as Markdown: scores in points, each seed's beside the mean."""
    head = ("task", "score", *WHO, f"{OURS} - {THEIRS}, 95 %", "bar", f"examples/s, {OURS}", THEIRS)
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    notes = []
    for name, task in TASKS.items():
        rows = sorted(CELLS(), key=lambda row: int(row["seed"]))
        found = {
            who: [row for row in rows if (row["task"], row["who"]) == (name, who)] for who in WHO
        }
        pace = [_mean([row["examples_per_second"] for row in found[who]]) for who in (OURS, THEIRS)]
        for metric in task.shown:
            values = {who: [row["metrics"][metric] for row in found[who]] for who in WHO}
            if any(values.values()):
                cells = (
                    name,
                    metric,
                    *(_points(values[who]) for who in WHO),
                    *_against(values[OURS], values[THEIRS]),
                    *pace,
                )
                lines.append(f"| {' | '.join(cells)} |")
        times = {who: {len(row["measured"]) for row in found[who]} for who in (OURS, THEIRS)}
        if times[OURS] and times[THEIRS] and times[OURS] != times[THEIRS]:
            notes.append(
                f"{name}: measured {times[OURS]} times by {OURS}, {times[THEIRS]} by {THEIRS}"
            )
    return "\n".join([*lines, *notes])


def _mean(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.0f}" if values else "-"


def _points(values: Sequence[float]) -> str:
    each = ", ".join(f"{100 * value:.1f}" for value in values)
    return f"{100 * statistics.mean(values):.1f} ({each})" if values else "-"


def _against(mine: Sequence[float], theirs: Sequence[float]) -> tuple[str, str]:
    """The difference of the means with its interval, and whether the bar is met."""
    if not mine or not theirs:
        return "-", "-"
    gap = statistics.mean(mine) - statistics.mean(theirs)
    said, met = f"{100 * gap:+.1f}", gap >= -HALF_A_POINT
    if (
        min(len(mine), len(theirs)) > 1 and len({*mine}) + len({*theirs}) > 2
    ):  # where a spread is known
        from scipy.stats import ttest_ind

        low, high = ttest_ind(mine, theirs, equal_var=False).confidence_interval(0.95)
        said, met = f"{said} ({100 * low:+.1f} to {100 * high:+.1f})", met or low <= 0 <= high
    return said, "met" if met else "**missed**"


def main() -> None:
    """Do the part that was asked for."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("part", choices=("scores", "speed", "table"))
    arguments.add_argument(
        "names",
        nargs="*",
        metavar="TASK",
        help=f"of {', '.join(TASKS)}; for speed {', '.join(CASES)}",
    )
    arguments.add_argument(
        "--seeds", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 3]
    )
    arguments.add_argument("--who", type=lambda text: text.split(","), default=list(WHO))
    arguments.add_argument(
        "--threads", type=int, default=usual(), help="of each process; all cores by default"
    )
    arguments.add_argument("--steps", type=int, default=200, help="that speed is measured over")
    arguments.add_argument(
        "--rows", type=int, help="a quick trial on the first rows, which is not written down"
    )
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--contender", choices=WHO, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    known = CASES if options.part == "speed" else TASKS
    if strange := [*({*options.names} - {*known}), *({*options.who} - {*WHO})]:
        arguments.error(f"{strange[0]!r} is none of {', '.join([*known, *WHO])}")
    names = options.names or list(known)
    if options.contender:
        warnings.simplefilter("ignore")
        torch.set_num_threads(options.threads)
        if options.contender != THEIRS:  # as on the command line
            keep_heap()
        if options.part == "speed":
            train_in_turns(
                names[0], options.contender, options.steps, options.threads, options.rows
            )
        else:
            answers = answering()
            row = run(names[0], options.contender, options.seeds[0], options.threads, options.rows)
            print(json.dumps(row), file=answers, flush=True)
    elif options.part == "scores":
        make(names, options.seeds, options.who, options.threads, options.rows)
    elif options.part == "speed":
        if not options.json:
            cpu = torch.backends.cpu.get_cpu_capability()
            print(
                f"{options.threads} threads, {cpu}; {options.steps} steps each in turns of {TURN}, a process each"
            )
        show(
            [
                row
                for name in names
                for row in compare(name, options.steps, options.threads, options.rows)
            ],
            options.json,
        )
    else:
        print(table())


if __name__ == "__main__":
    main()
