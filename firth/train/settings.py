"""How a run is trained: its length, batches, optimizer, measurements and checkpoints."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from firth.base.settings import Settings
from firth.train.optim import Schedule

# What training settings are called in plans of earlier versions, whose runs still resume.
OLD_NAMES = {
    "rate": "lr",
    "decay": "weight_decay",
    "clip": "grad_clip",
    "first_moment": "beta1",
    "second_moment": "beta2",
    "tiny": "eps",
}


class TrainSettings(Settings):
    """How to train; a run goes on for `steps`, or until `seconds` have passed."""

    seed: int = Field(default=1, ge=0, lt=1 << 63)
    steps: int | None = Field(default=None, gt=0)
    seconds: float | None = Field(default=None, gt=0)
    batch: int = Field(default=4096, gt=0)  # tokens in a step
    micro: int = Field(default=4096, gt=0)  # tokens that are in memory at once
    lr: float = Field(default=1e-3, gt=0, lt=1)  # at the end of the warmup
    warmup: float = Field(default=0.1, ge=0, lt=1)  # share of the run
    schedule: Schedule = "linear"  # of the learning rate after the warmup
    average: float = Field(default=0.0, ge=0, le=1)  # share of the steps; 0 for no average
    weight_decay: float = Field(default=0.01, ge=0, lt=1)
    grad_clip: float = Field(default=1.0, gt=0)  # norm of the whole gradient
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.98, gt=0, lt=1)
    eps: float = Field(default=1e-6, gt=0)
    save_every: int | None = Field(default=None, gt=0)  # steps; without it every five minutes
    check_every: int | None = Field(default=None, gt=0)  # steps; without it ten times in a run
    # The run ends after so many measurements in a row without a better one.
    patience: int | None = Field(default=None, gt=0)
    dev_tokens: int = Field(default=100_000, gt=0)  # of held-out text that are measured on, about
    workers: int = Field(default=1, ge=0, le=64)
    precision: Literal["fp32", "bf16"] = "fp32"

    @model_validator(mode="after")
    def _one_end(self) -> "TrainSettings":
        if (self.steps is None) == (self.seconds is None):
            raise ValueError("a run ends after a number of steps or after a time, one of them")
        return self


def training_of(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan's training settings under today's names."""
    return {OLD_NAMES.get(name, name): value for name, value in plan["training"].items()}
