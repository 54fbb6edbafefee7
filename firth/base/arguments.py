"""Checks of the arguments of Python functions: a wrong value is named and refused before any work is done."""

import math
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from typing import Any, Literal, overload

from firth.base.errors import InputError

MOST_THREADS = 1024
PATHS = "a path (a string or pathlib.Path)"


def plain(value: Any) -> Any:
    """Return numpy's numbers, and arrays of one number without dimensions, as Python's own."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def _refuse(name: str, wanted: str, value: object) -> InputError:
    return InputError(f"{name} is {wanted}, not {reprlib.repr(value)}")


@overload
def as_whole(
    name: str,
    value: object,
    least: int = ...,
    most: int | None = ...,
    *,
    optional: Literal[False] = ...,
) -> int: ...
@overload
def as_whole(
    name: str, value: object, least: int = ..., most: int | None = ..., *, optional: bool
) -> int | None: ...
def as_whole(
    name: str, value: object, least: int = 0, most: int | None = None, *, optional: bool = False
) -> int | None:
    """Return a whole number within its limits, None too where it is optional."""
    number = plain(value)
    if number is None and optional:
        return None
    wanted = (
        f"a whole number from {least} to {most}"
        if most is not None
        else f"a whole number of at least {least}"
    )
    if (
        not isinstance(number, int)
        or isinstance(number, bool)
        or number < least
        or (most is not None and number > most)
    ):
        raise _refuse(name, wanted, value)
    return number


def as_real(name: str, value: object, least: float = 0.0, most: float = math.inf) -> float:
    """Return a finite number within its limits."""
    number = plain(value)
    usable = isinstance(number, int | float) and not isinstance(number, bool)
    if not usable or not math.isfinite(number) or not least <= number <= most:
        raise _refuse(
            name,
            f"a number of at least {least:g}"
            + (f" and at most {most:g}" if most < math.inf else ""),
            value,
        )
    return float(number)


def check_choice(
    name: str, value: object, choices: Sequence[str], *, optional: bool = False
) -> None:
    """Refuse what is none of the choices, nor None where it is optional."""
    if not (optional and value is None) and not (isinstance(value, str) and value in choices):
        raise _refuse(name, f"one of {', '.join(choices)}", value)


def check_flags(**values: object) -> None:
    """Refuse what is neither True nor False."""
    for name, value in values.items():
        if not isinstance(plain(value), bool):
            raise _refuse(name, "True or False", value)


def check_string(name: str, value: object, *, empty: bool = True) -> None:
    """Refuse what is not a string, or is empty where it may not be."""
    if not isinstance(value, str) or not (value or empty):
        raise _refuse(name, "a string" if empty else "a string that is not empty", value)


def check_names(**values: object) -> None:
    """Refuse what is neither a name of something, a string that is not empty, nor None."""
    for name, value in values.items():
        if value is not None and not (isinstance(value, str) and value):
            raise _refuse(name, "a string that is not empty, or None", value)


@overload
def as_path(name: str, value: object, *, optional: Literal[False] = ...) -> str: ...
@overload
def as_path(name: str, value: object, *, optional: bool) -> str | None: ...
def as_path(name: str, value: object, *, optional: bool = False) -> str | None:
    """Return one path as a string; bytes, numbers and the empty string, which would be the present folder, are refused."""
    if value is None and optional:
        return None
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str):
        raise _refuse(name, PATHS, value)
    if not found or "\0" in found:
        raise _refuse(name, f"{PATHS} that names something", value)
    return str.__str__(found)


def as_paths(name: str, value: object, if_none: str | None = None) -> list[str]:
    """Return the paths in one path or in a list, tuple, array or iterator of paths; at least one, in the order given."""
    if isinstance(value, str | os.PathLike):
        return [as_path(name, value)]
    found = [
        as_path(f"{name}[{number}]", one)
        for number, one in enumerate(members(name, value, f"{PATHS} or a list of them"))
    ]
    if not found:
        raise InputError(if_none or f"{name} is empty: give at least one path")
    return found


def is_table(value: object) -> bool:
    """Tell a DataFrame, of whichever library, from a column of one."""
    return hasattr(value, "columns") and getattr(value, "ndim", 2) != 1


def members(name: str, value: object, wanted: str) -> Iterable[Any]:
    """Return what a list, tuple, array, column or iterator holds; what has no order or would give its keys is refused."""
    if (
        isinstance(value, Mapping | Set | bytes | bytearray | memoryview | str)
        or getattr(value, "ndim", 1) != 1
    ):
        raise _refuse(name, wanted, value)
    is_list = hasattr(value, "__len__") and hasattr(value, "__getitem__") and not is_table(value)
    if not isinstance(value, Iterable) or not (isinstance(value, Iterator) or is_list):
        raise _refuse(name, wanted, value)
    return value


def as_whole_numbers(name: str, value: object) -> tuple[int, ...]:
    """Return a list, tuple, range or array of whole numbers."""
    wanted = "a list of whole numbers"
    found = tuple(plain(one) for one in members(name, value, wanted))
    if not found or any(not isinstance(one, int) or isinstance(one, bool) for one in found):
        raise _refuse(name, wanted, value)
    return found


def as_strings(name: str, value: object) -> tuple[str, ...]:
    """Return a list, tuple or array of strings; one string is refused, since each of its letters would count as one."""
    wanted = "a list of strings"
    found = tuple(members(name, value, wanted))
    if any(not isinstance(one, str) for one in found):
        raise _refuse(name, wanted, value)
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """Name the known name that a misspelt one may stand for, or all where none is near."""
    names = sorted(known)
    near = get_close_matches(name[:64], names, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names)}"
