"""The recurrent language model: what it has read so far is held in a vector.

T tokens in the stream, B rows, D width, N layers, K states of a cell, V vocabulary.
"Recurrent neural network based language model", Mikolov et al., 2010; with LSTM cells and dropout
as in "Recurrent Neural Network Regularization", Zaremba et al., 2014.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from firth.families.rnn import RnnSettings
from firth.models.language import WordLanguageModel, begins, lay_out
from firth.nn.dropout import drop
from firth.nn.recurrent import Recurrent


@dataclass(frozen=True, eq=False)
class RnnState:
    """What a model holds of each row.

    The token read last is kept apart until the next one is asked for: where a text is cut for
    training and its state detached, the layers still learn from the first word after the cut.
    """

    memory: Tensor  # (N, K, B, D) of the layers before they read `last`
    last: Tensor  # (B) the token read last
    # (N, K, B, D) of the layers after `last`, where a step has asked for it.
    ahead: Tensor | None = None

    def pick(self, rows: Tensor) -> "RnnState":
        """Return the state of the rows named, in that order."""
        memory = self.memory[:, :, rows]
        ahead = self.ahead
        if ahead is not None:
            ahead = ahead[:, :, rows]
        return RnnState(memory, self.last[rows], ahead)

    def latest(self, most: int) -> "RnnState":
        """Return the state as it is: its memory has one size, however much was read."""
        return self

    def tensors(self) -> dict[str, Tensor]:
        """Return what reading on needs, a row first and without a gradient, between two steps."""
        memory = self.memory.detach().movedim(2, 0)  # (B, N, K, D)
        return {"memory": memory, "last": self.last}


class Rnn(WordLanguageModel):
    """The model."""

    settings: RnnSettings

    def __init__(self, settings: RnnSettings) -> None:
        super().__init__(settings, settings.width)
        s = settings
        self.layers = Recurrent(s.cell, s.width, s.width, s.depth, s.dropout)
        self.add_output(s.width)

    def set_dropout(self, probability: float) -> None:
        """Let every layer drop with one probability, and the settings say so."""
        super().set_dropout(probability)
        self.layers.dropout = probability

    def places(self, lengths: Tensor, far: int) -> Tensor:
        """Say where earlier tokens are read: one place later, since the start mark comes first."""
        stop = lengths.cumsum(0)
        distance = torch.arange(1, far + 1)
        places = stop[:, None] - distance  # (B, far)
        return places.clamp(min=-1)

    def start(self, rows: int) -> RnnState:
        """Return the state before the first token."""
        memory = self.layers.start(rows)
        mark = self.settings.start
        last = torch.full((rows,), mark, device=memory.device)
        return RnnState(memory, last)

    def state(self, tensors: Mapping[str, Tensor]) -> RnnState:
        """Return a state made of the tensors of another."""
        memory = tensors["memory"].movedim(0, 2)
        return RnnState(memory, tensors["last"])

    def score(
        self, ids: Tensor, lengths: Tensor, state: RnnState | None = None
    ) -> tuple[Tensor, RnnState]:
        """Return the natural log-probability of each token (T), and the state after each row."""
        if state is None:
            state = self.start(len(lengths))
        layout = lay_out(ids, lengths, len(state.last), self.settings)
        # Each token is foretold by what the one before it left, in a row's beginning by its state.
        read = ids.roll(1)
        read[layout.first] = state.last[layout.rows]
        vectors, memory = self._read(read, lengths, state.memory)
        found = self.output.log_probability(vectors, ids)
        last = state.last.index_copy(0, layout.rows, ids[layout.last])
        return found, RnnState(memory, last)

    def step(self, ids: Tensor, state: RnnState) -> tuple[Tensor, RnnState]:
        """Read a token a row, at first the start mark; return log-probabilities (B, V)."""
        lengths = torch.ones(len(ids), dtype=torch.long)
        lay_out(ids, lengths, len(state.last), self.settings)
        before = state.ahead
        if before is None:
            _, before = self._read(state.last, lengths, state.memory)
        vectors, ahead = self._read(ids, lengths, before)
        scores = self.output.scores(vectors)
        # A start mark that is no word has a row beyond the vocabulary.
        return scores[:, : self.vocab], RnnState(before, ids, ahead)

    def _read(self, ids: Tensor, lengths: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return vectors (T, D) that tell what follows each token, and the memory after each row.

        A row is read in parts, one for each sentence that begins in it without a memory.
        """
        s = self.settings
        count = len(lengths)
        fresh = begins(ids, s)
        owner = torch.arange(count).repeat_interleave(lengths)  # (T) each token's row
        owner = owner.to(ids.device)
        before_first = owner.new_full((1,), -1)
        change = owner.diff(prepend=before_first) > 0

        parts = (change | fresh).nonzero()[:, 0]  # where each begins
        stop = parts.new_full((1,), len(ids))
        sizes = parts.diff(append=stop)
        rows = owner[parts]
        after_last = rows.new_full((1,), count)
        final = rows.diff(append=after_last) > 0  # whether a part is the last of its row

        words = torch.where(fresh, s.start, ids)
        x = self.table(words)  # (T, D)
        x = drop(x, s.dropout, self.training)
        before = memory[:, :, rows] * ~fresh[parts, None]
        x, after = self.layers(x, sizes.cpu(), before)
        x = drop(x, s.dropout, self.training)
        memory = memory.index_copy(2, rows[final], after[:, :, final])
        return x, memory
