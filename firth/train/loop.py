"""The one training loop: any model, any lesson, one process or many, and exact after any kill.

A run goes on for a number of steps or until a time is over.
"""

import math
import platform
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from firth.base.clock import Clock
from firth.base.errors import FirthError, RunWarning, Stopped
from firth.base.notes import note, progress_line, warn
from firth.base.progress import Progress
from firth.base.seeds import Purpose, number
from firth.base.signals import StopRequest
from firth.data.batch import Batch
from firth.data.feed import Feed, Order, Steps, evenly_spread
from firth.nn.draws import drawing
from firth.train import checkpoint, optim
from firth.train.average import RunningAverage
from firth.train.checkpoint import Checkpoint
from firth.train.evaluate import evaluate_learner
from firth.train.learner import Learner
from firth.train.processes import Processes
from firth.train.run import Run, TooLate
from firth.train.settings import TrainSettings
from firth.train.work import Work, work_ahead

CHECKS = 10  # evaluations in a run, unless it says otherwise
SECONDS_BETWEEN_SAVES = 300.0
KEPT = 2  # newest checkpoints, beside the best
NAMED = 8  # examples of a step that can't be taken
ENDLESS = 1 << 62  # steps of a run that ends by the clock


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
        s = settings
        self.learner = learner
        self.feed = feed
        self.dev = dev
        if dev is not None and not len(dev.sizes):
            self.dev = None
        self.settings = s
        self.run = run
        self.processes = processes
        self.clock = clock
        # By tokens, unless told otherwise.
        self.order = order or Steps(feed.sizes, s.seed, s.batch)
        self.optimizer = optim.make_optimizer(learner, s.weight_decay, s.beta1, s.beta2, s.eps)
        self.average = RunningAverage(learner, s.average) if s.average else None

        self.step = 0
        self.saved = -1
        self.best: dict[str, Any] = {"step": 0, "metrics": {}}
        # Learning rates of steps that an earlier process journalled.
        self.replayed: dict[int, float] = {}
        self.begun_at = clock()
        self.saved_at = self.begun_at
        self.checked_at = self.begun_at
        self.costs = {"save": 0.0, "check": 0.0}  # seconds that the last one took

    def train(self) -> Outcome:
        """Take steps until the end is reached."""
        self._resume()
        # After the weights are in place: the exchange begins by giving every process those of
        # the first.
        self.model = self.processes.wrap(self.learner)
        self.learner.train()

        s = self.settings
        steps = range(self.step, s.steps or ENDLESS)
        ahead = work_ahead(self.feed, self.order, steps, s.micro, self.processes, s.workers)
        with StopRequest() as stop, self._bar() as show, closing(ahead) as work:
            if self.step == 0:
                self._check()
                self.begun_at = self.clock()
                self._refuse_late()

            tokens = 0
            begun = self.clock()
            while not self._ended():
                record = self._step(next(work), stop)
                tokens += record["tokens"]
                seconds = max(self.clock() - begun, 1e-9)
                pace = tokens / seconds
                show(self._done(), f"loss {record['loss']:.3f}, {pace:,.0f} tokens/s")
                self._keep_up()

            self._check()
            self._save()
            if self.average:
                self.average.use()
            if self._anyone(stop.asked):  # others may be to come: seeds, folds
                raise Stopped(
                    f"stopped at the last step, {self.step}, as asked; --resume goes on from there"
                )
        return Outcome(self.step, self.best["step"], self.best["metrics"])

    def _refuse_late(self) -> None:
        """Stop where the time was over before the first step: there is nothing to learn in."""
        seconds = self.settings.seconds
        late = seconds is not None and self.begun_at >= seconds
        if self._first_says(late):
            raise TooLate(
                f"getting ready took {self.begun_at:,.0f} s, "
                f"and the run was to take {seconds:,.0f}: ask for more"
            )

    def _first_says(self, answer: bool) -> bool:
        """Return what the first process says: clocks differ, and all must do the same."""
        return self._anyone(answer and self.processes.leads)

    def _anyone(self, answer: bool) -> bool:
        """Return whether any process says yes."""
        (votes,) = self.processes.total([float(answer)])
        return bool(votes)

    @contextmanager
    def _bar(self) -> Iterator[Any]:
        """Show progress in the first process."""
        if not self.processes.leads:
            yield lambda *_: None
            return
        unit = "s"
        total = int(self.settings.seconds or 0)
        if self.settings.steps:
            unit = "steps"
            total = self.settings.steps
        with Progress("training", unit, total, self._done()) as show:
            yield show

    def _done(self) -> int:
        """Return how many steps, or seconds, are behind."""
        if self.settings.steps:
            return self.step
        return int(self.clock())

    def _ended(self) -> bool:
        s = self.settings
        if s.patience and self.best.get("since", 0) >= s.patience:
            return True
        if s.seconds is None:
            assert s.steps is not None
            return self.step >= s.steps

        # What is still to be done after the last step takes as long as it took before.
        closing_costs = self.costs["save"] + self.costs["check"]
        late = self.clock() + closing_costs >= s.seconds
        # However short the time, one step is taken: a model of none would have learned nothing.
        # Steps that a killed run took are taken again.
        if self.step == 0 or self.step + 1 in self.replayed:
            late = False
        return self._first_says(late)

    def _step(self, work: Work, stop: StopRequest) -> dict[str, Any]:
        """Take one step and return its record; nothing is changed if it can't be taken."""
        counts, tokens = self._agree(work, stop)
        sums = self._gradients(work, counts)
        self.learner.share(self.processes.sum)
        totals = self.processes.total([sums[name] for name in counts])
        losses = dict(zip(counts, totals, strict=True))
        norm = optim.clip_gradients(self.learner, self.settings.grad_clip)
        finite = [math.isfinite(value) for value in (norm, *losses.values())]
        if not all(finite):
            self._refuse(work, losses, norm)

        lr = self._lr()
        optim.set_lr(self.optimizer, lr)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        if self.average:
            self.average.update(self.step)

        means = {name: losses[name] / count for name, count in counts.items() if count}
        record = {
            "step": self.step,
            "loss": sum(means.values()),
            **means,
            "norm": norm,
            "rate": lr,
            "tokens": tokens,
            "seconds": round(self.clock(), 3),
        }
        if self.processes.leads:
            self.run.journal.add(**record)
        return record

    def _agree(self, work: Work, stop: StopRequest) -> tuple[dict[str, float], int]:
        """Return over how many answers each loss of the step runs, and its tokens.

        Both are those of all processes. Stops here if any of them is asked to.
        """
        answers = [self.learner.objective.counts(batch) for batch in work.batches]
        names = sorted(set[str]().union(*answers))
        mine = [sum(counts[name] for counts in answers) for name in names]
        tokens = sum(batch.tokens for batch in work.batches)
        # All in one exchange, because each one waits for the slowest process.
        *totals, all_tokens, asked = self.processes.total([*mine, tokens, stop.asked])
        if asked:
            self._save()
            raise Stopped(f"stopped at step {self.step} as asked; --resume goes on from there")
        counts = dict(zip(names, totals, strict=True))
        return counts, int(all_tokens)

    def _gradients(self, work: Work, counts: dict[str, float]) -> dict[str, float]:
        """Add up the gradients of this process's micro-batches, and return the sums of losses.

        Every loss is divided by its count over the whole step.
        """
        sums = dict.fromkeys(counts, 0.0)
        last = len(work.batches) - 1
        for at, batch in enumerate(work.batches):
            # Gradients are exchanged once a step, with the last micro-batch.
            with self.processes.unexchanged(self.model, at < last):
                losses = self._losses(batch, at)
                whole = sum(_mean(loss, counts[name]) for name, loss in losses.items())
                assert isinstance(whole, Tensor)
                self.processes.arrive()
                # Processes average what they exchange; a step's gradient is the sum.
                (whole * self.processes.count).backward()
            for name, loss in losses.items():
                value = float(loss.detach())
                sums[name] += value
                if not math.isfinite(value):
                    work.bad[at] = True
        return sums

    def _losses(self, batch: Batch, at: int) -> dict[str, Tensor]:
        """Run the model on this process's micro-batch number `at` of the step."""
        s = self.settings
        # Dropout is a function of the seed, the step and the micro-batch among those of all.
        micro_batch = self.processes.rank + at * self.processes.count
        seed = number(Purpose.DROPOUT, s.seed, self.step, micro_batch)
        bf16 = s.precision == "bf16"
        with drawing(seed), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            losses: dict[str, Tensor] = self.model(batch)
        return losses

    def _refuse(self, work: Work, losses: dict[str, float], norm: float) -> None:
        """Stop at a value that is not finite, and say which examples it came from.

        Those are a micro-batch's, or else the whole step's.
        """
        bad = [piece for piece, is_bad in zip(work.numbers, work.bad, strict=True) if is_bad]
        if self._anyone(bool(bad)) and not bad:
            raise FirthError(
                f"step {self.step + 1} was not taken: "
                "another process names examples whose loss is not finite"
            )

        numbers = []
        for piece in bad or work.numbers:
            numbers += [int(n) for n in piece]
        named = [self.feed.describe(n) for n in numbers[:NAMED]]
        names = "; ".join(named)
        if len(numbers) > NAMED:
            names += " ..."
        values = {**losses, "gradient": norm}
        found = [f"{name} {value}" for name, value in values.items() if not math.isfinite(value)]
        raise FirthError(
            f"step {self.step + 1} gave {', '.join(found)}, so it was not taken; "
            f"it came from {len(numbers)} examples: {names} "
            f"(last checkpoint: step {max(self.saved, 0)})"
        )

    def _lr(self) -> float:
        """Return the learning rate of the next step."""
        s = self.settings
        step = self.step + 1
        if s.seconds is None:
            assert s.steps is not None
            progress = step / (s.steps + 1)
            return optim.lr_at(progress, s.lr, s.warmup, s.schedule)
        if step in self.replayed:
            return self.replayed[step]

        # Of the time for training: what reading the text took must not eat up the rise.
        spent = self.clock() - self.begun_at
        allowed = max(s.seconds - self.begun_at, 1e-9)
        lr = 0.0
        if self.processes.leads:  # whose clock counts
            lr = optim.lr_at(spent / allowed, s.lr, s.warmup, s.schedule)
        return self.processes.total([lr])[0]

    def _keep_up(self) -> None:
        """Evaluate and save when it is time to; the moment changes no later step."""
        if self._check_is_due() and self.step != self.settings.steps:
            self._check()
        if self._save_is_due():
            self._save()

    def _check_is_due(self) -> bool:
        s = self.settings
        every = s.check_every
        if every is None and s.steps:
            every = max(1, s.steps // CHECKS)
        if every is not None:
            return self.step % every == 0
        elapsed = self.clock() - self.checked_at
        interval = (s.seconds or 0) / CHECKS
        return self._first_says(elapsed >= interval)

    def _save_is_due(self) -> bool:
        every = self.settings.save_every
        if every:
            return self.step % every == 0
        elapsed = self.clock() - self.saved_at
        return elapsed >= SECONDS_BETWEEN_SAVES

    def _check(self) -> None:
        """Measure on held-out text, once a step; the best so far is kept."""
        if self.dev is None:
            self.best = {"step": self.step, "metrics": {}}
            return
        if self.best.get("checked") == self.step:
            return
        s = self.settings
        begun = self.clock()
        examples = evenly_spread(self.dev, s.dev_tokens)
        with self.average.used() if self.average else nullcontext():
            metrics = evaluate_learner(self.learner, self.dev, examples, s.micro, self.processes)

        # Weights that have learned nothing are never the best: they have no checkpoint.
        better = not self.best["step"] or self._rank(metrics) > self._rank(self.best["metrics"])
        since = self.best.get("since", 0) + 1
        if better:
            self.best = {"step": self.step, "metrics": metrics}
            since = 0
        self.best |= {"checked": self.step, "since": since}

        self.checked_at = self.clock()
        self.costs["check"] = self.checked_at - begun
        if self.processes.leads:
            seconds = round(self.checked_at, 3)
            self.run.journal.add(step=self.step, dev=metrics, seconds=seconds)
        if better and self.step:
            self._save()

    def _rank(self, metrics: dict[str, float]) -> tuple[float, float]:
        """Return what the best has most of: the task's metric and, where equal, the lower loss.

        It is equal where no name is found yet, or where all is right.
        """
        return self.learner.objective.select_value(metrics), -metrics["loss"]

    def _save(self) -> None:
        begun = self.clock()
        if self.processes.leads and self.saved != self.step:
            self._write_checkpoint()
            self.saved = self.step
        self.saved_at = self.clock()
        # The longest so far: a step that is saved already costs nothing here.
        cost = self.saved_at - begun
        self.costs["save"] = max(self.costs["save"], cost)

    def _write_checkpoint(self) -> None:
        tensors = {
            "weights": checkpoint.weights_of(self.learner),
            "optimizer": optim.state_of(self.optimizer, self.learner),
        }
        if self.average:
            tensors["average"] = self.average.weights
        if self.learner.carried:
            tensors["carried"] = self.learner.carried
        state = {"best": self.best, "machine": machine()}

        # Those of later steps are damaged, or this run would have gone on from them.
        before = [step for step in checkpoint.saved_steps(self.run.checkpoints) if step < self.step]
        keep = {self.best["step"], *before[: KEPT - 1]}
        self.run.journal.sync()  # the lines of a step are on disk before its checkpoint is
        made = Checkpoint(self.step, tensors, state)
        checkpoint.save_checkpoint(self.run.checkpoints, made, keep)

    def _resume(self) -> None:
        """Take up the newest whole checkpoint, and drop what the journal says of steps after it."""
        found = self.run.newest()
        weights = checkpoint.bytes_of(self.learner.parameters())
        copies = 4 if self.average else 3  # two moments of the optimizer, and averages, with them
        self.run.check_space(copies * weights, KEPT + 1)
        records = list(self.run.journal)
        seconds = [float(record["seconds"]) for record in records]
        self.clock.earlier = max(seconds, default=0.0)
        self.begun_at = self.clock()
        self.saved_at = self.begun_at
        self.checked_at = self.begun_at
        if seconds:
            self.begun_at = seconds[0]

        self.processes.total([0.0])  # everyone has read the journal before the first rewrites it
        settled = 0
        if found is not None:
            settled = sum(_settled(record, found) for record in records)
        if self.processes.leads:
            self.run.journal.cut(settled)
        for record in records[settled:]:
            if "rate" in record:
                self.replayed[record["step"]] = record["rate"]
        if found is None:
            return

        load_weights(self.learner, found)
        optim.restore(self.optimizer, self.learner, found.tensors["optimizer"])
        if self.average:
            self.average.restore(found.tensors["average"])
        self.learner.carried = found.tensors.get("carried", {})
        self.step = found.step
        self.saved = found.step
        self.best = found.state["best"]
        if self.processes.leads:
            self._report_resumed(found, records[:settled])

    def _report_resumed(self, found: Checkpoint, records: list[dict[str, Any]]) -> None:
        """Say where the run goes on, and why it might not give what an unbroken one gives."""
        progress_line(f"going on from step {found.step}")
        steps = sum("rate" in record for record in records)
        lost = found.step - steps
        if lost:
            missing = f"{lost:,} of the {found.step:,} steps before"
            warn(f"{self.run.journal.path} lacks {missing}", RunWarning)
        here = machine()
        for key, before in found.state["machine"].items():
            now = here.get(key)
            if now != before:
                note(f"{key} was {before} and is now {now}: the last bits may differ")


def _mean(loss: Tensor, count: float) -> Tensor:
    """Divide a loss by its count.

    A loss without a single answer counts for nothing, but gives every weight a gradient for the
    exchange.
    """
    if not count:
        return loss * 0
    return loss / count


def _settled(record: dict[str, Any], found: Checkpoint) -> bool:
    """Say whether a record was journalled before a checkpoint was made.

    A step's measurement may come before or after it.
    """
    measured_after = "dev" in record and found.state["best"].get("checked", 0) < record["step"]
    return bool(record["step"] <= found.step and not measured_after)


def load_weights(learner: nn.Module, found: Checkpoint, part: str = "weights") -> None:
    """Put a checkpoint's weights into a learner."""
    with torch.no_grad():
        for name, parameter in learner.named_parameters():
            parameter.copy_(found.tensors[part][name])


def load_measured(learner: nn.Module, found: Checkpoint) -> None:
    """Put the weights that were measured into a learner: averages, where a run has them."""
    load_weights(learner, found, "average" if "average" in found.tensors else "weights")


def machine() -> dict[str, Any]:
    """Return what the bits of a result depend on beside the run's own settings."""
    about: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    name = about.get("cpu_name")  # by which layers choose their library of products
    capability = torch.backends.cpu.get_cpu_capability()
    parts = [platform.machine(), name, capability]
    known = [part for part in parts if part]
    return {
        "torch": torch.__version__,
        "processor": " ".join(known),
        "threads": torch.get_num_threads(),
    }
