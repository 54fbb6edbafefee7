"""The recurrent network, a language model or an encoder: its settings and sizes."""

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
BOTH_WAYS = "layers.forwards.#.keep.weight"
RATES = {"lstm": 2e-3, "gru": 2e-3, "tanh": 1e-3}


class RnnSettings(LanguageSettings):
    """The sizes of a recurrent model."""

    width: int = Field(
        gt=0, le=1 << 16, description="Numbers in the vector of a word and of a layer's memory."
    )
    depth: int = Field(default=2, gt=0, le=1024, description="Layers.")
    cell: Literal["tanh", "gru", "lstm"] = "lstm"
    inputs: int | None = Field(default=None, gt=0, le=1 << 16)  # of a word's vector, if not width
    bidirectional: bool = False

    @model_validator(mode="after")
    def _fits(self) -> "RnnSettings":
        self.check_width(self.width)
        if self.bidirectional and self.output != "none":
            raise ValueError(
                "a network that reads both ways predicts no next word: it has no output layer"
            )
        if self.tied and self.word_width != self.width:
            raise ValueError("a tied table needs words' vectors as wide as the layers")
        return self

    @property
    def word_width(self) -> int:
        """Return how many numbers the vector of a word has."""
        return self.inputs or self.width


class RnnFamily(Family):
    """The family of recurrent models."""

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the output layer that is usual."""
        return values | output_values(values) | {"cell": values.get("cell") or "lstm"}

    def predicts(self, settings: RnnSettings) -> bool:
        """Say whether a model has an output layer: what was fine-tuned has none."""
        return settings.output != "none"

    def layer_of(self, settings: RnnSettings) -> str | None:
        """Return a tensor of each layer; where a text is read both ways, of that from its start."""
        if settings.bidirectional:
            return BOTH_WAYS
        return self.layer

    def fine_tuning_rate(self, settings: RnnSettings) -> float:
        """Return the learning rate of pretraining, which suits layers of any width."""
        return RATES[settings.cell]

    def training(self, settings: RnnSettings) -> dict[str, float]:
        """Return what suits a network that carries its memory from span to span."""
        return CARRYING | {"lr": RATES[settings.cell]}

    def card(self, model: Any) -> str:
        """Say what a model is."""
        s = model.settings
        cell = CELLS[s.cell]
        ways = " in both directions" if s.bidirectional else ""
        layers = f"{s.depth} {cell} layers of width {s.width}{ways}"
        return f"A recurrent network: {layers}, {s.vocab:,} pieces"


FAMILY = RnnFamily(
    name="rnn",
    model_type="firth-rnn",
    help="a recurrent language model, and an encoder",
    settings=RnnSettings,
    network=Import("firth.models.rnn", "Rnn"),
    contracts=frozenset({"encoder", "language model"}),
    layer="layers.layers.#.keep.weight",
    recipe=CAUSAL,
    options=frozenset({"cell", "output"}),
    sizes=SIZES,
    default_size="small",
    timed_sizes=("small",),
    vocabulary="words",
    dropout=0.4,
    end_is_word=True,
    new_size="mini",
    vectors="inputs",
    finetune_options=frozenset({"cell", "bidirectional"}),
)
