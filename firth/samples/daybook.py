"""The day book of the tickets' shop, made by rules: a tiny model learns it in seconds."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGES = 800
ENTRIES = 4  # a page
SEED = 1957


class Ware(NamedTuple):
    """Something that the shop sells, and what customers write about it."""

    name: str
    fault: str
    praise: str


WARES = (
    Ware("copper kettle", "the spout leaks", "the tea is hot in a minute"),
    Ware("garden chair", "one leg snapped", "it stands in the garden all year"),
    Ware("reading lamp", "the light flickers", "the light is soft and warm"),
    Ware("coffee grinder", "the motor has stopped", "the coffee is better than ever"),
    Ware("wool blanket", "the moths have been at it", "it is warm in the coldest night"),
    Ware("bread bin", "the lid does not close", "the bread stays fresh for a week"),
    Ware("oak shelf", "there is a crack in the wood", "it carries all the books"),
    Ware("wall clock", "it loses an hour a day", "it tells the right time"),
)
PLACES = ("Lyon", "Cork", "Aarhus", "Naples", "Umeå", "Galway", "Rotterdam", "Graz")
PEOPLE = ("Ms Okafor", "Mr Haddad", "Tomas Lind", "Ewa Nowak")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


# {ware}, {fault} and {praise} are of the page; the others are drawn for each entry.
TEMPLATES = (
    "A customer in {place} ordered a {ware}.",
    "{person} packed the {ware} on {day} and gave it to the courier.",
    "The courier left the {ware} with a neighbour in {place}.",
    "The {ware} arrived in {place} on {day}.",
    "The customer in {place} is happy with the {ware} and writes that {praise}.",
    "The customer complains that the {ware} is broken: {fault}.",
    "{person} sent a new {ware} to {place} and paid the postage.",
    "The customer did not like the {ware} and sent it back to the shop.",
    "{person} checked the {ware} and gave the money back.",
    "The customer was charged twice for the {ware}.",
    "{person} found the mistake in the bill and gave the money back.",
    "Nobody was at home in {place}, so the courier took the {ware} away again.",
)


def documents() -> Iterator[list[str]]:
    """Yield the pages of the book, each the entries of one ware; they are the same every time."""
    draw = random.Random(SEED)
    for _ in range(PAGES):
        ware = draw.choice(WARES)
        templates = draw.sample(TEMPLATES, ENTRIES)
        yield [_entry(template, ware, draw) for template in templates]


def _entry(template: str, ware: Ware, draw: random.Random) -> str:
    """Fill in a template for a ware."""
    return template.format(
        ware=ware.name,
        fault=ware.fault,
        praise=ware.praise,
        place=draw.choice(PLACES),
        person=draw.choice(PEOPLE),
        day=draw.choice(DAYS),
    )


def write(path: Path) -> None:
    """Write the book to a text file, a blank line between two pages."""
    pages = ["\n".join(page) for page in documents()]
    path.write_text("\n\n".join(pages) + "\n", encoding="utf-8")
