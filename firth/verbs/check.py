"""Find what is wrong with data before training on it."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from firth.base.arguments import as_path, check_choice, check_names
from firth.base.errors import InputError
from firth.base.notes import note
from firth.base.progress import Progress
from firth.corpus.files import corpus_files, passed_over
from firth.data.examples import Example
from firth.reading.columns import Named
from firth.reading.labels import Level
from firth.reading.readers import Reading
from firth.reading.survey import Finding, Findings, Survey, survey
from firth.reading.wordtests import read_word_test
from firth.tasks.registry import readers, trained_tasks

ROWS_BETWEEN = 1000


class CheckedFile(NamedTuple):
    """What was counted in one file."""

    file: str
    format: str
    task: str | None  # None of plain text
    rows: int
    kept: int
    repaired: int
    rejected: int
    unlabelled: int
    replaced: int  # characters that could not be read
    documents: int  # of plain text
    sentences: int  # of plain text
    labels: dict[str, object]  # figures of the labels or numbers, by name
    labels_summary: str  # the same, for a person

    def as_json(self) -> dict[str, object]:
        """Return the figures as a JSON object."""
        figures = self._asdict()
        del figures["labels"], figures["labels_summary"]
        if self.task is None:
            return figures
        del figures["documents"], figures["sentences"]
        return figures | self.labels


class CheckReport(NamedTuple):
    """What is wrong with data: each kind is counted in full, and kept up to a limit."""

    data: str
    dev: str | None
    files: tuple[CheckedFile, ...]
    counts: dict[Level, dict[str, int]]  # of each level and kind
    findings: tuple[Finding, ...]

    def total(self, level: Level) -> int:
        """Return how many findings of a level there are, kept or not."""
        return sum(self.counts[level].values())

    @property
    def errors(self) -> int:
        """How many errors there are; with any the data should not be trained on."""
        return self.total("error")

    @property
    def warnings(self) -> int:
        """How many warnings there are."""
        return self.total("warning")

    @property
    def notes(self) -> int:
        """How many notes there are."""
        return self.total("note")


def check(
    data: str | Path,
    *,
    task: str | None = None,
    dev: str | Path | None = None,
    model: str | Path | None = None,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    encoding: str | None = None,
    missing: str | Sequence[str] = (),
) -> CheckReport:
    """Return what is wrong with a file of examples or a corpus."""
    data = as_path("data", data)
    dev = as_path("dev", dev, optional=True)
    model = as_path("model", model, optional=True)
    check_choice("task", task, tuple(sorted(trained_tasks())), optional=True)
    check_names(text=text, second=second, label=label, encoding=encoding)
    named = Named.of(text, second, label)
    words = [missing] if isinstance(missing, str) else list(missing)
    findings = Findings()
    fit = _Fit(model) if model else None
    paths = corpus_files([Path(data)])
    for path in paths:
        _refuse_word_test(path, encoding)
    if dev is not None and len(paths) > 1:
        raise InputError(f"--dev goes with one file, and {data} has {len(paths)}")
    if Path(data).is_dir():
        left_out = passed_over([Path(data)])
        if left_out:
            note(left_out)

    surveys = []
    with Progress("checking", "rows") as progress:
        watch = _Watch(progress, fit)
        for path in paths:
            try:
                reading = Reading(path, named, encoding, readers(task), words)
            except InputError as error:
                if len(paths) == 1:
                    raise
                others = f"{path} is one of {len(paths):,} files: check it alone, or leave it out"
                raise InputError(f"{error}; {others}") from error
            surveys.append(survey(reading, findings, None, watch))
        if dev is not None:
            watch.fit = None  # a model is not trained on it
            same = readers(task or surveys[0].reading.task)
            reading = Reading(Path(dev), named, encoding, same, words)
            surveys.append(survey(reading, findings, surveys[0], watch))
    if fit:
        fit.say(findings, surveys[0])

    counts = {level: dict(found) for level, found in findings.counts.items()}
    files = tuple(_checked_file(found) for found in surveys)
    return CheckReport(data, dev, files, counts, tuple(findings.kept))


def _refuse_word_test(path: Path, encoding: str | None) -> None:
    """Refuse a test of word vectors, from which nothing is trained."""
    if path.is_file() and read_word_test(path, encoding) is not None:
        cure = f"firth evaluate MODEL {path} measures word vectors with it"
        raise InputError(f"{path} is a test of word vectors, and no data to train on: {cure}")


def _checked_file(found: Survey) -> CheckedFile:
    """Return what a survey counted."""
    reading = found.reading
    counts = reading.counts
    return CheckedFile(
        file=str(reading.path),
        format=reading.kind,
        task=reading.task,
        rows=counts.rows,
        kept=counts.kept,
        repaired=counts.repaired,
        rejected=counts.rejected,
        unlabelled=counts.unlabelled,
        replaced=reading.report.replaced,
        documents=found.documents,
        sentences=found.sentences,
        labels={} if reading.task is None else found.labels.facts(),
        labels_summary="" if reading.task is None else found.labels.summary(),
    )


class _Watch:
    """Show every example to the progress, and to the model if there is one."""

    def __init__(self, progress: Progress, fit: "_Fit | None") -> None:
        self.progress = progress
        self.fit = fit
        self.done = 0

    def __call__(self, line: int, example: Example) -> None:
        self.done += 1
        if self.done % ROWS_BETWEEN == 0:
            self.progress(self.done)
        if self.fit:
            self.fit.gauge(line, example)


class _Fit:
    """Measure how data fit a model; only this loads torch."""

    def __init__(self, model: str) -> None:
        from firth.folders.read import load
        from firth.reading.gauge import Gauge

        self.model = model
        self.bundle = load(model)
        self.gauge = Gauge(self.bundle.tokenizer, self.bundle.length)

    def say(self, findings: Findings, found: Survey) -> None:
        """Add notes on how the data fit the model."""
        from firth.recipes.estimate import EPOCHS, cost

        gauge = self.gauge
        gauge.finish()
        if gauge.longer:
            said = (
                f"is the first of {gauge.longer:,} texts (of {gauge.texts:,}) that are longer "
                f"than the {gauge.length} tokens that {self.model} reads; "
                f"the longest, on line {gauge.longest_line}, has {gauge.longest:,}"
            )
            findings.add("note", "long", found.reading, gauge.first_longer, said)
        if gauge.misaligned:
            said = (
                f"has the first of {gauge.misaligned:,} spans (of {gauge.spans:,}) that begin or "
                f"end inside a word; {self.model} learns and finds whole words"
            )
            findings.add("note", "torn", found.reading, gauge.first_misaligned, said)
        if gauge.pieces:
            share = gauge.unknown / gauge.pieces
            unknown = f"{gauge.unknown:,} of {gauge.pieces:,} pieces ({share:.2%})"
            said = f"has {unknown} that are unknown to {self.model}"
            findings.add("note", "unknown", found.reading, None, said)
        if gauge.texts and found.reading.task:
            seconds, size = cost(self.bundle.encoder, gauge)
            time = f"{seconds:,.0f} s"
            if seconds >= 90:
                minutes = seconds / 60
                time = f"{minutes:,.0f} minutes"
            gigabytes = size / 1e9
            said = (
                f"takes about {time} and {gigabytes:.1f} GB to fine-tune {self.model} on, "
                f"{EPOCHS} times over, on this machine"
            )
            findings.add("note", "estimate", found.reading, None, said)
