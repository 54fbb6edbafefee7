"""Measure a learner on examples that it doesn't learn from, in bounded memory."""

from collections import defaultdict

import numpy as np
import torch

from firth.data.feed import Feed, Numbers, pieces
from firth.data.task import Learner
from firth.train.processes import Processes


def evaluate(
    learner: Learner, feed: Feed, numbers: Numbers, budget: int, processes: Processes
) -> dict[str, float]:
    """The lesson's metrics over some examples of a feed, always with the draws of epoch 0; every process takes its part."""
    sums: dict[str, float] = defaultdict(float)
    was_training = learner.training
    learner.eval()
    with torch.inference_mode():
        for number, piece in enumerate(pieces(feed.sizes[numbers], budget)):
            if number % processes.count == processes.rank:
                batch = feed.batch(0, numbers[piece])
                for name, value in learner.lesson.right(
                    learner.encoder, learner.head, batch
                ).items():
                    sums[name] += value
    learner.train(was_training)
    names = learner.lesson.sums
    return learner.lesson.metrics(
        dict(zip(names, processes.total([sums[name] for name in names]), strict=True))
    )


def some(feed: Feed, most: int) -> Numbers:
    """Evenly spread examples with about `most` tokens, always the same."""
    count = len(feed.sizes)
    share = min(1.0, most / max(1, int(feed.sizes.sum())))
    return (
        np.unique(np.linspace(0, count - 1, max(1, round(count * share))).astype(np.int64))
        if count
        else np.zeros(0, np.int64)
    )
