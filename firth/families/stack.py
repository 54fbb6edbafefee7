"""What the families of Transformers share: the sizes of a stack of blocks."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from firth.base.settings import Settings
from firth.families.family import Family

Activation = Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"]
Probability = Annotated[float, Field(ge=0, lt=1)]

# BERT's published sizes.
SIZES = {
    "tiny": {"width": 128, "depth": 2, "heads": 2},
    "mini": {"width": 256, "depth": 4, "heads": 4},
    "small": {"width": 512, "depth": 4, "heads": 8},
    "medium": {"width": 512, "depth": 8, "heads": 8},
    "base": {"width": 768, "depth": 12, "heads": 12},
    "large": {"width": 1024, "depth": 24, "heads": 16},
}
RATE_TIMES_WIDTH = 0.25  # wider models need smaller steps


class StackSettings(Settings):
    """The sizes of a stack of Transformer blocks over a vocabulary."""

    vocab: int = Field(gt=0, le=1 << 24)
    width: int = Field(gt=0, le=1 << 16, description="Numbers in the vector of a token.")
    depth: int = Field(gt=0, le=1024, description="Layers.")
    heads: int = Field(gt=0, le=1024, description="Attention heads of a layer; they divide width.")
    inner: int = Field(
        gt=0, le=1 << 18, description="Width inside a layer, by default four times width."
    )
    length: int = Field(default=512, gt=0, le=1 << 20)
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.1
    eps: float = Field(default=1e-12, gt=0, lt=1)
    activation: Activation = "gelu"
    spread: float = Field(default=0.02, gt=0, lt=10)  # standard deviation of fresh weights

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "StackSettings":
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class StackFamily(Family):
    """A family of Transformers."""

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the inner width that is usual for the width."""
        return {"inner": 4 * values["width"], **values}

    def training(self, settings: StackSettings) -> dict[str, float]:
        """Return the learning rate that suits the width."""
        return {"lr": RATE_TIMES_WIDTH / settings.width}


def sizes_of(settings: StackSettings) -> str:
    """Say how large a Transformer is."""
    return (
        f"{settings.depth} layers of width {settings.width} with {settings.heads} heads, "
        f"{settings.vocab:,} pieces"
    )
