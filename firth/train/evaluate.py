"""Measure a learner on examples that it doesn't learn from, in bounded memory."""

from collections import defaultdict

import torch

from firth.data.feed import Feed, Numbers, micro_batches
from firth.train.learner import Learner
from firth.train.processes import Processes


def evaluate_learner(
    learner: Learner, feed: Feed, numbers: Numbers, budget: int, processes: Processes
) -> dict[str, float]:
    """Return the metrics over some examples of a feed, always with the draws of epoch 0.

    Every process takes its part of the micro-batches.
    """
    objective = learner.objective
    sums: dict[str, float] = defaultdict(float)
    was_training = learner.training
    learner.eval()
    with torch.inference_mode():
        for number, piece in enumerate(micro_batches(feed.sizes[numbers], budget)):
            if number % processes.count != processes.rank:
                continue
            batch = feed.batch(0, numbers[piece])
            own = objective.tally(learner.encoder, learner.head, batch)
            for name, value in own.items():
                sums[name] += value
    learner.train(was_training)

    mine = [sums[name] for name in objective.sums]
    totals = processes.total(mine)
    return objective.metrics(dict(zip(objective.sums, totals, strict=True)))
