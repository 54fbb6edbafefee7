"""How well language models foretell a text: its lines are one stream, read once for each model."""

import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from firth.base.errors import InputError
from firth.base.files import read_json
from firth.base.progress import Progress
from firth.corpus.files import corpus_files, paragraphs, passed_over
from firth.data.record import shortened
from firth.evaluation.report import Amount, Compared, Evaluation, Measured
from firth.folders.bundle import find
from firth.metrics.perplexity import Band, Line, Perplexity
from firth.models.gpt import Gpt
from firth.predictor import Predictor, load_predictor, say_unmatched
from firth.tasks.flow import Way, flow
from firth.text.lines import Report
from firth.text.tokenizer import Encoding

LINES_AT_ONCE, CHARACTERS_AT_ONCE = 512, 1 << 18  # that are encoded together


class Text:
    """The lines of a file or of the files of a folder that are not blank, as a stream that may be gone through again."""

    def __init__(self, path: Path, fields: str = "text", encoding: str | None = None) -> None:
        self.path, self.fields, self.encoding = path, fields, encoding
        self.report = Report()

    def __iter__(self) -> Iterator[str]:
        self.report.clear()
        found = paragraphs(corpus_files([self.path]), self.fields, self.encoding, self.report)
        return (line.text for line in found if line.text.strip())

    def settle(self) -> int:
        """The number of lines; reading all once also finds whatever is wrong before any work is done."""
        count = sum(1 for _ in self)
        if not count:
            raise InputError(f"there is no text in {self.path}")
        if left_out := passed_over([self.path]):
            print(f"note: {left_out}", file=sys.stderr)
        if self.report.replaced:
            print(f"note: {self.path}: {self.report}", file=sys.stderr)
        return count


class Foretold(NamedTuple):
    """What a model made of a text."""

    tally: Perplexity
    unknown: int


def evaluate_text(
    names: Sequence[str],
    predictors: Sequence[Predictor],
    data: str | Path,
    *,
    text: str | None = None,
    encoding: str | None = None,
    long: Way | None = None,
    counts: str | Path | None = None,
) -> Evaluation:
    """Perplexity of language models on a text, with intervals over its lines; later models are compared with the first."""
    if long is not None:
        _check_long(long, names, predictors)
    fields = text or "text"
    times = count_words(counts, text=fields, encoding=encoding) if counts is not None else None
    lines = Text(Path(data), fields, encoding)
    count = lines.settle()
    found = []
    for name, predictor in zip(names, predictors, strict=True):
        whose = f"{name}: " if len(names) > 1 else ""
        say_unmatched(predictor, whose)
        with Progress(f"{whose}rating", "lines", count) as progress:
            found.append(foretell(predictor, lines, long or "slide", times, progress))
        if found[-1].tally.sums.count != count:
            raise InputError(
                f"{data} changed while it was read: it had {count:,} lines and then {found[-1].tally.sums.count:,}"
            )
    measured = tuple(_measured(name, one) for name, one in zip(names, found, strict=True))
    first = found[0].tally
    later = zip(names[1:], found[1:], strict=True)
    compared = tuple(Compared(name, names[0], one.tally.against(first)) for name, one in later)
    return Evaluation(str(data), count, 0, measured, compared)


def _check_long(long: Way, names: Sequence[str], predictors: Sequence[Predictor]) -> None:
    """Refuse a way to read long texts where no model needs one, and say which model was not made to carry."""
    gpts = [
        name
        for name, predictor in zip(names, predictors, strict=True)
        if isinstance(predictor.bundle.model, Gpt)
    ]
    if not gpts:
        raise InputError(
            f"--long {long} is for a gpt: other models read a text of any length as it is"
        )
    for name in gpts if long == "carry" else ():
        record = find(name) / "firth.json"
        made = read_json(record).get("made", {}) if record.exists() else {}
        if not made.get("settings", {}).get("carry"):
            print(
                f"note: {name} was not made with --carry: read so, it foretells a text worse than it can",
                file=sys.stderr,
            )


def _measured(name: str, found: Foretold) -> Measured:
    tally = found.tally
    scores = {
        figure: interval
        for figure, interval in tally.scores().items()
        if not figure.startswith("perplexity ")
    }
    return Measured(
        name, scores, None, 0, Amount(tally.words, tally.tokens, found.unknown, tally.bands())
    )


def count_words(
    path: str | Path, *, text: str = "text", encoding: str | None = None
) -> Counter[str]:
    """How often each word occurs in a text file, to tell rare words from frequent ones."""
    counts: Counter[str] = Counter()
    for line in Text(Path(path), text, encoding):
        counts.update(line.split())
    return counts


def by_frequency(
    model: str | Path,
    data: str | Path,
    counts: Mapping[str, int],
    *,
    text: str = "text",
    encoding: str | None = None,
    long: Way = "slide",
    threads: int | None = None,
) -> tuple[Band, ...]:
    """The perplexity of a text's words by how often each occurs in a training text, which `counts` says."""
    lines = Text(Path(data), text, encoding)
    lines.settle()
    return foretell(load_predictor(model, threads), lines, long, counts).tally.bands()


def foretell(
    predictor: Predictor,
    lines: Text,
    long: Way,
    counts: Mapping[str, int] | None = None,
    progress: Progress | None = None,
) -> Foretold:
    """Let a language model read lines in order, and add up what it says of them."""
    bundle = predictor.bundle
    tally = Perplexity(bundle.tokenizer.kind == "bytes", counts)
    strange, unknown = (
        [mark for mark in (bundle.tokenizer.unk,) if mark is not None and mark != bundle.end],
        0,
    )
    waiting: deque[tuple[str, Encoding]] = deque()

    def read() -> Iterator[list[int]]:
        for batch in _batches(lines):
            found = bundle.tokenizer.encode(batch, special=False)
            waiting.extend(zip(batch, found, strict=True))
            yield from (encoding.ids for encoding in found)

    with predictor.computing():
        for scores in flow(bundle.language, bundle.end, bundle.length, read(), long):
            text, encoding = waiting.popleft()
            if not np.isfinite(scores).all():
                raise InputError(
                    f"{lines.path}: the line {shortened(text, 60)} holds the mark that begins a text, which has no probability"
                )
            tally.add(Line(text, scores, [end for _, end in encoding.offsets]))
            unknown += sum(map(encoding.ids.count, strange))
            if progress:
                progress(tally.sums.count)
    return Foretold(tally, unknown)


def _batches(lines: Text) -> Iterator[list[str]]:
    """Lines by the batch, few where they are long."""
    batch: list[str] = []
    characters = 0
    for line in lines:
        batch.append(line)
        characters += len(line)
        if len(batch) >= LINES_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
