"""The recurrent language model: what it has read so far is held in a vector, however long ago it was.

T tokens in the stream, B rows, D width, N layers, K states of a cell, V vocabulary.
"Recurrent neural network based language model", Mikolov et al., 2010; with LSTM cells and dropout as in
"Recurrent Neural Network Regularization", Zaremba et al., 2014.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from firth.models.language import LanguageSettings, Table, begins, lay_out, make_output
from firth.nn.dropout import drop
from firth.nn.recurrent import Recurrent

# Width and layers; medium and large are Zaremba's.
SIZES = {
    "tiny": (100, 1),
    "mini": (300, 1),
    "small": (400, 2),
    "medium": (650, 2),
    "base": (1000, 2),
    "large": (1500, 2),
}


class RnnSettings(LanguageSettings):
    """The sizes of a recurrent model."""

    width: int = Field(gt=0, le=1 << 16)
    depth: int = Field(default=2, gt=0, le=1024)
    cell: Literal["tanh", "gru", "lstm"] = "lstm"

    @model_validator(mode="after")
    def _wide_enough(self) -> "RnnSettings":
        self.check_width(self.width)
        return self


@dataclass(frozen=True, eq=False)
class RnnState:
    """What a model holds of each row.

    The token read last is kept apart until the next one is asked for: where a text is cut for training and its state detached, the
    first word after the cut still teaches the layers.
    """

    memory: Tensor  # (N, K, B, D) of the layers before they read `last`
    last: Tensor  # (B) the token read last
    ahead: Tensor | None = (
        None  # (N, K, B, D) of the layers after `last`, where a step has asked for it
    )

    def pick(self, rows: Tensor) -> "RnnState":
        """The state of the rows named, in that order."""
        ahead = None if self.ahead is None else self.ahead[:, :, rows]
        return RnnState(self.memory[:, :, rows], self.last[rows], ahead)

    def tensors(self) -> dict[str, Tensor]:
        """What reading on needs, a row first and without a gradient, to be kept between two steps of training."""
        return {"memory": self.memory.detach().movedim(2, 0), "last": self.last}


class Rnn(nn.Module):
    """The model."""

    gradient = True

    def __init__(self, settings: RnnSettings) -> None:
        super().__init__()
        s = settings
        self.settings = s
        self.vocab = s.vocab
        self.table = Table(s, s.width)
        self.layers = Recurrent(s.cell, s.width, s.width, s.depth, s.dropout)
        self.output = make_output(s, s.width, self.table.weight)

    def start(self, rows: int) -> RnnState:
        """The state before the first token."""
        memory = self.layers.start(rows)
        return RnnState(memory, torch.full((rows,), self.settings.start, device=memory.device))

    def state(self, tensors: Mapping[str, Tensor]) -> RnnState:
        """A state from the tensors of another."""
        return RnnState(tensors["memory"].movedim(0, 2), tensors["last"])

    def score(
        self, ids: Tensor, lengths: Tensor, state: RnnState | None = None
    ) -> tuple[Tensor, RnnState]:
        """The natural log-probability of each token (T), and the state at the end of each row."""
        state = self.start(len(lengths)) if state is None else state
        layout = lay_out(ids, lengths, len(state.last), self.settings)
        read = ids.roll(1)
        read[layout.first] = state.last[layout.rows]
        vectors, memory = self._read(read, lengths, state.memory)
        last = state.last.index_copy(0, layout.rows, ids[layout.last])
        return self.output.log_probability(vectors, ids), RnnState(memory, last)

    def step(self, ids: Tensor, state: RnnState) -> tuple[Tensor, RnnState]:
        """Read a token a row, at first the start mark, and give the log-probability of every next one, (B, V)."""
        lengths = torch.ones(len(ids), dtype=torch.long)
        lay_out(ids, lengths, len(state.last), self.settings)
        before = (
            self._read(state.last, lengths, state.memory)[1] if state.ahead is None else state.ahead
        )
        vectors, ahead = self._read(ids, lengths, before)
        return self.output.scores(vectors)[:, : self.vocab], RnnState(before, ids, ahead)

    def _read(self, ids: Tensor, lengths: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (T, D) that tell what follows each token, and the memory after each row.

        A row is read in parts, one for each sentence that begins in it without a memory of what came before.
        """
        fresh = begins(ids, self.settings)
        owner = torch.arange(len(lengths)).repeat_interleave(lengths).to(ids.device)  # (T)
        change = owner.diff(prepend=owner.new_full((1,), -1)) > 0
        parts = (change | fresh).nonzero()[:, 0]
        sizes = parts.diff(append=parts.new_full((1,), len(ids)))
        rows = owner[parts]
        final = rows.diff(append=rows.new_full((1,), len(lengths))) > 0  # the last part of its row
        x = self.table(torch.where(fresh, self.settings.start, ids))  # (T, D)
        before = memory[:, :, rows] * ~fresh[parts, None]
        x, after = self.layers(drop(x, self.settings.dropout, self.training), sizes.cpu(), before)
        return drop(x, self.settings.dropout, self.training), memory.index_copy(
            2, rows[final], after[:, :, final]
        )
