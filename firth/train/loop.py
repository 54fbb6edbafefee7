"""The one training loop: any model, any lesson, one process or many, by steps or by the clock, and exact after any kill."""

import math
import platform
import sys
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import nn

from firth.base.clock import Clock
from firth.base.errors import FirthError, Stopped
from firth.base.progress import Progress
from firth.base.seeds import Purpose, number
from firth.base.settings import Settings
from firth.base.signals import StopRequest
from firth.data.batch import Batch
from firth.data.feed import Feed, Numbers, Order, Steps, pieces
from firth.data.task import Learner
from firth.train import checkpoint, optim
from firth.train.evaluate import evaluate, some
from firth.train.processes import Processes
from firth.train.run import Run, TooLate

CHECKS = 10  # evaluations in a run, unless it says otherwise
SECONDS_BETWEEN_SAVES = 300.0
KEPT = 2  # newest checkpoints, beside the best
STEPS_AHEAD = 2  # that workers prepare
NAMED = 8  # examples of a step that can't be taken


class TrainSettings(Settings):
    """How to train; a run goes on for `steps`, or until `seconds` have passed."""

    seed: int = Field(default=1, ge=0, lt=1 << 63)
    steps: int | None = Field(default=None, gt=0)
    seconds: float | None = Field(default=None, gt=0)
    batch: int = Field(default=4096, gt=0)  # tokens in a step
    micro: int = Field(default=4096, gt=0)  # tokens that are in memory at once
    rate: float = Field(default=1e-3, gt=0, lt=1)
    warmup: float = Field(default=0.1, ge=0, lt=1)
    decay: float = Field(default=0.01, ge=0, lt=1)
    clip: float = Field(default=1.0, gt=0)
    first_moment: float = Field(
        default=0.9, ge=0, lt=1
    )  # how long the optimizer remembers gradients
    second_moment: float = Field(default=0.98, gt=0, lt=1)  # and their squares
    tiny: float = Field(default=1e-6, gt=0)  # that it adds to the root of these
    save_every: int | None = Field(default=None, gt=0)  # steps; without it every five minutes
    check_every: int | None = Field(default=None, gt=0)  # steps; without it ten times in a run
    patience: int | None = Field(
        default=None, gt=0
    )  # measurements in a row without a better one, and the run ends
    dev_tokens: int = Field(default=100_000, gt=0)  # of held-out text that are measured on, about
    workers: int = Field(default=1, ge=0, le=64)
    precision: Literal["fp32", "bf16"] = "fp32"

    @model_validator(mode="after")
    def _one_end(self) -> "TrainSettings":
        if (self.steps is None) == (self.seconds is None):
            raise ValueError("a run ends after a number of steps or after a time, one of them")
        return self


class Outcome(NamedTuple):
    """How a run ended."""

    steps: int
    best: int  # the step with the lowest loss on held-out text; the last one where there is none
    metrics: dict[str, float]  # of the best, on held-out text


class Loop:
    """A run from its first step, or from its newest checkpoint, to its end."""

    def __init__(
        self,
        learner: Learner,
        feed: Feed,
        dev: Feed | None,
        settings: TrainSettings,
        run: Run,
        processes: Processes,
        clock: Clock,
        order: Order | None = None,
    ) -> None:
        self.learner, self.feed, self.settings, self.run = learner, feed, settings, run
        self.dev = dev if dev is not None and len(dev.sizes) else None
        self.processes, self.clock = processes, clock
        self.order = order or Steps(
            feed.sizes, settings.seed, settings.batch
        )  # by tokens, unless told otherwise
        self.optimizer = optim.make_optimizer(
            learner, settings.decay, settings.first_moment, settings.second_moment, settings.tiny
        )
        self.step = 0
        self.saved = -1
        self.best: dict[str, Any] = {"step": 0, "metrics": {}}
        self.replayed: dict[int, float] = {}  # rates of steps that an earlier process journalled
        self.saved_at = self.checked_at = self.begun_at = clock()
        self.costs = {"save": 0.0, "check": 0.0}  # seconds that the last one took

    def train(self) -> Outcome:
        """Go on until the end is reached."""
        self._resume()
        # After the weights are in place: the exchange begins by giving every process those of the first.
        self.model = self.processes.wrap(self.learner)
        self.learner.train()
        total = self.settings.steps or int(self.settings.seconds or 0)
        done = self.step if self.settings.steps else int(self.clock())
        unit = "steps" if self.settings.steps else "s"
        with (
            StopRequest() as stop,
            self._bar(unit, total, done) as say,
            closing(self._ahead(self.step)) as batches,
        ):
            if self.step == 0:
                self._check()
                self.begun_at = self.clock()
                self._refuse_late()
            tokens, begun = 0, self.clock()
            while not self._ended():
                record = self._step(next(batches), stop)
                tokens += record["tokens"]
                pace = tokens / max(self.clock() - begun, 1e-9)
                say(
                    self.step if self.settings.steps else int(self.clock()),
                    f"loss {record['loss']:.3f}, {pace:,.0f} tokens/s",
                )
                self._keep_up()
            self._check()
            self._save()
            if self.processes.total([stop.asked])[0]:  # others may be to come: seeds, folds
                raise Stopped(
                    f"stopped at the last step, {self.step}, as asked; --resume goes on from there"
                )
        return Outcome(self.step, self.best["step"], self.best["metrics"])

    def _refuse_late(self) -> None:
        """Stop where the time was over before the first step: there is nothing to learn in."""
        late = self.settings.seconds is not None and self.begun_at >= self.settings.seconds
        if self.processes.total([float(late and self.processes.leads)])[0]:
            raise TooLate(
                f"getting ready took {self.begun_at:,.0f} s, and the run was to take {self.settings.seconds:,.0f}: ask for more"
            )

    def _bar(self, unit: str, total: int, done: int) -> Any:
        return (
            Progress("training", unit, total, done)
            if self.processes.leads
            else nullcontext(lambda *_: None)
        )

    def _ended(self) -> bool:
        if self.settings.patience and self.best.get("since", 0) >= self.settings.patience:
            return True
        if self.settings.steps:
            return self.step >= self.settings.steps
        late = self.clock() + self.costs["save"] + self.costs["check"] >= (
            self.settings.seconds or 0
        )
        # However short the time, one step is taken: a model of none would have learned nothing.
        late = late and self.step > 0 and self.step + 1 not in self.replayed
        return bool(self.processes.total([float(late and self.processes.leads)])[0])

    def _step(self, work: "Work", stop: StopRequest) -> dict[str, Any]:
        """One step; nothing is changed if it can't be taken."""
        answers = [self.learner.lesson.counts(batch) for batch in work.batches]
        names = sorted({name for counts in answers for name in counts})
        mine = [sum(counts[name] for counts in answers) for name in names]
        tokens = sum(len(batch.ids) for batch in work.batches)
        *counts, all_tokens, asked = self.processes.total([*mine, tokens, stop.asked])
        if asked:
            self._save()
            raise Stopped(f"stopped at step {self.step} as asked; --resume goes on from there")
        sums = self._gradients(work, dict(zip(names, counts, strict=True)))
        self.learner.share(self.processes.sum)
        losses = dict(zip(names, self.processes.total([sums[name] for name in names]), strict=True))
        norm = optim.clip(self.learner, self.settings.clip)
        if not math.isfinite(norm) or not all(map(math.isfinite, losses.values())):
            self._refuse(work, losses, norm)
        rate = self._rate()
        optim.set_rate(self.optimizer, rate)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        means = {
            name: losses[name] / count for name, count in zip(names, counts, strict=True) if count
        }
        record = {
            "step": self.step,
            "loss": sum(means.values()),
            **means,
            "norm": norm,
            "rate": rate,
            "tokens": int(all_tokens),
        }
        record["seconds"] = round(self.clock(), 3)
        if self.processes.leads:
            self.run.journal.add(**record)
        return record

    def _gradients(self, work: "Work", counts: dict[str, float]) -> dict[str, float]:
        """Add up the gradients of this process's pieces; every loss is divided by its count over the whole step."""
        sums = dict.fromkeys(counts, 0.0)
        for at, batch in enumerate(work.batches):
            torch.default_generator.manual_seed(
                number(
                    Purpose.DROPOUT,
                    self.settings.seed,
                    self.step,
                    self.processes.rank + at * self.processes.count,
                )
            )
            last = at == len(work.batches) - 1
            with nullcontext() if last else self.processes.unexchanged(self.model):
                with torch.autocast(
                    "cpu", torch.bfloat16, enabled=self.settings.precision == "bf16"
                ):
                    losses = self.model(batch)
                # A loss without a single answer counts for nothing, but every weight has a gradient for the exchange.
                whole = sum(
                    loss / counts[name] if counts[name] else loss * 0
                    for name, loss in losses.items()
                )
                assert isinstance(whole, torch.Tensor)
                self.processes.arrive()
                # Processes average what they exchange; a step's gradient is the sum.
                (whole * self.processes.count).backward()
            for name, loss in losses.items():
                value = float(loss.detach())
                work.bad[at] = work.bad[at] or not math.isfinite(value)
                sums[name] += value
        return sums

    def _refuse(self, work: "Work", losses: dict[str, float], norm: float) -> None:
        """Stop at a value that is not finite, and say which examples it came from: a piece's, or else the whole step's."""
        bad = [piece for at, piece in enumerate(work.numbers) if work.bad[at]]
        if self.processes.total([len(bad)])[0] and not bad:
            raise FirthError(
                f"step {self.step + 1} was not taken: another process names examples whose loss is not finite"
            )
        bad = bad or work.numbers
        numbers = [int(n) for piece in bad for n in piece]
        names = "; ".join(self.feed.describe(n) for n in numbers[:NAMED])
        found = ", ".join(
            f"{name} {value}"
            for name, value in {**losses, "gradient": norm}.items()
            if not math.isfinite(value)
        )
        raise FirthError(
            f"step {self.step + 1} gave {found}, so it was not taken; it came from {len(numbers)} examples: {names}"
            f"{' ...' if len(numbers) > NAMED else ''} (last checkpoint: step {max(self.saved, 0)})"
        )

    def _rate(self) -> float:
        s = self.settings
        if s.seconds is None:
            assert s.steps is not None
            return optim.rate_at((self.step + 1) / (s.steps + 1), s.rate, s.warmup)
        if self.step + 1 in self.replayed:
            return self.replayed[self.step + 1]
        # Of the time for training: what reading the text took must not eat up the rise.
        progress = (self.clock() - self.begun_at) / max(s.seconds - self.begun_at, 1e-9)
        return self.processes.total(
            [optim.rate_at(progress, s.rate, s.warmup) if self.processes.leads else 0.0]
        )[0]

    def _keep_up(self) -> None:
        """Evaluate and save when it is time to; the moment changes no later step."""
        s = self.settings
        if s.check_every or s.steps:
            check = self.step % (s.check_every or max(1, (s.steps or 0) // CHECKS)) == 0
        else:
            check = self.clock() - self.checked_at >= (s.seconds or 0) / CHECKS
            check = bool(self.processes.total([float(check and self.processes.leads)])[0])
        if check and self.step != s.steps:
            self._check()
        if (
            self.step % s.save_every == 0
            if s.save_every
            else self.clock() - self.saved_at >= SECONDS_BETWEEN_SAVES
        ):
            self._save()

    def _check(self) -> None:
        """Measure on held-out text, once a step; the best so far is kept."""
        if self.dev is None:
            self.best = {"step": self.step, "metrics": {}}
            return
        if self.best.get("checked") == self.step:
            return
        begun = self.clock()
        metrics = evaluate(
            self.learner,
            self.dev,
            some(self.dev, self.settings.dev_tokens),
            self.settings.micro,
            self.processes,
        )
        # Weights that have learned nothing are never the best: they have no checkpoint.
        better = not self.best["step"] or self._rank(metrics) > self._rank(self.best["metrics"])
        since = 0 if better else self.best.get("since", 0) + 1
        self.best = {"step": self.step, "metrics": metrics} if better else self.best
        self.best |= {"checked": self.step, "since": since}
        self.checked_at = self.clock()
        self.costs["check"] = self.checked_at - begun
        if self.processes.leads:
            self.run.journal.add(step=self.step, dev=metrics, seconds=round(self.checked_at, 3))
        if better and self.step:
            self._save()

    def _rank(self, metrics: dict[str, float]) -> tuple[float, float]:
        """By the task's score and, where that is the same (no name is found yet, all is right), by the loss."""
        return self.learner.lesson.worth(metrics), -metrics["loss"]

    def _save(self) -> None:
        begun = self.clock()
        if self.processes.leads and self.saved != self.step:
            tensors = {
                "weights": checkpoint.weights_of(self.learner),
                "optimizer": optim.state_of(self.optimizer, self.learner),
                **({"carried": self.learner.carried} if self.learner.carried else {}),
            }
            # Those of later steps are damaged, or this run would have gone on from them.
            newest = [step for step in checkpoint.steps(self.run.checkpoints) if step < self.step][
                : KEPT - 1
            ]
            state = {"best": self.best, "machine": machine()}
            self.run.journal.sync()  # the lines of a step are on disk before its checkpoint is
            checkpoint.save(
                self.run.checkpoints,
                checkpoint.Checkpoint(self.step, tensors, state),
                {self.best["step"], *newest},
            )
            self.saved = self.step
        self.saved_at = self.clock()
        self.costs["save"] = max(self.costs["save"], self.saved_at - begun)

    def _resume(self) -> None:
        """Take up the newest whole checkpoint and drop what the journal says of anything after it."""
        found = self.run.newest()
        self.run.check_space(3 * checkpoint.bytes_of(iter(self.learner.parameters())), KEPT + 1)
        records = list(self.run.journal)
        self.clock.earlier = max((float(record["seconds"]) for record in records), default=0.0)
        self.saved_at = self.checked_at = self.clock()
        self.begun_at = float(records[0]["seconds"]) if records else self.clock()
        self.processes.total([0.0])  # everyone has read the journal before the first rewrites it
        settled = sum(_settled(record, found) for record in records) if found else 0
        if self.processes.leads:
            self.run.journal.cut(settled)
        self.replayed = {
            record["step"]: record["rate"] for record in records[settled:] if "rate" in record
        }
        if found is None:
            return
        load_weights(self.learner, found)
        optim.restore(self.optimizer, self.learner, found.tensors["optimizer"])
        self.learner.carried = found.tensors.get("carried", {})
        self.step = self.saved = found.step
        self.best = found.state["best"]
        here = machine()
        if self.processes.leads:
            print(f"going on from step {found.step}", file=sys.stderr, flush=True)
            lost = found.step - sum("rate" in record for record in records[:settled])
            if lost:
                print(
                    f"WARNING: {self.run.journal.path} lacks {lost:,} of the {found.step:,} steps before",
                    file=sys.stderr,
                    flush=True,
                )
            for key, value in found.state["machine"].items():
                if here.get(key) != value:
                    print(
                        f"note: {key} was {value} and is now {here.get(key)}: the last bits may differ",
                        file=sys.stderr,
                        flush=True,
                    )

    def _ahead(self, first: int) -> Generator["Work"]:
        """The work of each step, prepared by threads while the step before it runs; the order never depends on them."""
        steps: Iterable[int] = range(first, self.settings.steps or 1 << 62)
        if not self.settings.workers:
            yield from map(self._prepare, steps)
            return
        pool = ThreadPoolExecutor(self.settings.workers)
        waiting: deque[Future[Work]] = deque()
        try:
            for step in steps:
                waiting.append(pool.submit(self._prepare, step))
                if len(waiting) > STEPS_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _prepare(self, step: int) -> "Work":
        epoch, numbers = self.order.at(step)
        every = pieces(self.feed.sizes[numbers], self.settings.micro, self.processes.count)
        mine = [numbers[piece] for piece in every[self.processes.rank :: self.processes.count]]
        return Work(mine, [self.feed.batch(epoch, piece) for piece in mine], [False] * len(mine))


def _settled(record: dict[str, Any], found: checkpoint.Checkpoint) -> bool:
    """Whether a record was journalled before a checkpoint was made; a step's measurement may come before or after it."""
    measured_after = "dev" in record and found.state["best"].get("checked", 0) < record["step"]
    return bool(record["step"] <= found.step and not measured_after)


class Work(NamedTuple):
    """What this process does in one step."""

    numbers: list[Numbers]
    batches: list[Batch]
    bad: list[bool]  # pieces with a loss that is not finite


def load_weights(learner: nn.Module, found: checkpoint.Checkpoint) -> None:
    """Put a checkpoint's weights into a learner."""
    with torch.no_grad():
        for name, parameter in learner.named_parameters():
            parameter.copy_(found.tensors["weights"][name])


def machine() -> dict[str, Any]:
    """What the bits of a result depend on beside the run's own settings."""
    about: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    name = about.get("cpu_name")  # by which layers choose their library of products
    return {
        "torch": torch.__version__,
        "processor": " ".join(
            filter(None, (platform.machine(), name, torch.backends.cpu.get_cpu_capability()))
        ),
        "threads": torch.get_num_threads(),
    }
