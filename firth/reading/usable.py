"""The examples of a file: rows that can't be used are left out, counted and named.

Too many of them stop the run.
"""

from collections.abc import Iterator, Mapping

from firth.base.errors import DataWarning, InputError
from firth.base.notes import note, warn
from firth.data.examples import LOOK_MISSING, Example
from firth.data.record import shortened
from firth.reading.parallel import UNEQUAL
from firth.reading.readers import FileRow, Reading
from firth.reading.rowreader import UNLABELLED

MOST_REJECTED = 0.001  # share of rows
MOST_NAMED = 20
# Faults of more than a row: nobody knows what is missing, which label is meant, or which lines
# belong together.
WHOLE = ("unreadable", "types", UNEQUAL)


class Usable:
    """A file's examples as a stream that may be gone through again.

    After the first time, `settle` says what was left out.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._rejected: list[FileRow] = []  # the first of them
        self._unlabelled = 0  # line of the first

    def __iter__(self) -> Iterator[Example]:
        return (example for _, example in self.numbered())

    def numbered(self) -> Iterator[tuple[int, Example]]:
        """The same, each with its line."""
        self._rejected = []
        self._unlabelled = 0
        for row in self.reading:
            fault = row.fault
            if row.example is not None:
                yield row.line, row.example
            elif fault is not None and fault.kind in WHOLE:
                raise InputError(f"{self.reading.path}:{row.line} {fault}")
            elif fault is not None and fault.kind == UNLABELLED:
                self._unlabelled = self._unlabelled or row.line
            elif len(self._rejected) < MOST_NAMED:
                self._rejected.append(row)

    def settle(self) -> None:
        """Name the rows that were left out, or stop where they are too many."""
        path = self.reading.path
        counts = self.reading.counts
        rows = counts.rows
        if counts.rejected > MOST_REJECTED * rows:
            self._refuse()
        if not rows:
            raise InputError(f"{path} has no examples")
        lacks = self.reading.reader.lacks()
        if not counts.usable:
            raise InputError(f"{path}: all of its {rows:,} rows have {lacks}")

        if counts.unlabelled:
            some = f"{counts.unlabelled:,} of {rows:,} rows"
            said = f"{some} have {lacks} and were skipped"
            note(f"{path}: {said} (first: line {self._unlabelled})")
        for row in self._rejected:
            note(f"{path}:{row.line} {row.fault}; the row is left out")
        unnamed = counts.rejected - len(self._rejected)
        if unnamed > 0:
            note(f"{path}: {unnamed:,} more rows are left out")
        if counts.repaired:
            note(f"{path}: {counts.repaired:,} rows have characters that could not be read")

    def _refuse(self) -> None:
        """Stop, and say what is wrong with the first of the rows that can't be used."""
        reading = self.reading
        counts = reading.counts
        first = self._rejected[0]
        said = f"{counts.rejected:,} of {counts.rows:,} rows can't be used"
        command = "firth check"
        if reading.task:
            command += f" --task {reading.task}"
        raise InputError(
            f"{reading.path}:{first.line} {first.fault}; {said} ({command} names them)"
        )


def warn_of_missing(path: object, labels: Mapping[str, int]) -> None:
    """Warn of classes that look like missing values, which `--missing` treats as unlabelled."""
    for label, count in labels.items():
        if label.strip().lower() in LOOK_MISSING:
            what = f"{count:,} rows have the label {shortened(label)}, which counts as a class"
            warn(f"{path}: {what}; --missing {label.strip()} leaves them out", DataWarning)
