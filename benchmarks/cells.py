"""Long benchmarks are made of cells: each is written down when it is finished, and not made again."""

import argparse
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
Cell = dict[str, Any]


class Cells:
    """The finished cells of one benchmark, a JSON line each, in a file that is committed."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / f"{name}.jsonl"

    def __call__(self) -> list[Cell]:
        """What is written down."""
        return (
            [json.loads(line) for line in self.path.read_text().splitlines()]
            if self.path.exists()
            else []
        )

    def by_name(self) -> dict[str, Cell]:
        """The same by the cells' names."""
        return {cell["name"]: cell for cell in self()}

    def add(self, cell: Cell) -> None:
        """Write a cell down, and print it."""
        line = json.dumps(cell)
        FOLDER.mkdir(exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line, flush=True)


def commit() -> str:
    """The commit that is measured."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=FOLDER.parent
    ).stdout.strip()


def command_line(
    description: str | None,
    cells: Cells,
    names: Sequence[str],
    make: Callable[..., Cell],
    table: Callable[[], None],
    plot: Callable[[Path], None] | None = None,
    needs: Sequence[str] = ("FIRTH_DATA", "FIRTH_MODELS"),
    quick: bool = False,
) -> None:
    """Name the cells, show the finished ones, or make those that were asked for and aren't there.

    `needs` are variables that name folders; with `quick`, there is an option to try cells without writing them down.
    """
    arguments = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("names", nargs="*", metavar="NAME")
    arguments.add_argument("--list", action="store_true", help="name the cells")
    arguments.add_argument("--table", action="store_true", help="print the finished cells")
    if plot:
        arguments.add_argument("--plot", type=Path, help="draw the finished cells into a folder")
    if quick:
        arguments.add_argument(
            "--quick",
            action="store_true",
            help="try the cells within three minutes; nothing is written down",
        )
    options = arguments.parse_args()
    done = cells.by_name()
    if options.list:
        print("\n".join(f"{name}{' (done)' if name in done else ''}" for name in names))
    elif options.table:
        table()
    elif plot and options.plot:
        plot(options.plot)
    else:
        folders = [Path(os.environ[need]) for need in needs]
        for name in options.names or names:
            if quick and options.quick:
                print(json.dumps(make(name, *folders, quick=True)), flush=True)
            elif name not in done:
                cells.add(make(name, *folders))
