"""The Transformer, as published for translation: its settings and sizes."""

from typing import Any, Literal

from pydantic import Field, model_validator

from firth.families.family import SPANS, Import
from firth.families.pairs import SENTINELS, PairFamily, PairSettings
from firth.families.stack import Activation, Probability

# Base and large are the paper's; mini is the best small one on Multi30k ("Good for Misconceived
# Reasons", Wu et al., 2021).
SIZES = {
    "tiny": {"width": 64, "depth": 2, "heads": 2, "inner": 128},
    "mini": {"width": 128, "depth": 4, "heads": 4, "inner": 256},
    "small": {"width": 256, "depth": 4, "heads": 4, "inner": 1024},
    "medium": {"width": 512, "depth": 4, "heads": 8, "inner": 1024},
    "base": {"width": 512, "depth": 6, "heads": 8, "inner": 2048},
    "large": {"width": 1024, "depth": 6, "heads": 16, "inner": 4096},
}
RATE_TIMES_WIDTH = 0.25  # wider models need smaller steps


class StacksSettings(PairSettings):
    """The sizes of two stacks of layers; both sides have the same but for their depth."""

    width: int = Field(gt=0, le=1 << 16, description="Numbers in the vector of a token.")
    depth: int = Field(gt=0, le=1024, description="Layers of either side.")
    decoder_depth: int | None = Field(default=None, gt=0, le=1024)  # if it is another
    heads: int = Field(gt=0, le=1024, description="Attention heads of a layer; they divide width.")
    inner: int = Field(
        gt=0, le=1 << 18, description="Width inside a layer, by default four times width."
    )

    @property
    def decoder_layers(self) -> int:
        """Return the number of layers of the decoder."""
        return self.decoder_depth or self.depth


class TransformerSettings(StacksSettings):
    """The sizes of a Transformer."""

    norm: Literal["post", "pre"] = Field(
        default="post", description="Normalise after each part of a layer (post) or before (pre)."
    )
    length: int = Field(default=1024, gt=0, le=1 << 20)
    attention_dropout: Probability = Field(
        default=0.0, description="Dropout of the weights of attention."
    )
    eps: float = Field(default=1e-5, gt=0, lt=1)
    activation: Activation = "relu"
    tied: bool = True  # one table for target tokens that are read and that are written

    @model_validator(mode="after")
    def _heads_fit(self) -> "TransformerSettings":
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class EncoderDecoderFamily(PairFamily):
    """A family of Transformers with an encoder and a decoder."""

    def training(self, settings: StacksSettings) -> dict[str, float]:
        """Return the learning rate that suits the width."""
        return {"lr": RATE_TIMES_WIDTH / settings.width}

    def layer_tensors(self, settings: StacksSettings) -> list[str]:
        """Return a tensor of every layer of both sides."""
        decoder = [f"decoder.{number}.norm.weight" for number in range(settings.decoder_layers)]
        return super().layer_tensors(settings) + decoder

    def card(self, model: Any) -> str:
        """Say what a model is."""
        s = model.settings
        layers = f"{s.depth} + {s.decoder_layers} layers of width {s.width} with {s.heads} heads"
        return f"A Transformer, encoder and decoder: {layers}, {s.pieces}"


FAMILY = EncoderDecoderFamily(
    name="transformer",
    model_type="firth-transformer",
    help="the Transformer of encoder and decoder: attention everywhere",
    settings=TransformerSettings,
    network=Import("firth.models.transformer", "Transformer"),
    contracts=frozenset({"encoder-decoder"}),
    layer="encoder.#.norm.weight",
    sizes=SIZES,
    recipe=SPANS,
    timed_sizes=("tiny", "mini", "small", "medium", "base"),
    vocabulary="bytes",
    sentinels=SENTINELS,
    new_size="mini",
)
