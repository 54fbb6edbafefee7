"""Rows of a benchmark: ours against a named rival, for people or as JSON lines."""

import json
from typing import NamedTuple


class Row(NamedTuple):
    """One comparison; the ratio is above 1 where ours is better."""

    name: str
    ours: float
    theirs: float
    against: str
    ratio: float
    unit: str
    goal: float | None = None


def show(rows: list[Row], as_json: bool) -> None:
    """Print rows; those that we lose stay in."""
    if as_json:
        for row in rows:
            print(json.dumps(row._asdict()))
        return
    print(f"{'what':34}{'ours':>12}{'theirs':>12}  {'unit':12}{'ratio':>7}{'goal':>7}  against")
    for row in rows:
        goal = "" if row.goal is None else f"{row.goal:.2f}"
        print(
            f"{row.name:34}{row.ours:12,.2f}{row.theirs:12,.2f}  {row.unit:12}{row.ratio:7.2f}{goal:>7}  {row.against}"
        )
