"""ELMo over words: its settings and sizes."""

from typing import Any

from pydantic import Field, model_validator

from firth.families.family import Family, Import
from firth.families.language import LanguageSettings, output_values

# The published model is as wide as base, with cells eight times as wide.
SIZES = {
    "tiny": {"width": 64},
    "mini": {"width": 128},
    "small": {"width": 256},
    "medium": {"width": 384},
    "base": {"width": 512},
    "large": {"width": 1024},
}
# The table leaves its vectors larger by the root of the width, and so a step moves them further.
RATE_TIMES_ROOT = 0.032
FINETUNE_RATE = 1e-3


class ElmoSettings(LanguageSettings):
    """The sizes of an ELMo, and the marks on both sides of a text.

    The end mark is what either model is to predict at the far edge of a text; lines of one row are
    read on across it.
    """

    width: int = Field(
        gt=0,
        le=1 << 16,
        description="Numbers in the vector of a word and of a layer's memory.",
    )
    depth: int = Field(default=2, gt=0, le=1024, description="Layers.")

    @model_validator(mode="after")
    def _is_whole(self) -> "ElmoSettings":
        self.check_width(self.width)
        if self.end is None:
            raise ValueError("the mark for the end of a text is missing")
        if self.output == "none":
            raise ValueError("output none is not for ELMo: it is the kind of its pretraining head")
        return self


class ElmoFamily(Family):
    """The family of ELMo."""

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the output layer that is usual."""
        return values | output_values(values)

    def training(self, settings: ElmoSettings) -> dict[str, float]:
        """Return the learning rate that suits the width, and no decay."""
        return {"lr": RATE_TIMES_ROOT / settings.width**0.5, "weight_decay": 0.0}

    def fine_tuning_rate(self, settings: ElmoSettings) -> float:
        """Return the learning rate that suits LSTM layers of any width."""
        return FINETUNE_RATE

    def card(self, model: Any) -> str:
        """Say what a model is, and how it mixes its layers."""
        s = model.settings
        return (
            f"ELMo: a forward and a backward language model of {s.depth} LSTM layers of width "
            f"{s.width}, {s.vocab:,} pieces, whose layers are mixed as {model.mix}"
        )


FAMILY = ElmoFamily(
    name="elmo",
    model_type="firth-elmo",
    help="an encoder made of a forward and a backward language model",
    settings=ElmoSettings,
    network=Import("firth.models.elmo", "Elmo"),
    contracts=frozenset({"encoder"}),
    layer="forwards.#.keep.weight",
    recipe=Import("firth.recipes.elmo", "BothDirections"),
    options=frozenset({"output"}),
    sizes=SIZES,
    timed_sizes=("tiny", "mini", "small", "base"),
    vocabulary="words",
    dropout=0.1,
)
