"""The recurrent encoder-decoder without attention: its settings and sizes."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from firth.families.family import SPANS, Import
from firth.families.pairs import SENTINELS, PairFamily, PairSettings
from firth.families.rnn import CELLS, RATES

SIZES = {
    "tiny": {"width": 64, "depth": 1},
    "mini": {"width": 256, "depth": 1},
    "small": {"width": 512, "depth": 1},
    "base": {"width": 512, "depth": 2},
    "large": {"width": 1024, "depth": 4},
}


class Seq2SeqSettings(PairSettings):
    """The sizes of a recurrent encoder-decoder; both sides have the same."""

    attends: ClassVar[bool] = False

    width: int = Field(
        gt=0, le=1 << 16, description="Numbers in the vector of a word and of a layer's memory."
    )
    depth: int = Field(default=1, gt=0, le=1024, description="Layers of either side.")
    cell: Literal["tanh", "gru", "lstm"] = "lstm"
    bidirectional: bool = True  # of the encoder: half its width reads from either end
    tied: bool = True  # one table for target words that are read and that are written

    @model_validator(mode="after")
    def _halves(self) -> "Seq2SeqSettings":
        if self.bidirectional and self.width % 2:
            raise ValueError(f"width {self.width} can't be halved for the two directions")
        return self


class Seq2SeqFamily(PairFamily):
    """A family of recurrent encoder-decoders."""

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the cell that is usual."""
        return values | {"cell": values.get("cell") or "lstm"}

    def training(self, settings: Seq2SeqSettings) -> dict[str, float]:
        """Return the learning rate that suits the cell."""
        return {"lr": RATES[settings.cell]}

    def fine_tuning_rate(self, settings: Seq2SeqSettings) -> float:
        """Return the learning rate that suits the cell."""
        return RATES[settings.cell]

    def card(self, model: Any) -> str:
        """Say what a model is."""
        s = model.settings
        between = "attention" if s.attends else "one vector"
        layers = f"{s.depth} {CELLS[s.cell]} layers of width {s.width}"
        return f"A recurrent encoder-decoder: {layers} a side, {between} between them, {s.pieces}"


FAMILY = Seq2SeqFamily(
    name="seq2seq",
    model_type="firth-seq2seq",
    help="a recurrent encoder-decoder: one vector stands for the source",
    settings=Seq2SeqSettings,
    network=Import("firth.models.seq2seq", "Seq2Seq"),
    contracts=frozenset({"encoder-decoder"}),
    layer="decoder.layers.#.keep.weight",
    sizes=SIZES,
    recipe=SPANS,
    options=frozenset({"cell"}),
    default_size="small",
    timed_sizes=("tiny", "mini", "small", "base"),
    vocabulary="bytes",
    sentinels=SENTINELS,
    new_size="small",
    finetune_options=frozenset({"cell"}),
)
