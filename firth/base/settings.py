"""Settings that refuse what they don't know, and how the command line shows each of them."""

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from firth.base.arguments import MOST_THREADS, nearest, plain
from firth.base.errors import InputError, is_command_line
from firth.base.notes import warn


class Settings(BaseModel):
    """A frozen record of plain values; unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    renamed: ClassVar[Mapping[str, str]] = {}  # earlier names of settings, which still work

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: plain(value) for name, value in values.items()}

    @classmethod
    def given(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings of a call; warn of an earlier name, refuse a wrong value."""
        named = dict(values)
        for old, new in cls.renamed.items():
            if old in named:
                if new in named and named[new] != cls._default(new):
                    one = f"{_called(cls, old)} is an earlier name of {_called(cls, new)}"
                    raise InputError(f"{one}: give one of the two")
                warn(f"{_called(cls, old)} is now called {_called(cls, new)}")
                named[new] = named.pop(old)
        try:
            return cls(**named)
        except ValidationError as error:
            raise InputError(complaint(error, cls)) from error

    @classmethod
    def _default(cls, name: str) -> Any:
        return cls.model_fields[name].get_default(call_default_factory=True)

    @classmethod
    def stored(cls, values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        """Return settings that an earlier version stored, under today's names.

        Those of `names` that it did not have yet are at their defaults.
        """
        known = {cls.renamed.get(name, name): value for name, value in values.items()}
        for name in names:
            field = cls.model_fields[name]
            if name not in known and not field.is_required():
                known[name] = cls._default(name)
        return known


@dataclass(frozen=True)
class Option:
    """How the command line shows a setting, where its name and type don't say it."""

    names: tuple[str, ...] = ()  # as typed, in place of `--name`
    metavar: str | None = None
    argument: bool = False  # given by its position
    path: bool = False
    choices: Callable[[], Sequence[str]] | None = None  # of a string, where no Literal lists them
    only_set: bool = False  # reached by --set and --config alone
    keys: Callable[[], Iterable[str]] | None = None  # of a mapping, each of them reached by --set

    @classmethod
    def of(cls, field: FieldInfo) -> "Option":
        """Return the option of a settings field."""
        return next((found for found in field.metadata if isinstance(found, cls)), cls())


def one_of(names: Callable[[], Sequence[str]]) -> AfterValidator:
    """Return a check that a string is one of the names that are known when it is used."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in names():
            *others, last = map(repr, names())
            raise ValueError(f"Input should be {', '.join(others)} or {last}")
        return value

    return AfterValidator(check)


# Options that several commands have.
Threads = Annotated[
    int | None,
    Field(gt=0, le=MOST_THREADS, description="By default every core that this process may use."),
]
Encoding = Annotated[
    str | None,
    Field(
        min_length=1, description="The file's encoding, where it isn't UTF-8: cp1252, utf-16 ..."
    ),
]
Column = Annotated[
    str,
    Option(names=("--text",)),
    Field(
        min_length=1,
        description="The field or column of a file that has some; "
        "several are joined: subject,body.",
    ),
]
TextColumn = Annotated[
    str | None,
    Field(min_length=1, description="The column with the text; several are joined: subject,body."),
]
SecondColumn = Annotated[
    str | None, Field(min_length=1, description="The column with the second text of a pair.")
]
LabelColumn = Annotated[str | None, Field(min_length=1, description="The column with the label.")]
Missing = Annotated[
    list[str],
    Option(metavar="WORD"),
    Field(
        description="A label that stands for none, as nan: such rows are left out; "
        "may be given again."
    ),
]
Force = Annotated[bool, Field(description="Overwrite the output.")]


def complaint(error: ValidationError, known: type[Settings] | None = None) -> str:
    """Say in one sentence what is wrong with the first wrong setting.

    A key that is not `known` names the nearest.
    """
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    kind = first["type"]
    if known is not None and kind == "extra_forbidden":
        return f"there is no option {reprlib.repr(name)}{nearest(name, known.model_fields)}"

    reason = first["msg"].removeprefix("Value error, ")
    if not name:
        return reason
    if known is None:
        return f"{name}: {reason}"
    if is_command_line():
        name = _called(known, name)
    if first["type"] == "missing":
        return f"{name}: {reason}"
    return f"{name}: {reason}, not {reprlib.repr(first['input'])}"


def _called(known: type[Settings], name: str) -> str:
    """Return a setting's name as the command line has it."""
    field = known.model_fields.get(name)
    names = Option.of(field).names if field else ()
    return names[-1] if names else f"--{name.replace('_', '-')}"
