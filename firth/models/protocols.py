"""The shapes that models keep, so that tasks and commands need not know which model they hold.

T tokens in the stream, B texts, D width, H heads, L tokens of a text, V vocabulary.
"""

from typing import NamedTuple, Protocol, Self, TypeVar

from torch import Tensor


class Hidden(NamedTuple):
    """What an encoder makes of a stream of texts."""

    tokens: Tensor  # (T, D) of the last layer
    pooled: Tensor | None  # (B, D), where the model has a summary of a text
    layers: tuple[Tensor, ...] = ()  # embedding and every layer, (T, D) each, if asked for
    weights: tuple[list[Tensor], ...] = ()  # a list a layer with (H, L, L) a text, if asked for


class Encoder(Protocol):
    """A model that gives every token a vector that depends on its text."""

    width: int
    depth: int
    length: int  # tokens that a text may have

    def __call__(
        self,
        ids: Tensor,
        positions: Tensor,
        segments: Tensor,
        lengths: Tensor,
        *,
        layers: bool = False,
        weights: bool = False,
    ) -> Hidden:
        """Encode a stream: three tensors (T) and the length of each text (B), on the CPU."""
        ...


class State(Protocol):
    """What a language model remembers of the tokens that it has read, a row for each text."""

    def pick(self, rows: Tensor) -> Self:
        """The state of the rows named, in that order; a beam leaves some out and repeats others."""
        ...


S = TypeVar("S", bound=State)


class LanguageModel(Protocol[S]):
    """A model that says how likely each token is after those before it."""

    vocab: int
    gradient: bool  # whether it is trained by descent; a model that counts has `fit` instead

    def score(self, ids: Tensor, lengths: Tensor, state: S | None = None) -> tuple[Tensor, S]:
        """The natural log-probability of each token of a stream (T); without a state, a row (B) begins as a sentence does."""
        ...

    def start(self, rows: int) -> S:
        """The state before the first token."""
        ...

    def step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """Read a token a row (B), at first the start mark, and give the log-probability of every next one, (B, V)."""
        ...
