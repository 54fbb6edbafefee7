"""The Transformer: an encoder of source tokens, and a decoder that attends to what it made of them.

S source tokens, U target tokens, B pairs, D width, H heads, N layers, O words that are written.
"Attention Is All You Need", Vaswani et al., 2017.

Texts may come in any order. Each side is sorted by length inside the network, so that attention
runs over few rectangles on both sides, which no order of the pairs alone could give.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.families.transformer import TransformerSettings
from firth.models.protocols import EncoderDecoder, Output, TokenCost
from firth.nn.attention import Attention
from firth.nn.block import Block, DecoderBlock
from firth.nn.cache import Cache
from firth.nn.cross import Arrangement, CrossAttention, Crossed, Sources, arrange
from firth.nn.dropout import drop
from firth.nn.position import sinusoids
from firth.nn.ragged import groups, row_places, shifted
from firth.nn.vocab import log_probs


class Memory(NamedTuple):
    """What the encoder made of sources, and where each stands in it."""

    vectors: Tensor  # (S, D)
    starts: Tensor  # (B)
    lengths: Tensor  # (B)


@dataclass(frozen=True, eq=False)
class TransformerState:
    """Keys and values of the sources, and of the target tokens read so far."""

    cache: Cache
    sources: Sources

    def pick(self, rows: Tensor) -> "TransformerState":
        """Return the state of the rows named, in that order."""
        return TransformerState(self.cache.pick(rows), self.sources.pick(rows))


class Transformer(EncoderDecoder):
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
        return Output(self._target_layer.weight[self.first :], None)

    @property
    def _target_layer(self) -> nn.Embedding:
        return self.source if self.target is None else self.target

    @property
    def body(self) -> nn.Module:
        """Return the layers of both sides."""
        return nn.ModuleList([self.encoder, self.decoder])

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

    def encode(self, ids: Tensor, lengths: Tensor) -> Memory:
        """Return the vectors of source tokens, and where each source stands."""
        self._check(lengths, "source")
        rows = lengths.argsort(stable=True)
        ordered = lengths[rows]
        places = row_places(lengths, rows).to(ids.device)
        x = self._embed(self.source, ids[places], ordered)
        layout = groups(ordered.tolist())
        for block in self.encoder:
            x = block(x, layout)
        if self.encoder_norm is not None:
            x = self.encoder_norm(x)
        starts = torch.empty_like(lengths)
        starts[rows] = ordered.cumsum(0) - ordered
        return Memory(x, starts, lengths)

    def teacher_forced(
        self, ids: Tensor, lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """Return a vector for each target token (U, D)."""
        memory = self.encode(ids, lengths)
        x, order = self._targets(target_ids, target_lengths, memory)
        layout = order.groups
        for block in self._layers():
            x = block.decode(x, layout, memory.vectors, order.pairs)
        return self._finish(x)[order.back]

    forward = teacher_forced

    @torch.no_grad()
    def begin(self, ids: Tensor, lengths: Tensor) -> TransformerState:
        """Read sources; return the state before the start mark."""
        memory = self.encode(ids, lengths)
        heads = self.settings.heads
        layers = [block.cross.kv(memory.vectors) for block in self._layers()]
        sources = Sources.make(layers, memory.lengths, memory.starts, heads)
        cache = Cache.empty(memory.vectors, len(layers), len(lengths), heads)
        return TransformerState(cache, sources)

    @torch.no_grad()
    def step(self, ids: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Read a target token a row (B); return log-probabilities (B, O) and the state after."""
        cache = state.cache.room()
        place = cache.end
        if place >= self.length:
            raise InputError(f"a target is longer than the {self.length} tokens that it may have")
        position = sinusoids(place + 1, self.width, self.interleaved)[place]
        x = self._target_layer(ids) * self.scale + position.to(ids.device)  # (B, D)
        for number, block in enumerate(self._layers()):
            x = block.step_pairs(x, cache, state.sources, number)
        after = TransformerState(cache.advance(), state.sources)
        return log_probs(self._finish(x), *self.output), after

    @torch.no_grad()
    def cross_attention(
        self, ids: Tensor, lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> Iterator[list[Crossed]]:
        """Yield layer by layer how each target attends to its source."""
        memory = self.encode(ids, lengths)
        x, order = self._targets(target_ids, target_lengths, memory)
        for block in self._layers():
            x, crossed = block.explain_pairs(x, order.groups, memory.vectors, order.pairs)
            yield order.restore(crossed)

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

    def _layers(self) -> Iterator[DecoderBlock]:
        for block in self.decoder:
            assert isinstance(block, DecoderBlock)
            yield block

    def _embed(self, table: nn.Embedding, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return tokens' vectors with their positions, of texts of these lengths."""
        start = lengths.cumsum(0) - lengths
        positions = torch.arange(len(ids)) - start.repeat_interleave(lengths)
        waves = sinusoids(int(lengths.max()), self.width, self.interleaved)
        x = table(ids) * self.scale + waves[positions].to(ids.device)
        return drop(x, self.settings.dropout, self.training)

    def _targets(self, ids: Tensor, lengths: Tensor, memory: Memory) -> tuple[Tensor, Arrangement]:
        """Return the vectors of what the decoder reads (U, D), and its order."""
        self._check(lengths, "target")
        order = arrange(lengths, memory.starts, memory.lengths, ids.device)
        read = shifted(ids, lengths, self.start)[order.places]
        return self._embed(self._target_layer, read, order.lengths), order

    def _finish(self, x: Tensor) -> Tensor:
        if self.decoder_norm is None:
            return x
        normed: Tensor = self.decoder_norm(x)
        return normed

    def _check(self, lengths: Tensor, side: str) -> None:
        """Refuse a text that is empty or longer than the model takes."""
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < 1:
            raise InputError(f"a {side} has no token")
        if longest > self.length:
            raise InputError(
                f"a {side} of {longest} tokens is longer than the {self.length} that it may have"
            )
