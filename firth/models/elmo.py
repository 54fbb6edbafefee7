"""ELMo over words: a forward and a backward language model, whose layers are mixed into vectors.

T tokens in the stream, B texts, D width of one direction, V vocabulary. "Deep contextualized word
representations", Peters et al., 2018, with a table of words in place of their convolution over
characters, and without the projection of an LSTM layer's output. As there, what a layer reads is
added to what it gives, but for the first. The two models share the table and, in pretraining, the
output layer; their layers never meet, so that neither sees a word that it is to predict.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from firth.families.elmo import ElmoSettings
from firth.models.language import Table
from firth.models.protocols import Encoder, Hidden, LayerSteps
from firth.models.steps import in_text_order, layer_steps
from firth.nn.dropout import drop
from firth.nn.mix import Mix
from firth.nn.pool import first_tokens
from firth.nn.recurrent import Lstm, Packing, pack, reversal


class Elmo(Encoder):
    """The encoder: a layer's vector of a word is [forward; backward], each state after the word.

    A token's vector is ELMo_k = gamma sum_j s_j h_kj, where h_k0 is the word's own vector twice.
    """

    settings: ElmoSettings
    length = None
    is_bilm = True

    def __init__(self, settings: ElmoSettings) -> None:
        super().__init__()
        s = settings
        self.settings = s
        self.width = 2 * s.width
        self.depth = s.depth
        self.embedding = Table(s, s.width)
        self.forwards = nn.ModuleList(Lstm(s.width, s.width) for _ in range(s.depth))
        self.backwards = nn.ModuleList(Lstm(s.width, s.width) for _ in range(s.depth))
        self.mix = Mix(1 + s.depth, "weights")

    @property
    def table(self) -> nn.Parameter:
        """Return the token embedding, (V, D): half as wide as a token's vector."""
        table = self.embedding.weight
        assert isinstance(table, nn.Parameter)
        return table

    def replace_table(self, rows: Tensor, trainable: bool = True) -> None:
        """Read token vectors from another table, of as many rows as it has."""
        self.embedding.replace(rows, trainable)

    @property
    def body(self) -> nn.Module:
        """Return the layers of both models."""
        return nn.ModuleList([*self.forwards, *self.backwards])

    def top_layers(self, count: int) -> Sequence[nn.Module]:
        """Return the last layers of both models, and the mix above them."""
        return [*self.forwards[-count:], *self.backwards[-count:], self.mix]

    def set_dropout(self, probability: float) -> None:
        """Drop with a probability, and let the settings say so."""
        update = {"dropout": probability}
        self.settings = self.settings.model_copy(update=update)

    def recurrent_steps(self, ids: Tensor) -> list[LayerSteps]:
        """Return what each layer of both models computes for a text."""
        x = self.embedding(ids)
        ahead = layer_steps(self.forwards, x, added=True)
        behind = map(in_text_order, layer_steps(self.backwards, x.flip(0), added=True))
        found = [one._replace(name=f"{one.name}, forwards") for one in ahead]
        return found + [one._replace(name=f"{one.name}, backwards") for one in behind]

    def layer_weights(self) -> Tensor:
        """Return s_0 to s_N, which come to 1."""
        return self.mix.shares.detach().softmax(0)

    def initialise(self, module: nn.Module) -> None:
        """Give a module fresh weights, as those of the layers: uniform by its number of inputs."""
        if isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            nn.init.uniform_(module.weight, -bound, bound)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

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
        """Encode a stream; on demand also return h_k0 to h_kN as `layers`.

        The summary of a text has what each model gives for the token that it reads last.
        """
        x = self.embedding(ids)  # (T, D)
        packing = pack(lengths, x.device)
        turn = reversal(lengths).to(x.device)
        dropped = drop(x, self.settings.dropout, self.training)
        after = self._read(self.forwards, dropped[packing.tokens], packing)
        before = self._read(self.backwards, dropped[turn[packing.tokens]], packing)

        states = [torch.cat([x, x], 1)]  # (T, 2 D) each
        for ahead, behind in zip(after, before, strict=True):
            states.append(torch.cat([ahead[packing.back], behind[packing.back[turn]]], 1))
        tokens = self.mix(torch.stack(states, 1))

        first = first_tokens(lengths).to(x.device)
        last = first + lengths.to(x.device) - 1
        ahead, behind = tokens.chunk(2, 1)
        pooled = torch.cat([ahead[last], behind[first]], 1)  # (B, 2 D)
        return Hidden(tokens, pooled, tuple(states) if layers else ())

    def _read(self, stack: nn.ModuleList, x: Tensor, packing: Packing) -> list[Tensor]:
        """Return what each layer of one model gives for a packed stream (T, D)."""
        nothing = x.new_zeros(Lstm.states, len(packing.rows), self.settings.width)
        every: list[Tensor] = []
        for layer in stack:
            if every:
                x = drop(x, self.settings.dropout, self.training)
            y, _ = layer(x, nothing, packing)
            if every:
                y = y + every[-1]
            every.append(y)
            x = y
        return every
