"""The Transformer: an encoder of source tokens, and a decoder that attends to what it made of them.

D width, B pairs, N layers, O words that are written. "Attention Is All You Need", Vaswani et al.,
2017.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from firth.families.transformer import TransformerSettings
from firth.models.protocols import Output, TokenCost
from firth.models.stacks import Stacks
from firth.nn.attention import Attention
from firth.nn.block import Block, DecoderBlock
from firth.nn.cross import CrossAttention
from firth.nn.dropout import drop
from firth.nn.position import sinusoids


class Transformer(Stacks):
    """The network."""

    settings: TransformerSettings
    length: int
    interleaved: ClassVar[bool] = True  # whether sines and cosines of positions take turns

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        s = settings
        self.settings = s
        self.width = s.width
        self.length = s.length
        self.start = s.start
        self.end = s.end
        # "Jointly Learning to Align and Translate with Transformer Models", Garg et al., 2019.
        self.aligned = max(0, s.decoder_layers - 2)
        self.source = nn.Embedding(s.vocab, s.width)
        self.target = nn.Embedding(s.target_vocab, s.width) if s.target_vocab else None
        sizes = (s.width, s.heads, s.inner, s.dropout, s.attention_dropout, s.eps, s.activation)
        self.encoder = nn.ModuleList(Block(*sizes, norm=s.norm) for _ in range(s.depth))
        self.decoder = nn.ModuleList(
            DecoderBlock(*sizes, norm=s.norm) for _ in range(s.decoder_layers)
        )
        pre = s.norm == "pre"  # what layers add to is normalised at the end
        self.encoder_norm = nn.LayerNorm(s.width, s.eps) if pre else None
        self.decoder_norm = nn.LayerNorm(s.width, s.eps) if pre else None
        words = s.targets - self.first
        self.weight = None if s.tied else nn.Parameter(torch.empty(words, s.width))
        self.apply(self.initialise)
        if self.weight is not None:
            nn.init.normal_(self.weight, std=s.width**-0.5)

    @property
    def output(self) -> Output:
        """Return the output layer: rows of the table of target tokens, if it is tied to it."""
        if self.weight is not None:
            return Output(self.weight, None)
        return Output(self.target_layer.weight[self.first :], None)

    def initialise(self, module: nn.Module) -> None:
        """Give a module fresh weights: uniform ones by the sizes of a layer (Glorot and Bengio).

        Queries, keys and values are those of one layer three times as wide.
        """
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=self.width**-0.5)
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
        if isinstance(module, CrossAttention):
            bound = (1.5 / self.width) ** 0.5
            for layer in (module.query, module.kv):
                nn.init.uniform_(layer.weight, -bound, bound)

    def set_dropout(self, probability: float) -> None:
        """Let every layer drop with one probability, and the settings say so.

        As published, what a layer adds and not how attention is shared out, which has a probability
        of its own in the settings.
        """
        self.settings = self.settings.model_copy(update={"dropout": probability})
        for module in self.modules():
            if isinstance(module, Block):
                module.dropout = probability

    def token_cost(self) -> TokenCost:
        """Return what a token of each side costs together."""
        s = self.settings
        square = s.width**2
        layers = 4 * square * s.depth + 8 * square * s.decoder_layers
        depth = s.depth + s.decoder_layers
        return TokenCost(
            products=layers + 2 * s.width * s.inner * depth,
            pairs=s.width * (depth + s.decoder_layers),
            kept=(10 * s.width + 2 * s.inner) * depth,
            kept_pairs=2 * s.heads * (depth + s.decoder_layers),
            layer=(s.inner, s.width),
        )

    def attention_layers(self) -> tuple[list[Attention], list[Attention]]:
        """Return the self-attention of each layer of both sides."""
        encoder, decoder = (
            [layer.attention for layer in side if isinstance(layer, Block)]
            for side in (self.encoder, self.decoder)
        )
        return encoder, decoder

    @property
    def position_table(self) -> Tensor:
        """Return the positions that a text can have."""
        return sinusoids(self.length, self.width, self.interleaved)

    @property
    def scale(self) -> float:
        """Return how many times larger vectors are than their rows of the table."""
        return float(self.width**0.5)

    def embed(self, table: nn.Embedding, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return tokens' vectors with their positions, of texts of these lengths."""
        start = lengths.cumsum(0) - lengths
        positions = torch.arange(len(ids)) - start.repeat_interleave(lengths)
        waves = sinusoids(int(lengths.max()), self.width, self.interleaved)
        x = table(ids) * self.scale + waves[positions].to(ids.device)
        return drop(x, self.settings.dropout, self.training)

    def embed_step(self, ids: Tensor, place: int) -> Tensor:
        """Return the vectors of one token a row (B, D), with the position that they all have."""
        position = sinusoids(place + 1, self.width, self.interleaved)[place]
        x: Tensor = self.target_layer(ids) * self.scale + position.to(ids.device)
        return x

    def finish_encoder(self, x: Tensor) -> Tensor:
        """Normalise what the decoder attends to, where layers don't."""
        return _normalised(x, self.encoder_norm)

    def finish(self, x: Tensor) -> Tensor:
        """Normalise what the output layer reads, where layers don't."""
        return _normalised(x, self.decoder_norm)


def _normalised(x: Tensor, norm: nn.Module | None) -> Tensor:
    if norm is None:
        return x
    normed: Tensor = norm(x)
    return normed
