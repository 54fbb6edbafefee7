"""The feed-forward language model: vectors of the few words before, through one hidden layer.

T tokens in the stream, B rows, N order, D width, H inner, V vocabulary.
"A Neural Probabilistic Language Model", Bengio et al., 2003.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from firth.families.ffnn import FfnnSettings
from firth.models.language import WordLanguageModel, begins, lay_out
from firth.nn.dropout import drop
from firth.nn.linear import Linear


@dataclass(frozen=True, eq=False)
class FfnnState:
    """The words that a model sees next, (B, N - 1), the nearest last, after start marks."""

    words: Tensor

    def pick(self, rows: Tensor) -> "FfnnState":
        """Return the state of the rows named, in that order."""
        return FfnnState(self.words[rows])

    def latest(self, most: int) -> "FfnnState":
        """Return the state as it is: it holds as many words as the model sees."""
        return self

    def tensors(self) -> dict[str, Tensor]:
        """Return what reading on needs, a row first, to be kept between two training steps."""
        return {"words": self.words}


class Ffnn(WordLanguageModel):
    """The model."""

    settings: FfnnSettings

    def __init__(self, settings: FfnnSettings) -> None:
        super().__init__(settings, settings.width)
        s = settings
        self.hidden = Linear(s.seen, s.inner)
        self.add_output(s.reach)

    def places(self, lengths: Tensor, far: int) -> Tensor:
        """Say where earlier tokens stand: each token has a window of its own, the nearest last."""
        seen = self.settings.order - 1
        distance = torch.arange(1, far + 1)
        window_ends = lengths.cumsum(0) * seen  # (B) of the windows of the rows' last tokens
        places = window_ends[:, None] - distance  # (B, far)
        return torch.where(distance <= seen, places, -1)

    def start(self, rows: int) -> FfnnState:
        """Return the state before the first token."""
        s = self.settings
        device = self.table.device
        words = torch.full((rows, s.order - 1), s.start, device=device)
        return FfnnState(words)

    def state(self, tensors: Mapping[str, Tensor]) -> FfnnState:
        """Return a state made of the tensors of another."""
        return FfnnState(tensors["words"])

    def score(
        self, ids: Tensor, lengths: Tensor, state: FfnnState | None = None
    ) -> tuple[Tensor, FfnnState]:
        """Return the natural log-probability of each token (T), and the state after each row."""
        if state is None:
            state = self.start(len(lengths))
        lay_out(ids, lengths, len(state.words), self.settings)
        tokens = len(ids)
        count, seen = state.words.shape

        # A window before each token, and one after each row: the next state. Of each (T + B): the
        # row, and the position in it of the token that the window stands before.
        every = torch.arange(count)
        owner = every.repeat_interleave(lengths)  # (T) the row of each token
        first = lengths.cumsum(0) - lengths
        position = torch.arange(tokens) - first[owner]
        row = torch.cat([owner, every])
        position = torch.cat([position, lengths])

        # Where in the row each word of a window stands, below 0 in the state: (T + B, N - 1).
        place = position[:, None] - torch.arange(seen, 0, -1)
        # The states' words come first, then the stream.
        held = (row[:, None] + 1) * seen + place
        own = count * seen + first[row, None] + place
        source = torch.where(place < 0, held, own).to(ids.device)
        known = torch.cat([state.words.flatten(), ids])
        windows = self._forget(known[source])
        before, after = windows.split([tokens, count])

        vectors = self._read(before)
        found = self.output.log_probability(vectors, ids)
        return found, FfnnState(after)

    def step(self, ids: Tensor, state: FfnnState) -> tuple[Tensor, FfnnState]:
        """Read a token a row, at first the start mark; return log-probabilities (B, V)."""
        lengths = torch.ones(len(ids), dtype=torch.long)
        lay_out(ids, lengths, len(state.words), self.settings)
        newest = ids[:, None]
        words = torch.cat([state.words[:, 1:], newest], 1)  # (B, N - 1)
        words = self._forget(words)
        vectors = self._read(words)
        scores = self.output.scores(vectors)
        # A start mark that is no word has a row beyond the vocabulary.
        return scores[:, : self.vocab], FfnnState(words)

    def _forget(self, windows: Tensor) -> Tensor:
        """Put start marks in place of a sentence's end and of all before it."""
        ends = begins(windows, self.settings)
        over = ends.flip(1).cumsum(1).flip(1) > 0  # how many ends stand here or later
        return torch.where(over, self.settings.start, windows)

    def _read(self, windows: Tensor) -> Tensor:
        """Return vectors that tell what follows windows (T, N - 1)."""
        s = self.settings
        seen = self.token_layer(windows).flatten(1)  # (T, (N - 1) D)
        seen = drop(seen, s.dropout, self.training)
        inner = torch.tanh(self.hidden(seen))  # (T, H)
        inner = drop(inner, s.dropout, self.training)
        if s.direct:
            return torch.cat([inner, seen], 1)
        return inner
