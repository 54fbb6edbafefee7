"""Fine-tune one model: build the encoder and task head, encode the examples, run the loop."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from firth.base.clock import Clock
from firth.base.errors import InputError
from firth.base.notes import note
from firth.base.seeds import Purpose, number
from firth.data.examples import Example, is_pair
from firth.data.feed import Steps
from firth.data.rows import EncodedExample, ExampleFeed
from firth.folders.bundle import Bundle
from firth.folders.features import Features
from firth.folders.read import load
from firth.models.protocols import Encoder
from firth.nn.draws import new_weights
from firth.nn.heads import LinearHead
from firth.recipes.frozen import store
from firth.recipes.new import plan_model
from firth.recipes.settings import FinetuneSettings
from firth.recipes.subset import narrow_table, restore_table
from firth.tasks.embed import parse_layers
from firth.tasks.encoded import encode_examples
from firth.tasks.registry import find_trained
from firth.tasks.trained import TrainedTask
from firth.train import checkpoint
from firth.train.learner import Learner
from firth.train.loop import Loop, Outcome, load_measured
from firth.train.processes import Processes
from firth.train.run import Run
from firth.train.settings import TrainSettings

CHECKS = 4  # measurements in a run of many short epochs; else, and for patience, one an epoch
ENCODED_AT_ONCE = 1024
# Wider models need smaller steps: 3e-4 for tiny, 1e-4 for minilm, 5e-5 for base.
RATE_TIMES_WIDTH = 0.0384
EXAMPLES_SEEN, LEAST_EPOCHS = 10_000, 3.0  # few examples are seen more often
BATCHES = ((500, 8), (2_000, 16))  # fewer examples than that, and so many in a step
BATCH = 32
# Rate and epochs of a head alone: it learns faster, and a linear one costs next to nothing.
OF_HEADS = {"linear": (5e-3, 20.0), "bilstm": (1e-3, 10.0)}
BILSTM_WIDTH = 768  # at most, and else the encoder's, which is 768 in BERT's paper
PARTS = ("to learn from", "to measure on")  # of the examples, in notes


def own_options(s: FinetuneSettings) -> dict[str, Any]:
    """Return the options that are the task's own."""
    return {name: getattr(s, name) for name in find_trained(s.task).options}


def settled(s: FinetuneSettings, examples: int, bundle: Bundle) -> FinetuneSettings:
    """Decide what was left open, by how many examples there are and by the model."""
    encoder = bundle.encoder
    usual_rate = bundle.record.fine_tuning_rate(encoder.settings)
    return decided(s, examples, encoder.width, usual_rate)


def decided(
    s: FinetuneSettings, examples: int, width: int, usual_rate: float | None = None
) -> FinetuneSettings:
    """Decide what was left open; a model without a usual learning rate has one by its width."""
    batch = s.batch or next((size for most, size in BATCHES if examples < most), BATCH)
    most_epochs = find_trained(s.task).most_epochs
    passes = np.clip(round(EXAMPLES_SEEN / examples), LEAST_EPOCHS, most_epochs)
    usual_epochs = float(passes)
    if usual_rate is None:
        usual_rate = RATE_TIMES_WIDTH / width
    if s.features is not None:
        usual_rate, usual_epochs = OF_HEADS[s.head or "linear"]

    epochs = s.epochs
    if epochs is None and s.steps is None:
        epochs = usual_epochs
    rate = s.rate or usual_rate
    return s.model_copy(update={"batch": batch, "epochs": epochs, "rate": rate})


def metric_of(s: FinetuneSettings, kind: str, labels: Sequence[str]) -> str:
    """Return the metric that selects the best model: the one asked for, or the task's own."""
    return find_trained(s.task).metric(s.select, kind, labels, own_options(s))


def task_of_examples(
    s: FinetuneSettings, kind: str, labels: Sequence[str], examples: Sequence[Example] = ()
) -> TrainedTask[Any, Any]:
    """Return the task of a model that is to learn from examples."""
    task = find_trained(s.task)
    return task.of_examples(kind, labels, examples, metric_of(s, kind, labels), own_options(s))


def train_task(
    s: FinetuneSettings,
    run: Run,
    kind: str,
    labels: tuple[str, ...],
    examples: Sequence[Example],
    dev: Sequence[Example],
    *,
    keep: bool = False,
    quiet: bool = False,
) -> tuple[Bundle, Outcome]:
    """Train or resume in a run's folder; return the best model on `dev`, without one the last.

    `keep` goes on with the head that the model has, `quiet` leaves unsaid what was said of the same
    texts before.
    """
    bundle = _model(s, kind, labels, examples, keep, quiet)
    s = settled(s, len(examples), bundle)
    task = task_of_examples(s, kind, labels, examples)
    if keep:
        task.prepare(bundle.encoder, bundle.head)
    encoded = [_encode(s, task, bundle, part) for part in (examples, dev)]
    if not quiet:
        _say_longer(s, bundle.length, encoded)
        _say_larger(s, encoded)
        _say_misaligned(encoded, [examples, dev])

    bundle.settings |= task.settings()
    feeds = [part.feed for part in encoded]
    reader: nn.Module = bundle.reader
    waiting = None
    stored = run.folder / "features.npy"
    if bundle.features:
        reader, feeds = store(bundle.features, feeds, stored, whole_texts=task.pooled)
    elif not s.top:
        waiting, feeds = narrow_table(bundle.encoder, feeds)
    learner = Learner(reader, bundle.head, task)
    outcome = _train(s, run, learner, feeds)
    if bundle.features:
        stored.unlink()
    if waiting:
        restore_table(bundle.encoder, waiting)
    learner.eval().requires_grad_(False)  # the head drops nothing either when it is measured
    bundle.encoder.eval()
    task.finish(bundle.encoder, learner.head)
    return bundle, outcome


def _model(
    s: FinetuneSettings,
    kind: str,
    labels: tuple[str, ...],
    train: Sequence[Example],
    keep: bool,
    quiet: bool,
) -> Bundle:
    """Open or make the encoder, with its own head or a new one for the task and the labels."""
    task = find_trained(s.task)
    given = load(s.model) if s.new_family is None else plan_model(s, train, quiet)
    head: nn.Module | None
    with new_weights(number(Purpose.WEIGHTS, s.seed)):
        bundle = given if isinstance(given, Bundle) else given.make()
        encoder = bundle.encoder
        if s.length and encoder.length and s.length > encoder.length:
            raise InputError(f"{s.model} reads {encoder.length} tokens, not {s.length}")
        encoder.drop_output()
        features = bundle.features if keep else _features(s, encoder)
        encoder.set_pooler(task.pooled and features is None)
        encoder.set_dropout(s.dropout)
        if features and features.bilstm:
            features.bilstm.dropout = s.dropout
        if keep:
            head = _kept(bundle, s.dropout if task.head_dropout else 0.0)
        else:
            width = features.width if features else None
            head = task.make_head(encoder, kind, labels, width=width)
            assert head is not None
            head.apply(encoder.initialise)
    _choose(s, encoder)

    settings: dict[str, Any] = {"long": s.long}
    length = s.length or bundle.length
    if length != encoder.length:
        settings["length"] = length
    shapes = {is_pair(example) for example in train}
    tokenizer = bundle.tokenizer
    # A head that is kept has learned to read pairs as its folder has them.
    if (
        True in shapes
        and not tokenizer.separates_pairs
        and not (keep and bundle.settings.get("pairs"))
    ):
        tokenizer = tokenizer.separating_pairs()
    if not task.single and len(shapes) == 1:  # of both nothing can be said
        settings["pairs"] = shapes.pop()
    if s.missing:
        settings["missing"] = s.missing
    return Bundle(
        encoder,
        tokenizer,
        bundle.family,
        kind,
        head,
        labels,
        settings=settings,
        features=features,
    )


def _kept(bundle: Bundle, dropout: float) -> LinearHead:
    """Return the head that a model has, and what it reads layers by, to be trained on."""
    head = bundle.head
    assert isinstance(head, LinearHead)
    head.dropout = dropout
    head.requires_grad_(True)
    if bundle.features:
        bundle.features.mix.requires_grad_(True)
        if bundle.features.bilstm:
            bundle.features.bilstm.requires_grad_(True)
    return head


def _features(s: FinetuneSettings, encoder: Encoder) -> Features | None:
    if s.features is None:
        return None
    layers = parse_layers(s.features)
    if not all(-encoder.depth - 1 <= layer <= encoder.depth for layer in layers):
        first = f"{s.model} has layers from 0 (the embedding) to {encoder.depth}"
        raise InputError(f"{first}, or from -1 (the last) to -{encoder.depth + 1}")
    bilstm = min(encoder.width, BILSTM_WIDTH) if s.head == "bilstm" else 0
    return Features(encoder, layers, s.combine or "weights", bilstm)


def _choose(s: FinetuneSettings, encoder: Encoder) -> None:
    """Choose which weights of the encoder are trained: all, those of the top layers, or none."""
    if s.top and s.top > encoder.depth:
        raise InputError(f"{s.model} has {encoder.depth} layers, not {s.top}")
    encoder.requires_grad_(not s.top and s.features is None)
    for part in encoder.top_layers(s.top) if s.top else ():
        part.requires_grad_(True)
    if s.freeze:
        encoder.table.requires_grad_(False)


class EncodedPart(NamedTuple):
    """Some examples as a feed, and what of them can't be learned as it is."""

    feed: ExampleFeed
    longer: int  # texts that are longer than the model reads
    misaligned: int  # spans that begin or end inside a word


def _encode(
    s: FinetuneSettings, task: TrainedTask[Any, Any], bundle: Bundle, examples: Sequence[Example]
) -> EncodedPart:
    """Encode examples, with their targets."""
    encoded: list[EncodedExample] = []
    longer = misaligned = 0
    for start in range(0, len(examples), ENCODED_AT_ONCE):
        part = examples[start : start + ENCODED_AT_ONCE]
        for example, one in zip(part, encode_examples(task, part, bundle, s.long), strict=True):
            targets = [
                [task.targets(example, one.encodings, number, window) for window in rows]
                for number, rows in enumerate(one.windows)
            ]
            encoded.append(EncodedExample.of(one.windows, targets))
            misaligned += sum(task.misaligned(example, encoding) for encoding in one.encodings)
            longest = max(len(encoding) for encoding in one.encodings)
            longer += bundle.length is not None and longest > bundle.length
    feed = ExampleFeed(encoded, [example.text for example in examples])
    return EncodedPart(feed, longer, misaligned)


def _say_misaligned(encoded: Sequence[EncodedPart], parts: Sequence[Sequence[Example]]) -> None:
    """Say how many spans are learned, or measured, as more than they are."""
    said = []
    for one, examples, what in zip(encoded, parts, PARTS, strict=True):
        spans = sum(len(example.names) for example in examples)
        if one.misaligned:
            said.append(f"{one.misaligned:,} of {spans:,} {what}")
    if said:
        became = "spans that begin or end inside a word became whole words"
        note(f"{became}: {' and '.join(said)}")


def _say_longer(s: FinetuneSettings, length: int | None, encoded: Sequence[EncodedPart]) -> None:
    """Say how many texts the model reads only in part, or in several windows."""
    said = [
        f"{one.longer:,} of {len(one.feed.examples):,} {what}"
        for one, what in zip(encoded, PARTS, strict=True)
        if one.longer
    ]
    if not said:
        return
    how, cure = "read in windows", ""
    if s.long == "cut":
        how, cure = "cut", " (--long slide reads them all)"
    which = f"texts longer than {length} tokens"
    note(f"{which} were {how}: {' and '.join(said)}{cure}")


def _say_larger(s: FinetuneSettings, encoded: Sequence[EncodedPart]) -> None:
    """Say how many examples alone are more than may be in memory at once: none is parted."""
    said = []
    for one, what in zip(encoded, PARTS, strict=True):
        if larger := int((one.feed.sizes > s.micro).sum()):
            most = f"the largest has {one.feed.sizes.max():,} tokens"
            said.append(f"{larger:,} of {len(one.feed.examples):,} {what}, {most}")
    if said:
        whole = f"examples of more than {s.micro:,} tokens in all their rows are computed whole"
        note(f"{whole}, which takes more memory: {' and '.join(said)} (--micro)")


def _train(
    s: FinetuneSettings, run: Run, learner: Learner, feeds: Sequence[ExampleFeed]
) -> Outcome:
    assert s.batch
    assert s.rate
    order = Steps(np.ones(len(feeds[0].sizes)), s.seed, s.batch)  # by examples, not by tokens
    steps = s.steps or max(1, round((s.epochs or 0) * order.per_epoch))
    settings = TrainSettings(
        seed=s.seed,
        steps=steps,
        micro=s.micro,
        lr=s.rate,
        warmup=s.warmup,
        schedule=s.schedule,
        weight_decay=s.weight_decay,
        grad_clip=s.clip,
        check_every=min(
            order.per_epoch if s.patience else max(order.per_epoch, -(-steps // CHECKS)),
            -(-steps // 2),
        ),
        patience=s.patience,
        dev_tokens=1 << 62,
        beta2=0.999,
        eps=1e-8,
        save_every=s.save_every,
        workers=s.workers,
    )
    outcome = Loop(learner, feeds[0], feeds[1], settings, run, Processes(), Clock(), order).train()
    if outcome.best != outcome.steps:
        load_measured(learner, checkpoint.load_checkpoint(run.checkpoints, outcome.best))
    return outcome
