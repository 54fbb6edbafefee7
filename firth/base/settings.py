"""Settings that refuse what they don't know: a misspelt key stops the run instead of being ignored."""

import reprlib
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from firth.base.arguments import nearest, plain


class Settings(BaseModel):
    """A frozen record of plain values; unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, values: Any) -> Any:
        return (
            {name: plain(value) for name, value in values.items()}
            if isinstance(values, dict)
            else values
        )


def complaint(error: ValidationError, known: type[Settings] | None = None) -> str:
    """What is wrong with the first wrong setting, in one sentence; a key that is not `known` names the nearest."""
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    if known is not None and first["type"] == "extra_forbidden":
        return f"there is no option {reprlib.repr(name)}{nearest(name, known.model_fields)}"
    reason = first["msg"].removeprefix("Value error, ")
    given = (
        f", not {reprlib.repr(first['input'])}"
        if known is not None and name and first["type"] != "missing"
        else ""
    )
    return f"{name}: {reason}{given}" if name else reason
