"""Small models of every task with random weights, and the sample tickets as files to measure them on."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from firth.folders.find import find
from firth.metrics.decisions import sheet
from firth.samples.tickets import MARKED, Ticket, tickets
from firth.tasks.tag import tags_of
from firth.text.tokenizer import Tokenizer
from tests.journey.small import small_model

QUEUES = tuple(sorted(MARKED))
TYPES = ("person", "place", "product")
TASKS = ("classify", "several", "regress", "tag", "answer", "choice")
LABELS: dict[str, tuple[str, ...]] = {
    "classify": QUEUES,
    "several": (*QUEUES[:3], "long"),
    "tag": tuple(tags_of(TYPES)),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "classify": {"temperature": 2.0, "threshold": 0.3},
    "answer": {"stride": 16, "answer_margin": 0.0},
    "choice": {"temperature": 2.0},
}
THRESHOLD = 0.35  # of the decisions that the classifier's folder has


class Place(NamedTuple):
    """A folder with a model for each task, called as the task, and a file for each."""

    folder: Path

    def model(self, task: str) -> Path:
        """The folder of a model."""
        return self.folder / task

    def data(self, task: str) -> Path:
        """The file that a model is measured on."""
        return self.folder / f"{task}.{'csv' if task == 'classify' else 'jsonl'}"


def make_place(folder: Path) -> Place:
    """Write models and files."""
    place = Place(folder)
    words = Tokenizer.open(find("minilm"))
    for task in TASKS:
        answers = [(frozenset("a"), frozenset("a"), THRESHOLD)]
        labels = LABELS.get(task, ())
        made = {"decisions": sheet(answers, labels, (0.9, 0.99)).page()}
        small_model(place.model(task), task, words, labels, made, **SETTINGS.get(task, {}))
        write_rows(place.data(task), [row(task, ticket) for ticket in tickets()])
    return place


def row(task: str, ticket: Ticket) -> dict[str, Any]:
    """A ticket as an example of a task."""
    text, names = ticket.text, ticket.names
    if task == "classify":
        return {"text": text, "label": ticket.about}
    if task == "several":
        given = [ticket.about] if ticket.about in LABELS["several"] else []
        return {"text": text, "label": given + ["long"] * (len(text) > 60)}
    if task == "regress":
        return {"text": text, "label": len(text) / 10}
    if task == "tag":
        return {"text": text, "spans": [one._asdict() for one in names]}
    if task == "answer":
        answers = [{"text": text[one.start : one.end], "start": one.start} for one in names[:1]]
        return {"question": "What is named?", "context": text, "answers": answers}
    options = list(dict.fromkeys((ticket.about, *QUEUES)))[:4]
    return {
        "context": text,
        "choices": sorted(options),
        "label": sorted(options).index(ticket.about),
    }


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows as a table or as JSON lines."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in rows]
        path.write_text("".join(lines), encoding="utf-8")
    return path
