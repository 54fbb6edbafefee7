"""The folders import each other only as the design's table says; import-linter judges, by pyproject.toml."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Files that may import by a name held in a string, which import-linter cannot see.
BY_NAME = {"__init__.py", "families/family.py", "tasks/registry.py"}
MODULES = {"scikit_learn": "sklearn", "umap_learn": "umap"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package inside `folder` with the contracts of this project."""
    program = (
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports;"
        "sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True, no_logo=True))"
    )
    command = [sys.executable, "-c", program, str(ROOT / "pyproject.toml")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def imports_by_name(source: str) -> bool:
    """Whether a file imports something that only its strings name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            if called in ("import_module", "__import__"):
                return True
    return False


def uses_root(source: str) -> bool:
    """Whether a file reaches for the package's public names, which would lead around the layers."""
    allowed = {path.stem for path in (ROOT / "firth").iterdir()} | {"__version__"}
    used = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "firth"
        ):
            used.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module == "firth":
            used |= {name.name for name in node.names}
        elif isinstance(node, ast.Import):
            used |= {
                f"as {name.asname}" for name in node.names if name.name == "firth" and name.asname
            }
    return not used <= allowed


def test_every_import_is_in_the_table() -> None:
    run = lint(ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("base/new.py", "import firth.text.there"),  # upward
        ("text/new.py", "import firth.data.there"),
        ("nn/new.py", "from firth.base import there"),  # nn imports nothing of ours
        ("models/new.py", "from firth.text.there import x"),  # above, but not in the brackets
        ("predictor.py", "from firth.models import there"),
        ("cli/new.py", "def f():\n    import firth.folders.there"),  # inside a function too
        ("fresh/new.py", "import firth.base.there"),  # a folder that has no line in the table
        ("text/new.py", "from firth.base import name"),  # a name out of an __init__
        ("text/new.py", "import torch"),
        ("tasks/new.py", "import transformers"),
    ],
)
def test_the_linter_sees_a_wrong_import(path: str, line: str, tmp_path: Path) -> None:
    package = make(tmp_path)
    target = package / path
    target.parent.mkdir(exist_ok=True)
    (target.parent / "__init__.py").touch()
    target.write_text(line + "\n")
    run = lint(tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 broken" in run.stdout


def test_the_linter_lets_a_right_import_pass(tmp_path: Path) -> None:
    package = make(tmp_path)
    (package / "text/new.py").write_text("from firth.base import there\nimport numpy\n")
    (package / "cli/new.py").write_text("def f():\n    from firth.verbs.there import x\n")
    (package / "predictor.py").write_text("from firth.folders.there import x\nimport torch\n")
    run = lint(tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


def make(folder: Path) -> Path:
    """A package of the project's shape with one file `there.py` in each folder."""
    package = folder / "firth"
    for name in (
        "base",
        "text",
        "data",
        "nn",
        "models",
        "tasks",
        "families",
        "folders",
        "verbs",
        "cli",
    ):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").write_text("name = 1\n")
        (package / name / "there.py").write_text("x = 1\n")
    for name in ("__init__.py", "predictor.py"):
        (package / name).write_text("x = 1\n")
    return package


def test_the_table_is_not_led_around() -> None:
    files = {
        path.relative_to(ROOT / "firth").as_posix(): path.read_text()
        for path in (ROOT / "firth").rglob("*.py")
    }
    assert {name for name, source in files.items() if imports_by_name(source)} <= BY_NAME
    assert not [name for name, source in files.items() if uses_root(source)]


def test_leading_around_is_seen() -> None:
    assert imports_by_name("import importlib\nimportlib.import_module('firth.verbs.embed')")
    assert imports_by_name("__import__('torch')")
    assert uses_root("def f():\n    import firth\n    firth.load('x')")
    assert uses_root("import firth as f")
    assert uses_root("from firth import load")
    assert not uses_root("from firth import __version__, base")
    assert not uses_root("import firth\nfirth.__version__")
    assert not uses_root("import firth.base.errors\nfirth.base.errors.FirthError")


def undeclared(source: str) -> set[str]:
    """The libraries that a file imports without right: the core's anywhere, an extra's only inside a function."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [
        line
        for name, lines in project["optional-dependencies"].items()
        if name != "dev"
        for line in lines
    ]
    core, optional = (
        {MODULES.get(name, name) for name in names(lines)}
        for lines in (project["dependencies"], extras)
    )
    tree = ast.parse(source)
    inside = {
        node
        for function in ast.walk(tree)
        if isinstance(function, FUNCTIONS)
        for node in ast.walk(function)
    }
    found = set()
    for node in ast.walk(tree):
        for module in modules(node):
            allowed = core | optional if node in inside else core
            if module not in allowed | sys.stdlib_module_names | {"firth"}:
                found.add(module)
    return found


def modules(node: ast.AST) -> list[str]:
    """The top-level modules that one statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    return [node.module.split(".")[0]] if isinstance(node, ast.ImportFrom) and node.module else []


def names(requirements: list[str]) -> list[str]:
    """The names of distributions, as their modules are spelt."""
    return [re.split(r"[^\w-]", line)[0].replace("-", "_") for line in requirements]


def test_what_is_imported_is_declared() -> None:
    files = {
        path.relative_to(ROOT).as_posix(): undeclared(path.read_text())
        for path in (ROOT / "firth").rglob("*.py")
    }
    assert {name: found for name, found in files.items() if found} == {}


def test_an_undeclared_import_is_seen() -> None:
    assert undeclared("import click") == {"click"}
    assert undeclared("import pyarrow.parquet") == {"pyarrow"}
    assert undeclared("def f():\n    from pytest import mark") == {"pytest"}
    assert not undeclared(
        "import sklearn.metrics, json, torch\ndef f():\n    import pyarrow, prometheus_client"
    )


def test_init_files_hold_no_logic() -> None:
    for path in (ROOT / "firth").rglob("__init__.py"):
        if path.parent != ROOT / "firth":
            body = ast.parse(path.read_text()).body
            statements = [node for node in body if not isinstance(node, ast.Expr)]
            assert not statements, f"{path.relative_to(ROOT)} holds more than a docstring"
