"""The samples as files, to try the commands on."""

from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from firth.base.errors import InputError
from firth.samples import daybook
from firth.samples.tickets import all_tickets, held_out, write_table

# Rows with candidates of which one is right, and what proposed them.
LISTS = {
    "speech.jsonl": "a speech recogniser",
    "translations.jsonl": "a translator",
    "spelling.jsonl": "a spelling checker",
    "readings.jsonl": "an OCR engine",
}


class Sample(NamedTuple):
    """A file that was written, and what is in it."""

    path: Path
    content: str


def write_samples(folder: Path) -> list[Sample]:
    """Write the shop's day book, its tickets and lists of candidates into a folder.

    Nothing is overwritten.
    """
    train = [ticket for ticket in all_tickets() if not held_out(ticket)]
    test = [ticket for ticket in all_tickets() if held_out(ticket)]
    training = f"{len(train)} tickets to train on: id, message, queue"
    samples = [
        Sample(folder / "daybook.txt", "text to pretrain on"),
        Sample(folder / "tickets-train.csv", training),
        Sample(folder / "tickets-test.csv", f"{len(test)} other tickets, to evaluate on"),
    ]
    for name, proposer in LISTS.items():
        samples.append(Sample(folder / name, f"candidates of {proposer}, to choose among"))

    for sample in samples:
        if sample.path.exists():
            raise InputError(
                f"{sample.path} exists already: name another folder (firth demo --files DIR)"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"{folder} is a file: name a folder (firth demo --files DIR)") from None

    daybook.write(samples[0].path)
    write_table(samples[1].path, train)
    write_table(samples[2].path, test)
    for name in LISTS:
        (folder / name).write_bytes((files("firth.samples") / name).read_bytes())
    return samples
