"""Teach an encoder a task from examples: classes, numbers or named spans."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field, ValidationError
from torch import nn

from firth.base.clock import Clock
from firth.base.errors import InputError
from firth.base.files import refuse_folder
from firth.base.seeds import Purpose, number
from firth.base.settings import Settings, complaint
from firth.base.threads import available, keep_heap
from firth.bundle import Bundle, load, save
from firth.data.columns import Named
from firth.data.examples import Example, Labelled, Tagged
from firth.data.feed import Steps
from firth.data.readers import Reading
from firth.data.rows import Ready, Rows
from firth.data.split import split
from firth.data.task import Learner
from firth.data.window import windows
from firth.metrics.decisions import Decided, decide, sheet, temperature
from firth.nn.heads import Pooler
from firth.predict import Predictor
from firth.tasks.classify import Classify
from firth.tasks.head import make_head
from firth.tasks.regress import Regress
from firth.tasks.tag import Tag, tags_of
from firth.train import checkpoint
from firth.train.loop import Loop, Outcome, TrainSettings, load_weights, machine
from firth.train.processes import Processes
from firth.train.run import Run
from firth.verbs.scores import Scores, score
from firth.verbs.start import set_dropout
from firth.view.curves import curves

MOST_REJECTED = 0.001  # share of rows
CHECKS = 4  # measurements in a run of many short epochs; else one an epoch
NEVER = 2.0  # a threshold that no confidence reaches
ENCODED_AT_ONCE = 1024
FREE = {"save_every", "workers", "threads"}  # what a resumed run may change: no bit depends on it
Learned = Classify | Regress | Tag


class FinetuneSettings(Settings):
    """What to learn, from what, and how."""

    task: Literal["classify", "regress", "tag"]
    model: str
    train: str
    out: str
    dev: str | None = None
    text: str | None = None
    second: str | None = None
    label: str | None = None
    encoding: str | None = None
    epochs: float = Field(default=3.0, gt=0)
    batch: int = Field(default=32, gt=0)  # examples in a step
    micro: int = Field(default=4096, gt=0)
    rate: float = Field(default=5e-5, gt=0, lt=1)
    warmup: float = Field(default=0.0, ge=0, lt=1)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    length: int | None = Field(default=None, gt=4)
    long: Literal["cut", "slide", "error"] = "cut"
    balance: bool = False
    precision: float | None = Field(default=None, gt=0, lt=1)
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    save_every: int | None = Field(default=None, gt=0)
    workers: int = Field(default=1, ge=0, le=64)
    threads: int | None = Field(default=None, gt=0)


class Taught(NamedTuple):
    """What came of it."""

    outcome: Outcome
    scores: Scores  # of the best model on held-out examples, with intervals
    sheet: dict[str, list[Decided]]  # for classes: what it may decide alone


def finetune(
    task: str, model: str, train: str | Path, out: str | Path, *, resume: bool = False, force: bool = False, **options: Any
) -> Taught:
    """Write a model for a task to a folder; while it is taught, the run lives beside it in `OUT.run`.

    The options are those of `FinetuneSettings`, which the command line has too.
    """
    try:
        settings = FinetuneSettings(task=task, model=model, train=str(train), out=str(out), **options)  # type: ignore[arg-type]
    except ValidationError as error:
        raise InputError(complaint(error)) from error
    keep_heap()
    torch.set_num_threads(settings.threads or available())
    return _Finetuning(settings).go(resume, force)


class _Finetuning:
    """One call of `finetune`."""

    def __init__(self, settings: FinetuneSettings) -> None:
        self.s = settings
        self.target = Path(settings.out)
        self.run = Run(self.target.with_name(f"{self.target.name}.run"))

    def go(self, resume: bool, force: bool) -> Taught:
        """All of it."""
        refuse_folder(self.target, force)
        with self.run.locked():
            asked = self.s.model_dump(exclude=FREE)
            self.run.begin(asked, resume, force)
            train, dev = self._examples()
            kind, labels = _labels(self.s.task, [*train, *dev])
            bundle = self._model(kind, labels)
            task = _task(bundle, _weights(train, labels) if self.s.balance else None)
            feeds = [self._rows(task, bundle, part) for part in (train, dev)]
            self.run.write_plan({"asked": asked, "machine": machine()})
            learner = Learner(bundle.encoder, bundle.head, task)
            outcome = self._train(learner, feeds)
            bundle.encoder.eval().requires_grad_(False)
            taught = self._judge(bundle, outcome, dev)
            self._save(bundle, taught, len(train), len(dev), force)
        return taught

    def _examples(self) -> tuple[list[Example], list[Example]]:
        train = self._read(self.s.train)
        if self.s.dev:
            return train, self._read(self.s.dev)
        _labels(self.s.task, train)  # what can't be learned is said before anything is held out
        kept, held = split(train, self.s.seed)
        print(f"{len(held):,} of {len(train):,} examples are held out to measure on", file=sys.stderr)
        (self.run.folder / "held.json").write_text(json.dumps(held) + "\n", encoding="utf-8")
        return [train[i] for i in kept], [train[i] for i in held]

    def _read(self, name: str) -> list[Example]:
        reading = Reading(Path(name), Named.of(self.s.text, self.s.second, self.s.label), self.s.encoding, self.s.task)
        rows = list(reading)
        examples = [row.example for row in rows if row.example is not None]
        wrong = [row for row in rows if row.example is None]
        if len(wrong) > MOST_REJECTED * len(rows):
            said = f"{len(wrong):,} of {len(rows):,} rows can't be used (firth check names them)"
            raise InputError(f"{name}:{wrong[0].line} {wrong[0].fault}; {said}")
        if not examples:
            raise InputError(f"{name} has no examples")
        for row in wrong:
            print(f"note: {name}:{row.line} {row.fault}; the row is left out", file=sys.stderr)
        return examples

    def _model(self, kind: str, labels: tuple[str, ...]) -> Bundle:
        """The encoder with a new head for the task and the labels of the examples."""
        s = self.s
        bundle = load(s.model)
        if bundle.family != "bert":
            raise InputError(f"{s.model} is a {bundle.family}; fine-tuning takes folders of BERT")
        torch.manual_seed(number(Purpose.WEIGHTS, s.seed))
        encoder = bundle.encoder
        if kind != "tag" and encoder.pooler is None:
            encoder.pooler = Pooler(encoder.width).apply(encoder.start)
        if kind == "tag":
            encoder.pooler = None
        update = {"dropout": s.dropout, "attention_dropout": s.dropout, "pooler": kind != "tag"}
        encoder.settings = encoder.settings.model_copy(update=update)
        set_dropout(encoder, s.dropout)
        head = make_head(kind, encoder, labels)
        assert isinstance(head, nn.Module)
        head.apply(encoder.start)
        encoder.requires_grad_(True)
        if s.length and s.length > encoder.length:
            raise InputError(f"{s.model} reads {encoder.length} tokens, not {s.length}")
        return Bundle(encoder, bundle.tokenizer, kind=kind, head=head, labels=labels)

    def _rows(self, task: Learned, bundle: Bundle, examples: Sequence[Example]) -> Rows:
        length = min(self.s.length or bundle.length, bundle.length)
        ready: list[Ready] = []
        for start in range(0, len(examples), ENCODED_AT_ONCE):
            part = examples[start : start + ENCODED_AT_ONCE]
            for example, encoding in zip(part, task.features(part, bundle.tokenizer), strict=True):
                cut = windows(encoding, length, self.s.long)
                ready.append(Ready(cut, [task.targets(example, encoding, window) for window in cut]))
        return Rows(ready, [example.text for example in examples])

    def _train(self, learner: Learner, feeds: list[Rows]) -> Outcome:
        s = self.s
        order = Steps(np.ones(len(feeds[0].sizes)), s.seed, s.batch)  # by examples, not by tokens
        steps = max(1, round(s.epochs * order.per_epoch))
        settings = TrainSettings(
            seed=s.seed,
            steps=steps,
            micro=s.micro,
            rate=s.rate,
            warmup=s.warmup,
            check_every=max(1, min(max(order.per_epoch, -(-steps // CHECKS)), steps // 2)),
            dev_tokens=1 << 62,
            second_moment=0.999,
            tiny=1e-8,
            save_every=s.save_every,
            workers=s.workers,
        )
        outcome = Loop(learner, feeds[0], feeds[1], settings, self.run, Processes(), Clock(), order).train()
        if outcome.best != outcome.steps:
            load_weights(learner, checkpoint.load(self.run.checkpoints, outcome.best))
        return outcome

    def _judge(self, bundle: Bundle, outcome: Outcome, dev: Sequence[Example]) -> Taught:
        """Scores on held-out examples as a user would get them; classes also get a temperature and a sheet of decisions."""
        predictor = Predictor(bundle, self.s.threads)
        if bundle.kind == "classify":
            logits = np.array([scores.tolist() for scores in predictor.raw(dev, self.s.long)])
            truth = np.array([bundle.labels.index(str(example.label)) for example in dev if isinstance(example, Labelled)])
            bundle.settings["temperature"] = temperature(logits, truth)
        found, answers = score(predictor, dev, self.s.long)
        decided = sheet(answers, bundle.labels) if answers else {}
        if self.s.precision and bundle.kind == "classify":
            self._set_threshold(bundle, answers)
        return Taught(outcome, found, decided)

    def _set_threshold(self, bundle: Bundle, answers: Sequence[tuple[str, str, float]]) -> None:
        assert self.s.precision is not None
        chosen = decide([c for _, _, c in answers], [t == s for t, s, _ in answers], self.s.precision)
        if chosen.threshold is None:
            print(
                f"WARNING: no confidence is right {self.s.precision:.0%} of the time; the model will always be unsure",
                file=sys.stderr,
            )
        bundle.settings["threshold"] = NEVER if chosen.threshold is None else chosen.threshold

    def _save(self, bundle: Bundle, taught: Taught, trained: int, held: int, force: bool) -> None:
        page = self.run.folder / "curves.html"
        page.write_text(curves(list(self.run.journal), self.target.name), encoding="utf-8")
        made = {
            "by": "finetune",
            "settings": self.s.model_dump(),
            "examples": {"trained": trained, "held_out": held},
            "best_step": taught.outcome.best,
            "steps": taught.outcome.steps,
            "scores": {name: interval._asdict() for name, interval in taught.scores.items()},
            "machine": machine(),
        }
        save(bundle, self.target, force, made, {"metrics.jsonl": self.run.journal.path, "curves.html": page})


def _labels(task: str, examples: Sequence[Example]) -> tuple[str, tuple[str, ...]]:
    """What kind of head the examples ask for, and its labels in order."""
    if task == "regress":
        return "regress", ()
    if task == "tag":
        types = sorted({span.label for example in examples if isinstance(example, Tagged) for span in example.spans})
        return "tag", tuple(tags_of(types))
    labels = [example.label for example in examples if isinstance(example, Labelled)]
    several = any(isinstance(label, tuple) for label in labels)
    names = {name for label in labels for name in (label if isinstance(label, tuple) else (str(label),))}
    if len(names) < 2:
        raise InputError(f"there is only one class, {next(iter(names), 'none')!r}: nothing can be told apart")
    return "several" if several else "classify", tuple(sorted(names))


def _weights(examples: Sequence[Example], labels: Sequence[str]) -> list[float]:
    """Classes weigh so that each counts the same in all."""
    names = [example.label for example in examples if isinstance(example, Labelled)]
    counts = np.array([max(1, names.count(label)) for label in labels])
    return (len(names) / (len(labels) * counts)).tolist()  # type: ignore[no-any-return]


def _task(bundle: Bundle, weights: Sequence[float] | None) -> Learned:
    if bundle.kind == "regress":
        return Regress()
    if bundle.kind == "tag":
        return Tag(bundle.labels)
    return Classify(bundle.labels, bundle.kind == "several", weights)


def show(taught: Taught, out: str | Path, as_json: bool) -> None:
    """Print the scores and, for classes, what the model may decide alone."""
    if as_json:
        scores = {name: interval._asdict() for name, interval in taught.scores.items()}
        sheets = {name: [decided._asdict() for decided in rows] for name, rows in taught.sheet.items()}
        print(json.dumps({"out": str(out), "steps": taught.outcome.steps, "metrics": scores, "decisions": sheets}))
        return
    best = f"{taught.outcome.steps:,} steps, the best was step {taught.outcome.best:,}"
    print(f"{out}: {best}; on held-out examples, with 95 % intervals:")
    for name, (value, low, high) in taught.scores.items():
        print(f"  {name.replace('_', ' '):14} {value:8.4f}   {low:.4f} to {high:.4f}")
    if taught.sheet:
        print("May decide alone, if it is to be right so often:")
        print(f"  {'answer':20}" + "".join(f"{decided.precision:>24.0%}" for decided in taught.sheet["all"]))
        for name, rows in taught.sheet.items():
            print(f"  {name:20}" + "".join(f"{_cell(decided):>24}" for decided in rows))


def _cell(decided: Decided) -> str:
    if decided.threshold is None:
        return "none"
    value, low, high = decided.decided
    return f"{value:.0%} ({low:.0%} to {high:.0%})"
