"""Checks of the arguments of Python functions: a wrong value is refused before any work is done."""

import math
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from typing import Any, Literal, overload

from firth.base.errors import InputError

MOST_THREADS = 1024
MOST_WEIGHT = 1000.0  # of a log-likelihood, so that no total is infinite
PATHS = "a path (a string or pathlib.Path)"
UNORDERED = (Mapping, Set)  # iterating over these gives keys, or no fixed order
BYTES_OR_TEXT = (str, bytes, bytearray, memoryview)


def plain(value: Any) -> Any:
    """Return a number of numpy's, or an array without dimensions, as a number of Python's own."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    return value


def _refusal(name: str, wanted: str, value: object) -> InputError:
    """Make the error for an argument that is not what is wanted."""
    return InputError(f"{name} is {wanted}, not {reprlib.repr(value)}")


def _is_whole(value: object) -> bool:
    """Tell a whole number from True and False, which Python counts among them."""
    return isinstance(value, int) and not isinstance(value, bool)


@overload
def as_whole(
    name: str,
    value: object,
    least: int = ...,
    most: int | None = ...,
    *,
    optional: Literal[False] = ...,
) -> int:
    """Return a whole number."""


@overload
def as_whole(
    name: str, value: object, least: int = ..., most: int | None = ..., *, optional: bool
) -> int | None:
    """Return a whole number, or None if it may be left out."""


def as_whole(
    name: str, value: object, least: int = 0, most: int | None = None, *, optional: bool = False
) -> int | None:
    """Return a whole number within its limits, None too where it is optional."""
    number = plain(value)
    if number is None and optional:
        return None

    if most is None:
        wanted = f"a whole number of at least {least}"
    else:
        wanted = f"a whole number from {least} to {most}"
    if not _is_whole(number) or number < least:
        raise _refusal(name, wanted, value)
    if most is not None and number > most:
        raise _refusal(name, wanted, value)
    return int(number)


def _finite(value: object) -> float | None:
    """Return a finite number as a float, None for anything else."""
    number = plain(value)
    if not isinstance(number, float) and not _is_whole(number):
        return None
    try:
        found = float(number)
    except OverflowError:  # a whole number of more than 308 digits
        return None
    return found if math.isfinite(found) else None


def as_real(name: str, value: object, least: float = 0.0, most: float = math.inf) -> float:
    """Return a finite number within its limits."""
    number = _finite(value)
    if number is not None and least <= number <= most:
        return number

    wanted = f"a number of at least {least:g}"
    if most < math.inf:
        wanted += f" and at most {most:g}"
    raise _refusal(name, wanted, value)


def as_weight(weight: object) -> float:
    """Return the weight of a log-likelihood beside a proposer's score: 1 where none was given."""
    return 1.0 if weight is None else as_real("weight", weight, most=MOST_WEIGHT)


def check_choice(
    name: str, value: object, choices: Sequence[str], *, optional: bool = False
) -> None:
    """Refuse what is none of the choices, nor None where it is optional."""
    if value is None and optional:
        return
    if not isinstance(value, str) or value not in choices:
        raise _refusal(name, f"one of {', '.join(choices)}", value)


def check_flags(**values: object) -> None:
    """Refuse what is neither True nor False."""
    for name, value in values.items():
        if not isinstance(plain(value), bool):
            raise _refusal(name, "True or False", value)


def check_string(name: str, value: object, *, empty: bool = True) -> None:
    """Refuse what is not a string, or is empty where it may not be."""
    wanted = "a string" if empty else "a string that is not empty"
    if not isinstance(value, str):
        raise _refusal(name, wanted, value)
    if not value and not empty:
        raise _refusal(name, wanted, value)


def check_texts(**values: object) -> None:
    """Refuse what is neither a string, which may be empty, nor None."""
    for name, value in values.items():
        if value is not None and not isinstance(value, str):
            raise _refusal(name, "a string, or None", value)


def check_names(**values: object) -> None:
    """Refuse what is neither a name of something, a string that is not empty, nor None."""
    for name, value in values.items():
        if value is None:
            continue
        if not isinstance(value, str) or not value:
            raise _refusal(name, "a string that is not empty, or None", value)


@overload
def as_path(name: str, value: object, *, optional: Literal[False] = ...) -> str:
    """Return one path as a string."""


@overload
def as_path(name: str, value: object, *, optional: bool) -> str | None:
    """Return one path as a string, or None if it may be left out."""


def as_path(name: str, value: object, *, optional: bool = False) -> str | None:
    """Return one path as a string.

    Bytes and numbers are refused, and so is the empty string, which would be the present folder.
    """
    if value is None and optional:
        return None
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str):
        raise _refusal(name, PATHS, value)
    if not found or "\0" in found:
        raise _refusal(name, f"{PATHS} that names something", value)
    return str.__str__(found)  # numpy has strings of its own, which print otherwise


def as_paths(name: str, value: object, if_none: str | None = None) -> list[str]:
    """Return the paths of one path or of a list, tuple, array or iterator; at least one."""
    if isinstance(value, str | os.PathLike):
        return [as_path(name, value)]
    found = []
    for number, path in enumerate(members(name, value, f"{PATHS} or a list of them")):
        found.append(as_path(f"{name}[{number}]", path))
    if not found:
        raise InputError(if_none or f"{name} is empty: give at least one path")
    return found


def is_data_frame(value: object) -> bool:
    """Tell a data frame, of whichever library, from one of its columns."""
    return hasattr(value, "columns") and getattr(value, "ndim", 2) != 1


def members(name: str, value: object, wanted: str) -> Iterable[Any]:
    """Return what a list, tuple, array, column or iterator holds.

    What has no order or would give its keys is refused.
    """
    if isinstance(value, UNORDERED + BYTES_OR_TEXT) or getattr(value, "ndim", 1) != 1:
        raise _refusal(name, wanted, value)
    is_sequence = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    if isinstance(value, Iterator):
        return value
    if not isinstance(value, Iterable) or not is_sequence or is_data_frame(value):
        raise _refusal(name, wanted, value)
    return value


def as_whole_numbers(name: str, value: object) -> tuple[int, ...]:
    """Return the numbers of a list, tuple, range or array of whole numbers."""
    wanted = "a list of whole numbers"
    numbers = tuple(map(plain, members(name, value, wanted)))
    if not numbers or not all(map(_is_whole, numbers)):
        raise _refusal(name, wanted, value)
    return numbers


def as_scores(name: str, value: object, count: int) -> tuple[float, ...]:
    """Return the scores of candidates, as many finite numbers, of a list, tuple or array."""
    wanted = f"a list of {count:,} finite numbers, one for each candidate"
    found = []
    for one in members(name, value, wanted):
        number = _finite(one)
        if number is None:
            raise _refusal(name, wanted, value)
        found.append(number)
    if len(found) != count:
        raise _refusal(name, wanted, value)
    return tuple(found)


def as_strings(name: str, value: object) -> tuple[str, ...]:
    """Return the strings of a list, tuple or array; one string, a list of letters, is refused."""
    wanted = "a list of strings"
    found = tuple(members(name, value, wanted))
    if not all(isinstance(one, str) for one in found):
        raise _refusal(name, wanted, value)
    return found


def misspelt(name: str, known: Iterable[str]) -> str:
    """Ask for the known name that a misspelt one may stand for; nothing where none is near."""
    small = {one.lower(): one for one in sorted(known)}
    near = get_close_matches(name[:64].lower(), small, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {small[near[0]]!r}?"
    return ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Name the known name that a misspelt one may stand for, or all where none is near."""
    names = sorted(known)
    return misspelt(name, names) or f"; there are: {', '.join(names)}"
