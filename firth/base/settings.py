"""Settings that refuse what they don't know: a misspelt key stops the run instead of being ignored."""

from pydantic import BaseModel, ConfigDict, ValidationError


class Settings(BaseModel):
    """A frozen record of plain values; unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def complaint(error: ValidationError) -> str:
    """What is wrong with the first wrong setting, in one sentence."""
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    reason = first["msg"].removeprefix("Value error, ")
    return f"{name}: {reason}" if name else reason
