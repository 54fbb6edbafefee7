"""What the feed-forward and the recurrent language model share: their marks, how rows are laid out, and the layer that gives words.

T tokens in the stream, B rows, D width, V vocabulary. As in the n-gram model, a row begins after one start mark or where its state
left off, and the end of a sentence is a token like any other, given by the caller.
"""

import math
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.models.marks import MarkSettings
from firth.nn.softmax import Classes, Full, Sampled

Rate = Annotated[float, Field(ge=0, lt=1)]


class LanguageSettings(MarkSettings):
    """The ids of a language model's marks, and how it finds the probabilities of words."""

    output: Literal["full", "classes", "sampled"] = "full"
    cutoffs: tuple[int, ...] = Field(
        default=(), strict=False
    )  # of `classes`: a class ends before each of these ranks of frequency
    samples: int = Field(
        default=1024, gt=0, le=1 << 20
    )  # of `sampled`: the words drawn for a batch
    tied: bool = False  # one table for words that are read and words that are written
    dropout: Rate = 0.0
    spread: float = Field(
        default=0.1, gt=0, lt=10
    )  # fresh tables hold numbers between it and its negative

    @model_validator(mode="after")
    def _classes_fit(self) -> "LanguageSettings":
        bounds = (0, *self.cutoffs, self.symbols - 1)
        if (self.output == "classes") != bool(self.cutoffs):
            raise ValueError("classes need cutoffs, and nothing else has them")
        if any(first >= second for first, second in pairwise(bounds)):
            raise ValueError(
                f"the cutoffs {self.cutoffs} don't rise from 1 to less than the words to predict"
            )
        if self.tied and self.output == "classes":
            raise ValueError("a table of classes can't be tied to that of the words that are read")
        return self

    def check_width(self, width: int) -> None:
        """Refuse classes over vectors so narrow that nothing is left for the last: each has a quarter of the width before it."""
        if width < 4 ** len(self.cutoffs):
            raise ValueError(
                f"vectors of {width} numbers are too narrow for {len(self.cutoffs)} cutoffs"
            )

    @property
    def symbols(self) -> int:
        """The vocabulary, and the start mark if it is beyond."""
        return max(self.vocab, self.start + 1)


def make_output(settings: LanguageSettings, width: int, table: Tensor) -> Full | Classes:
    """The layer over vectors of a width that knows every symbol; `table` is that of the words that are read."""
    s, tied = settings, table if settings.tied else None
    if s.output == "classes":
        return Classes(width, s.symbols, s.start, s.cutoffs)
    if s.output == "sampled":
        return Sampled(width, s.symbols, s.start, s.samples, s.spread, tied)
    return Full(width, s.symbols, s.start, s.spread, tied)


class Table(nn.Embedding):
    """The vectors of the words that are read.

    They leave the table larger than they stand in it, by the root of the width (Vaswani et al., 2017): small numbers suit the
    output, which may be tied to the table, but from vectors as small the layers learn next to nothing at first.
    """

    def __init__(self, settings: LanguageSettings, width: int) -> None:
        super().__init__(settings.symbols, width)
        nn.init.uniform_(self.weight, -settings.spread, settings.spread)

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors (..., D) of ids (...)."""
        return super().forward(ids) * math.sqrt(self.embedding_dim)


class Layout(NamedTuple):
    """Where the rows that are not empty stand in a stream."""

    rows: Tensor  # which they are
    first: Tensor  # where they begin
    last: Tensor  # and their last tokens


def lay_out(ids: Tensor, lengths: Tensor, held: int, settings: LanguageSettings) -> Layout:
    """Check a stream against the vocabulary and against the number of rows that a state holds."""
    if held != len(lengths):
        raise InputError(f"a state of {held} rows can't go on with {len(lengths)}")
    if int(lengths.clamp(min=0).sum()) != len(ids) or (lengths < 0).any():
        raise InputError(f"the rows' lengths don't add up to {len(ids)} tokens")
    wrong = ((ids < 0) | (ids >= settings.vocab)) & (ids != settings.start)
    if wrong.any():
        raise InputError(
            f"the id {int(ids[wrong][0])} is not in the model's vocabulary of {settings.vocab}"
        )
    stop, rows = lengths.cumsum(0), lengths.nonzero()[:, 0]
    places = rows, (stop - lengths)[rows], stop[rows] - 1
    return Layout(*(place.to(ids.device) for place in places))


def begins(ids: Tensor, settings: LanguageSettings) -> Tensor:
    """Whether a sentence begins after each token, so that nothing before counts."""
    found = ids == settings.start
    return found if settings.end is None else found | (ids == settings.end)
