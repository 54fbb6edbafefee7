"""Text that every Python installation carries: the language's reference and the docstrings of the standard library."""

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics


def documents() -> Iterator[list[str]]:
    """Documents as lists of paragraphs: a topic of the reference each, then a module's docstrings each."""
    for _, text in sorted(topics.items()):
        yield _paragraphs(text)
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError):  # what can't be read is not needed
            continue
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = [
            ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)
        ]
        yield [paragraph for text in found for paragraph in _paragraphs(text)]


def _paragraphs(text: str) -> list[str]:
    """Parts between blank lines, each on one line."""
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def write(path: Path) -> None:
    """Put all documents into one text file, a blank line between two."""
    path.write_text(
        "\n\n".join("\n".join(document) for document in documents() if document) + "\n",
        encoding="utf-8",
    )
