"""Teach one model once: the encoder with a head for the task, its examples as rows, and the loop."""

import sys
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field, field_validator, model_validator
from torch import nn

from firth.base.arguments import MOST_THREADS
from firth.base.clock import Clock
from firth.base.errors import InputError
from firth.base.seeds import Purpose, number
from firth.base.settings import Settings
from firth.data.examples import Example, Labelled, Tagged, labels_of
from firth.data.feed import Steps
from firth.data.rows import Ready, Rows
from firth.data.task import Learner
from firth.data.window import windows
from firth.data.words import torn
from firth.folders.bundle import Bundle, load
from firth.models.bert import Bert
from firth.models.features import Features
from firth.models.gpt import Gpt
from firth.nn.heads import LinearHead, Pooler
from firth.recipes.frozen import store
from firth.recipes.start import set_dropout
from firth.recipes.subset import narrow, widen
from firth.tasks.classify import Classify
from firth.tasks.embed import parse_layers
from firth.tasks.head import make_head
from firth.tasks.regress import Regress
from firth.tasks.tag import Tag
from firth.train import checkpoint
from firth.train.loop import Loop, Outcome, TrainSettings, load_weights
from firth.train.processes import Processes
from firth.train.run import Run

CHECKS = 4  # measurements in a run of many short epochs; else, and where patience counts them, one an epoch
ENCODED_AT_ONCE = 1024
RATE_TIMES_WIDTH = (
    0.0384  # wider models need smaller steps: 3e-4 for tiny, 1e-4 for minilm, 5e-5 for base
)
EXAMPLES_SEEN, LEAST_EPOCHS = 10_000, 3.0  # few examples are seen more often
MOST_EPOCHS = {
    "classify": 10.0,
    "regress": 10.0,
    "tag": 30.0,
}  # most words are no name, so that names take longer
BATCHES = ((500, 8), (2_000, 16))  # fewer examples than that, and so many in a step
BATCH = 32
HEAD_RATE, HEAD_EPOCHS = 5e-3, 20.0  # a head alone learns faster and costs next to nothing
# Metrics by which the best model of a kind may be selected, the default first; F1 of one class is for two classes.
METRICS = {
    "classify": ("accuracy", "macro_f1", "matthews", "f1"),
    "several": ("micro_f1", "macro_f1", "exact"),
    "regress": ("pearson", "mse"),
    "tag": ("f1", "accuracy"),
}
Learned = Classify | Regress | Tag


class FinetuneSettings(Settings):
    """What to learn, from what, and how."""

    task: Literal["classify", "regress", "tag"]
    model: str
    train: str
    out: str
    dev: str | None = None
    text: str | None = Field(default=None, min_length=1)
    second: str | None = Field(default=None, min_length=1)
    label: str | None = Field(default=None, min_length=1)
    missing: list[str] = Field(default_factory=list)
    encoding: str | None = Field(default=None, min_length=1)
    epochs: float | None = Field(default=None, gt=0)
    batch: int | None = Field(default=None, gt=0)  # examples in a step
    micro: int = Field(default=2048, gt=0)
    rate: float | None = Field(default=None, gt=0, lt=1)
    warmup: float = Field(default=0.1, ge=0, lt=1)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    top: int | None = Field(default=None, gt=0)
    features: str | None = None
    combine: Literal["concat", "sum", "weights"] | None = None
    length: int | None = Field(default=None, gt=4)
    long: Literal["cut", "slide", "error"] = "cut"
    balance: bool = False
    new_head: bool = False
    select: str | None = None
    patience: int | None = Field(default=None, gt=0)
    precision: float | None = Field(default=None, gt=0, lt=1)
    seed: int = Field(default=1, ge=0, lt=1 << 62)
    seeds: int = Field(default=1, gt=0, le=100)
    folds: int | None = Field(default=None, gt=1, le=100)
    save_every: int | None = Field(default=None, gt=0)
    workers: int = Field(default=1, ge=0, le=64)
    threads: int | None = Field(default=None, gt=0, le=MOST_THREADS)

    @field_validator("missing", mode="before")
    @classmethod
    def _words(cls, words: Any) -> Any:
        """One word or several, in an order of their own, so that a run is told by which they are."""
        if isinstance(words, str):
            return [words]
        return (
            sorted(set(words))
            if isinstance(words, list | tuple | set)
            and all(isinstance(word, str) for word in words)
            else words
        )

    @model_validator(mode="after")
    def _fits(self) -> "FinetuneSettings":
        if self.top and self.features:
            raise ValueError("--top teaches layers and --features teaches none; say one of them")
        if self.combine and not self.features:
            raise ValueError(
                "--combine is for the layers of --features; say which, or leave it out"
            )
        if self.folds and (self.seeds > 1 or self.dev):
            raise ValueError(
                "--folds measures every example of --train in turn; leave --dev and --seeds out"
            )
        if self.patience and self.folds:
            raise ValueError(
                "--patience needs examples to measure on, and with --folds they are kept for the end"
            )
        if self.select and self.folds:
            raise ValueError(
                "--select needs examples to measure on, and with --folds they are kept for the end"
            )
        known = METRICS[self.task] + (METRICS["several"] if self.task == "classify" else ())
        if self.select is not None and self.select not in known:
            raise ValueError(
                f"--select {self.select} is no metric of {self.task}; there are: {', '.join(dict.fromkeys(known))}"
            )
        for name in ("balance", "precision"):
            if getattr(self, name) and self.task != "classify":
                raise ValueError(f"--{name} is for classes; leave it out of {self.task}")
        return self


def decided(s: FinetuneSettings, examples: int, width: int) -> FinetuneSettings:
    """What was left open, decided by how many examples there are and how wide the model is."""
    alone = s.features is not None
    batch = s.batch or next((size for most, size in BATCHES if examples < most), BATCH)
    passes = float(np.clip(round(EXAMPLES_SEEN / examples), LEAST_EPOCHS, MOST_EPOCHS[s.task]))
    epochs = s.epochs or (HEAD_EPOCHS if alone else passes)
    rate = s.rate or (HEAD_RATE if alone else RATE_TIMES_WIDTH / width)
    return s.model_copy(update={"batch": batch, "epochs": epochs, "rate": rate})


def metric_of(s: FinetuneSettings, kind: str, labels: Sequence[str]) -> str:
    """Return the metric that selects the best model: the one asked for, with --balance macro F1, else the task's own."""
    known = [name for name in METRICS[kind] if name != "f1" or kind == "tag" or len(labels) == 2]
    if s.select is None:
        return "macro_f1" if s.balance else known[0]
    if s.select not in known:
        what = {"classify": f"{len(labels)} classes", "several": "lists of labels"}[kind]
        raise InputError(f"--select {s.select} is not for {what}; there are: {', '.join(known)}")
    return s.select


def teach(
    s: FinetuneSettings,
    run: Run,
    kind: str,
    labels: tuple[str, ...],
    train: Sequence[Example],
    dev: Sequence[Example],
    *,
    keep: bool = False,
    quiet: bool = False,
) -> tuple[Bundle, Outcome]:
    """Begin or go on in a run's folder until the end; the best model on `dev` is given or, if that is empty, the last.

    `keep` goes on with the head that the model has, `quiet` leaves unsaid what was said of the same texts before.
    """
    bundle = _model(s, kind, labels, train, keep)
    s = decided(s, len(train), bundle.encoder.width)
    weights = _weights(train, labels) if s.balance and kind == "classify" else None
    task = lesson(kind, labels, train, weights, metric_of(s, kind, labels))
    if keep and isinstance(task, Regress):
        task.unfold(bundle.encoder, bundle.head)
    read = [_rows(s, task, bundle, part) for part in (train, dev)]
    rows = [part for part, _ in read]
    if not quiet:
        _say_longer(s, bundle.length, [odd.longer for _, odd in read], rows)
        _say_torn([odd.torn for _, odd in read], [train, dev])
    reader: nn.Module = bundle.reader
    waiting = None
    if bundle.features:
        reader, rows = store(
            bundle.features, rows, run.folder / "features.npy", whole_texts=kind != "tag"
        )
    elif not s.top:
        waiting, rows = narrow(bundle.encoder, rows)
    learner = Learner(reader, bundle.head, task)
    outcome = _train(s, run, learner, rows)
    if bundle.features:
        (run.folder / "features.npy").unlink()
    if waiting:
        widen(bundle.encoder, waiting)
    learner.eval().requires_grad_(False)  # the head drops nothing either when it is judged
    bundle.encoder.eval()
    if isinstance(task, Regress):
        task.fold(bundle.encoder, learner.head)
    return bundle, outcome


def lesson(
    kind: str,
    labels: Sequence[str],
    examples: Sequence[Example] = (),
    weights: Sequence[float] | None = None,
    select: str | None = None,
) -> Learned:
    """What a kind of model learns, numbers by how those of the examples lie."""
    if kind == "regress":
        return Regress.of(examples, select)
    return (
        Tag(labels, select)
        if kind == "tag"
        else Classify(labels, kind == "several", weights, select=select)
    )


def _weights(examples: Sequence[Example], labels: Sequence[str]) -> list[float]:
    """Classes weigh so that each counts the same in all."""
    names = [example.label for example in examples if isinstance(example, Labelled)]
    counts = np.array([max(1, names.count(label)) for label in labels])
    return (len(names) / (len(labels) * counts)).tolist()  # type: ignore[no-any-return]


def _model(
    s: FinetuneSettings, kind: str, labels: tuple[str, ...], train: Sequence[Example], keep: bool
) -> Bundle:
    """The encoder with a head for the task and the labels of the examples: its own, or a new one."""
    bundle = load(s.model)
    encoder = bundle.encoder
    if s.length and s.length > encoder.length:
        raise InputError(f"{s.model} reads {encoder.length} tokens, not {s.length}")
    torch.default_generator.manual_seed(number(Purpose.WEIGHTS, s.seed))
    features = bundle.features if keep else _features(s, encoder)
    _prepare(encoder, s.dropout, pooled=kind != "tag" and features is None)
    head = (
        _kept(bundle, s.dropout)
        if keep
        else make_head(kind, encoder, labels, width=features.width if features else None)
    )
    assert isinstance(head, nn.Module)
    if not keep:
        head.apply(encoder.start if isinstance(encoder, Bert) else encoder.fresh)
    _choose(s, encoder)
    length = s.length or bundle.length
    shapes = {example.second is not None for example in train if isinstance(example, Labelled)}
    settings = {
        "long": s.long,
        **({"length": length} if length != encoder.length else {}),
        **({"pairs": shapes.pop()} if len(shapes) == 1 else {}),  # of both nothing can be said
        **({"missing": s.missing} if s.missing else {}),
    }
    return Bundle(
        encoder,
        bundle.tokenizer,
        bundle.family,
        kind,
        head,
        labels,
        settings=settings,
        features=features,
    )


def _kept(bundle: Bundle, dropout: float) -> LinearHead:
    """The head that a model has, and how it mixes layers, to be trained on."""
    head = bundle.head
    assert isinstance(head, LinearHead)
    head.dropout = dropout
    head.requires_grad_(True)
    if bundle.features:
        bundle.features.mix.requires_grad_(True)
    return head


def _prepare(encoder: Bert | Gpt, dropout: float, pooled: bool) -> None:
    """Let every layer drop at one rate, and give a BERT the summary of a text that its head reads, or take it away."""
    rates = {"dropout": dropout, "attention_dropout": dropout}
    if isinstance(encoder, Bert):
        if pooled and encoder.pooler is None:
            encoder.pooler = Pooler(encoder.width).apply(encoder.start)
        if not pooled:
            encoder.pooler = None
        encoder.settings = encoder.settings.model_copy(update={**rates, "pooler": pooled})
    else:
        encoder.settings = encoder.settings.model_copy(
            update={**rates, "embedding_dropout": dropout}
        )
    set_dropout(encoder, dropout)


def _features(s: FinetuneSettings, encoder: Bert | Gpt) -> Features | None:
    if s.features is None:
        return None
    layers = parse_layers(s.features)
    if not all(-encoder.depth - 1 <= layer <= encoder.depth for layer in layers):
        raise InputError(
            f"{s.model} has layers from 0 (the embedding) to {encoder.depth}, or from -1 (the last) to -{encoder.depth + 1}"
        )
    return Features(encoder, layers, s.combine or "weights")


def _choose(s: FinetuneSettings, encoder: Bert | Gpt) -> None:
    """Say which weights of the encoder are taught: all, those of the top layers, or none."""
    if s.top and s.top > encoder.depth:
        raise InputError(f"{s.model} has {encoder.depth} layers, not {s.top}")
    encoder.requires_grad_(not s.top and s.features is None)
    last = encoder.norm if isinstance(encoder, Gpt) else encoder.pooler
    for part in [*encoder.blocks[-s.top :], last] if s.top else []:
        if part is not None:
            part.requires_grad_(True)


class Odd(NamedTuple):
    """What of some examples can't be learned as it is."""

    longer: int  # texts that are longer than the model reads
    torn: int  # spans that begin or end inside a word


class TooLong(InputError):
    """A text that the model can't read whole, where that is to be an error."""

    def __init__(self, example: Example, said: str) -> None:
        super().__init__(said)
        self.example = example


def _rows(
    s: FinetuneSettings, task: Learned, bundle: Bundle, examples: Sequence[Example]
) -> tuple[Rows, Odd]:
    """The examples as rows, and what is odd about them."""
    ready: list[Ready] = []
    longer = inside = 0
    for start in range(0, len(examples), ENCODED_AT_ONCE):
        part = examples[start : start + ENCODED_AT_ONCE]
        for example, encoding in zip(part, task.features(part, bundle.tokenizer), strict=True):
            try:
                cut = windows(encoding, bundle.length, s.long)
            except InputError as error:
                raise TooLong(example, str(error)) from error
            inside += torn(example, encoding) if isinstance(example, Tagged) else 0
            longer += bundle.length is not None and len(encoding) > bundle.length
            ready.append(Ready.of(cut, [task.targets(example, encoding, window) for window in cut]))
    return Rows(ready, [example.text for example in examples]), Odd(longer, inside)


def _say_torn(counts: Sequence[int], parts: Sequence[Sequence[Example]]) -> None:
    """Say how many spans are learned, or measured, as more than they are."""
    spans = [sum(len(labels_of(example)) for example in part) for part in parts]
    whats = ("to learn from", "to measure on")
    said = [
        f"{count:,} of {whole:,} {what}"
        for count, whole, what in zip(counts, spans, whats, strict=True)
        if count
    ]
    if said:
        print(
            f"note: spans that begin or end inside a word became whole words: {' and '.join(said)}",
            file=sys.stderr,
        )


def _say_longer(
    s: FinetuneSettings, length: int | None, longer: Sequence[int], rows: Sequence[Rows]
) -> None:
    """Say how many texts the model reads only in part, or in several windows."""
    counts = zip(longer, rows, ("to learn from", "to measure on"), strict=True)
    said = [f"{count:,} of {len(part.ready):,} {what}" for count, part, what in counts if count]
    if said:
        how, cure = (
            ("cut", " (--long slide reads them all)")
            if s.long == "cut"
            else ("read in windows", "")
        )
        print(
            f"note: texts longer than {length} tokens were {how}: {' and '.join(said)}{cure}",
            file=sys.stderr,
        )


def _train(s: FinetuneSettings, run: Run, learner: Learner, rows: Sequence[Rows]) -> Outcome:
    assert s.batch
    assert s.epochs
    assert s.rate
    order = Steps(np.ones(len(rows[0].sizes)), s.seed, s.batch)  # by examples, not by tokens
    steps = max(1, round(s.epochs * order.per_epoch))
    settings = TrainSettings(
        seed=s.seed,
        steps=steps,
        micro=s.micro,
        rate=s.rate,
        warmup=s.warmup,
        check_every=min(
            order.per_epoch if s.patience else max(order.per_epoch, -(-steps // CHECKS)),
            -(-steps // 2),
        ),
        patience=s.patience,
        dev_tokens=1 << 62,
        second_moment=0.999,
        tiny=1e-8,
        save_every=s.save_every,
        workers=s.workers,
    )
    outcome = Loop(learner, rows[0], rows[1], settings, run, Processes(), Clock(), order).train()
    if outcome.best != outcome.steps:
        load_weights(learner, checkpoint.load(run.checkpoints, outcome.best))
    return outcome
