"""Support tickets of a shop that doesn't exist, written for the tour, the demo and the tests.

`tickets.txt` has one a line: its id, its queue and the message. The queue is who must act first:
what is broken is a defect, whether or not the money is wanted back; money that was taken or not
given back is billing. A name is marked in the message: {product: copper kettle}, {place: Umeå},
{person: Ms Okafor}.
"""

import csv
import re
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

MARK = re.compile(r"\{(\w+): ([^}]+)\}")
FEW = 83  # enough for the demo and the tests, which train on them again and again
HELD_OUT = 4  # every fourth ticket, by its number, is in the test set


class Name(NamedTuple):
    """Characters of a ticket that name something, the end not included."""

    start: int
    end: int
    label: str


class Ticket(NamedTuple):
    """A ticket without its marks."""

    text: str
    about: str
    names: tuple[Name, ...]
    id: str


def _lines() -> list[list[str]]:
    """Read the id, the queue and the marked message of every ticket."""
    written = (files("firth.samples") / "tickets.txt").read_text(encoding="utf-8")
    return [line.split(" ", 2) for line in written.splitlines()]


def _by_queue() -> dict[str, list[str]]:
    """Return the marked messages of each queue."""
    found: dict[str, list[str]] = {}
    for _, queue, message in _lines():
        found.setdefault(queue, []).append(message)
    return found


MARKED = _by_queue()  # the marked messages of each queue


def tickets() -> list[Ticket]:
    """Return the first 83 tickets, one queue after another."""
    return all_tickets()[:FEW]


def all_tickets() -> list[Ticket]:
    """Return all 400 tickets, as the file has them."""
    return [_ticket(*line) for line in _lines()]


def held_out(ticket: Ticket) -> bool:
    """Return whether a ticket belongs to the test set, which is the same in every version."""
    return int(ticket.id.removeprefix("T-")) % HELD_OUT == 0


def write_table(path: Path, chosen: list[Ticket]) -> None:
    """Write tickets to a .csv file with the columns id, message and queue, ordered by id."""
    ordered = sorted(chosen, key=lambda ticket: ticket.id)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "message", "queue"])
        for ticket in ordered:
            writer.writerow([ticket.id, ticket.text, ticket.about])


def _ticket(number: str, about: str, marked: str) -> Ticket:
    """Make a ticket of a marked message: the marks become names with offsets."""
    text = ""
    names = []
    end = 0
    for match in MARK.finditer(marked):
        label, name = match.groups()
        text += marked[end : match.start()]
        names.append(Name(len(text), len(text) + len(name), label))
        text += name
        end = match.end()
    return Ticket(text + marked[end:], about, tuple(names), number)
