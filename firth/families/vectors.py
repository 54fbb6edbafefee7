"""What the families of word vectors share: settings, sizes and how they are described."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from firth.base.settings import Settings
from firth.families.family import Contract, Family, Import
from firth.families.stack import Probability

NETWORK = Import("firth.models.vectors", "WordVectors")
WINDOWED = Import("firth.recipes.windowed", "Windowed")
SIZES: Mapping[str, Mapping[str, int]] = {
    "tiny": {"width": 50},
    "mini": {"width": 100},
    "small": {"width": 200},
    "base": {"width": 300},
}
FINE_TUNING_RATE = 5e-3
WIDEST = 50  # words of a window
STATIC: frozenset[Contract] = frozenset({"encoder", "static vectors"})
# Options of training that mean nothing where updates are written by hand.
UNUSED = frozenset(
    {"init", "length", "micro", "schedule", "weight_decay", "clip", "dropout", "dtype"}
)


class VectorSettings(Settings):
    """The sizes of word vectors."""

    vocab: int = Field(gt=0, le=1 << 24)
    width: int = Field(gt=0, le=1 << 16, description="Numbers in the vector of a word.")
    dropout: Probability = 0.0


class WindowSettings(VectorSettings):
    """How vectors are trained to tell the words in a window from noise."""

    draws_window: ClassVar[bool] = True  # its size, from 1 to the largest

    window: int = Field(
        default=5, gt=0, le=WIDEST, description="Words on either side that count, at most."
    )
    negatives: int = Field(
        default=5, gt=0, le=1000, description="Words of noise that each pair is told from."
    )
    sample: float = Field(
        default=1e-3,
        ge=0,
        le=1,
        description="Share of the text from which on a word is read less often; 0 reads all.",
    )


@dataclass(frozen=True, kw_only=True)
class VectorFamily(Family):
    """A family of word vectors; what differs is how they are trained."""

    objective: Import | None = None  # builds it, for the recipe of words in windows
    rate: float = 0.025  # the learning rate that a run begins with
    decays: bool = True  # whether it falls in a line

    def fine_tuning_rate(self, settings: Any) -> float:
        """Return a learning rate for vectors that no layer stands on."""
        return FINE_TUNING_RATE

    def card(self, model: Any) -> str:
        """Say what a model is."""
        s = model.settings
        return f"Word vectors ({self.name}): {s.vocab:,} words, {s.width} numbers each"
