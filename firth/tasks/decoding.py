"""How a language model continues a text, and what comes of it."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from firth.base.errors import InputError
from firth.tasks.task import Answer


class Decoding(NamedTuple):
    """How a text is continued: by the likeliest token each time (temperature 0), or by draws.

    `top_k` leaves the so many likeliest tokens, `top_p` the fewest that have this much of the
    probability. A text ends before a stop.
    """

    tokens: int | None = None  # new ones, at most
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0

    def check(self) -> None:
        """Refuse what makes no sense."""
        if self.tokens is not None and self.tokens < 1:
            raise InputError(f"a text is continued for at least one token, not {self.tokens}")
        if not 0 <= self.temperature < math.inf:
            each = "0 (the likeliest token each time)"
            raise InputError(f"the temperature is {each} or above, not {self.temperature}")
        if (self.top_k is not None and self.top_k < 1) or not 0 < self.top_p <= 1:
            raise InputError("--top-k is at least 1, and --top-p above 0 and at most 1")
        if not self.temperature and (self.top_k is not None or self.top_p < 1):
            raise InputError("--top-k and --top-p are for draws, which need a temperature above 0")
        if not all(self.stop):
            raise InputError("a stop text has at least one character")
        if self.seed < 0:
            raise InputError(f"a seed is 0 or above, not {self.seed}")


@dataclass(frozen=True)
class GeneratedText(Answer):
    """A text and what was generated after it."""

    text: str  # the whole
    continuation: str  # the part that is new
    score: float  # log-probability of all new tokens, those of a stop and the end included
    ended: bool  # by the end of the line or a stop; False where the tokens ran out


@dataclass(frozen=True)
class Completion:
    """One way to end the line that a text begins."""

    text: str
    continuation: str
    probability: float  # of exactly this end, given the beginning
    ended: bool  # False where the tokens ran out
