"""Find what is wrong with data before training on it."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from firth.base.arguments import as_path, check_choice, check_flags, check_names
from firth.base.errors import InputError
from firth.base.progress import Progress
from firth.corpus.files import corpus_files, passed_over
from firth.data.examples import Example
from firth.data.record import shortened
from firth.reading.columns import Named, Task
from firth.reading.readers import Reading
from firth.reading.survey import LEVELS, MOST_FINDINGS, Finding, Findings, Level, Survey, survey

SHOWN = 20  # lines of a level
SHOWN_OF_A_KIND = 5  # where a level has more than it may show
ROWS_BETWEEN = 1000


def check(
    data: str | Path,
    *,
    task: Task | None = None,
    dev: str | Path | None = None,
    model: str | None = None,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    encoding: str | None = None,
    missing: str | Sequence[str] = (),
    as_json: bool = False,
) -> None:
    """Print what is wrong with a file of examples or a corpus; errors in it are an error of the call."""
    data, dev, model = (
        as_path("data", data),
        as_path("dev", dev, optional=True),
        as_path("model", model, optional=True),
    )
    check_choice("task", task, get_args(Task), optional=True)
    check_names(text=text, second=second, label=label, encoding=encoding)
    check_flags(as_json=as_json)
    named = Named.of(text, second, label)
    words = [missing] if isinstance(missing, str) else list(missing)
    findings = Findings()
    fit = _Fit(model) if model else None
    paths = corpus_files([Path(data)])
    if dev is not None and len(paths) > 1:
        raise InputError(f"--dev goes with one file, and {data} has {len(paths)}")
    if left_out := passed_over([Path(data)]) if Path(data).is_dir() else "":
        print(f"note: {left_out}", file=sys.stderr)
    with Progress("checking", "rows") as progress:
        watch = _Watch(progress, fit)
        surveys = [
            survey(Reading(path, named, encoding, task, missing=words), findings, None, watch)
            for path in paths
        ]
        if dev is not None:
            watch.fit = None  # a model is not trained on it
            reading = Reading(
                Path(dev), named, encoding, task or surveys[0].reading.task, missing=words
            )
            surveys.append(survey(reading, findings, surveys[0], watch))
    if fit:
        fit.say(findings, surveys[0])
    print(json.dumps(_page(surveys, findings)) if as_json else "\n".join(_lines(surveys, findings)))
    errors = findings.total("error")
    if errors:
        sys.stdout.flush()
        raise InputError(f"{_many(errors, 'error')} in {data}{f' and {dev}' if dev else ''}")


class _Watch:
    """What is shown every example: the progress, and the model if there is one."""

    def __init__(self, progress: Progress, fit: "_Fit | None") -> None:
        self.progress, self.fit, self.done = progress, fit, 0

    def __call__(self, line: int, example: Example) -> None:
        self.done += 1
        if self.done % ROWS_BETWEEN == 0:
            self.progress(self.done)
        if self.fit:
            self.fit.gauge(line, example)


class _Fit:
    """How data fit a model; only this loads torch."""

    def __init__(self, model: str) -> None:
        from firth.folders.bundle import load
        from firth.reading.gauge import Gauge

        self.model, self.bundle = model, load(model)
        self.gauge = Gauge(self.bundle.tokenizer, self.bundle.length)

    def say(self, findings: Findings, found: Survey) -> None:
        """Add notes."""
        from firth.recipes.estimate import EPOCHS, cost

        gauge = self.gauge
        gauge.finish()
        if gauge.longer:
            said = (
                f"is the first of {gauge.longer:,} texts (of {gauge.texts:,}) that are longer than the {gauge.length} tokens that "
                f"{self.model} reads; the longest, on line {gauge.longest_line}, has {gauge.longest:,}"
            )
            findings.add("note", "long", found.reading, gauge.first_longer, said)
        if gauge.torn:
            said = (
                f"has the first of {gauge.torn:,} spans (of {gauge.spans:,}) that begin or end inside a word; "
                f"{self.model} learns and finds whole words"
            )
            findings.add("note", "torn", found.reading, gauge.first_torn, said)
        if gauge.pieces:
            share = (
                f"{gauge.unknown:,} of {gauge.pieces:,} pieces ({gauge.unknown / gauge.pieces:.2%})"
            )
            said = f"has {share} that are unknown to {self.model}"
            findings.add("note", "unknown", found.reading, None, said)
        if gauge.texts and found.reading.task:
            seconds, size = cost(self.bundle.encoder, gauge)
            took = f"{seconds / 60:,.0f} minutes" if seconds >= 90 else f"{seconds:,.0f} s"
            said = f"takes about {took} and {size / 1e9:.1f} GB to fine-tune {self.model} on, {EPOCHS} times over, on this machine"
            findings.add("note", "estimate", found.reading, None, said)


def _page(surveys: list[Survey], findings: Findings) -> dict[str, Any]:
    return {
        "files": [found.facts() for found in surveys],
        "errors": findings.total("error"),
        "warnings": findings.total("warning"),
        "notes": findings.total("note"),
        "counts": {level: dict(findings.counts[level]) for level in LEVELS},
        "findings": [finding._asdict() for finding in findings.kept],
        "most_findings_of_a_kind": MOST_FINDINGS,
    }


def _lines(surveys: list[Survey], findings: Findings) -> Iterator[str]:
    for found in surveys:
        yield _summary(found)
    for level in LEVELS:
        shown = _shown([finding for finding in findings.kept if finding.level == level])
        yield from map(str, shown)
        if len(shown) < findings.total(level):
            kinds = ", ".join(
                f"{kind} {number:,}" for kind, number in findings.counts[level].most_common()
            )
            yield f"{level}: {findings.total(level) - len(shown):,} more are not shown; of each kind: {kinds}"
    yield ", ".join(_many(findings.total(level), level) for level in LEVELS)


def _shown(found: list[Finding]) -> list[Finding]:
    """All, or where they are too many the first of every kind."""
    if len(found) <= SHOWN:
        return found
    kinds = dict.fromkeys(finding.kind for finding in found)
    some = [
        one
        for kind in kinds
        for one in islice((one for one in found if one.kind == kind), SHOWN_OF_A_KIND)
    ]
    return some[:SHOWN]


def _summary(found: Survey) -> str:
    reading, counts = found.reading, found.reading.counts
    bad = "".join(
        f", {number:,} {what}"
        for number, what in (
            (counts.repaired, "repaired"),
            (counts.rejected, "rejected"),
            (counts.unlabelled, "unlabelled"),
        )
        if number
    )
    if reading.task is None:
        what = f"{_many(found.documents, 'document')}, {_many(found.sentences, 'sentence')}"
    elif reading.task == "regress":
        what = (
            f"regress, numbers from {found.numbers.smallest:.12g} to {found.numbers.largest:.12g}"
            if found.numbers.count
            else "regress"
        )
    else:
        names = ", ".join(
            f"{shortened(label)[1:-1]} {number:,}" for label, number in found.labels.most_common(8)
        )
        what = f"{reading.task}, {_many(len(found.labels), 'label')} ({names}{', ...' if len(found.labels) > 8 else ''})"
    replaced = (
        f", {reading.report.replaced:,} characters replaced" if reading.report.replaced else ""
    )
    return f"{reading.path}: {reading.kind}, {_many(counts.rows, 'line' if reading.kind == 'text' else 'row')}{bad}; {what}{replaced}"


def _many(number: int, what: Level | str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
