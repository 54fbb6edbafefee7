"""How well language models foretell a text: its lines are one stream, read once for each model."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from firth.base.errors import InputError
from firth.base.files import read_json
from firth.base.notes import note
from firth.base.progress import Progress
from firth.corpus.files import corpus_files, paragraphs, passed_over
from firth.data.record import shortened
from firth.evaluation.long_text import Way, line_likelihoods
from firth.evaluation.report import Amount, Compared, Evaluation, Measured
from firth.folders.find import find
from firth.metrics.perplexity import Band, Perplexity, ScoredLine
from firth.predictor import Predictor, load_predictor, say_unmatched
from firth.text.lines import Report
from firth.text.tokenizer import Encoding

LINES_AT_ONCE = 512  # that are encoded together
CHARACTERS_AT_ONCE = 1 << 18


class TextLines:
    """The lines of a file or a folder that are not blank, as a stream that may be read again."""

    def __init__(self, path: Path, fields: str = "text", encoding: str | None = None) -> None:
        self.path = path
        self.fields = fields
        self.encoding = encoding
        self.report = Report()

    def __iter__(self) -> Iterator[str]:
        self.report.clear()
        files = corpus_files([self.path])
        found = paragraphs(files, self.fields, self.encoding, self.report)
        return (line.text for line in found if line.text.strip())

    def settle(self) -> int:
        """Return the number of lines; reading all finds what is wrong before any work is done."""
        count = sum(1 for _ in self)
        if not count:
            raise InputError(f"there is no text in {self.path}")
        if left_out := passed_over([self.path]):
            note(left_out)
        if self.report.replaced:
            note(f"{self.path}: {self.report}")
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
    """Return the perplexity of language models on a text, with intervals over its lines.

    Later models are compared with the first.
    """
    if long is not None:
        _check_long(long, names, predictors)
    fields = text or "text"
    times = None
    if counts is not None:
        times = count_words(counts, text=fields, encoding=encoding)
    lines = TextLines(Path(data), fields, encoding)
    count = lines.settle()

    found = []
    for name, predictor in zip(names, predictors, strict=True):
        whose = f"{name}: " if len(names) > 1 else ""
        say_unmatched(predictor, whose)
        with Progress(f"{whose}rating", "lines", count) as progress:
            one = foretell(predictor, lines, long or "slide", times, progress)
        read = one.tally.sums.count
        if read != count:
            changed = f"{data} changed while it was read"
            raise InputError(f"{changed}: it had {count:,} lines and then {read:,}")
        found.append(one)

    measured = [_measured(name, one) for name, one in zip(names, found, strict=True)]
    first = found[0].tally
    compared = []
    for name, one in zip(names[1:], found[1:], strict=True):
        differences = one.tally.against(first)
        compared.append(Compared(name, names[0], differences))
    return Evaluation(str(data), count, 0, tuple(measured), tuple(compared))


def _check_long(long: Way, names: Sequence[str], predictors: Sequence[Predictor]) -> None:
    """Refuse `long` where no model needs it, and say which model was not made to carry."""
    gpts = []
    for name, predictor in zip(names, predictors, strict=True):
        if predictor.bundle.language.length is not None:
            gpts.append(name)
    if not gpts:
        others = "other models read a text of any length as it is"
        raise InputError(f"--long {long} is for a gpt: {others}")
    if long != "carry":
        return
    for name in gpts:
        record = find(name) / "firth.json"
        made = {}
        if record.exists():
            made = read_json(record).get("made", {})
        if not made.get("settings", {}).get("carry"):
            note(
                f"{name} was not made with --carry: read so, it foretells a text worse than it can"
            )


def _measured(name: str, found: Foretold) -> Measured:
    """Return the figures of one model, without the perplexities that belong to bands."""
    tally = found.tally
    figures = tally.scores()
    overall = [name for name in figures if not name.startswith("perplexity ")]
    scores = {name: figures[name] for name in overall}
    amount = Amount(tally.words, tally.tokens, found.unknown, tally.bands())
    return Measured(name, scores, None, 0, amount)


def count_words(
    path: str | Path, *, text: str = "text", encoding: str | None = None
) -> Counter[str]:
    """Count how often each word occurs in a text file, to tell rare words from frequent ones."""
    counts: Counter[str] = Counter()
    for line in TextLines(Path(path), text, encoding):
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
    """Return the perplexity of a text's words by how often a training text has them (`counts`)."""
    lines = TextLines(Path(data), text, encoding)
    lines.settle()
    predictor = load_predictor(model, threads)
    return foretell(predictor, lines, long, counts).tally.bands()


def foretell(
    predictor: Predictor,
    lines: TextLines,
    long: Way,
    counts: Mapping[str, int] | None = None,
    progress: Progress | None = None,
) -> Foretold:
    """Let a language model read lines in order, and add up what it says of them."""
    bundle = predictor.bundle
    tally = Perplexity(bundle.tokenizer.kind == "bytes", counts)
    # A vocabulary may use one token both for unknown words and for the end of a line.
    unk = bundle.tokenizer.unk if bundle.tokenizer.unk != bundle.end else None
    unknown = 0
    # Lines that were encoded and whose probabilities are not there yet.
    waiting: deque[tuple[str, Encoding]] = deque()

    def read() -> Iterator[list[int]]:
        for batch in _batches(lines):
            found = bundle.tokenizer.encode(batch, special=False)
            waiting.extend(zip(batch, found, strict=True))
            yield from (encoding.ids for encoding in found)

    with predictor.computing():
        for scores in line_likelihoods(bundle.language, bundle.end, bundle.length, read(), long):
            text, encoding = waiting.popleft()
            if not np.isfinite(scores).all():
                mark = "the mark that begins a text, which has no probability"
                raise InputError(f"{lines.path}: the line {shortened(text, 60)} holds {mark}")
            ends = [end for _, end in encoding.offsets]
            tally.add(ScoredLine(text, scores, ends))
            if unk is not None:
                unknown += encoding.ids.count(unk)
            if progress:
                progress(tally.sums.count)
    return Foretold(tally, unknown)


def _batches(lines: TextLines) -> Iterator[list[str]]:
    """Lines by the batch, few where they are long."""
    batch: list[str] = []
    characters = 0
    for line in lines:
        batch.append(line)
        characters += len(line)
        if len(batch) >= LINES_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield batch
            batch = []
            characters = 0
    if batch:
        yield batch
