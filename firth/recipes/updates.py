"""The loop of models whose updates are written by hand: exact after any kill, like the other loop.

A step is a function of the seed and its number, and changes a few rows of tables in place.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from pydantic import Field
from torch import Tensor

from firth.base.clock import Clock
from firth.base.errors import FirthError, Stopped
from firth.base.notes import note, progress_line
from firth.base.progress import Progress
from firth.base.settings import Settings
from firth.base.signals import StopRequest
from firth.train import checkpoint
from firth.train.checkpoint import Checkpoint
from firth.train.loop import CHECKS, KEPT, SECONDS_BETWEEN_SAVES, Outcome, machine
from firth.train.run import Run, TooLate

JOURNALLED = 100  # steps from one line of the journal to the next
LEAST_SHARE = 1e-4  # of the learning rate, at the end
CLOSING = 1.0  # seconds after the last step, before it is known what they are


class StepLoss(NamedTuple):
    """The loss of a step, and how many things it is the sum over."""

    total: float
    terms: int


class Updates(Protocol):
    """What the loop trains."""

    per_epoch: int

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Return all that steps change."""
        ...

    def loss(self, step: int) -> StepLoss:
        """Return the loss of what a step reads, before it is taken."""
        ...

    def update(self, step: int, rate: float) -> None:
        """Take a step, counted from 0."""
        ...

    def measure(self) -> dict[str, float]:
        """Return metrics on held-out text, where there is some."""
        ...


class UpdateSettings(Settings):
    """How to train; a run goes on for steps, for epochs or until seconds have passed."""

    seed: int = Field(ge=0)
    steps: int | None = Field(default=None, gt=0)
    epochs: float | None = Field(default=None, gt=0)
    seconds: float | None = Field(default=None, gt=0)
    batch: int = Field(gt=0)
    lr: float = Field(gt=0, lt=1)
    decays: bool  # whether the learning rate falls in a line
    save_every: int | None = Field(default=None, gt=0)
    check_every: int | None = Field(default=None, gt=0)


class UpdateLoop:
    """A run from its first step, or from its newest checkpoint, to its end."""

    def __init__(self, updates: Updates, settings: UpdateSettings, run: Run, clock: Clock) -> None:
        self.updates = updates
        self.settings = settings
        self.run = run
        self.clock = clock
        self.steps = settings.steps
        if settings.epochs:
            self.steps = max(1, round(settings.epochs * updates.per_epoch))
        self.step = 0
        self.saved = -1
        self.checked = -1
        self.metrics: dict[str, float] = {}
        self.begun_at = clock()
        self.saved_at = self.begun_at
        self.checked_at = self.begun_at
        self.noted = (0, self.begun_at)  # the step and the time of the last line of the journal
        self.closing = CLOSING

    def train(self) -> Outcome:
        """Take steps until the end is reached."""
        self._resume()
        self._refuse_late()
        with StopRequest() as stop, self._bar() as show:
            while not self._ended():
                if stop.asked:
                    self._save()
                    raise Stopped(
                        f"stopped at step {self.step} as asked; --resume goes on from there"
                    )
                said = self._step()
                if said:
                    show(self._done(), said)
                self._keep_up()
            self._check()
            if self.saved != self.step:
                self._save()
            if stop.asked:
                raise Stopped(
                    f"stopped at the last step, {self.step}, as asked; --resume goes on from there"
                )
        return Outcome(self.step, self.step, self.metrics)

    def _refuse_late(self) -> None:
        """Stop where the time was over before the first step: there is nothing to learn in."""
        seconds = self.settings.seconds
        now = self.clock()
        if seconds is not None and self.step == 0 and now >= seconds:
            raise TooLate(
                f"reading the text took {now:,.0f} s, and the run was to take {seconds:,.0f}: "
                f"ask for more; what was encoded is kept in {self.run.data}"
            )

    @contextmanager
    def _bar(self) -> Iterator[Progress]:
        unit = "steps" if self.steps else "s"
        total = self.steps or int(self.settings.seconds or 0)
        with Progress("training", unit, total, self._done()) as show:
            yield show

    def _done(self) -> int:
        """Return how many steps, or seconds, are behind."""
        return self.step if self.steps else int(self.clock())

    def _ended(self) -> bool:
        if self.steps:
            return self.step >= self.steps
        late = self.clock() + self.closing >= (self.settings.seconds or 0)
        # However short the time, one step is taken: a model of none would have learned nothing.
        return late and self.step > 0

    def _step(self) -> str:
        """Take a step; return what the journal says of it, where it says something."""
        rate = self._rate()
        due = (self.step + 1) % JOURNALLED == 0 or self.step + 1 in (1, self.steps)
        loss = self.updates.loss(self.step) if due else None
        self.updates.update(self.step, rate)
        self.step += 1
        if loss is None or not loss.terms:
            return ""
        return self._note(loss.total / loss.terms, rate)

    def _note(self, loss: float, rate: float) -> str:
        """Put a line down in the journal."""
        before, then = self.noted
        now = self.clock()
        tokens = (self.step - before) * self.settings.batch
        speed = tokens / max(now - then, 1e-9)
        self.noted = (self.step, now)
        self.run.journal.add(
            step=self.step,
            epoch=self.step / self.updates.per_epoch,
            loss=loss,
            rate=rate,
            tokens=tokens,
            speed=round(speed),
            seconds=round(now, 3),
        )
        return f"loss {loss:.3f}, {speed:,.0f} tokens/s"

    def _rate(self) -> float:
        """Return the learning rate of the next step."""
        s = self.settings
        if not s.decays:
            return s.lr
        if self.steps:
            progress = self.step / self.steps
        else:
            allowed = (s.seconds or 0) - self.begun_at
            progress = (self.clock() - self.begun_at) / max(allowed, 1e-9)
        return s.lr * max(1 - progress, LEAST_SHARE)

    def _keep_up(self) -> None:
        """Measure and save when it is time to; the moment changes no later step."""
        if self._check_is_due() and self.step != self.steps:
            self._check()
        every = self.settings.save_every
        if every:
            due = self.step % every == 0
        else:
            due = self.clock() - self.saved_at >= SECONDS_BETWEEN_SAVES
        if due:
            self._save()

    def _check_is_due(self) -> bool:
        every = self.settings.check_every
        if every is None and self.steps:
            every = max(1, self.steps // CHECKS)
        if every is not None:
            return self.step % every == 0
        return self.clock() - self.checked_at >= (self.settings.seconds or 0) / CHECKS

    def _check(self) -> None:
        """Measure on held-out text."""
        begun = self.clock()
        if self.checked != self.step:
            self.metrics = self.updates.measure()
            self.checked = self.step
            if self.metrics:
                self.run.journal.add(step=self.step, dev=self.metrics, seconds=round(begun, 3))
        self.checked_at = self.clock()
        self.closing = max(self.closing, 2 * (self.checked_at - begun))

    def _save(self) -> None:
        begun = self.clock()
        for name, tensor in self.updates.tensors.items():
            if not tensor.isfinite().all():
                raise FirthError(
                    f"{name} has numbers that aren't finite after step {self.step}: a smaller "
                    f"--rate than {self.settings.lr} may help (last checkpoint: step "
                    f"{max(self.saved, 0)})"
                )
        state = {"metrics": self.metrics, "checked": self.checked, "machine": machine()}
        made = Checkpoint(self.step, {"tables": self.updates.tensors}, state)
        before = [step for step in checkpoint.saved_steps(self.run.checkpoints) if step < self.step]
        self.run.journal.sync()  # the lines of a step are on disk before its checkpoint is
        checkpoint.save_checkpoint(self.run.checkpoints, made, before[: KEPT - 1])
        self.saved = self.step
        self.saved_at = self.clock()
        self.closing = max(self.closing, 2 * (self.saved_at - begun))

    def _resume(self) -> None:
        """Take up the newest whole checkpoint, and drop what the journal says of steps after it."""
        size = checkpoint.bytes_of(iter(self.updates.tensors.values()))
        self.run.check_space(size, KEPT)
        found = self.run.newest()
        records = list(self.run.journal)
        self.clock.earlier = max((float(record["seconds"]) for record in records), default=0.0)
        last = found.step if found else -1
        self.run.journal.cut(sum(record["step"] <= last for record in records))
        now = self.clock()
        self.saved_at = now
        self.checked_at = now
        if records:
            self.begun_at = float(records[0]["seconds"])
        if found is None:
            self.noted = (0, now)
            return

        for name, tensor in self.updates.tensors.items():
            tensor.copy_(found.tensors["tables"][name])
        self.step = found.step
        self.saved = found.step
        self.noted = (self.step, now)
        self.metrics = found.state["metrics"]
        self.checked = found.state["checked"]
        self._report_resumed(found)

    def _report_resumed(self, found: Checkpoint) -> None:
        progress_line(f"going on from step {found.step}")
        here: dict[str, Any] = machine()
        for key, before in found.state["machine"].items():
            if here.get(key) != before:
                note(f"{key} was {before} and is now {here.get(key)}: the last bits may differ")
