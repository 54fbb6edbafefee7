"""The tokens that stand before and after a sentence, which every language model but GPT has apart."""

from pydantic import Field, model_validator

from firth.base.settings import Settings


class MarkSettings(Settings):
    """A vocabulary and the ids of its marks."""

    vocab: int = Field(gt=0, le=1 << 24)
    start: int = Field(
        ge=0
    )  # the mark before a sentence, never predicted; it may be `vocab`, one id beyond the vocabulary
    end: int | None = Field(
        default=None, ge=0
    )  # where given, nothing before a sentence's end counts for what follows it

    @model_validator(mode="after")
    def _marks_fit(self) -> "MarkSettings":
        if self.start > self.vocab or (self.end is not None and self.end >= self.vocab):
            raise ValueError(f"a mark is beyond the vocabulary of {self.vocab}")
        if self.start == self.end or (self.start < self.vocab and self.vocab == 1):
            raise ValueError("the start mark leaves no token to predict")
        return self
