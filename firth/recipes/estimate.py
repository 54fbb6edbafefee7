"""What fine-tuning would cost here, from a model's sizes and how fast this machine multiplies matrices."""

import time

import torch

from firth.models.bert import Bert
from firth.models.gpt import Gpt
from firth.nn.linear import product
from firth.reading.gauge import Gauge

EPOCHS = 3
BATCH = 32  # texts
TRIES = 5
TOKENS = 2048  # of a trial
REACHED = 0.6  # share of that speed which a whole step reaches, measured in pretraining
STATES = 4  # of each weight: itself, its gradient and two moments
LIBRARIES = 300e6  # bytes that a process takes before it does anything


def cost(encoder: Bert | Gpt, gauge: Gauge) -> tuple[float, float]:
    """Seconds and bytes, both rough: a factor of two is likely, an order of magnitude is not."""
    sizes = encoder.settings
    layer = 4 * sizes.width**2 + 2 * sizes.width * sizes.inner
    work = (
        6.0 * layer * sizes.depth * gauge.tokens + 12.0 * sizes.width * sizes.depth * gauge.squares
    )
    seconds = EPOCHS * work / (REACHED * _speed(sizes.width, sizes.inner))
    waiting = (
        sizes.vocab - len(gauge.ids)
    ) * sizes.width  # what is not in the examples is not taught
    taught = sum(weight.numel() for weight in encoder.parameters()) - waiting
    tokens = BATCH * gauge.tokens / gauge.texts
    mean = gauge.squares / gauge.tokens
    kept = tokens * sizes.depth * (10 * sizes.width + 2 * sizes.inner + 2 * sizes.heads * mean)
    return seconds, LIBRARIES + 4 * (waiting + STATES * taught + kept)


def _speed(width: int, inner: int) -> float:
    """Operations a second of one linear layer of the model, the best of a few tries."""
    given, weight = torch.ones(TOKENS, width), torch.ones(inner, width)
    best = float("inf")
    with torch.inference_mode():
        for _ in range(TRIES):
            begun = time.perf_counter()
            product(given, weight)
            best = min(best, time.perf_counter() - begun)
    return 2.0 * TOKENS * width * inner / best
