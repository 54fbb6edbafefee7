"""A model family in one file: an encoder that sees each word beside the mean of its text."""

from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

import firth
from firth.base.settings import Settings
from firth.families.family import MASKED, Family
from firth.models.protocols import Encoder, Hidden


class ToySettings(Settings):
    """The sizes of a toy."""

    vocab: int = Field(gt=0, le=1 << 24)
    width: int = Field(gt=0, le=1 << 12, description="Numbers in the vector of a token.")
    length: int = Field(default=128, gt=0, le=1 << 12)
    dropout: float = Field(default=0.0, ge=0, lt=1)


class Toy(Encoder):
    """The network: one layer."""

    settings: ToySettings

    def __init__(self, settings: ToySettings) -> None:
        super().__init__()
        self.settings = settings
        self.width, self.depth, self.length = settings.width, 1, settings.length
        self.token = nn.Embedding(settings.vocab, settings.width)
        self.mix = nn.Linear(2 * settings.width, settings.width)
        self.apply(self.initialise)

    @property
    def table(self) -> nn.Parameter:
        """Return the token embedding."""
        assert isinstance(self.token.weight, nn.Parameter)
        return self.token.weight

    def replace_table(self, rows: Tensor, trainable: bool = True) -> None:
        """Read token vectors from another table."""
        self.token = nn.Embedding.from_pretrained(rows, freeze=not trainable)

    def initialise(self, module: nn.Module) -> None:
        """Give a module small normal weights."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def top_layers(self, count: int) -> list[nn.Module]:
        """Return the only layer."""
        return [self.mix]

    def set_dropout(self, probability: float) -> None:
        """Note the probability; nothing is dropped."""
        self.settings = self.settings.model_copy(update={"dropout": probability})

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
        """Encode a stream."""
        x = self.token(ids)
        texts = x.split(lengths.tolist())
        means = torch.cat([text.mean(0).expand_as(text) for text in texts])
        y = torch.tanh(self.mix(torch.cat([x, means], 1)))
        pooled = torch.stack([text.mean(0) for text in y.split(lengths.tolist())])
        return Hidden(y, pooled, (x, y) if layers else ())


class ToyFamily(Family):
    """The family of toys."""

    def training(self, settings: ToySettings) -> dict[str, float]:
        """Return a learning rate."""
        return {"lr": 0.01}

    def card(self, model: Any) -> str:
        """Say what a model is."""
        return f"A toy of width {model.settings.width}"


FAMILY = firth.register(
    ToyFamily(
        name="toy",
        model_type="toy",
        help="an encoder that sees each word beside the mean of its text",
        settings=ToySettings,
        network=Toy,
        contracts=frozenset({"encoder"}),
        recipe=MASKED,
        sizes={"tiny": {"width": 16}, "mini": {"width": 32}},
        default_size="tiny",
        timed_sizes=("tiny", "mini"),
    )
)
