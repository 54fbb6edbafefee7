"""Tasks and families of a user's own are found by name: registered, or installed with an entry point."""

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

import firth
from firth.base import errors
from firth.base.errors import FirthError, InputError, add_choices, on_command_line
from firth.cli.root import plugin_files
from firth.families import registry as families
from firth.families.bert import FAMILY as BERT
from firth.families.layout import read_own_head
from firth.tasks import registry as tasks
from firth.tasks.regress import TASK as REGRESS

PACKAGE = """
from dataclasses import replace
from firth.families.bert import FAMILY
from firth.tasks.regress import Regress

class Height(Regress):
    name = "height"
    kinds = {"height": "a height"}

TALL = replace(FAMILY, name="tall", model_type="tall")
OTHER = replace(FAMILY, name="other", model_type="else")
"""
POINTS = """
[firth.tasks]
height = heights:Height
tag = heights:Height

[firth.families]
tall = heights:TALL
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Forget what a test registered or installed."""
    with (
        mock.patch.dict(tasks._registered),
        mock.patch.dict(families._known),
        mock.patch.object(errors, "_choices", set(errors._choices)),
    ):
        yield
    errors._option_pattern.cache_clear()
    tasks._entry_points.cache_clear()
    sys.modules.pop("heights", None)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, points: str = POINTS) -> None:
    """Put a package with entry points on the path."""
    record = folder / "heights-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: heights\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(points)
    (folder / "heights.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    tasks._entry_points.cache_clear()


def test_an_installed_package_brings_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    assert tasks.all_names()[-1] == "height"
    assert families.names()[-1] == "tall"
    assert "heights" not in sys.modules  # the names alone import nothing
    assert tasks.trained_names() == [
        "answer",
        "choice",
        "classify",
        "height",
        "regress",
        "tag",
        "translate",
    ]
    assert tasks.find_kind("height").name == "height"
    assert tasks.find_task("tag").__module__ == "firth.tasks.tag"  # never replaced
    found = families.by_model_type("tall", "here")
    assert found is families.by_name("tall")
    assert found.name == "tall"


def test_an_installed_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    with pytest.raises(InputError, match="there is a task 'height' already"):
        firth.register(type("Mine", (REGRESS,), {"name": "height", "kinds": {}}))
    with pytest.raises(InputError, match="an installed package has a family tall already"):
        firth.register(replace(BERT, name="mine", model_type="tall"))


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ("[firth.tasks]\nx = heights:Height\n", "x of firth.tasks is no task of that name"),
        ("[firth.tasks]\nx = nowhere:X\n", "x of firth.tasks can't be loaded: ModuleNotFound"),
        ("[firth.families]\nx = heights:Height\n", "x of firth.families is no Family"),
        ("[firth.families]\nx = heights:nothing\n", "x of firth.families can't be loaded: Attr"),
        (
            "[firth.families]\nother = heights:OTHER\n",
            "the model_type 'else': both must be 'other'",
        ),
    ],
)
def test_a_wrong_entry_point_is_named(
    points: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, points)
    name = "other" if "other" in points else "x"
    find = tasks.find_task if "tasks" in points else families.by_name
    with pytest.raises(FirthError, match=said):
        find(name)


def test_what_is_registered_is_found_and_returned() -> None:
    mine = type("Mine", (REGRESS,), {"name": "mine", "kinds": {"mine": "a number"}})
    assert firth.register(mine) is mine
    assert firth.register(mine) is mine  # again
    assert tasks.find_kind("mine") is mine
    family = replace(BERT, name="mine", model_type="mine-1")
    assert firth.register(family) is family
    assert firth.register(family) is family
    assert families.by_model_type("mine-1", "here") is family


def test_a_name_that_is_taken_is_refused() -> None:
    firth.register(replace(BERT, name="mine", model_type="mine-1"))
    for changes in ({"name": "mine"}, {"model_type": "mine-1"}, {"name": "gpt"}):
        values = {"name": "new", "model_type": "new"} | changes
        with pytest.raises(InputError, match=r"there is a family (mine|gpt) .* already"):
            firth.register(replace(BERT, **values))
    with pytest.raises(InputError, match="models of the task 'regress' are already called"):
        firth.register(type("Mine", (REGRESS,), {"name": "mine"}))
    with pytest.raises(InputError, match=r"takes a subclass of firth.tasks.task.Task or a firth"):
        firth.register(REGRESS())  # type: ignore[type-var]


def test_an_unknown_folder_names_the_cure() -> None:
    page = {"task": "stars", "head": {}}
    with pytest.raises(InputError, match=r"'stars' .*; a plugin may bring it: firth.register\("):
        read_own_head(page, 2, "here", {"tag"})
    with pytest.raises(InputError, match=r"'odd' .*; a plugin may bring it: firth.register\("):
        families.by_model_type("odd", "here")
    with on_command_line(), pytest.raises(InputError, match=r"may bring it: --plugin FILE$"):
        tasks.find_kind("stars")


def test_names_are_values_of_options_in_messages() -> None:
    said = "use --task {0}, or --model {0} (--task is)"
    assert str(InputError(said.format("tag"))) == "use task='tag', or model='tag' (task= is)"
    assert str(InputError(said.format("odd1ty"))).startswith("use task='odd1ty'")
    assert str(InputError(said.format("oddity"))).startswith("use task= oddity")
    add_choices(["oddity"])
    assert str(InputError(said.format("oddity"))) == (
        "use task='oddity', or model='oddity' (task= is)"
    )


def test_files_are_found_anywhere_before_the_dashes() -> None:
    words = ["--plugin", "a.py", "check", "--plugin=b.py", "x", "--", "--plugin", "c.py"]
    assert plugin_files(words) == ["a.py", "b.py"]
    assert plugin_files(["check", "--plugin"]) == []
