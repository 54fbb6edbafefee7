"""The n-gram: the settings of a language model that is counted."""

from typing import Any

from pydantic import Field

from firth.families.family import COUNTED, Family, Import
from firth.families.language import MarkSettings

ORDER = 5


class NGramSettings(MarkSettings):
    """The sizes of an n-gram model and the ids of its marks."""

    order: int = Field(gt=0, le=64)  # words of the longest n-gram

    @property
    def symbols(self) -> int:
        """Return the size of the vocabulary and the start mark, the last symbol whatever its id."""
        return self.vocab + 1


class NGramFamily(Family):
    """The family of n-gram models."""

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the order that is usual."""
        return values | {"order": values.get("order") or ORDER}

    def card(self, model: Any) -> str:
        """Say what a model is."""
        return (
            f"An n-gram model: {model.counts.size:,} n-grams of up to {model.order} of "
            f"{model.settings.vocab:,} pieces, counted and smoothed"
        )


FAMILY = NGramFamily(
    name="ngram",
    model_type="firth-ngram",
    help="an n-gram language model, counted instead of trained",
    settings=NGramSettings,
    network=Import("firth.models.ngram", "NGram"),
    contracts=frozenset({"language model"}),
    arrays=frozenset({"I32", "I64", "F64"}),
    recipe=COUNTED,
    options=frozenset({"order"}),
    sizes={"any": {}},
    default_size="any",
    vocabulary="words",
)
