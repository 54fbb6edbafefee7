"""The training loop: dropout differs from step to step and goes on after an evaluation."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firth.base.clock import Clock
from firth.data.examples import Labelled
from firth.data.rows import EncodedExample, ExampleFeed
from firth.data.window import windows
from firth.models.bert import Bert, BertSettings
from firth.tasks.classify import Classify
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer
from firth.train.evaluate import evaluate_learner
from firth.train.learner import Learner
from firth.train.loop import Loop
from firth.train.processes import Processes
from firth.train.run import Run
from firth.train.settings import TrainSettings

LABELS = ("billing", "delivery")
TEXT = "I was charged twice for one parcel."
Records = list[dict[str, Any]]
STILL = 1e-30  # a learning rate that moves no weight, so that only dropout can change the loss


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([TEXT] * 3, size=64)


@pytest.fixture
def feed(tokenizer: Tokenizer) -> ExampleFeed:
    """The same example four times: every step has the same batch, whatever its order."""
    task, example = Classify(LABELS), Labelled(TEXT, "billing")
    encodings = task.encode([example], tokenizer)[0]
    rows = windows(encodings[0], 32, "cut")
    targets = [task.targets(example, encodings, 0, row) for row in rows]
    return ExampleFeed([EncodedExample.of([rows], [targets])] * 4, [TEXT] * 4)


def make_learner(tokenizer: Tokenizer, dropout: float) -> Learner:
    torch.manual_seed(0)
    sizes = {"vocab": tokenizer.size, "width": 16, "depth": 1, "heads": 2, "inner": 32}
    rates = {"dropout": dropout, "attention_dropout": dropout}
    encoder = Bert(BertSettings(**sizes, **rates, length=32))
    return Learner(encoder, make_head("classify", encoder, LABELS), Classify(LABELS))


def train(
    place: Path, learner: Learner, feed: ExampleFeed, dev: ExampleFeed | None = None, **more: Any
) -> Records:
    """The records of a short run that changes no weight."""
    place.mkdir()
    settings = TrainSettings(steps=4, lr=STILL, workers=0, **more)
    Loop(learner, feed, dev, settings, Run(place), Processes(), Clock()).train()
    return [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]


def losses(records: Records) -> list[float]:
    return [record["loss"] for record in records if "loss" in record]


def test_every_step_drops_other_values(
    tokenizer: Tokenizer, feed: ExampleFeed, tmp_path: Path
) -> None:
    calm = losses(train(tmp_path / "calm", make_learner(tokenizer, 0.0), feed))
    assert len(calm) == 4
    assert len(set(calm)) == 1  # the batch and the weights are the same in every step

    dropped = losses(train(tmp_path / "dropped", make_learner(tokenizer, 0.5), feed))
    assert len(set(dropped)) == 4
    again = losses(train(tmp_path / "again", make_learner(tokenizer, 0.5), feed))
    assert again == dropped
    other = losses(train(tmp_path / "other", make_learner(tokenizer, 0.5), feed, seed=2))
    assert not set(other) & set(dropped)


def test_dropout_outlives_an_evaluation(
    tokenizer: Tokenizer, feed: ExampleFeed, tmp_path: Path
) -> None:
    records = train(tmp_path / "run", make_learner(tokenizer, 0.5), feed, feed, check_every=1)
    measured = [record["dev"]["loss"] for record in records if "dev" in record]
    assert len(measured) == 5  # before the first step, and after each
    assert len(set(measured)) == 1
    assert all(abs(loss - measured[0]) > 1e-6 for loss in losses(records))


@pytest.mark.parametrize("training", [True, False])
def test_an_evaluation_keeps_the_mode(
    tokenizer: Tokenizer, feed: ExampleFeed, training: bool
) -> None:
    learner = make_learner(tokenizer, 0.5).train(training)
    evaluate_learner(learner, feed, np.arange(4), 100, Processes())
    assert {module.training for module in learner.modules()} == {training}
