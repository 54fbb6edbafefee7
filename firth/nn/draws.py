"""Random numbers of a block of code: drawn from a generator of its own, never from the process's.

Torch has one generator for a whole process. A training that seeded it would disturb the program
that called it, and two trainings in threads would take each other's numbers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# Torch's functions that fill a tensor at random; each of them takes a generator.
RANDOM = {
    *("bernoulli", "multinomial", "normal", "rand", "randint", "randn", "randperm"),
    *("bernoulli_", "exponential_", "normal_", "random_", "trunc_normal_", "uniform_"),
    *("kaiming_normal_", "kaiming_uniform_", "orthogonal_", "xavier_normal_", "xavier_uniform_"),
}

# A context variable, because a thread that begins has none of another thread's values.
_current: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


@contextmanager
def drawing(seed: int) -> Iterator[torch.Generator]:
    """Let dropout and sampled words be drawn from a new generator with this seed."""
    generator = torch.Generator().manual_seed(seed)
    before = _current.set(generator)
    try:
        yield generator
    finally:
        _current.reset(before)


@contextmanager
def new_weights(seed: int) -> Iterator[None]:
    """Let all be drawn from a new generator, also by torch's own layers as they are built."""
    with drawing(seed) as generator, _Given(generator):
        yield


def generator_on(device: torch.device) -> torch.Generator | None:
    """Return the generator of the block that runs; None, which is torch's own, outside of one."""
    generator = _current.get()
    if generator is None or generator.device.type != device.type:
        return None
    return generator


class _Given(TorchFunctionMode):
    """Give a generator to every random function: torch's layers don't take one.

    Every call of torch's passes through here, which is why only new weights are made under it.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") in RANDOM and kwargs.get("generator") is None:
            kwargs["generator"] = self.generator
        return func(*args, **kwargs)
