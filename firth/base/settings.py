"""Settings that refuse what they don't know: a misspelt key stops the run instead of being ignored."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A frozen record of plain values; unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
