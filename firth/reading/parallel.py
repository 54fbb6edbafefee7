"""Two parallel files as records: line n of the one is the source of line n of the other."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from firth.data.record import Fault, Numbered, Record, refuse_nul
from firth.reading.columns import SOURCES, TARGETS
from firth.reading.format import Opened
from firth.text.lines import Report, raw_lines

SOURCE, TARGET = SOURCES[0], TARGETS[0]
UNEQUAL = "lines"  # the kind of fault of two files that are not parallel


def open_parallel(source: Path, target: Path, encoding: str | None, report: Report) -> Opened:
    """Open two files of plain text, whatever they are called."""
    lines = Numbered(raw_lines(source, encoding, report))
    rows = _rows(lines, raw_lines(target, encoding, report), target)
    return Opened("parallel", (SOURCE, TARGET), rows, lines)


def _rows(sources: Numbered, targets: Iterator[str], target: Path) -> Iterator[Record]:
    """Yield the pairs of lines; where one file ends before the other, a last record says so."""
    number = 0
    for number, (source, text) in enumerate(zip_longest(sources, targets), 1):
        if source is None or text is None:
            yield Record(number, _unequal(number, source, sources, targets, target))
            return
        yield Record(number, _pair(source, text))


def _pair(source: str, target: str) -> dict[str, str] | Fault:
    """Return a row of two lines, or what is wrong with them."""
    row = {SOURCE: source.removesuffix("\r"), TARGET: target.removesuffix("\r")}
    try:
        for text in row.values():
            refuse_nul(text)
    except Fault as fault:
        return fault
    return row


def _unequal(
    number: int, source: str | None, sources: Numbered, targets: Iterator[str], target: Path
) -> Fault:
    """Return that the files have different numbers of lines, counting those that are left."""
    more = sum(1 for _ in (targets if source is None else sources))
    longer = number + more
    own, other = number - 1, longer
    if source is not None:
        own, other = longer, number - 1
    said = f"is where the files part: this one has {own:,} lines and {target} has {other:,}"
    return Fault(UNEQUAL, said)
