"""All tasks by name: those of this folder, those of installed packages, those that were registered.

A module is imported when its task is asked for, so that the names alone cost nothing; none loads
torch before a model is run.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from firth.base.arguments import nearest
from firth.base.errors import FirthError, InputError, add_choices, plugin_hint

if TYPE_CHECKING:
    from firth.reading.readers import MakeReader
    from firth.tasks.task import Task
    from firth.tasks.trained import TrainedTask

    AnyTask: TypeAlias = Task[Any]
    AnyTrainedTask: TypeAlias = TrainedTask[Any, Any]

T = TypeVar("T", bound="type[AnyTask]")

# Tasks that are learned from examples, in the order in which a file's columns are compared with
# what they read: most special first.
TRAINED = {
    "translate": "firth.tasks.translate",
    "answer": "firth.tasks.answer",
    "choice": "firth.tasks.choice",
    "tag": "firth.tasks.tag",
    "regress": "firth.tasks.regress",
    "classify": "firth.tasks.classify",
}
BUILT_IN = {
    **TRAINED,
    "fill": "firth.tasks.fill",
    "generate": "firth.tasks.generate",
    "complete": "firth.tasks.complete",
    "likelihood": "firth.tasks.likelihood",
    "bidirectional": "firth.tasks.bidirectional",
    "embed": "firth.tasks.embed",
}
GROUP = "firth.tasks"  # of entry points, by which an installed package offers tasks

_registered: dict[str, type[AnyTask]] = {}
add_choices(TRAINED)


def register_task(task: T) -> T:
    """Add a task for this process; its name, and how folders spell it, must be new."""
    if not is_task(task):
        raise InputError(f"a task is a subclass of firth.tasks.task.Task, not {task!r}")
    lacking = sorted(task.__abstractmethods__)
    if lacking:
        raise InputError(f"the task {task.__name__} lacks {', '.join(lacking)}")
    if _registered.get(task.name) is task:
        return task
    if task.name in all_names():
        raise InputError(f"there is a task {task.name!r} already")
    for kind in task.kinds:
        owner = _by_kind().get(kind)
        if owner is not None:
            raise InputError(f"models of the task {owner.name!r} are already called {kind!r}")
    _registered[task.name] = task
    add_choices([task.name])
    return task


def is_task(task: object) -> bool:
    """Return whether something is a task."""
    from firth.tasks.task import Task

    return isinstance(task, type) and issubclass(task, Task)


def all_names() -> list[str]:
    """Return the names of all tasks; nothing is imported for it."""
    return [*BUILT_IN, *_entry_points(), *_registered]


def find_task(name: str) -> type[AnyTask]:
    """Return the task with a name."""
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        found: type[AnyTask] = import_module(BUILT_IN[name]).TASK
        return found
    entry = _entry_points().get(name)
    if entry is None:
        raise InputError(f"there is no task {name!r}{nearest(name, all_names())}")
    return _loaded(entry)


def trained_names() -> list[str]:
    """Return the names of the tasks that are learned from examples, in alphabetical order.

    Nothing is imported for those of this package.
    """
    from_elsewhere = [*_entry_points(), *_registered]
    if not from_elsewhere:
        return sorted(TRAINED)
    return sorted(trained_tasks())


def trained_tasks() -> dict[str, type[AnyTrainedTask]]:
    """Return the tasks that are learned from examples, by name."""
    from firth.tasks.trained import TrainedTask

    names = [*TRAINED, *_entry_points(), *_registered]
    found = {name: find_task(name) for name in names}
    return {name: task for name, task in found.items() if issubclass(task, TrainedTask)}


def find_trained(name: str) -> type[AnyTrainedTask]:
    """Return a task that is learned from examples."""
    tasks = trained_tasks()
    if name not in tasks:
        known = ", ".join(sorted(tasks))
        raise InputError(f"there is no task {name!r} to train; there are: {known}")
    return tasks[name]


def readers(task: str | None = None) -> dict[str, MakeReader]:
    """Return what reads the rows of a file for one task or, if none is named, for each."""
    if task is not None:
        return {task: find_trained(task).reader}
    return {name: one.reader for name, one in trained_tasks().items()}


def find_kind(kind: str) -> type[AnyTask]:
    """Return the task of models that folders say do this; one that isn't known is refused."""
    found = _by_kind().get(kind)
    if found is None:
        known = ", ".join(sorted(_by_kind()))
        raise InputError(
            f"the model is for the task {kind!r}, which is not one of {known}; {plugin_hint()}"
        )
    return found


def has_kind(kind: str | None) -> bool:
    """Return whether models that folders say do this have a task."""
    return kind in _by_kind()


def is_trained_kind(kind: str | None) -> bool:
    """Return whether models that folders say do this have learned a task from examples."""
    return any(kind in task.kinds for task in trained_tasks().values())


def kinds() -> set[str]:
    """Return all that folders may say a model does."""
    return set(_by_kind())


def head_kinds() -> set[str]:
    """Return what folders may say that a head does: a language model has none."""
    return {kind for kind, task in _by_kind().items() if is_trained_kind(kind) or task.heads}


def names_classes(kind: str | None) -> bool:
    """Return whether models that folders say do this name classes, which have types."""
    tasks = trained_tasks().values()
    return any(kind in task.kinds and task.reader.classes for task in tasks)


def gives(kind: str | None) -> str:
    """Say what models give that folders say do this."""
    found = _by_kind().get(kind or "")
    return found.kinds[kind or ""] if found else repr(kind)


def _by_kind() -> dict[str, type[AnyTask]]:
    tasks = (find_task(name) for name in all_names())
    return {kind: task for task in tasks for kind in task.kinds}


@cache
def _entry_points() -> dict[str, EntryPoint]:
    """Return the tasks of installed packages; those of this package come first."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    add_choices(found)
    return {name: entry for name, entry in found.items() if name not in BUILT_IN}


def _loaded(entry: EntryPoint) -> type[AnyTask]:
    where = f"the entry point {entry.name} of {GROUP}"
    try:
        task: type[AnyTask] = entry.load()
    except Exception as error:
        raise FirthError(f"{where} can't be loaded: {type(error).__name__}: {error}") from error
    if not is_task(task) or task.name != entry.name:
        raise FirthError(f"{where} is no task of that name")
    return task
