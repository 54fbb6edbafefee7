"""The examples of a fine-tuning run: read with their lines, held out, and looked at for leaks."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from firth.base.errors import DataWarning, InputError
from firth.base.notes import note, progress_line, warn
from firth.data.examples import SHAPES, Example, is_pair
from firth.data.record import listed
from firth.folders.heads import Head
from firth.reading.columns import Named
from firth.reading.readers import Reading
from firth.reading.split import split, words_of
from firth.reading.trained import Hashes, was_trained_on
from firth.reading.usable import Usable, warn_of_missing
from firth.recipes.settings import FinetuneSettings
from firth.tasks.registry import is_trained_kind, readers


class TrainDev(NamedTuple):
    """Examples to learn from and to measure on."""

    train: list[Example]
    dev: list[Example]


class ExampleFile(NamedTuple):
    """The usable examples of a file, with the line of each."""

    name: str
    reading: Reading
    examples: list[Example]
    lines: list[int]

    @classmethod
    def read(cls, s: FinetuneSettings, name: str, target: str | None = None) -> Self:
        """Read a file for the task; say which of its rows can't be used."""
        columns = Named.of(s.text, s.second, s.label)
        beside = Path(target) if target else None
        known = readers(s.task)
        reading = Reading(Path(name), columns, s.encoding, known, s.missing, beside=beside)
        usable = Usable(reading)
        lines = []
        examples = []
        for line, example in usable.numbered():
            lines.append(line)
            examples.append(example)
        usable.settle()

        if reading.reader.classes:
            labels = Counter(label for example in examples for label in example.names)
            warn_of_missing(name, labels)
        return cls(name, reading, examples, lines)

    def place_of(self, wanted: Example) -> str | None:
        """Return the file and line of an example, if it is one of these."""
        for line, example in zip(self.lines, self.examples, strict=True):
            if example is wanted:
                return f"{self.name}:{line}"
        return None


def refuse_other_shape(train: ExampleFile, dev: ExampleFile) -> None:
    """Stop before training where one file has pairs and the other single texts."""
    learned = {is_pair(example) for example in train.examples}
    measured = {is_pair(example) for example in dev.examples}
    if learned and measured and not learned & measured:
        has = SHAPES[measured.pop()]
        where = f"{train.name} has {SHAPES[learned.pop()]}"
        raise InputError(f"{dev.name} has {has}, where {where}")


def split_off_dev(s: FinetuneSettings, file: ExampleFile, record: Path) -> TrainDev:
    """Hold some examples of a file out to measure on; write their lines to `record`."""
    kept, held = split(file.examples, s.seed)
    count = len(file.examples)
    progress_line(f"{len(held):,} of {count:,} examples are held out to measure on")

    lines = json.dumps([file.lines[i] for i in held])
    record.write_text(f"{lines}\n", encoding="utf-8")

    train = [file.examples[i] for i in kept]
    dev = [file.examples[i] for i in held]
    unlearned = sorted(_names(dev) - _names(train))
    if unlearned:
        only = f"only examples that are held out have {listed(unlearned)}"
        note(f"{only}, so that none is learned")
    return TrainDev(train, dev)


def _names(examples: Sequence[Example]) -> set[str]:
    return {name for example in examples for name in example.names}


def say_shared(train: ExampleFile, dev: ExampleFile) -> None:
    """Say how many texts to measure on are also learned from."""
    known = {words_of(example) for example in train.examples}
    shared = sum(words_of(example) in known for example in dev.examples)
    if shared:
        count = len(dev.examples)
        both = f"{shared:,} of {count:,} texts of {dev.name} are in {train.name} too"
        note(
            f"{both}: of them the scores say how well they were learned by heart "
            "(firth check names them)"
        )


def warn_of_trained(
    s: FinetuneSettings, head: Head, trained: Hashes | None, held: Sequence[Example]
) -> None:
    """Warn of held-out rows that the base model was trained on.

    A new head doesn't unlearn them.
    """
    if trained is None:
        if s.folds and is_trained_kind(head.kind):
            note(
                f"{s.model} was fine-tuned before; where that was on these texts, "
                "the metrics of the folds are too good"
            )
        return
    known = sum(was_trained_on(trained, example) for example in held)
    if known:
        warn(
            f"{known:,} of {len(held):,} held-out rows are texts that {s.model} "
            "was trained on; the metrics on them say little (--dev FILE names new ones)",
            DataWarning,
        )
