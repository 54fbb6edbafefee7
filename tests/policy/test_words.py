"""Words that must not be in the repository, and calls that must not be in the package."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SELF = Path(__file__).relative_to(ROOT).as_posix()
# Where one person keeps things, and where packages and weights come from: neither is the same for the next person.
PATHS = re.compile(
    r"(?<![\w.~-])(/home/|/root\b|/Users/|/work/|/mnt/|/opt/|/tmp/|/var/tmp/|[A-Z]:\\Users\\)"
)
HOSTS = re.compile(
    r"\b(pypi\.(org|python\.org)|pythonhosted\.org|anaconda\.(org|com)|download\.pytorch\.org|huggingface\.co|hf\.co"
    r"|npmjs\.(org|com)|docker\.(io|com)|ghcr\.io|quay\.io|gcr\.io|modelscope\.cn|jfrog\.io|jsdelivr\.net|unpkg\.com)\b"
    r"|--(extra-)?index-url|--find-links|--trusted-host",
    re.IGNORECASE,
)
# Modules that run what they read. Scanning a pickle without running it (pickletools) is allowed.
MODULES = {
    "pickle",
    "_pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "jsonpickle",
}
CALLS = {
    "torch.load", "torch.jit.load", "torch.hub.load", "torch.package.PackageImporter", "yaml.load", "yaml.unsafe_load",
    "yaml.full_load", "builtins.eval", "builtins.exec", "os.system", "pandas.read_pickle",
}  # fmt: skip
NAMES = {"eval", "exec", "compile"}


def tracked() -> list[str]:
    """The files of the repository, those not yet added included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (ROOT / ".git").exists():
        names = subprocess.run(
            command, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.split("\0")
    else:  # an unpacked archive holds nothing but tracked files and what this run has made
        made = {".venv", "__pycache__", ".hypothesis", "firth.egg-info"}
        names = [
            path.relative_to(ROOT).as_posix()
            for path in ROOT.rglob("*")
            if not made & set(path.parts)
        ]
    return [name for name in names if name and (ROOT / name).is_file()]


def words(text: str) -> list[str]:
    """The machine paths and host names in a text, with their lines."""
    lines = enumerate(text.splitlines(), 1)
    return [
        f"{number}: {hit[0]}"
        for number, line in lines
        for rule in (PATHS, HOSTS)
        for hit in rule.finditer(line)
    ]


def origins(tree: ast.Module) -> dict[str, str]:
    """What each imported name of a file stands for: `from torch import load as l` gives l -> torch.load."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                found[alias.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def dotted(node: ast.expr, known: dict[str, str]) -> str:
    """The full name of `a.b.c`, or nothing for an expression that has none."""
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value, known)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def banned(source: str) -> Iterator[str]:
    """What in a Python file could run the contents of another file."""
    tree = ast.parse(source)
    known = origins(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            modules = []
        yield from (
            f"{node.lineno}: import {name}" for name in modules if name.split(".")[0] in MODULES
        )
        if isinstance(node, ast.Name | ast.Attribute) and dotted(node, known) in CALLS:
            yield f"{node.lineno}: {dotted(node, known)}"
        if isinstance(node, ast.Name) and node.id in NAMES and node.id not in known:
            yield f"{node.lineno}: {node.id}"
        if isinstance(node, ast.keyword):
            off = isinstance(node.value, ast.Constant) and node.value.value is False
            if node.arg in ("allow_pickle", "shell", "trust_remote_code") and not off:
                yield f"{node.value.lineno}: {node.arg}"


def test_no_machine_path_and_no_registry() -> None:
    found = {}
    for name in tracked():
        data = (ROOT / name).read_bytes()
        if name != SELF and b"\0" not in data:
            found[name] = words(data.decode(errors="replace"))
    assert "pyproject.toml" in found
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_nothing_read_is_run() -> None:
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for path in (ROOT / "firth").rglob("*.py")
    }
    assert sources
    found = {name: [hit.split()[-1] for hit in banned(source)] for name, source in sources.items()}
    # Only a file that the user names with --plugin is.
    allowed = {"firth/plugins.py": ["exec", "compile"]}
    assert {name: hits for name, hits in found.items() if hits} == allowed


@pytest.mark.parametrize(
    "text",
    ["see /home/ann/x", "'/work/x'", "(/tmp/v/x)", r"C:\Users\ann", "https://pypi.org/simple", "a huggingface.co/b",
     "pip install --index-url x", "=/root"],
)  # fmt: skip
def test_a_bad_word_is_seen(text: str) -> None:
    assert words(text)


@pytest.mark.parametrize(
    "text",
    [
        "a framework/x",
        "~/work/x",
        "docs/home/x",
        "/proc/self",
        "/sys/fs/cgroup",
        "https://www.apache.org/licenses/",
    ],
)
def test_a_good_word_passes(text: str) -> None:
    assert words(text) == []


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from pickle import loads", "import joblib as j", "import torch\ntorch.load('x')",
     "import torch as t\nt.load('x')", "from torch import load as l\nl('x')", "eval('1')",
     "exec('1')", "f = eval", "import builtins\nbuiltins.exec('1')", "import yaml\nyaml.load('x')",
     "import numpy as np\nnp.load('x', allow_pickle=True)", "import subprocess\nsubprocess.run('x', shell=True)"],
)  # fmt: skip
def test_a_bad_call_is_seen(source: str) -> None:
    assert list(banned(source))


@pytest.mark.parametrize(
    "source",
    ["model.eval()", "import json\njson.load(f)", "import pickletools", "import re\nre.compile('x')",
     "from safetensors.torch import load_file\nload_file('x')", "import numpy as np\nnp.load('x', allow_pickle=False)",
     "import torch\ntorch.compile(f)"],
)  # fmt: skip
def test_a_good_call_passes(source: str) -> None:
    assert list(banned(source)) == []
