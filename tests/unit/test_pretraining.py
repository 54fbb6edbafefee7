"""Pretraining BERT: the mean of each loss, and masks of held-out text that no seed changes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from firth.base.clock import Clock
from firth.corpus.pairs import NOT_ASKED
from firth.data.feed import Steps
from firth.models.bert import Bert, BertSettings
from firth.nn.heads import PretrainHead
from firth.recipes.masked import Masked
from firth.recipes.objectives import MaskedObjective
from firth.recipes.settings import PretrainSettings
from firth.samples.texts import TEXTS
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer
from firth.train.learner import Learner
from firth.train.loop import Loop
from firth.train.processes import Processes
from firth.train.run import Run
from firth.train.settings import TrainSettings
from tests.unit.corpora import Made, make


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A small corpus in which each subject is a document."""
    text = "\n\n".join("\n".join(lines) for lines in TEXTS.values())
    tokenizer = Tokenizer.train(text.split("\n"), size=300)
    return make(tmp_path_factory.mktemp("text"), text, tokenizer, 48)


def test_each_loss_is_the_mean_over_its_own_answers(made: Made, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"vocab": made.tokenizer.size, "width": 16, "depth": 1, "heads": 2, "inner": 32}
    encoder = Bert(BertSettings(**sizes, length=64, dropout=0.0, attention_dropout=0.0))
    head = make_head("pretrain", encoder)
    assert isinstance(head, PretrainHead)
    learner, feed = Learner(encoder, head, MaskedObjective()), made.pairs()

    order = Steps(feed.sizes, 1, 1000)
    numbers = order.at(0).numbers
    batch = feed.batch(0, numbers)
    words, random_next = batch.targets["words"], batch.targets["random_next"]
    pairs = int((random_next != NOT_ASKED).sum())
    assert 1 < pairs < len(words)
    hidden = encoder(*batch.stream)
    masked = F.cross_entropy(head.masked(hidden.tokens[batch.targets["places"]]), words)
    following = F.cross_entropy(head.next(hidden.pooled), random_next, ignore_index=NOT_ASKED)
    loss = masked + following
    loss.backward()
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in learner.parameters()])
    learner.zero_grad()

    (tmp_path / "run").mkdir()
    # Several micro-batches: a mean of their means would be another number.
    settings = TrainSettings(steps=1, batch=1000, micro=200, workers=0)
    Loop(learner, feed, None, settings, Run(tmp_path / "run"), Processes(), Clock(), order).train()
    record = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert record["masked"] == pytest.approx(masked.item(), rel=1e-5)
    assert record["next"] == pytest.approx(following.item(), rel=1e-5)
    assert record["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert record["norm"] == pytest.approx(norm.item(), rel=1e-4)


def test_the_metrics_have_the_loss_that_is_trained() -> None:
    masked = {"masked": 20, "masked_loss": 30.0, "masked_right": 5}
    metrics = MaskedObjective().metrics(masked | {"next": 4, "next_loss": 2.0, "next_right": 3})
    assert metrics["loss"] == 30 / 20 + 2 / 4
    assert metrics["masked_accuracy"] == 5 / 20
    assert metrics["next_accuracy"] == 3 / 4


def test_held_out_text_is_masked_alike_whatever_the_seed(made: Made) -> None:
    recipes = []
    for seed in (1, 2):
        settings = PretrainSettings(corpus=["texts"], out="model", steps=1, length=48, seed=seed)
        recipes.append(Masked(settings, made.tokenizer))
    for recipe in recipes:
        assert recipe.read(made.shards, None) > 0
    first, second = (recipe.dev.batch(0, np.arange(len(recipe.dev.sizes))) for recipe in recipes)
    assert torch.equal(first.ids, second.ids)
    assert first.targets.keys() == second.targets.keys()
    assert all(torch.equal(target, second.targets[name]) for name, target in first.targets.items())

    learned = [recipe.train.batch(0, np.arange(4)).ids for recipe in recipes]
    assert not torch.equal(*learned)  # what is learned from differs from seed to seed
