"""BERT: a stack of Transformer blocks that reads a text in both directions at once.

T tokens in the stream, B texts, D width. "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
Devlin et al., 2018; the small sizes are from "Well-Read Students Learn Better", Turc et al., 2019.
"""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from firth.base.settings import Settings
from firth.models.protocols import Hidden
from firth.nn.attention import groups
from firth.nn.block import Block
from firth.nn.embedding import Embedding
from firth.nn.heads import Pooler
from firth.nn.pool import first_tokens

Rate = Annotated[float, Field(ge=0, lt=1)]


class BertSettings(Settings):
    """The sizes of a BERT; DistilBERT and RoBERTa are the same network with other values here."""

    vocab: int = Field(gt=0, le=1 << 24)
    width: int = Field(gt=0, le=1 << 16)
    depth: int = Field(gt=0, le=1024)
    heads: int = Field(gt=0, le=1024)
    inner: int = Field(gt=0, le=1 << 18)
    length: int = Field(default=512, gt=0, le=1 << 20)
    segments: int = Field(default=2, ge=0, le=1 << 10)
    first_position: int = Field(default=0, ge=0, le=1 << 10)
    pooler: bool = True
    causal: bool = False  # a token sees only those before it
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.1
    eps: float = Field(default=1e-12, gt=0, lt=1)
    activation: Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"] = "gelu"
    spread: float = Field(default=0.02, gt=0, lt=10)  # standard deviation of fresh weights

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "BertSettings":
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


# name: (width, depth, heads)
SIZES = {
    "tiny": (128, 2, 2),
    "mini": (256, 4, 4),
    "small": (512, 4, 8),
    "medium": (512, 8, 8),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
}
SHORTEST = 1.5  # radians a token: the quickest of the waves that positions begin as
BRANCH = 0.2  # what a layer adds, relative to what it adds to
PLACE = 2  # where a token stands begins this many times as large as what it is


def preset(size: str, vocab: int = 30522) -> BertSettings:
    """The settings of a named size."""
    width, depth, heads = SIZES[size]
    return BertSettings(vocab=vocab, width=width, depth=depth, heads=heads, inner=4 * width)


class Bert(nn.Module):
    """The encoder; heads and losses live elsewhere."""

    def __init__(self, settings: BertSettings) -> None:
        super().__init__()
        s = settings
        self.settings = s
        self.width, self.depth, self.length = s.width, s.depth, s.length
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
        self.pooler = Pooler(s.width) if s.pooler else None
        self.apply(self.start)

    def start(self, module: nn.Module) -> None:
        """Give a module fresh weights, as BERT does: small normal matrices, zero biases."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.settings.spread)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def look_around(self) -> None:
        """Fresh weights with which each head begins on one neighbour of every token: the next, the one before, the second next.

        A hidden word has only its neighbours to go by, and with BERT's own start attention stays even for thousands of steps before
        it finds them. Positions are waves here, so that one further is the same rotation everywhere: a head's keys are its queries,
        rotated. Matrices keep the size of what they are given, so that attention is not even; what a layer adds is small at
        first, to let positions reach the layers above.
        """
        s = self.settings
        table = self.embedding.position.weight
        waves = torch.logspace(
            math.log10(SHORTEST), math.log10(2 * math.pi / s.length), s.width // 2
        )
        angles = torch.arange(len(table))[:, None] * waves
        with torch.no_grad():
            table.copy_(torch.cat([angles.sin(), angles.cos()], 1) * 2**0.5 * PLACE * s.spread)
            for block in self.blocks:
                assert isinstance(block, Block)
                attention = block.attention
                for layer, size in (
                    (attention.qkv, 1),
                    (attention.out, BRANCH),
                    (block.up, 1),
                    (block.down, BRANCH),
                ):
                    nn.init.normal_(layer.weight, std=size * layer.in_features**-0.5)
                queries, keys, _ = attention.qkv.weight.view(3, s.heads, -1, s.width)
                for head in range(s.heads):
                    turn = waves * (head // 2 + 1) * (1 if head % 2 else -1)
                    sines, cosines = queries[head].chunk(2, -1)
                    turned = (
                        sines * turn.cos() - cosines * turn.sin(),
                        sines * turn.sin() + cosines * turn.cos(),
                    )
                    keys[head] = torch.cat(turned, -1)

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
        """Encode a stream; `layers` and `weights` also return every layer and every head's attention."""
        layout = groups(lengths.tolist())
        x = self.embedding(ids, positions, segments)  # (T, D)
        states, shares = [x], []
        for block in self.blocks:
            assert isinstance(block, Block)
            if weights:
                x, seen = block.explain(x, layout)
                shares.append(seen)
            else:
                x = block(x, layout)
            if layers:
                states.append(x)
        pooled = (
            None if self.pooler is None else self.pooler(x[first_tokens(lengths).to(x.device)])
        )  # (B, D)
        return Hidden(x, pooled, tuple(states) if layers else (), tuple(shares))
