"""Recipes that descend on a loss: size, batch and steps are decided, then the loop runs."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from firth.base.errors import InputError
from firth.corpus.shards import Shards
from firth.data.feed import Feed, Order
from firth.families.family import Family
from firth.families.registry import by_name
from firth.folders.bundle import Bundle
from firth.recipes.recipe import DEV_TOKENS, Trained
from firth.recipes.session import Session
from firth.recipes.settings import PretrainSettings
from firth.text.tokenizer import Tokenizer
from firth.train import checkpoint
from firth.train.forecast import pace
from firth.train.learner import Learner
from firth.train.loop import Loop, Outcome, load_measured
from firth.train.precision import gains_from_bf16
from firth.train.run import TooLate
from firth.train.settings import TrainSettings, training_of

# By the clock: the largest size that still sees so many tokens for each weight of its body, in
# about so many steps.
TOKENS_PER_WEIGHT = 5
STEPS_WANTED = 12000
SMALLEST_BATCH = 1024
LARGEST_BATCH = 8192
LEAST_DEV = 2_000  # tokens that are measured on
# Of the tokens trained on: a measurement costs a third of a step's price, and there are ten.
DEV_SHARE = 0.03
GROWTH = 4  # each size costs some four times the one before
RESUMED_RATE = 0.2  # of the learning rate, for weights that have learned already


class Descent(ABC):
    """A recipe whose model is a network."""

    train: Feed
    dev: Feed
    length: int  # tokens of a row
    batch = 4096  # tokens of a step, where nothing is said
    fixed = False  # whether the batch stays so under --minutes

    def __init__(self, settings: PretrainSettings, tokenizer: Tokenizer) -> None:
        self.s = settings
        self.tokenizer = tokenizer
        self.family: Family = by_name(settings.model)

    def check(self, session: Session) -> None:  # noqa: B027 - any run will do
        """Refuse nothing: a network is trained by one process or by several."""

    @abstractmethod
    def read(self, text: Shards, held: Shards | None, plan: Mapping[str, Any] | None = None) -> int:
        """Make feeds of the text; return how many tokens are held out."""

    @abstractmethod
    def bundle(self, size: str | None) -> Bundle:
        """Return a new model of a named size or, for None, the one to go on with."""

    @abstractmethod
    def learner(self, bundle: Bundle) -> Learner:
        """Return the module that the loop trains."""

    @abstractmethod
    def order(self, batch: int) -> Order:
        """Return which examples each step has."""

    @abstractmethod
    def baseline(self, most: int) -> dict[str, Any]:
        """Return how well so many held-out tokens are predicted by frequency alone."""

    def remarks(self) -> list[str]:
        """Return what there is to say of the model that training begins with."""
        return []

    def decide(self, session: Session) -> dict[str, Any]:
        """Return the size and the settings of the loop, with all that was left open."""
        s = self.s
        size = s.size or (None if s.init else self.family.default_size)
        batch = s.batch or self.batch
        dev_tokens = DEV_TOKENS
        bf16 = s.dtype == "bf16" or (s.dtype == "auto" and gains_from_bf16())
        if s.minutes:
            sizes = [size] if s.size or s.init else self.family.timed_sizes
            left = _time_left(session, s.minutes * 60)
            size, tokens = self._forecast(session, sizes, left, bf16)
            batch = self._batch(tokens)
            dev_tokens = int(min(dev_tokens, max(LEAST_DEV, DEV_SHARE * tokens)))
        steps = s.steps
        if s.epochs:
            steps = max(1, round(s.epochs * self.order(batch).per_epoch))
        training = TrainSettings(
            seed=s.seed,
            steps=steps,
            seconds=s.minutes * 60 if s.minutes else None,
            batch=batch,
            micro=s.micro,
            check_every=s.check_every,
            dev_tokens=dev_tokens,
            precision="bf16" if bf16 else "fp32",
            schedule=s.schedule,
            **self.training(self.bundle(size)),
        )
        return {"size": size, "training": training.model_dump()}

    def training(self, bundle: Bundle) -> dict[str, Any]:
        """Return what suits the family, unless the settings say otherwise."""
        s = self.s
        found: dict[str, Any] = self.family.training(bundle.network.settings)
        if s.init and "lr" in found:
            found["lr"] *= RESUMED_RATE
        asked = {"lr": s.rate, "weight_decay": s.weight_decay, "grad_clip": s.clip}
        return found | {name: value for name, value in asked.items() if value is not None}

    def run(self, session: Session, plan: Mapping[str, Any]) -> Trained:
        """Run the loop, and keep the weights of the best step."""
        bundle = self.bundle(plan["size"])
        for remark in self.remarks():
            session.say(remark)
        learner = self.learner(bundle)
        free = self.s.model_dump(include={"save_every", "workers"})
        settings = TrainSettings(**training_of(plan) | free)
        loop = Loop(
            learner,
            self.train,
            self.dev,
            settings,
            session.run,
            session.processes,
            session.clock,
            self.order(settings.batch),
        )
        outcome = _best(session, learner, loop.train())
        baseline: dict[str, Any] = {}
        if session.processes.leads:  # the one that saves the model
            baseline = self.baseline(settings.dev_tokens)
        return Trained(bundle, outcome, baseline)

    def _batch(self, tokens: float) -> int:
        """Return how many tokens a step has, where a run sees so many."""
        if self.s.batch or self.fixed:
            return self.s.batch or self.batch
        near: int = 2 ** round(math.log2(max(1, tokens / STEPS_WANTED)))
        return min(max(near, SMALLEST_BATCH), LARGEST_BATCH)

    def _forecast(
        self, session: Session, sizes: Sequence[str | None], seconds: float, bf16: bool
    ) -> tuple[str | None, float]:
        """Try sizes, smallest first, and choose the largest that sees enough text in the time."""
        chosen: tuple[str | None, float] = (sizes[0], 0.0)
        for size in sizes:
            bundle = self.bundle(size)
            enough = TOKENS_PER_WEIGHT * _weights(bundle)
            if chosen[1] and chosen[1] / GROWTH < enough / 2:
                break
            tokens = self._tokens(bundle, seconds, bf16)
            passes = tokens / int(self.train.sizes.sum())
            session.say(
                f"forecast: {size or self.s.init}: {tokens / seconds:,.0f} tokens/s, "
                f"{tokens / 1e6:,.1f} million tokens in {seconds / 60:.1f} minutes, "
                f"{passes:.2g} passes over the text"
            )
            if chosen[1] and tokens < enough:
                break
            chosen = (size, tokens)
        if len(sizes) > 1:
            session.say(f"size {chosen[0]} fits the time best")
        return chosen

    def _tokens(self, bundle: Bundle, seconds: float, bf16: bool) -> float:
        """Return how many tokens a model sees in the time."""
        learner = self.learner(bundle)
        batch = self.s.batch or self.batch
        tokens = pace(learner, self.train, self.order(batch), bf16) * seconds
        if self._batch(tokens) != batch:  # smaller steps are slower
            order = self.order(self._batch(tokens))
            tokens = pace(learner, self.train, order, bf16) * seconds
        return tokens


def _time_left(session: Session, seconds: float) -> float:
    taken = session.clock()
    if taken >= seconds:
        raise TooLate(
            f"reading the text took {taken:,.0f} s, and the run was to take {seconds:,.0f}: "
            f"ask for more; what was encoded is kept in {session.run.data}"
        )
    return seconds - taken


def _weights(bundle: Bundle) -> int:
    """Return how many weights every token meets."""
    return sum(parameter.numel() for parameter in bundle.network.body.parameters())


def _best(session: Session, learner: Learner, outcome: Outcome) -> Outcome:
    """Take the best step's weights; if its checkpoint was damaged, stay with the last."""
    if outcome.best == outcome.steps:
        return outcome
    try:
        load_measured(learner, checkpoint.load_checkpoint(session.run.checkpoints, outcome.best))
    except InputError as error:
        session.say(f"WARNING: {error}; the last weights are kept in place of the best")
        measured = [record["dev"] for record in session.run.journal if "dev" in record]
        return Outcome(outcome.steps, outcome.steps, measured[-1])
    return outcome
