"""What the columns of an input hold, and how its table was written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Cell = Literal["text", "whole", "number", "truth", "texts", "json", "label"]  # what a column holds


@dataclass(frozen=True)
class TableLayout:
    """The rows of an input, and how its table was written."""

    count: int
    columns: dict[str, Cell]
    delimiter: str = ","
    quotes: bool = True  # whether quotes stand around fields
    marked: bool = (
        False  # whether a byte order mark is wanted, without which Excel misreads a csv in UTF-8
    )
    schema: Path | None = None  # a parquet file, whose types are kept


def cell_of(value: Any) -> Cell | None:
    """Return what a value is; None where there is none."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "texts"
    if isinstance(value, int) and not isinstance(value, bool):
        return "whole" if abs(value) < 1 << 63 else "json"
    kinds: dict[type, Cell | None] = {type(None): None, str: "text", bool: "truth", float: "number"}
    return kinds.get(type(value), "json")


def widest(one: Cell | None, other: Cell | None) -> Cell | None:
    """Return what a column holds that holds both."""
    if one is None or other is None or one == other:
        return one or other
    return "number" if {one, other} == {"whole", "number"} else "json"


def columns_of(
    rows: Iterable[Mapping[str, Any]], known: Iterable[str] = ()
) -> tuple[int, dict[str, Cell]]:
    """Count rows, and say what each of their columns holds."""
    found: dict[str, Cell | None] = dict.fromkeys(known)
    count = 0
    for row in rows:
        count += 1
        for name, value in row.items():
            found[name] = widest(found.get(name), cell_of(value))
    return count, {name: kind or "text" for name, kind in found.items()}
