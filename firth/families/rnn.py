"""The recurrent language model: its settings and sizes."""

from typing import Any, Literal

from pydantic import Field, model_validator

from firth.families.family import CAUSAL, Family, Import
from firth.families.language import CARRYING, LanguageSettings, output_values

# Medium and large are Zaremba's.
SIZES = {
    "tiny": {"width": 100, "depth": 1},
    "mini": {"width": 300, "depth": 1},
    "small": {"width": 400, "depth": 2},
    "medium": {"width": 650, "depth": 2},
    "base": {"width": 1000, "depth": 2},
    "large": {"width": 1500, "depth": 2},
}
CELLS = {"tanh": "Elman", "gru": "GRU", "lstm": "LSTM"}  # cell -> as people call it
RATES = {"lstm": 2e-3, "gru": 2e-3, "tanh": 1e-3}


class RnnSettings(LanguageSettings):
    """The sizes of a recurrent model."""

    width: int = Field(
        gt=0, le=1 << 16, description="Numbers in the vector of a word and of a layer's memory."
    )
    depth: int = Field(default=2, gt=0, le=1024, description="Layers.")
    cell: Literal["tanh", "gru", "lstm"] = "lstm"

    @model_validator(mode="after")
    def _wide_enough(self) -> "RnnSettings":
        self.check_width(self.width)
        return self


class RnnFamily(Family):
    """The family of recurrent models."""

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the output layer that is usual."""
        return values | output_values(values) | {"cell": values.get("cell") or "lstm"}

    def training(self, settings: RnnSettings) -> dict[str, float]:
        """Return what suits a network that carries its memory from span to span."""
        return CARRYING | {"lr": RATES[settings.cell]}

    def card(self, model: Any) -> str:
        """Say what a model is."""
        s = model.settings
        cell = CELLS[s.cell]
        return (
            f"A recurrent network: {s.depth} {cell} layers of width {s.width}, {s.vocab:,} pieces"
        )


FAMILY = RnnFamily(
    name="rnn",
    model_type="firth-rnn",
    help="a recurrent language model",
    settings=RnnSettings,
    network=Import("firth.models.rnn", "Rnn"),
    contracts=frozenset({"language model"}),
    layer="layers.layers.#.keep.weight",
    recipe=CAUSAL,
    options=frozenset({"cell", "output"}),
    sizes=SIZES,
    default_size="small",
    timed_sizes=("small",),
    vocabulary="words",
    dropout=0.4,
    end_is_word=True,
)
