"""What fine-tuning would cost here, by a model's sizes and this machine's speed."""

import time

import torch

from firth.models.protocols import Encoder
from firth.nn.linear import product
from firth.reading.gauge import Gauge

EPOCHS = 3
BATCH = 32  # texts
TRIES = 5
TOKENS = 2048  # of a trial
REACHED = 0.6  # share of that speed which a whole step reaches, measured in pretraining
STATES = 4  # of each weight: itself, its gradient and two moments
LIBRARIES = 300e6  # bytes that a process takes before it does anything


def cost(encoder: Encoder, gauge: Gauge) -> tuple[float, float]:
    """Return seconds and bytes, both rough: wrong by a factor of two, not of ten."""
    each = encoder.token_cost()
    products = 6.0 * each.products * gauge.tokens + 12.0 * each.pairs * gauge.squares
    seconds = EPOCHS * products / (REACHED * _speed(*each.layer))
    # What is not in the examples is not trained.
    waiting = (len(encoder.table) - len(gauge.ids)) * encoder.table.shape[1]
    trained = sum(weight.numel() for weight in encoder.parameters()) - waiting
    tokens = BATCH * gauge.tokens / gauge.texts
    mean = gauge.squares / gauge.tokens
    kept = tokens * (each.kept + each.kept_pairs * mean)
    return seconds, LIBRARIES + 4 * (waiting + STATES * trained + kept)


def _speed(outputs: int, inputs: int) -> float:
    """Return the operations a second of one linear layer of the model, the best of a few tries."""
    given, weight = torch.ones(TOKENS, inputs), torch.ones(outputs, inputs)
    best = float("inf")
    with torch.inference_mode():
        for _ in range(TRIES):
            begun = time.perf_counter()
            product(given, weight)
            best = min(best, time.perf_counter() - begun)
    return 2.0 * TOKENS * inputs * outputs / best
