"""Train an encoder-decoder on pairs: open or make it, encode both sides, run the loop."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from firth.base.clock import Clock
from firth.base.errors import InputError
from firth.base.notes import note
from firth.base.seeds import Purpose, number
from firth.data.examples import Example
from firth.data.feed import Steps
from firth.data.sides import EncodedPair, PairFeed
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.nn.draws import new_weights
from firth.recipes.finetune import PARTS, task_of_examples
from firth.recipes.newpair import plan_pair_model
from firth.recipes.settings import FinetuneSettings
from firth.tasks.translate import Translate
from firth.train import checkpoint
from firth.train.learner import Learner
from firth.train.loop import Loop, Outcome, load_measured
from firth.train.processes import Processes
from firth.train.run import Run
from firth.train.settings import TrainSettings

ENCODED_AT_ONCE = 1024
LENGTH = 256  # tokens of a side, of a new model and of one without a limit
RATE = 1e-3  # peak learning rate of a new model, where its family has no usual one
LEARNED_RATE = 0.2  # of it, for a model that has learned already
PAIRS_SEEN, LEAST_EPOCHS, MOST_EPOCHS = 600_000, 10, 100
# Target tokens in a step, and how many steps an epoch has at least, if steps may be smaller.
BATCH, SMALLEST_BATCH, STEPS_AN_EPOCH = 4096, 512, 50


def train_pairs(
    s: FinetuneSettings,
    run: Run,
    kind: str,
    labels: tuple[str, ...],
    examples: Sequence[Example],
    dev: Sequence[Example],
    *,
    quiet: bool = False,
) -> tuple[Bundle, Outcome]:
    """Train or resume in a run's folder; return the best model on `dev`, without one the last."""
    clock = Clock()
    task = task_of_examples(s, kind, labels, examples)
    assert isinstance(task, Translate)
    task.check_long(s.long)
    bundle = _model(s, kind, examples, quiet)
    s = settled_pairs(s, len(examples), bundle)
    parts = [_encode(s, task, bundle, part) for part in (examples, dev)]
    if not parts[0].pairs:
        raise InputError(
            f"{s.train} has no pair with sides of up to {bundle.length} tokens to learn from"
        )
    if not quiet:
        _say_left_out(bundle.length, parts)
    first = bundle.translator.first
    train_feed, dev_feed = (PairFeed(part.pairs, part.texts, first) for part in parts)
    learner = Learner(bundle.translator, None, task)
    outcome = _train(s, run, learner, train_feed, dev_feed, clock)
    learner.eval().requires_grad_(False)
    return bundle, outcome


def settled_pairs(s: FinetuneSettings, pairs: int, bundle: Bundle) -> FinetuneSettings:
    """Decide what was left open, but for the tokens of a step: they depend on encoded pairs."""
    model = bundle.translator
    rate = s.rate
    if rate is None:
        rate = bundle.record.training(model.settings).get("lr", RATE)
        if s.new_family is None:
            rate *= LEARNED_RATE
    epochs = s.epochs
    if epochs is None and s.steps is None and s.minutes is None:
        epochs = float(np.clip(round(PAIRS_SEEN / pairs), LEAST_EPOCHS, MOST_EPOCHS))
    return s.model_copy(update={"epochs": epochs, "rate": rate})


def _model(s: FinetuneSettings, kind: str, examples: Sequence[Example], quiet: bool) -> Bundle:
    """Open or make the encoder-decoder."""
    given = load(s.model) if s.new_family is None else plan_pair_model(s, examples, quiet)
    with new_weights(number(Purpose.WEIGHTS, s.seed)):
        bundle = given if isinstance(given, Bundle) else given.make()
    model = bundle.translator
    if s.length and model.length and s.length > model.length:
        raise InputError(f"{s.model} reads {model.length} tokens, not {s.length}")
    bundle.kind = kind
    bundle.writes_spans = False
    limit = bundle.length if s.new_family is None else None
    length = s.length or limit or LENGTH
    if length != model.length:
        bundle.settings["length"] = length
    bundle.settings["long"] = s.long
    model.set_dropout(s.dropout)
    model.requires_grad_(True)
    return bundle


class EncodedPairs(NamedTuple):
    """Pairs of which both sides fit the model, and how many don't."""

    pairs: list[EncodedPair]
    texts: list[str]  # their sources
    longer: int

    @property
    def total(self) -> int:
        """Return how many pairs there were."""
        return len(self.pairs) + self.longer


def _encode(
    s: FinetuneSettings, task: Translate, bundle: Bundle, examples: Sequence[Example]
) -> EncodedPairs:
    """Encode both sides; pairs with one that is too long would teach to break off."""
    found: list[EncodedPair] = []
    texts: list[str] = []
    longer = 0
    length = bundle.length or LENGTH
    end = bundle.translator.end
    for start in range(0, len(examples), ENCODED_AT_ONCE):
        some = examples[start : start + ENCODED_AT_ONCE]
        sources = task.encode(some, bundle.tokenizer)
        targets = task.encode_targets(some, bundle.targets, end)
        for example, (source,), target in zip(some, sources, targets, strict=True):
            longest = max(len(source), len(target))
            if longest > length and s.long == "error":
                raise InputError(
                    f"a side has {longest:,} tokens where the model takes {length}: "
                    f"{example.text[:60]!r} (--long cut leaves such pairs out)"
                )
            if longest > length:
                longer += 1
                continue
            found.append(EncodedPair(source.ids, target))
            texts.append(example.text)
    return EncodedPairs(found, texts, longer)


def _say_left_out(length: int | None, parts: Sequence[EncodedPairs]) -> None:
    """Say how many pairs are too long to be learned or measured."""
    said = [
        f"{part.longer:,} of {part.total:,} {what}"
        for part, what in zip(parts, PARTS, strict=True)
        if part.longer
    ]
    if said:
        which = f"pairs with a side of more than {length} tokens are left out"
        note(f"{which}: {' and '.join(said)} (--length)")


def _train(
    s: FinetuneSettings,
    run: Run,
    learner: Learner,
    feed: PairFeed,
    dev: PairFeed,
    clock: Clock,
) -> Outcome:
    """Run the loop; a step is so many tokens of targets."""
    sizes = feed.targets.sizes
    batch = s.batch or int(np.clip(sizes.sum() // STEPS_AN_EPOCH, SMALLEST_BATCH, BATCH))
    order = Steps(sizes, s.seed, batch)
    steps = s.steps
    if s.epochs:
        steps = max(1, round(s.epochs * order.per_epoch))
    settings = TrainSettings(
        seed=s.seed,
        steps=steps,
        seconds=s.minutes * 60 if s.minutes else None,
        batch=batch,
        micro=s.micro,
        lr=s.rate or 0.0,
        warmup=s.warmup,
        schedule=s.schedule,
        average=s.average,
        weight_decay=s.weight_decay,
        grad_clip=s.clip,
        check_every=order.per_epoch if s.patience else None,
        patience=s.patience,
        dev_tokens=1 << 62,
        eps=1e-9,
        save_every=s.save_every,
        workers=s.workers,
    )
    outcome = Loop(learner, feed, dev, settings, run, Processes(), clock, order).train()
    if outcome.best != outcome.steps:
        load_measured(learner, checkpoint.load_checkpoint(run.checkpoints, outcome.best))
    return outcome
