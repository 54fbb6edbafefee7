"""Tasks and model families of a user's own: registered from Python, or read from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from traceback import extract_tb
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from firth.base.errors import FirthError, InputError
from firth.families.family import Family
from firth.families.registry import families, register_family
from firth.tasks.registry import all_names, is_task, register_task

if TYPE_CHECKING:
    from firth.tasks.task import Task

New = TypeVar("New", bound="Family | type[Task[Any]]")

_read: set[Path] = set()  # the files that were executed in this process


def register(new: New) -> New:
    """Make a task class or a model family known to every command and function; return it."""
    if isinstance(new, Family):
        return register_family(new)
    if is_task(new):
        return register_task(new)
    raise InputError(
        "firth.register takes a subclass of firth.tasks.task.Task "
        f"or a firth.families.family.Family, not {new!r}"
    )


def read_plugin(name: str) -> None:
    """Execute a Python file of the user's, once in a process; it must register something."""
    path = Path(name).resolve()
    if path in _read:
        return
    code = _compiled(path, name)
    before = _registered()
    # A module of its own, which dataclasses and pydantic look up by name; the file's name may be
    # that of another module.
    module = ModuleType(f"firth_plugin_{len(_read)}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    _read.add(path)
    try:
        exec(code, module.__dict__)  # noqa: S102 - the user named the file to run it
    except (Exception, SystemExit) as error:
        raise InputError(f"{_place(error, path, name)}: {_reason(error)}") from error
    if _registered() == before:
        raise InputError(
            f"{name} registers no task and no family: firth.register(...) in it does that"
        )


def _compiled(path: Path, name: str) -> CodeType:
    try:
        return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise InputError(f"the plugin {name} can't be read: {error.strerror}") from error
    except SyntaxError as error:
        place = name if error.lineno is None else f"{name}:{error.lineno}"
        raise InputError(f"{place}: this is no valid Python: {error.msg}") from error
    except ValueError as error:
        raise InputError(f"{name}: this is no valid Python: {error}") from error


def _registered() -> int:
    return len(all_names()) + len(families())


def _place(error: BaseException, path: Path, name: str) -> str:
    """Return the plugin's file with the line of it that failed."""
    lines = [
        frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    return f"{name}:{lines[-1]}" if lines else name


def _reason(error: BaseException) -> str:
    if isinstance(error, FirthError):
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")
