"""How fast a learner trains here, tried on a few of its own batches."""

import time
from statistics import median

import torch

from firth.data.feed import Feed, Order
from firth.data.task import Learner
from firth.train import optim

TRIALS = 4


def pace(learner: Learner, feed: Feed, order: Order, bf16: bool) -> float:
    """Tokens a second over whole steps; the first trial, which also warms up, doesn't count. Nothing is learned."""
    rates = []
    optimizer = optim.make_optimizer(learner, 0.0)  # its rate is 0
    learner.train()
    for trial in range(TRIALS):
        begun = time.perf_counter()
        epoch, numbers = order.at(trial)
        work = feed.batch(epoch, numbers)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            losses = learner(work)
        sum(losses.values()).backward()
        optim.clip(learner, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rates.append(len(work.ids) / (time.perf_counter() - begun))
    return median(rates[1:])
