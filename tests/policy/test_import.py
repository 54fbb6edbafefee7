"""Starting Firth costs next to nothing: no torch, and bare Python plus 0.3 s at most."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BARE = ["-c", "pass"]
STARTS = {"import": ["-c", "import firth"], "help": ["-m", "firth", "--help"]}
HEAVY = ("torch", "transformers", "sklearn", "scipy", "numpy", "tokenizers")
# What each start imports, told by the interpreter as it ends, whatever way it ends.
TELL = (
    "import atexit, runpy, sys\n"
    f"atexit.register(lambda: print('HEAVY', *[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr))\n"
)


def seconds(arguments: list[str]) -> float:
    """How long the processor works for one start; what else runs on the machine doesn't count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def heavy(program: str) -> list[str]:
    """The heavy libraries that are loaded when `program` ends."""
    command = [sys.executable, "-c", TELL + program]
    run = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    told = [line for line in run.stderr.splitlines() if line.startswith("HEAVY")]
    assert len(told) == 1, run.stderr
    return told[0].split()[1:]


@pytest.mark.parametrize("start", STARTS)
def test_a_start_is_quick(start: str) -> None:
    pairs = [(seconds(STARTS[start]), seconds(BARE)) for _ in range(5)]
    ours, bare = (min(column) for column in zip(*pairs, strict=True))
    assert ours <= bare + 0.3, f"{ours:.3f} s against {bare:.3f} s for bare Python"


@pytest.mark.parametrize(
    "program",
    [
        "import firth",
        "sys.argv = ['firth', '--help']; runpy.run_module('firth', run_name='__main__')",
        "import firth.base.errors, firth.cli",
        "from firth.families.registry import families, names; families(); names()",
    ],
)
def test_a_start_loads_nothing_heavy(program: str) -> None:
    assert heavy(program) == []


def test_the_registry_of_tasks_loads_no_torch() -> None:
    """What `--help`, `check` and refusals need of a task is there before a model is run."""
    assert heavy("from firth.tasks.registry import trained_names; trained_names()") == []
    every = (
        "from firth.tasks import registry; [registry.find_task(n) for n in registry.all_names()]"
    )
    assert "torch" not in heavy(f"{every}; registry.readers(); registry.kinds()")
    assert "torch" not in heavy("import firth.verbs.check")


def test_a_page_of_runs_loads_no_torch(tmp_path: Path) -> None:
    """Who looks at a run that goes on must not be in its way."""
    run = ROOT / "tests/earlier/runs/again.run"
    words = ["firth", "view", str(run), "-o", str(tmp_path / "page.html")]
    program = f"sys.argv = {words!r}; runpy.run_module('firth', run_name='__main__')"
    assert not {"torch", "scipy", "sklearn", "tokenizers"} & set(heavy(program))
    assert (tmp_path / "page.html").exists()
    served = f"from firth.verbs.curves import followed\nwith followed([{str(run)!r}]): pass"
    assert heavy(served) == ["numpy"]


def test_a_heavy_start_is_seen() -> None:
    assert heavy("import numpy") == ["numpy"]


def test_the_public_names_are_there() -> None:
    import firth

    assert firth.__all__
    for name in firth.__all__:
        assert getattr(firth, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = firth.no_such_name


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "nowhere", "a text"),
        ("predict", "minilm", "--question", "Who?"),
        ("predict", "minilm", "a.txt", "--score", "--complete"),
        ("embed", "nowhere", "a.txt"),
        ("finetune", "classify", "--model", "nowhere", "--train", "a.csv", "-o", "out"),
        ("finetune", "classify", "--model", "minilm", "--train", "nowhere.csv", "-o", "out"),
        ("glue", "nowhere", "--model", "nowhere", "-o", "out"),
        (
            "pretrain",
            "a.txt",
            "-o",
            "out",
            "--steps",
            "1",
            "--set",
            "width=100",
            "--set",
            "heads=3",
        ),
    ],
)
def test_a_refusal_loads_no_torch(words: tuple[str, ...]) -> None:
    """What a wrong option or name is told by costs well under a second."""
    program = f"sys.argv = ['firth', *{words!r}]; runpy.run_module('firth', run_name='__main__')"
    command = [sys.executable, "-c", TELL + program]
    run = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert run.returncode == 2, run.stderr
    *_, said, told = run.stderr.splitlines()
    assert said.startswith("firth: ")
    assert "torch" not in told.split()
    assert "scipy" not in told.split()
