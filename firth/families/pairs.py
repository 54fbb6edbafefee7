"""What the encoder-decoders share: the vocabularies of both sides and the marks of a target."""

from typing import Any

from pydantic import Field, model_validator

from firth.base.settings import Settings
from firth.families.family import Family
from firth.families.stack import Probability

SENTINELS = 32  # in the vocabulary of pretraining: for texts of 600 tokens


class PairSettings(Settings):
    """The vocabularies of both sides, and the ids of the marks of a target.

    Both sides share one vocabulary, and one table of vectors, unless `target_vocab` is given. Of a
    target only the end mark and what has a greater id is ever written.
    """

    vocab: int = Field(gt=0, le=1 << 24)
    target_vocab: int | None = Field(default=None, gt=0, le=1 << 24)
    start: int = Field(ge=0)  # read before a target
    end: int = Field(ge=0)  # written after it
    dropout: Probability = 0.1

    @model_validator(mode="after")
    def _marks_fit(self) -> "PairSettings":
        if max(self.start, self.end) >= self.targets:
            raise ValueError(f"a mark is beyond the vocabulary of {self.targets}")
        if self.start == self.end:
            raise ValueError("the start mark and the end mark are the same")
        return self

    @property
    def targets(self) -> int:
        """Return the size of the vocabulary of targets."""
        return self.target_vocab or self.vocab

    @property
    def pieces(self) -> str:
        """Say how large the vocabularies are."""
        if self.target_vocab is None:
            return f"{self.vocab:,} pieces"
        return f"{self.vocab:,} and {self.target_vocab:,} pieces"


class PairFamily(Family):
    """A family of encoder-decoders."""

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the inner width that is usual for the width, where there is one."""
        if "inner" not in self.settings.model_fields:
            return values
        return {"inner": 4 * values["width"], **values}
