"""The feed-forward language model: its settings and sizes."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from firth.families.family import CAUSAL, Family, Import
from firth.families.language import CARRYING, LanguageSettings, output_values

SIZES = {
    "tiny": {"width": 60},
    "mini": {"width": 100},
    "small": {"width": 200},
    "medium": {"width": 300},
    "base": {"width": 500},
    "large": {"width": 800},
}
ORDER = 6
RATE = 1e-3


class FfnnSettings(LanguageSettings):
    """The sizes of a feed-forward model."""

    order: int = Field(ge=2, le=64)  # words of an n-gram: one less are seen
    width: int = Field(gt=0, le=1 << 16, description="Numbers in the vector of a word.")
    inner: int = Field(
        gt=0, le=1 << 18, description="Units of the hidden layer, by default as many as width."
    )
    # The words seen reach the output also past the hidden layer.
    direct: bool = False

    @model_validator(mode="after")
    def _tables_fit(self) -> "FfnnSettings":
        if self.tied and (self.inner != self.width or self.direct):
            raise ValueError(
                "a tied table needs an inner width equal to the width, and no direct connections"
            )
        if self.output == "none":
            raise ValueError("a feed-forward network has an output layer")
        self.check_width(self.reach)
        return self

    @property
    def seen(self) -> int:
        """Return how many numbers the vectors of the words seen have together."""
        return (self.order - 1) * self.width

    @property
    def reach(self) -> int:
        """Return how many numbers the output layer gets."""
        return self.inner + self.seen * self.direct


class FfnnFamily(Family):
    """The family of feed-forward models."""

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the hidden layer and the output layer that are usual."""
        inner = values.get("inner", values["width"])
        found = values | output_values(values)
        found |= {"inner": inner, "order": values.get("order") or ORDER}
        # One table for both needs vectors of one width.
        found["tied"] = found["tied"] and inner == values["width"]
        return found

    def complain(self, options: Mapping[str, Any]) -> str | None:
        """Refuse an order that leaves no word to look at."""
        if options["order"] == 1:
            return "an ffnn sees at least one word before the next: --order is 2 or more"
        return None

    def training(self, settings: FfnnSettings) -> dict[str, float]:
        """Return what suits spans of text that are read in order."""
        return CARRYING | {"lr": RATE}

    def card(self, model: Any) -> str:
        """Say what a model is."""
        s = model.settings
        return (
            f"A feed-forward network that sees {s.order - 1} of {s.vocab:,} pieces as vectors of "
            f"width {s.width}, through {s.inner} units"
        )


FAMILY = FfnnFamily(
    name="ffnn",
    model_type="firth-ffnn",
    help="a feed-forward language model",
    settings=FfnnSettings,
    network=Import("firth.models.ffnn", "Ffnn"),
    contracts=frozenset({"language model"}),
    recipe=CAUSAL,
    options=frozenset({"order", "output"}),
    sizes=SIZES,
    default_size="small",
    timed_sizes=("small",),
    vocabulary="words",
    dropout=0.2,
)
