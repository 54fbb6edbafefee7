"""How fast a learner trains here, tried on a few of its own batches."""

import time

from firth.data.feed import Feed, Order
from firth.data.task import Learner

TRIALS = 4


def pace(learner: Learner, feed: Feed, order: Order) -> float:
    """Tokens a second, forward and backward; the first trial, which also warms up, doesn't count. Nothing is learned."""
    best = 0.0
    learner.train()
    for trial in range(TRIALS):
        epoch, numbers = order.at(trial)
        work = feed.batch(epoch, numbers)
        begun = time.perf_counter()
        losses = learner(work)
        sum(losses.values()).backward()
        learner.zero_grad()
        if trial:
            best = max(best, len(work.ids) / (time.perf_counter() - begun))
    return best
