"""Write docs/map.md: one line a file of the package, from the module docstrings.

    python -m docs.map

Packages stand in the order of the table in docs/design.md, with its words for each.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "map.md"
PACKAGE_ROW = re.compile(r"^  (\w+)/ +(\S.*)$", re.MULTILINE)
INTRODUCTION = """# Map of the code

One line a file, taken from the module docstrings by `python -m docs.map`. Packages stand in the
order of [their layers](design.md#layers): each imports only from those above it.
"""


def page() -> str:
    """Return the text of docs/map.md."""
    parts = [INTRODUCTION]
    for name, about in _packages().items():
        parts.append(f"## {name}\n\n{_sentence(about)}\n")
        parts.append(_table(ROOT / "firth" / name))
    parts.append("## firth\n\nModules beside the packages.\n")
    parts.append(_table(ROOT / "firth"))
    return "\n".join(parts)


def _packages() -> dict[str, str]:
    """Return every package with what the table of the design says of it."""
    there = {path.parent.name for path in (ROOT / "firth").glob("*/__init__.py")}
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    described = {name: about for name, about in PACKAGE_ROW.findall(design) if name in there}
    missing = sorted(there - set(described))
    if missing:
        raise SystemExit(f"docs/design.md has no row for {', '.join(missing)}")
    return described


def _sentence(words: str) -> str:
    """Return some words as a sentence."""
    return f"{words[0].upper()}{words[1:].rstrip('.')}."


def _table(folder: Path) -> str:
    """Return the table of the modules in a folder; an `__init__` without a docstring is none."""
    rows = ["| file | what it holds |", "|---|---|"]
    for path in sorted(folder.glob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        if docstring is None:
            if path.name == "__init__.py":
                continue
            raise SystemExit(f"{path.relative_to(ROOT)} has no docstring")
        first, _, _ = docstring.partition("\n\n")
        about = " ".join(first.split()).replace("|", "\\|")
        link = f"../{path.relative_to(ROOT).as_posix()}"
        rows.append(f"| [{path.name}]({link}) | {about} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
