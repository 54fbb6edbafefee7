"""BERT: a stack of Transformer blocks that reads a text in both directions at once.

T tokens in the stream, B texts, D width. "BERT: Pre-training of Deep Bidirectional Transformers for
Language Understanding", Devlin et al., 2018; the small sizes are from "Well-Read Students Learn
Better", Turc et al., 2019.
"""

import math

import torch
from torch import Tensor, nn

from firth.families.bert import BertSettings
from firth.models.cost import transformer_cost
from firth.models.protocols import Encoder, Hidden, TokenCost
from firth.nn.attention import Attention, Biases
from firth.nn.block import Block
from firth.nn.embedding import Embedding
from firth.nn.heads import Pooler
from firth.nn.pool import first_tokens
from firth.nn.ragged import Group, groups

SHORTEST = 1.5  # radians a token: the quickest of the waves that positions begin as
BRANCH = 0.2  # what a layer adds, relative to what it adds to
PLACE = 2  # where a token stands begins this many times as large as what it is


class Bert(Encoder):
    """The encoder; heads and losses live elsewhere."""

    settings: BertSettings

    def __init__(self, settings: BertSettings) -> None:
        super().__init__()
        s = settings
        self.settings = s
        self.width, self.depth, self.length = s.width, s.depth, s.length
        self.segments, self.eps = s.segments, s.eps
        self.activation = s.head_activation or s.activation
        self.embedding = Embedding(
            s.vocab, s.width, s.length, s.segments, s.first_position, s.dropout, s.eps
        )
        self.blocks = nn.ModuleList(
            Block(
                s.width,
                s.heads,
                s.inner,
                s.dropout,
                s.attention_dropout,
                s.eps,
                s.activation,
                s.causal,
            )
            for _ in range(s.depth)
        )
        self.pooler = self._fresh_pooler() if s.pooler else None
        self.apply(self.initialise)

    @property
    def table(self) -> nn.Parameter:
        """Return the token embedding, (V, D)."""
        table = self.embedding.token.weight
        assert isinstance(table, nn.Parameter)
        return table

    @property
    def position_table(self) -> Tensor:
        """Return the vectors of positions that a text can have."""
        return self.embedding.position.weight[self.settings.first_position :]

    def replace_table(self, rows: Tensor, trainable: bool = True) -> None:
        """Read token vectors from another table, of as many rows as it has."""
        self.embedding.token = nn.Embedding.from_pretrained(rows, freeze=not trainable)

    @property
    def body(self) -> nn.Module:
        """Return the blocks."""
        return self.blocks

    def top_layers(self, count: int) -> list[nn.Module]:
        """Return the last blocks, and the pooler if there is one."""
        blocks = list(self.blocks[-count:])
        return blocks if self.pooler is None else [*blocks, self.pooler]

    def attention_layers(self) -> list[Attention]:
        """Return the attention of each block."""
        found = []
        for block in self.blocks:
            assert isinstance(block, Block)
            found.append(block.attention)
        return found

    def set_dropout(self, probability: float) -> None:
        """Let every layer drop with one probability, and the settings say so."""
        values = {"dropout": probability, "attention_dropout": probability}
        self.settings = self.settings.model_copy(update=values)
        self.embedding.dropout = probability
        for block in self.blocks:
            assert isinstance(block, Block)
            block.dropout = probability
            block.attention.dropout = probability
        if self.pooler is not None:
            self.pooler.input_dropout = self._pooler_dropout

    def set_pooler(self, wanted: bool) -> None:
        """Add a fresh pooler, keep the one there is, or take it away."""
        if wanted and self.pooler is None:
            self.pooler = self._fresh_pooler().apply(self.initialise)
        if not wanted:
            self.pooler = None
        self.settings = self.settings.model_copy(update={"pooler": wanted})

    def _fresh_pooler(self) -> Pooler:
        return Pooler(self.width, self.settings.pooler_activation, self._pooler_dropout)

    @property
    def _pooler_dropout(self) -> float:
        return self.settings.dropout if self.settings.pooler_dropout else 0.0

    def token_cost(self) -> TokenCost:
        """Return what a token costs."""
        return transformer_cost(self.settings)

    def initialise(self, module: nn.Module) -> None:
        """Give a module fresh weights, as BERT does: small normal matrices, zero biases."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.settings.spread)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def initialise_masked(self) -> None:
        """Give fresh weights with which each head begins on one neighbour of every token.

        The next, the one before, the second next and so on. A masked word has only its neighbours
        to go by, and with BERT's own start attention stays even for thousands of steps before it
        finds them. Positions are waves here, so that one further is the same rotation everywhere: a
        head's keys are its queries, rotated. Matrices keep the size of what they are given, so that
        attention is not even; what a layer adds is small at first, to let positions reach the
        layers above.
        """
        s = self.settings
        table = self.embedding.position.weight
        longest = 2 * math.pi / s.length
        waves = torch.logspace(math.log10(SHORTEST), math.log10(longest), s.width // 2)
        angles = torch.arange(len(table))[:, None] * waves
        positions = torch.cat([angles.sin(), angles.cos()], 1)
        with torch.no_grad():
            # A wave has a variance of a half: 2**0.5 makes it that of a normal table.
            table.copy_(positions * 2**0.5 * PLACE * s.spread)
            for block in self.blocks:
                assert isinstance(block, Block)
                attention = block.attention
                for layer in (attention.qkv, attention.out, block.up, block.down):
                    adds = layer is attention.out or layer is block.down
                    size = BRANCH if adds else 1
                    nn.init.normal_(layer.weight, std=size * layer.in_features**-0.5)

                queries, keys, _ = attention.qkv.weight.view(3, s.heads, -1, s.width)
                for head in range(s.heads):
                    distance = head // 2 + 1
                    if head % 2 == 0:
                        distance = -distance
                    turn = waves * distance
                    sines, cosines = queries[head].chunk(2, -1)
                    turned_sines = sines * turn.cos() - cosines * turn.sin()
                    turned_cosines = sines * turn.sin() + cosines * turn.cos()
                    keys[head] = torch.cat([turned_sines, turned_cosines], -1)

    def biases(self, layout: list[Group]) -> Biases | None:
        """Return what every layer adds to the logits of attention; None for nothing."""
        return None

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
        """Encode a stream; on demand also return every `layers` and the attention `weights`."""
        layout = groups(lengths.tolist())
        biases = self.biases(layout)
        x = self.embedding(ids, positions, segments)  # (T, D)
        states = [x]
        shares = []
        for block in self.blocks:
            assert isinstance(block, Block)
            if weights:
                x, seen = block.explain(x, layout, biases)
                shares.append(seen)
            else:
                x = block(x, layout, biases)
            if layers:
                states.append(x)
        pooled = None
        if self.pooler is not None:
            first = first_tokens(lengths).to(x.device)
            pooled = self.pooler(x[first])  # (B, D)
        every = tuple(states) if layers else ()
        return Hidden(x, pooled, every, tuple(shares))
