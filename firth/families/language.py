"""What the language models of our own share: marks around sentences, and how words are found."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field, model_validator

from firth.base.settings import Settings
from firth.families.stack import Probability

# Of networks that carry a state from span to span: no momentum, and a short gradient norm,
# because neighbouring spans are alike.
CARRYING = {
    "beta1": 0.0,
    "beta2": 0.999,
    "eps": 1e-8,
    "weight_decay": 0.0,
    "grad_clip": 0.25,
    "warmup": 0.05,
}
CLASSES = (0.1, 0.5)  # shares of the vocabulary at which a class of rarer words begins


class MarkSettings(Settings):
    """A vocabulary and the ids of its marks.

    The start mark stands before a sentence and is never predicted; it may be `vocab`, one id beyond
    the vocabulary. Where an end is given, nothing before a sentence's end counts for what follows.
    """

    vocab: int = Field(gt=0, le=1 << 24)
    start: int = Field(ge=0)
    end: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _marks_fit(self) -> "MarkSettings":
        if self.start > self.vocab or (self.end is not None and self.end >= self.vocab):
            raise ValueError(f"a mark is beyond the vocabulary of {self.vocab}")
        if self.start == self.end or (self.start < self.vocab and self.vocab == 1):
            raise ValueError("the start mark leaves no token to predict")
        return self


class LanguageSettings(MarkSettings):
    """The ids of a language model's marks, and how it finds the probabilities of words.

    `cutoffs` are for `classes`: a class ends before each of these ranks of frequency. `samples` are
    for `sampled`: the words drawn for a batch. Fresh tables hold numbers up to `spread` from 0.
    A network without an output layer is only an encoder.
    """

    output: Literal["full", "classes", "sampled", "none"] = "full"
    cutoffs: tuple[int, ...] = Field(default=(), strict=False)
    samples: int = Field(default=1024, gt=0, le=1 << 20)
    tied: bool = False  # one table for words that are read and words that are written
    dropout: Probability = 0.0
    spread: float = Field(default=0.1, gt=0, lt=10)

    @model_validator(mode="after")
    def _classes_fit(self) -> "LanguageSettings":
        bounds = (0, *self.cutoffs, self.symbols - 1)
        if (self.output == "classes") != bool(self.cutoffs):
            raise ValueError("classes need cutoffs, and nothing else has them")
        if any(first >= second for first, second in pairwise(bounds)):
            raise ValueError(
                f"the cutoffs {self.cutoffs} don't rise from 1 to less than the words to predict"
            )
        if self.tied and self.output == "classes":
            raise ValueError("a table of classes can't be tied to that of the words that are read")
        if self.tied and self.output == "none":
            raise ValueError("without an output layer there is no table to be tied")
        return self

    def check_width(self, width: int) -> None:
        """Refuse vectors too narrow for the classes: each has a quarter of the width before it."""
        if width < 4 ** len(self.cutoffs):
            raise ValueError(
                f"vectors of {width} numbers are too narrow for {len(self.cutoffs)} cutoffs"
            )

    @property
    def symbols(self) -> int:
        """Return the size of the vocabulary, with the start mark if it is beyond."""
        return max(self.vocab, self.start + 1)


def output_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the output layer, by the kind of output and the vocabulary."""
    output = values.get("output") or "full"
    cutoffs: tuple[int, ...] = ()
    if output == "classes":
        cutoffs = tuple(round(share * values["vocab"]) for share in CLASSES)
    return {"output": output, "cutoffs": cutoffs, "tied": output in ("full", "sampled")}
