"""What `firth check` prints."""

from collections import Counter
from collections.abc import Iterator, Sequence

from firth.reading.survey import LEVELS, MOST_FINDINGS, Finding
from firth.verbs.check import CheckedFile, CheckReport

SHOWN = 20  # lines of a level
SHOWN_OF_A_KIND = 5  # where a level has more than it may show


def report_as_json(report: CheckReport) -> dict[str, object]:
    """Return a report as a JSON object."""
    return {
        "files": [file.as_json() for file in report.files],
        "errors": report.errors,
        "warnings": report.warnings,
        "notes": report.notes,
        "counts": report.counts,
        "findings": [finding._asdict() for finding in report.findings],
        "most_findings_of_a_kind": MOST_FINDINGS,
    }


def report_lines(report: CheckReport) -> Iterator[str]:
    """Yield a report as a person reads it."""
    for file in report.files:
        yield _summary(file)
    for level in LEVELS:
        of_level = [finding for finding in report.findings if finding.level == level]
        shown = _shown(of_level)
        yield from map(str, shown)
        hidden = report.total(level) - len(shown)
        if hidden:
            counts = Counter(report.counts[level])
            kinds = [f"{kind} {number:,}" for kind, number in counts.most_common()]
            listed = ", ".join(kinds)
            yield f"{level}: {hidden:,} more are not shown; of each kind: {listed}"
    totals = [many(report.total(level), level) for level in LEVELS]
    yield ", ".join(totals)


def _shown(findings: Sequence[Finding]) -> list[Finding]:
    """Return all findings, or where they are too many the first of every kind."""
    if len(findings) <= SHOWN:
        return list(findings)
    by_kind: dict[str, list[Finding]] = {}
    for finding in findings:
        by_kind.setdefault(finding.kind, []).append(finding)
    shown: list[Finding] = []
    for of_kind in by_kind.values():
        shown += of_kind[:SHOWN_OF_A_KIND]
    return shown[:SHOWN]


def _summary(file: CheckedFile) -> str:
    """Describe one file."""
    unit = "line" if file.format == "text" else "row"
    rows = many(file.rows, unit)
    summary = f"{file.file}: {file.format}, {rows}"
    faults = {
        "repaired": file.repaired,
        "rejected": file.rejected,
        "unlabelled": file.unlabelled,
    }
    for fault, number in faults.items():
        if number:
            summary += f", {number:,} {fault}"
    if file.task is None:
        documents = many(file.documents, "document")
        sentences = many(file.sentences, "sentence")
        summary += f"; {documents}, {sentences}"
    else:
        summary += f"; {file.task}{file.labels_summary}"
    if file.replaced:
        summary += f", {file.replaced:,} characters replaced"
    return summary


def many(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where that is needed."""
    plural = "" if number == 1 else "s"
    return f"{number:,} {noun}{plural}"
