"""Text that every Python installation has: the language reference and the library's docstrings."""

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def documents() -> Iterator[list[str]]:
    """Yield documents as lists of paragraphs.

    Each topic of the reference is one, then the docstrings of each module.
    """
    for _, text in sorted(topics.items()):
        yield _paragraphs(text)
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError):  # what can't be read is not needed
            continue
        yield _docstrings(tree)


def _docstrings(tree: ast.Module) -> list[str]:
    """Return the paragraphs of all docstrings of a module."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, WITH_DOCSTRING):
            found += _paragraphs(ast.get_docstring(node) or "")
    return found


def _paragraphs(text: str) -> list[str]:
    """Return the parts between blank lines, each on one line."""
    parts = text.split("\n\n")
    return [" ".join(part.split()) for part in parts if part.strip()]


def write(path: Path) -> None:
    """Write all documents to one text file, a blank line between two."""
    written = ["\n".join(document) for document in documents() if document]
    path.write_text("\n\n".join(written) + "\n", encoding="utf-8")
