"""Fit maps between the vectors of two models on pairs of words.

N pairs, D width of the first model's vectors, E of the second's.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from firth.base.seeds import Purpose, generator, number
from firth.folders.wordmap import WordMap
from firth.nn.draws import new_weights
from firth.nn.mapping import HiddenMap, procrustes
from firth.train.optim import make_optimizer, set_lr

WIDER = 2  # times the first model's width: the hidden layer
HELD_OUT = 10  # one word in so many tells when to stop
STEPS = 2000
LR = 1e-3
WEIGHT_DECAY = 0.01
CHECK_EVERY = 10  # steps
PATIENCE = 20  # checks without a gain


class Fitted(NamedTuple):
    """Maps, and how the network came about."""

    made: WordMap
    steps: int  # of the network, up to the best


def fit(
    source: Tensor,
    target: Tensor,
    words: list[str],
    source_mean: Tensor,
    target_mean: Tensor,
    seed: int,
) -> Fitted:
    """Fit both maps on vectors (N, D) and (N, E) of length 1; `words` are the source's.

    The means, of all words, are subtracted: what all words have in common says nothing of any
    (Artetxe et al., 2016).
    """
    x = source - source_mean
    y = target - target_mean
    linear = procrustes(x, y)
    network, steps = _fit_network(x, y, words, seed)
    return Fitted(WordMap(linear, network, source_mean, target_mean), steps)


def held_words(words: list[str], seed: int, turn: int) -> tuple[set[str], set[str]]:
    """Return the words to fit on and those that are held out, one in ten of the different ones."""
    different = sorted(set(words))
    order = generator(Purpose.SPLIT, seed, turn).permutation(len(different))
    count = max(1, len(different) // HELD_OUT)
    held = {different[place] for place in order[:count]}
    return set(different) - held, held


def _fit_network(x: Tensor, y: Tensor, words: list[str], seed: int) -> tuple[HiddenMap, int]:
    """Fit the network on all but the words held out, and keep its best moment on these.

    All pairs are one batch. What is maximised is the cosine, by which translations are found.
    """
    _, held = held_words(words, seed, turn=1)
    is_held = torch.from_numpy(np.array([word in held for word in words]))
    with new_weights(number(Purpose.WEIGHTS, seed)):
        network = HiddenMap(x.shape[1], WIDER * x.shape[1], y.shape[1])
    optimizer = make_optimizer(network, WEIGHT_DECAY)
    set_lr(optimizer, LR)

    best = -float("inf")
    best_step = 0
    kept = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    for step in range(1, STEPS + 1):
        loss = 1 - cosine_similarity(network(x[~is_held]), y[~is_held]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % CHECK_EVERY:
            continue
        with torch.no_grad():
            found = float(cosine_similarity(network(x[is_held]), y[is_held]).mean())
        if found > best:
            best = found
            best_step = step
            kept = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        elif step - best_step >= PATIENCE * CHECK_EVERY:
            break
    network.load_state_dict(kept)
    network.eval().requires_grad_(False)
    return network, best_step
