"""Answers to questions on SQuAD: Firth against transformers' own Trainer, by quality and by speed; questions without an answer.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.squad quality [firth trainer] [--rows 200]
    FIRTH_DATA=... python -m benchmarks.squad speed [--steps 200] [--json]
    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.squad no-answer
    python -m benchmarks.squad table

Both fine-tune minilm on the same 14,000 rows of train_subset (the 348 that are left are Firth's dev set, by which it keeps the better
of its measured steps; the Trainer keeps the last), for 2 epochs with batches of 16, a peak rate of 1e-4 that rises over a tenth of the
steps and falls in a line to nothing, dropout 0.1, weight decay 0.01, gradients clipped to a norm of 1, contexts read in windows of 384
tokens that share 128. The Trainer's batches are padded, and grouped by length. A batch of Firth's is 16 questions with all their windows,
one of the Trainer's 16 windows; 1 in 100 questions has more than one.

`quality` answers the official dev set, 10,570 questions: Firth by `Predictor`, the Trainer's model by the usual recipe (the 20 best starts
and ends of each window). Both are measured by the same official rules, and their difference is paired, question by question. Models and
answers stay in $FIRTH_MODELS; a run that was broken off goes on from its newest checkpoint.

`speed` has both processes alive at once and lets them train in turns of 20 steps, so that never two compute. Tokens are real ones.

`no-answer` gives a third of the questions a paragraph of another article, drawn with a seed, which holds no answer, in the rows to learn
from as in the dev set. The model that `quality` made goes on with its head, for one epoch over every fourth row; the threshold is tuned on
the rows that are held out.

Finished cells are in benchmarks/results/squad.jsonl and are not made again. With `--rows N` nothing is written there.
"""

import argparse
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import firth
from benchmarks.cells import Cell, Cells, commit
from benchmarks.contender import Contender, answering
from benchmarks.finetune import TURN, WARM_UP, Turns
from benchmarks.table import Row, show
from firth.base.threads import keep_heap, usual
from firth.data.batch import Batch
from firth.data.rows import ExampleFeed
from firth.metrics.spans import AnswerTally

CELLS = Cells("squad")
MODULE = "benchmarks.squad"
OURS, THEIRS = "firth", "trainer"
WHO = (OURS, THEIRS)
TRAINED = 14_000  # rows to learn from; the rest are held out
BATCH, RATE, EPOCHS, LENGTH, STRIDE, WARMUP, SEED = 16, 1e-4, 2, 384, 128, 0.1, 1
SAVE_EVERY = 200  # steps
WITHOUT = 1 / 3  # share of the questions that get another article's paragraph
EVERY = 4  # of the rows to learn no answer from, one in so many
AHEAD = 8  # epochs for each measured step, so that a run is stopped long before it ends
Question = dict[str, Any]


def questions(name: str) -> list[Question]:
    """The rows of a file of the data set."""
    path = Path(os.environ["FIRTH_DATA"]) / "squad" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def parts(rows: int | None) -> tuple[list[Question], list[Question], list[Question]]:
    """The rows to learn from, to hold out, and of the official dev set; of a trial, a few of each."""
    every, official = questions("train_subset"), questions("dev")
    train, held = every[:TRAINED], every[TRAINED:]
    if rows:
        return spread(train, rows), spread(held, max(8, rows // 4)), spread(official, rows)
    return train, held, official


def spread(rows: list[Question], count: int) -> list[Question]:
    """So many rows of all articles."""
    return rows[:: max(1, len(rows) // count)][:count]


def write(rows: Sequence[Question], path: Path) -> Path:
    """Write rows as lines of JSON."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def models(rows: int | None, place: Path) -> Path:
    """Where models and answers go; those of a trial are thrown away."""
    return place if rows else Path(os.environ["FIRTH_MODELS"])


def tune(
    model: str | Path, train: Path, held: Path, out: Path, threads: int, **more: Any
) -> firth.FinetuneResult:
    """`firth finetune answer`, or go on with it."""
    begun = out.exists() or out.with_name(f"{out.name}.run").exists()
    same: firth.FinetuneOptions = {
        "dev": str(held),
        "epochs": EPOCHS,
        "batch": BATCH,
        "rate": RATE,
        "length": LENGTH,
        "stride": STRIDE,
        "warmup": WARMUP,
        "seed": SEED,
        "threads": threads,
        "save_every": SAVE_EVERY,
    }
    return firth.finetune("answer", model, train, out, resume=begun, **{**same, **more})


def ours(threads: int, rows: int | None, place: Path) -> Cell:
    """Fine-tune with Firth and answer the official dev set."""
    train, held, official = parts(rows)
    out = models(rows, place) / "squad"
    files = write(train, place / "train.jsonl"), write(held, place / "held.jsonl")
    found = tune("minilm", *files, out, threads)
    model = firth.load(out, threads)
    answers = model.answer_all((row["question"], row["context"]) for row in official)
    said = {row["id"]: one.answer or "" for row, one in zip(official, answers, strict=True)}
    steps = {"steps": found.outcome.steps, "best_step": found.outcome.best}
    return finished(OURS, official, said, models(rows, place)) | steps


def theirs(_: int, rows: int | None, place: Path) -> Cell:
    """Fine-tune with the Trainer and answer the official dev set by the usual recipe; torch has its threads already."""
    from benchmarks.reader import Reader

    train, _held, official = parts(rows)
    out = models(rows, place) / "squad-trainer"
    reader = Reader(LENGTH, STRIDE, SEED)
    trainer = reader.trainer(train, out, BATCH, EPOCHS, RATE, WARMUP, SAVE_EVERY)
    trainer.train(resume_from_checkpoint=any(out.glob("checkpoint-*")) or None)
    said = reader.answers(trainer.model, official)
    return finished(THEIRS, official, said, models(rows, place)) | {
        "steps": trainer.state.global_step
    }


def finished(who: str, official: Sequence[Question], said: Mapping[str, str], folder: Path) -> Cell:
    """A contender's figures; its answers are kept for the difference."""
    (folder / f"squad-{who}.answers.json").write_text(json.dumps(said), encoding="utf-8")
    scores = {name: one._asdict() for name, one in tally(official, said).scores().items()}
    return {"name": f"quality, {who}", "questions": len(official), "scores": scores}


def tally(official: Sequence[Question], said: Mapping[str, str]) -> AnswerTally:
    """Add up answers by the official rules."""
    found = AnswerTally()
    for row in official:
        found.add([one["text"] for one in row["answers"]], said[row["id"]])
    return found


def difference(rows: int | None, folder: Path) -> Cell:
    """How much higher Firth's figures are, question by question."""
    _, _, official = parts(rows)
    both = [
        tally(official, json.loads((folder / f"squad-{who}.answers.json").read_text()))
        for who in WHO
    ]
    found = both[0].against(both[1])
    return {
        "name": "quality, difference",
        "differences": {name: one._asdict() for name, one in found.items()},
    }


def with_others(rows: Sequence[Question], seed: int) -> Iterator[Question]:
    """A share of the questions with a paragraph of another article, and no answer."""
    draw = random.Random(seed)
    assert len({row["title"] for row in rows}) > 1, "the rows are of one article"
    for row in rows:
        if draw.random() >= WITHOUT:
            yield row
            continue
        other = row
        while other["title"] == row["title"]:
            other = draw.choice(rows)
        yield {**row, "context": other["context"], "answers": []}


def no_answer(threads: int, rows: int | None, place: Path) -> Cell:
    """Go on with questions of which some have no answer, and say how often that is told."""
    train, held, official = parts(rows)
    train, held, official = (
        list(with_others(part, SEED)) for part in (train[::EVERY], held, official)
    )
    out = models(rows, place) / "squad-no-answer"
    files = [
        write(part, place / name)
        for part, name in ((train, "train.jsonl"), (held, "held.jsonl"), (official, "dev.jsonl"))
    ]
    base = models(rows, place) / "squad" if rows is None else "minilm"
    tune(base, files[0], files[1], out, threads, tune_no_answer=True, epochs=1, rate=RATE / 2)
    found = firth.evaluate(out, files[2], threads=threads).models[0]
    scores = {name: one._asdict() for name, one in found.metrics.items()}
    record = json.loads((out / "firth.json").read_text())
    margin = record["settings"]["answer_margin"]
    return {"name": "no-answer", "questions": len(official), "margin": margin, "scores": scores}


def make(names: Sequence[str], threads: int, rows: int | None) -> None:
    """Make the cells that are not there yet, each in a process of its own."""
    done = CELLS.by_name()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            if name in done and rows is None:
                print(f"{name}: done", flush=True)
                continue
            command = [sys.executable, "-m", MODULE, "--cell", name, "--threads", str(threads)]
            command += ["--place", folder, *(["--rows", str(rows)] if rows else [])]
            line = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            if rows is None:
                CELLS.add(json.loads(line))
            else:
                print(line, end="", flush=True)


def make_one(name: str, threads: int, rows: int | None, place: Path) -> Cell:
    """Make one cell in this process."""
    if name == "quality, difference":
        found = difference(rows, models(rows, place))
    else:
        work = {f"quality, {OURS}": ours, f"quality, {THEIRS}": theirs, "no-answer": no_answer}
        found = work[name](threads, rows, place)
    return found | {"threads": threads, "commit": commit()}


class Tokens:
    """Counts the real tokens that were read since it was asked last."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> float:
        """Give the count, and begin anew."""
        count, self.count = self.count, 0
        return float(count)


def train_in_turns(who: str, steps: int, threads: int, rows: int | None) -> None:
    """Train one contender until nobody asks any more."""
    tokens = Tokens()
    Turns(tokens=tokens)
    train, held, _ = parts(rows)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if who == THEIRS:
            from benchmarks.reader import Reader

            reader = Reader(LENGTH, STRIDE, SEED, tokens)
            epochs = AHEAD * steps
            reader.trainer(train, place, BATCH, epochs, RATE, WARMUP, None).train()
            return
        real = ExampleFeed.batch

        def counted(feed: ExampleFeed, *given: Any) -> Batch:
            batch = real(feed, *given)
            tokens.count += len(batch.ids)
            return batch

        with mock.patch.object(ExampleFeed, "batch", counted):
            rest = {"epochs": AHEAD * steps, "workers": 0, "save_every": 1 << 40}
            files = write(train, place / "train.jsonl"), write(held[:BATCH], place / "held.jsonl")
            tune("minilm", *files, place / "model", threads, **rest)


def compare(steps: int, threads: int, rows: int | None) -> list[Row]:
    """Let both train in turn."""
    options = ["--steps", str(steps), "--threads", str(threads)]
    options += ["--rows", str(rows)] if rows else []
    both = {}
    for who in WHO:
        both[who] = Contender(MODULE, who, *options)
        both[who].ask(str(WARM_UP))  # the other is started when this one waits
        both[who].ask("tokens")
    turns = [min(TURN, steps - begun) for begun in range(0, steps, TURN)]
    seconds: dict[str, list[float]] = {who: [] for who in WHO}
    for turn in turns:
        for who, contender in both.items():
            seconds[who].append(contender.ask(str(turn)))
    tokens = {who: contender.ask("tokens") for who, contender in both.items()}
    memory = {who: contender.ask("memory") for who, contender in both.items()}
    for contender in both.values():
        contender.process.communicate()  # at the end of its input it ends too

    total = {who: sum(seconds[who]) for who in WHO}
    middle = {
        who: statistics.median(s / turn for s, turn in zip(seconds[who], turns, strict=True))
        for who in WHO
    }
    pace = {who: tokens[who] / total[who] for who in WHO}
    against = "transformers' Trainer"
    rate = {who: BATCH * steps / total[who] for who in WHO}
    best = {who: BATCH / middle[who] for who in WHO}
    return [
        Row("tokens", pace[OURS], pace[THEIRS], against, pace[OURS] / pace[THEIRS], "tokens/s"),
        Row("examples", rate[OURS], rate[THEIRS], against, rate[OURS] / rate[THEIRS], "examples/s"),
        Row(
            "median turn",
            best[OURS],
            best[THEIRS],
            against,
            best[OURS] / best[THEIRS],
            "examples/s",
        ),
        Row(
            "peak memory",
            memory[OURS],
            memory[THEIRS],
            against,
            memory[THEIRS] / memory[OURS],
            "MB",
        ),
    ]


def table() -> str:
    """The finished cells as Markdown, in points."""
    lines = ["| cell | figure | value, 95 % |", "|---|---|---|"]
    for name, cell in CELLS.by_name().items():
        for figure, one in (cell.get("scores") or cell["differences"]).items():
            value, low, high = (100 * one[key] for key in ("value", "low", "high"))
            lines.append(f"| {name} | {figure} | {value:.2f} ({low:.2f} to {high:.2f}) |")
    return "\n".join(lines)


def main() -> None:
    """Do the part that was asked for."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("part", nargs="?", choices=("quality", "speed", "no-answer", "table"))
    arguments.add_argument(
        "who", nargs="*", choices=[*WHO, []], help="for quality; by default both"
    )
    arguments.add_argument("--threads", type=int, default=usual(), help="all cores by default")
    arguments.add_argument("--steps", type=int, default=200, help="that speed is measured over")
    arguments.add_argument("--rows", type=int, help="a trial on so many rows")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--contender", choices=WHO, help=argparse.SUPPRESS)
    arguments.add_argument("--cell", help=argparse.SUPPRESS)
    arguments.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.contender or options.cell:
        warnings.simplefilter("ignore")
        torch.set_num_threads(options.threads)
        if THEIRS not in (options.contender or options.cell):  # as on the command line
            keep_heap()
    if options.contender:
        train_in_turns(options.contender, options.steps, options.threads, options.rows)
    elif options.cell:
        answers = answering()
        cell = make_one(options.cell, options.threads, options.rows, options.place)
        print(json.dumps(cell), file=answers, flush=True)
    elif options.part == "quality":
        who = options.who or WHO
        names = [f"quality, {one}" for one in who]
        names += ["quality, difference"] if len(who) == len(WHO) else []
        make(names, options.threads, options.rows)
    elif options.part == "no-answer":
        make(["no-answer"], options.threads, options.rows)
    elif options.part == "speed":
        show(compare(options.steps, options.threads, options.rows), options.json)
    else:
        print(table())


if __name__ == "__main__":
    main()
