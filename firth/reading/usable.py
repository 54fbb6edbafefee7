"""The examples of a file: rows that can't be used are left out, counted and named, and too many of them stop the run."""

import sys
from collections.abc import Iterator, Mapping

from firth.base.errors import InputError
from firth.data.examples import LOOK_MISSING, Example
from firth.data.record import shortened
from firth.reading.readers import UNLABELLED, Reading, Row

MOST_REJECTED = 0.001  # share of rows
MOST_NAMED = 20
WHOLE = (
    "unreadable",
    "types",
)  # faults of more than a row: nobody knows what is missing, or which label is meant


class Usable:
    """A file's examples as a stream that may be gone through again; after the first time, `settle` says what was left out."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._rejected: list[Row] = []  # the first of them
        self._unlabelled = 0  # line of the first

    def __iter__(self) -> Iterator[Example]:
        return (example for _, example in self.numbered())

    def numbered(self) -> Iterator[tuple[int, Example]]:
        """The same, each with its line."""
        self._rejected, self._unlabelled = [], 0
        for row in self.reading:
            if row.example is not None:
                yield row.line, row.example
            elif row.fault is not None and row.fault.kind in WHOLE:
                raise InputError(f"{self.reading.path}:{row.line} {row.fault}")
            elif row.fault is not None and row.fault.kind == UNLABELLED:
                self._unlabelled = self._unlabelled or row.line
            elif len(self._rejected) < MOST_NAMED:
                self._rejected.append(row)

    def settle(self) -> None:
        """Name the rows that were left out, or stop where they are too many."""
        path, counts = self.reading.path, self.reading.counts
        if counts.rejected > MOST_REJECTED * counts.rows:
            first = self._rejected[0]
            task = f" --task {self.reading.task}" if self.reading.task else ""
            said = f"{counts.rejected:,} of {counts.rows:,} rows can't be used (firth check{task} names them)"
            raise InputError(f"{path}:{first.line} {first.fault}; {said}")
        if not counts.rows:
            raise InputError(f"{path} has no examples")
        column = self.reading.label_column
        if not counts.usable:
            raise InputError(
                f"{path}: none of its {counts.rows:,} rows has a label in column {column!r}"
            )
        if counts.unlabelled:
            what = (
                f"{counts.unlabelled:,} of {counts.rows:,} rows have no label in column {column!r}"
            )
            print(
                f"note: {path}: {what} and were skipped (first: line {self._unlabelled})",
                file=sys.stderr,
            )
        for row in self._rejected:
            print(f"note: {path}:{row.line} {row.fault}; the row is left out", file=sys.stderr)
        if counts.rejected > len(self._rejected):
            print(
                f"note: {path}: {counts.rejected - len(self._rejected):,} more rows are left out",
                file=sys.stderr,
            )
        if counts.repaired:
            print(
                f"note: {path}: {counts.repaired:,} rows have characters that could not be read",
                file=sys.stderr,
            )


def warn_of_missing(path: object, labels: Mapping[str, int]) -> None:
    """Warn of classes that look like missing values, which `--missing` treats as unlabelled."""
    for label, count in labels.items():
        if label.strip().lower() in LOOK_MISSING:
            what = f"{count:,} rows have the label {shortened(label)}, which counts as a class"
            print(
                f"WARNING: {path}: {what}; --missing {label.strip()} leaves them out",
                file=sys.stderr,
            )
