"""The loop of updates by hand: how long it goes on, its rate, its journal, and what it refuses."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from firth.base.clock import Clock
from firth.base.errors import FirthError
from firth.recipes.updates import JOURNALLED, StepLoss, UpdateLoop, UpdateSettings
from firth.train.run import Run, TooLate

PER_EPOCH = 40


class Sum:
    """A number to which every step adds its rate."""

    per_epoch = PER_EPOCH

    def __init__(self, breaks_at: int = -1) -> None:
        self.breaks_at = breaks_at
        self.tensors: dict[str, Tensor] = {"sum": torch.zeros(1, dtype=torch.float64)}
        self.rates: list[float] = []

    def loss(self, step: int) -> StepLoss:
        return StepLoss(6.0, 3)

    def update(self, step: int, rate: float) -> None:
        self.rates.append(rate)
        self.tensors["sum"] += math.inf if step == self.breaks_at else rate

    def measure(self) -> dict[str, float]:
        return {"loss": float(self.tensors["sum"])}


def run(folder: Path, updates: Sum, clock: Clock | None = None, **values: object) -> UpdateLoop:
    folder.mkdir(exist_ok=True)
    settings = UpdateSettings(**{"seed": 1, "batch": 10, "lr": 0.5, "decays": True} | values)
    return UpdateLoop(updates, settings, Run(folder), clock or Clock())


def test_epochs_are_steps_and_the_rate_falls_in_a_line(tmp_path: Path) -> None:
    updates = Sum()
    outcome = run(tmp_path / "run", updates, epochs=5).train()
    steps = 5 * PER_EPOCH
    assert outcome.steps == outcome.best == len(updates.rates) == steps
    assert updates.rates == pytest.approx([0.5 * (1 - step / steps) for step in range(steps)])
    assert outcome.metrics["loss"] == pytest.approx(sum(updates.rates))
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    told = [record["step"] for record in records if "loss" in record]
    assert told == [1, *range(JOURNALLED, steps + 1, JOURNALLED)]
    assert all(record["loss"] == 2.0 for record in records if "loss" in record)
    assert sum("dev" in record for record in records) == 10


def test_a_rate_that_does_not_fall(tmp_path: Path) -> None:
    updates = Sum()
    run(tmp_path / "run", updates, steps=7, decays=False).train()
    assert updates.rates == [0.5] * 7


def test_numbers_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    updates = Sum(breaks_at=14)
    with pytest.raises(FirthError, match=r"after step 15: a smaller .*checkpoint: step 10\)"):
        run(tmp_path / "run", updates, steps=30, save_every=5).train()
    again = Sum()
    run(tmp_path / "run", again, steps=30, save_every=5).train()
    assert len(again.rates) == 20  # those after the checkpoint


def test_no_time_is_left(tmp_path: Path) -> None:
    clock = Clock()
    clock._begun -= 100.0
    with pytest.raises(TooLate, match="ask for more"):
        run(tmp_path / "run", Sum(), clock, seconds=90.0).train()
