"""The feed-forward language model: the few words before a word, as vectors side by side, through one hidden layer.

T tokens in the stream, B rows, N order, D width, H inner, V vocabulary.
"A Neural Probabilistic Language Model", Bengio et al., 2003.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from firth.models.language import LanguageSettings, Table, begins, lay_out, make_output
from firth.nn.dropout import drop
from firth.nn.linear import Linear

SIZES = {
    "tiny": 60,
    "mini": 100,
    "small": 200,
    "medium": 300,
    "base": 500,
    "large": 800,
}  # width, of vectors and hidden layer


class FfnnSettings(LanguageSettings):
    """The sizes of a feed-forward model."""

    order: int = Field(ge=2, le=64)  # words of an n-gram: one less are seen
    width: int = Field(gt=0, le=1 << 16)
    inner: int = Field(gt=0, le=1 << 18)
    direct: bool = False  # the words seen reach the output also past the hidden layer

    @model_validator(mode="after")
    def _tables_fit(self) -> "FfnnSettings":
        if self.tied and (self.inner != self.width or self.direct):
            raise ValueError(
                "a tied table needs an inner width equal to the width, and no direct connections"
            )
        self.check_width(self.reach)
        return self

    @property
    def seen(self) -> int:
        """Numbers in the vectors of the words seen."""
        return (self.order - 1) * self.width

    @property
    def reach(self) -> int:
        """Numbers in the vectors that the output gets."""
        return self.inner + self.seen * self.direct


@dataclass(frozen=True, eq=False)
class FfnnState:
    """The words that a model sees next, (B, N - 1), the nearest last; start marks stand where there are none."""

    words: Tensor

    def pick(self, rows: Tensor) -> "FfnnState":
        """The state of the rows named, in that order."""
        return FfnnState(self.words[rows])

    def tensors(self) -> dict[str, Tensor]:
        """What reading on needs, a row first, to be kept between two steps of training."""
        return {"words": self.words}


class Ffnn(nn.Module):
    """The model."""

    gradient = True

    def __init__(self, settings: FfnnSettings) -> None:
        super().__init__()
        s = settings
        self.settings = s
        self.vocab = s.vocab
        self.table = Table(s, s.width)
        self.hidden = Linear(s.seen, s.inner)
        self.output = make_output(s, s.reach, self.table.weight)

    def start(self, rows: int) -> FfnnState:
        """The state before the first token."""
        s = self.settings
        return FfnnState(torch.full((rows, s.order - 1), s.start, device=self.table.weight.device))

    def state(self, tensors: Mapping[str, Tensor]) -> FfnnState:
        """A state from the tensors of another."""
        return FfnnState(tensors["words"])

    def score(
        self, ids: Tensor, lengths: Tensor, state: FfnnState | None = None
    ) -> tuple[Tensor, FfnnState]:
        """The natural log-probability of each token (T), and the state at the end of each row."""
        state = self.start(len(lengths)) if state is None else state
        lay_out(ids, lengths, len(state.words), self.settings)
        count, seen = state.words.shape
        row = torch.arange(count).repeat_interleave(lengths)  # (T)
        first = lengths.cumsum(0) - lengths
        # A window before each token, and one after each row: the next state.
        row = torch.cat([row, torch.arange(count)])  # (T + B)
        position = torch.cat([torch.arange(len(ids)) - first[row[: len(ids)]], lengths])
        place = position[:, None] - torch.arange(
            seen, 0, -1
        )  # (T + B, N - 1) in the row, below 0 in the state
        held, own = (row[:, None] + 1) * seen + place, count * seen + first[row, None] + place
        known = torch.cat([state.words.flatten(), ids])
        windows = self._forget(known[torch.where(place < 0, held, own).to(ids.device)])
        before, after = windows.split([len(ids), count])
        return self.output.log_probability(self._read(before), ids), FfnnState(after)

    def step(self, ids: Tensor, state: FfnnState) -> tuple[Tensor, FfnnState]:
        """Read a token a row, at first the start mark, and give the log-probability of every next one, (B, V)."""
        lay_out(ids, torch.ones(len(ids), dtype=torch.long), len(state.words), self.settings)
        words = self._forget(torch.cat([state.words[:, 1:], ids[:, None]], 1))
        return self.output.scores(self._read(words))[:, : self.vocab], FfnnState(words)

    def _forget(self, windows: Tensor) -> Tensor:
        """Put start marks in place of a sentence's end and of all before it."""
        over = begins(windows, self.settings).flip(1).cumsum(1).flip(1) > 0
        return torch.where(over, self.settings.start, windows)

    def _read(self, windows: Tensor) -> Tensor:
        """Vectors that tell what follows windows (T, N - 1)."""
        s = self.settings
        seen = drop(self.table(windows).flatten(1), s.dropout, self.training)  # (T, (N - 1) D)
        inner = drop(torch.tanh(self.hidden(seen)), s.dropout, self.training)  # (T, H)
        return torch.cat([inner, seen], 1) if s.direct else inner
