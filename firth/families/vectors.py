"""What the families of word vectors share: settings, sizes and how they are described."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from firth.base.settings import Settings
from firth.families.family import Family, Import
from firth.families.transformer import Probability

NETWORK = Import("firth.models.vectors", "WordVectors")
SIZES: Mapping[str, Mapping[str, int]] = {
    "tiny": {"width": 50},
    "mini": {"width": 100},
    "small": {"width": 200},
    "base": {"width": 300},
}
RATE = 5e-3  # of fine-tuning


class VectorSettings(Settings):
    """The sizes of word vectors."""

    vocab: int = Field(gt=0, le=1 << 24)
    width: int = Field(gt=0, le=1 << 16, description="Numbers in the vector of a word.")
    dropout: Probability = 0.0


class VectorFamily(Family):
    """A family of word vectors; what differs is how they are trained."""

    def fine_tuning(self, settings: Any) -> dict[str, float]:
        """Return a learning rate for vectors that no layer stands on."""
        return {"rate": RATE}

    def card(self, model: Any) -> str:
        """Say what a model is."""
        s = model.settings
        return f"Word vectors ({self.name}): {s.vocab:,} words, {s.width} numbers each"
