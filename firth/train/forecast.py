"""How fast a learner trains here, tried on a few of its own batches."""

import time
from statistics import median

import torch

from firth.data.feed import Feed, Order
from firth.nn.draws import drawing
from firth.train import optim
from firth.train.learner import Learner

TRIALS = 4


def pace(learner: Learner, feed: Feed, order: Order, bf16: bool) -> float:
    """Return tokens a second over whole steps, in which nothing is learned.

    The first trial, which also warms up, doesn't count.
    """
    rates = []
    optimizer = optim.make_optimizer(learner, weight_decay=0.0)  # with a learning rate of 0
    learner.train()
    for trial in range(TRIALS):
        begun = time.perf_counter()
        epoch, numbers = order.at(trial)
        batch = feed.batch(epoch, numbers)
        with drawing(trial), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            losses = learner(batch)
        sum(losses.values()).backward()
        optim.clip_gradients(learner, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rates.append(len(batch.ids) / (time.perf_counter() - begun))
    return median(rates[1:])
