"""The sets of a GLUE task, written once as JSON lines that every command reads."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from firth.base.errors import InputError
from firth.base.files import new_file, read_json, sha256
from firth.base.notes import note
from firth.data.examples import Labelled
from firth.reading.glue import GlueFolder, GlueTask
from firth.reading.glue_rows import PlainRow, labelled_rows, rows_to_answer
from firth.reading.split import split

SOURCE = "source.json"  # beside the rows: which files they are from, and how many they are
TEXTS = ("text", "text_a", "context")  # fields of which a row has one
SEED = 1  # of the rows that are held out where there is no dev set


class GlueData(NamedTuple):
    """The sets of a task as files, with how often each label occurs in each."""

    task: GlueTask
    folder: Path
    rows: dict[str, int]
    labels: dict[str, dict[str, int]]  # of labelled sets; empty where labels are numbers
    held_out: bool  # whether the dev set was taken from the train set

    def file(self, part: str) -> Path:
        """Return the file of a set."""
        return self.folder / f"{part}.jsonl"


def prepare_glue(found: GlueFolder, folder: Path) -> GlueData:
    """Write the sets of a task to a folder, unless they are there already.

    Where the published files are others than before, they are refused.
    """
    sources = {
        part: {"file": str(path), "sha256": sha256(path)} for part, path in found.files.items()
    }
    record = folder / SOURCE
    if record.exists():
        page = read_json(record)
        if page["sources"] != sources:
            raise InputError(f"{folder} was made of other files; --force begins again")
    else:
        page = {"sources": sources} | _write_sets(found, folder)
        with new_file(record, force=True) as fresh:
            fresh.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")
    return GlueData(found.task, folder, page["rows"], page["labels"], page["held_out"])


def _write_sets(found: GlueFolder, folder: Path) -> dict[str, Any]:
    """Write each set; return what is to be remembered of them."""
    task = found.task
    labelled: dict[str, list[PlainRow]] = {}
    to_answer: dict[str, list[PlainRow]] = {}
    for part, path in found.files.items():
        if part not in task.submissions:
            if part == "train" or part in task.dev_sets:
                labelled[part] = labelled_rows(path, task)
            continue
        rows = rows_to_answer(path, task)
        if rows is None:
            note(f"{path} has labels, so that it is no test set of GLUE: it is left out")
        else:
            to_answer[part] = rows
    held_out = "dev" not in labelled
    if held_out:
        labelled["train"], labelled["dev"] = _hold_out(labelled["train"])
        count = len(labelled["dev"])
        note(f"{task.name} has no dev file: {count:,} rows of its train file are held out")

    sets = labelled | to_answer
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in sets.items():
        _write_lines(folder / f"{part}.jsonl", rows)
    labels = {}
    if task.labels:
        for part, rows in labelled.items():
            labels[part] = Counter(str(row["label"]) for row in rows)
    counts = {part: len(rows) for part, rows in sets.items()}
    return {"rows": counts, "labels": labels, "held_out": held_out}


def _hold_out(rows: list[PlainRow]) -> tuple[list[PlainRow], list[PlainRow]]:
    """Return the rows to train on, and a tenth to measure on."""
    examples = []
    for row in rows:
        text = next(row[name] for name in TEXTS if name in row)
        examples.append(Labelled(text, row["label"], row.get("text_b")))
    kept, held = split(examples, SEED)
    return [rows[number] for number in kept], [rows[number] for number in held]


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with new_file(path, force=True) as fresh, fresh.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
