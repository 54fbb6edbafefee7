"""Every public name is what it says, wherever modules are imported from, and mypy knows its types."""

import ast
import dataclasses
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import firth

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("user_script.py")
# How mypy prints numpy's arrays, whose shape is any.
SHAPE = "ndarray[tuple[Any, ...], "


def public_classes() -> Iterator[type]:
    """The public classes that are records."""
    for name in firth.__all__:
        found = getattr(firth, name)
        if dataclasses.is_dataclass(found) or hasattr(found, "_fields"):
            yield typing.cast("type", found)


def test_no_module_takes_the_place_of_a_public_name() -> None:
    """In a process of its own: import every module, then look at each public name."""
    program = """
import importlib, pkgutil, types
import firth
for module in pkgutil.walk_packages(firth.__path__, "firth."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name in firth.__all__:
    found = getattr(firth, name)
    assert callable(found) and not isinstance(found, types.ModuleType), name
    assert found.__module__.startswith("firth."), name
    assert name in dir(firth), name
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    modules = {module.name for module in pkgutil.iter_modules(firth.__path__)}
    assert modules.isdisjoint(firth.__all__)


def test_the_list_of_names_is_whole() -> None:
    assert firth.__all__ == sorted(firth.__all__)
    assert set(firth.__all__) == set(firth._LAZY)
    tree = ast.parse((ROOT / "firth/__init__.py").read_text(encoding="utf-8"))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("firth."):
            for alias in node.names:
                public = alias.asname or alias.name
                imported.add(public)
                assert firth._LAZY[public] == (node.module, alias.name)
    assert imported == set(firth.__all__)
    for name in firth.__all__:
        assert getattr(firth, name).__doc__, name


def test_every_kind_of_answer_is_public() -> None:
    for module in pkgutil.iter_modules(importlib.import_module("firth.tasks").__path__):
        importlib.import_module(f"firth.tasks.{module.name}")
    own = {kind.__name__ for kind in firth.Answer.__subclasses__() if _is_ours(kind)}
    assert own <= set(firth.__all__)


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("firth.")


def test_a_record_has_no_field_of_any_type() -> None:
    """Of all public records and of what they hold."""
    checked = list(public_classes())
    assert len(checked) > 30
    for record in checked:
        hints = typing.get_type_hints(record, localns={"AnyTask": object})
        for name, hint in hints.items():
            if not name.startswith("_"):
                assert not _holds_any(hint), (record, name, hint)


def _holds_any(hint: Any) -> bool:
    if "ndarray" in str(typing.get_origin(hint)):
        return False
    return hint is Any or any(map(_holds_any, typing.get_args(hint)))


def used_names() -> set[str]:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "firth"
    }


def revealed(path: Path) -> str:
    """Write the script with a question for the type of each name that it assigns, and return these."""
    source = SCRIPT.read_text(encoding="utf-8")
    names = {
        node.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names -= {"one", "training", "tuning", "reading", "vectors_of"}  # of a loop, or given
    asked = "".join(f"reveal_type({name})\n" for name in sorted(names))
    path.write_text(source + asked, encoding="utf-8")
    return asked


def test_mypy_knows_what_a_users_script_gets(tmp_path: Path) -> None:
    assert used_names() == set(firth.__all__)
    asked = revealed(tmp_path / "asked.py")
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "asked.py")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    types = re.findall(r'note: Revealed type is "(.*)"', ended.stdout)
    assert len(types) == asked.count("\n")
    for found in types:
        assert "Any" not in found.replace(SHAPE, ""), found


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "firth/py.typed").exists()
    assert not isinstance(firth.check, ModuleType)


def test_answers_are_json_objects() -> None:
    token = firth.TokenLikelihood(0, 1, -1.0, None)
    likelihood = firth.Likelihood("a", -1.0, 1, 1, (token,))
    answers = [
        firth.Classification("a", 0.9, {"a": 0.9, "b": 0.1}),
        firth.Number(1.5),
        firth.Choice(1, "b", 0.9, (0.1, 0.9)),
        firth.NamedSpans((firth.FoundSpan(0, 1, "x", 0.5, "a"),)),
        firth.Filled("a [MASK]", (firth.Blank(2, 8, (firth.LikelyPiece("b", 0.5),)),)),
        firth.GeneratedText("a b", " b", -1.0, True),
        firth.Completed("a", (firth.Completion("a b", " b", 0.5, True),)),
        firth.QuestionAnswer("a", 0, 1, 0.5, 0.25, (firth.AnswerSpan("a", 0, 1, 0.5),)),
        likelihood,
        firth.Translation(
            "b",
            -0.5,
            (firth.TranslationCandidate("b", -0.5),),
            (firth.AlignedWord("b", "a", 0, 0, 1.0),),
        ),
        firth.BidirectionalLikelihood("a", -1.0, -2.0, 1, 0, 1),
        firth.Ranking((firth.Candidate(0, 1.0, likelihood),)),
        firth.Ranking((firth.Candidate(0, 1.0, likelihood, -2.0, -2.5),), 0.5),
    ]
    kinds = {type(answer).__name__ for answer in answers}
    assert kinds == {kind.__name__ for kind in firth.Answer.__subclasses__() if _is_ours(kind)}
    for answer in answers:
        for written in (answer.as_json(), dataclasses.asdict(answer)):
            assert json.loads(json.dumps(written))["truncated_tokens"] == 0
