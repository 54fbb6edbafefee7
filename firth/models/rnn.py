"""The recurrent network: what it has read so far is held in a vector.

T tokens in the stream, B rows, D width, N layers, K states of a cell, V vocabulary.
"Recurrent neural network based language model", Mikolov et al., 2010; with LSTM cells and dropout
as in "Recurrent Neural Network Regularization", Zaremba et al., 2014.

As an encoder it gives a token what its layers hold after reading it. One without an output layer
is nothing but an encoder, and may read both ways ("Bidirectional Recurrent Neural Networks",
Schuster and Paliwal, 1997).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firth.families.rnn import RnnSettings
from firth.models.language import WordLanguageModel, begins, lay_out
from firth.models.protocols import Encoder, Hidden, LayerSteps, TokenCost
from firth.models.steps import both_ways_steps, layer_steps
from firth.nn.dropout import drop
from firth.nn.recurrent import BidirectionalRecurrent, Recurrent, Tanh

TINY = 1e-30  # of vectors that are all zero, so that they stay so


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


class Rnn(WordLanguageModel, Encoder):
    """The network, an encoder and, with an output layer, a language model."""

    settings: RnnSettings

    def __init__(self, settings: RnnSettings) -> None:
        super().__init__(settings, settings.word_width)
        s = settings
        self.width = 2 * s.width if s.bidirectional else s.width
        self.depth = s.depth
        kind = BidirectionalRecurrent if s.bidirectional else Recurrent
        self.layers: BidirectionalRecurrent | Recurrent = kind(
            s.cell, s.word_width, s.width, s.depth, s.dropout
        )
        if s.output != "none":
            self.add_output(s.width)

    @property
    def marks(self) -> int:  # type: ignore[override]  # of most encoders a number
        """Return one more than the largest id that says where a sentence begins."""
        s = self.settings
        return 0 if s.bidirectional else 1 + max(s.start, s.end or 0)

    def replace_table(self, rows: Tensor, trainable: bool = True) -> None:
        """Read token vectors from another table."""
        self.token_layer.replace(rows, trainable)

    def take_vectors(self, rows: Tensor) -> None:
        """Begin with these token vectors, all made longer or shorter by one factor.

        The numbers that the layers read are then as large as those of new vectors, whatever the
        vectors were learned for: around 1. Those of word2vec are far smaller, and layers that read
        them as they are learn little at first.
        """
        size = rows.pow(2).mean().sqrt().clamp(min=TINY)
        super().take_vectors(rows / (size * self.token_layer.factor))

    def initialise(self, module: nn.Module) -> None:
        """Give a layer fresh weights, as those that the recurrent layers begin with."""
        if isinstance(module, nn.Linear):
            bound = module.weight.shape[1] ** -0.5
            nn.init.uniform_(module.weight, -bound, bound)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def top_layers(self, count: int) -> list[nn.Module]:
        """Return the last layers."""
        return self.layers.last(count)

    def drop_output(self) -> None:
        """Remove the output layer: what remains is an encoder."""
        if self.settings.output == "none":
            return
        del self.output
        without = {"output": "none", "cutoffs": (), "tied": False}
        self.settings = self.settings.model_copy(update=without)

    def token_cost(self) -> TokenCost:
        """Return what a token costs."""
        s = self.settings
        products = sum(parameter.numel() for parameter in self.layers.parameters())
        gates = 10 * self.width * s.depth  # and states, that are kept of each layer
        return TokenCost(products, 0, gates, 0, (4 * s.width, s.width))

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        segments: Tensor,
        lengths: Tensor,
        *,
        layers: bool = False,
        weights: bool = False,
    ) -> Hidden:
        """Encode a stream; the summary of a text is what is held at its end.

        A text that has no start mark is read as if it had one, like a language model's. Where it is
        read both ways, the end of the way back is its first token.
        """
        s = self.settings
        first = lengths.cumsum(0) - lengths
        last = first + lengths - 1
        first, last = first.to(ids.device), last.to(ids.device)
        if isinstance(self.layers, BidirectionalRecurrent):
            x = drop(self.token_layer(ids), s.dropout, self.training)
            every = [x, *self.layers(x, lengths)]
            ahead, behind = every[-1].chunk(2, 1)  # (T, D / 2) each
            pooled = torch.cat([ahead[last], behind[first]], 1)
        else:
            every, _ = self._read(ids, lengths, self._opened(len(lengths)))
            if s.end is not None:
                # Nothing is held after the end of a sentence, in a model that forgets there.
                last = last - ((ids[last] == s.end) & (last > first)).long()
            pooled = every[-1][last]
        found: tuple[Tensor, ...] = ()
        if layers:
            found = (self._as_wide(every[0]), *every[1:])
        return Hidden(every[-1], pooled, found)

    @property
    def _one_way(self) -> Recurrent:
        """Return the layers of a model that reads from the start alone."""
        assert isinstance(self.layers, Recurrent)
        return self.layers

    def _opened(self, rows: int) -> Tensor:
        """Return the memory of rows (N, K, B, D) after the start mark."""
        one = torch.ones(1, dtype=torch.long)
        mark = torch.full((1,), self.settings.start, device=self.table.device)
        _, memory = self._read(mark, one, self._one_way.start(1))
        return memory.expand(-1, -1, rows, -1)

    def _as_wide(self, x: Tensor) -> Tensor:
        """Return the vectors of words side by side with themselves, as often as the layers' allow.

        So they can be mixed with those of layers that read both ways, as ELMo's are.
        """
        times, rest = divmod(self.width, x.shape[1])
        return x if rest else x.repeat(1, times)

    def recurrent_steps(self, ids: Tensor) -> list[LayerSteps]:
        """Return what each layer computes for a text that begins anew.

        As in `forward`, the start mark comes first, also where the text doesn't have it.
        """
        if isinstance(self.layers, BidirectionalRecurrent):
            x = self.token_layer(ids)
            return both_ways_steps(self.layers.forwards, self.layers.backwards, x)
        own = self._one_way.layers
        mark = ids.new_full((1,), self.settings.start)
        if ids[0] == mark:
            return layer_steps(own, self.token_layer(ids))
        found = []
        for name, values, before in layer_steps(own, self.token_layer(torch.cat([mark, ids]))):
            after_mark = {letter: x[1:] for letter, x in values.items()}
            of_mark = {letter: values[letter][0] for letter in before}
            found.append(LayerSteps(name, after_mark, of_mark))
        return found

    def recurrent_weights(self) -> list[Tensor]:
        """Return the matrices that states are multiplied by."""
        layers = self.layers.modules()
        return [layer.keep.weight for layer in layers if isinstance(layer, Tanh)]

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
        memory = self._one_way.start(rows)
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
        vectors, memory = self._foretell(read, lengths, state.memory)
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
        vectors, ahead = self._foretell(ids, lengths, before)
        scores = self.output.scores(vectors)
        # A start mark that is no word has a row beyond the vocabulary.
        return scores[:, : self.vocab], RnnState(before, ids, ahead)

    def _foretell(self, ids: Tensor, lengths: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return vectors (T, D) that tell what follows each token, and the memory after rows."""
        every, memory = self._read(ids, lengths, memory)
        x = drop(every[-1], self.settings.dropout, self.training)
        return x, memory

    def _read(self, ids: Tensor, lengths: Tensor, memory: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the words' vectors and those of each layer (T, D), and the memory after each row.

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
        x = self.token_layer(words)  # (T, D)
        x = drop(x, s.dropout, self.training)
        before = memory[:, :, rows] * ~fresh[parts, None]
        every, after = self._one_way.every_layer(x, sizes.cpu(), before)
        memory = memory.index_copy(2, rows[final], after[:, :, final])
        return [x, *every], memory
