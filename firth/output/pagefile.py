"""Where a page is written."""

from pathlib import Path

from firth.base.arguments import as_path
from firth.base.errors import InputError
from firth.base.files import new_file, refuse_existing

SUFFIX = ".html"


def checked_target(out: str | Path | None, force: bool) -> Path | None:
    """Return where a page goes; what is no .html file, or is there already, is refused."""
    name = as_path("out", out, optional=True)
    if name is None:
        return None
    target = Path(name)
    if target.suffix != SUFFIX:
        raise InputError(f"{target}: a page is written to {SUFFIX}")
    refuse_existing(target, force)
    return target


def save_page(page: str, target: Path | None, force: bool) -> None:
    """Write a page, if it is to be written."""
    if target is not None:
        with new_file(target, force) as path:
            path.write_text(page, encoding="utf-8")
