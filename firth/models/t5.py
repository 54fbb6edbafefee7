"""T5: text to text, where attention knows how far apart two tokens are and not where they stand.

S source tokens, U target tokens, B pairs, D width, H heads, L tokens of a text, O words that are
written, which are all of the vocabulary. "Exploring the Limits of Transfer Learning with a Unified
Text-to-Text Transformer", Raffel et al., 2020; with a gate and an output layer of its own it is
version 1.1, and mT5 (Xue et al., 2021).
"""

import torch
from torch import Tensor, nn

from firth.families.t5 import T5Settings
from firth.models.protocols import Output, TokenCost
from firth.models.stacks import Stacks
from firth.nn.distance import DistanceBias
from firth.nn.dropout import drop
from firth.nn.linear import Linear
from firth.nn.ragged import Group
from firth.nn.t5 import T5Block, T5DecoderBlock


class T5(Stacks):
    """The network; all layers of a side share one table of distances."""

    settings: T5Settings
    length = None
    target = None
    first = 0

    def __init__(self, settings: T5Settings) -> None:
        super().__init__()
        s = settings
        self.settings = s
        self.width = s.width
        self.start = s.start
        self.end = s.end
        self.aligned = max(0, s.decoder_layers - 2)  # as in the Transformer
        self.source = nn.Embedding(s.vocab, s.width)
        sizes = (s.width, s.heads, s.head_width, s.inner, s.dropout, s.eps, s.activation, s.gated)
        self.encoder = nn.ModuleList(T5Block(*sizes) for _ in range(s.depth))
        self.decoder = nn.ModuleList(T5DecoderBlock(*sizes) for _ in range(s.decoder_layers))
        self.encoder_distance = DistanceBias(s.heads)
        self.decoder_distance = DistanceBias(s.heads, causal=True)
        self.encoder_norm = nn.RMSNorm(s.width, s.eps)
        self.decoder_norm = nn.RMSNorm(s.width, s.eps)
        self.output_layer = Linear(s.width, s.vocab, bias=False) if s.own_output else None

    @property
    def output(self) -> Output:
        """Return the output layer: the table of tokens, unless it has one of its own."""
        layer = self.source if self.output_layer is None else self.output_layer
        return Output(layer.weight, None)

    def finish_loading(self) -> None:
        """Tie an output layer that is a copy of the table."""
        if self.output_layer is None or not torch.equal(
            self.output_layer.weight, self.source.weight
        ):
            return
        self.output_layer = None
        self.settings = self.settings.model_copy(update={"own_output": False})

    def set_dropout(self, probability: float) -> None:
        """Let every layer drop with one probability, and the settings say so."""
        self.settings = self.settings.model_copy(update={"dropout": probability})
        for module in self.modules():
            if isinstance(module, T5Block):
                module.set_dropout(probability)

    def token_cost(self) -> TokenCost:
        """Return what a token of each side costs together."""
        s = self.settings
        attended = s.heads * s.head_width
        attentions = s.depth + 2 * s.decoder_layers
        depth = s.depth + s.decoder_layers
        matrices = 3 if s.gated else 2
        return TokenCost(
            products=4 * s.width * attended * attentions + matrices * s.width * s.inner * depth,
            pairs=attended * attentions,
            kept=(6 * s.width + 4 * attended + matrices * s.inner) * depth,
            kept_pairs=2 * s.heads * attentions,
            layer=(s.inner, s.width),
        )

    def embed(self, table: nn.Embedding, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return tokens' vectors."""
        return self._drop(table(ids))

    def embed_step(self, ids: Tensor, place: int) -> Tensor:
        """Return the vectors of one token a row (B, D)."""
        x: Tensor = self.source(ids)
        return x

    def encoder_biases(self, layout: list[Group]) -> list[Tensor]:
        """Return the bias (H L L) of each group of sources."""
        return self.encoder_distance.of_groups(layout)

    def decoder_biases(self, layout: list[Group]) -> list[Tensor]:
        """Return the bias (H L L) of each group of targets."""
        return self.decoder_distance.of_groups(layout)

    def step_bias(self, place: int) -> Tensor:
        """Return the bias of all tokens so far (1, H, 1, place + 1)."""
        return self.decoder_distance.last(place)

    def finish_encoder(self, x: Tensor) -> Tensor:
        """Normalise what the decoder attends to."""
        return self._drop(self.encoder_norm(x))

    def finish(self, x: Tensor) -> Tensor:
        """Normalise what the output layer reads, scaled where it is the table of tokens."""
        x = self._drop(self.decoder_norm(x))
        return x * self.width**-0.5 if self.settings.scaled else x

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.settings.dropout, self.training)
