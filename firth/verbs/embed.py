"""Embed a file of texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import tee
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Generic,
    NamedTuple,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    overload,
)

from firth.base.arguments import as_path, check_choice, check_flags, check_names, check_string
from firth.base.notes import note
from firth.base.progress import Progress
from firth.data.window import Long
from firth.folders.find import find
from firth.output.vectors import check_target, writer
from firth.output.written import Written
from firth.reading.format import Format
from firth.reading.source import Source, opened
from firth.tasks.embed import (
    Combine,
    Embed,
    Pool,
    Spans,
    TextPool,
    TokenPool,
    Vectors,
    parse_layers,
)

if TYPE_CHECKING:
    from firth.predictor import Predictor

V_co = TypeVar("V_co", covariant=True)


class Embedded(NamedTuple, Generic[V_co]):
    """A text with its vector, or with the vectors of its words or pieces."""

    text: str
    vectors: V_co


class EmbedOptions(TypedDict, total=False):
    """Options of `firth.embed`, besides `pool`."""

    layers: str
    combine: Combine
    long: Long
    field: str
    encoding: str | None
    form: Format | None
    threads: int | None
    force: bool


@overload
def embed(
    model: str | Path,
    source: str | Path,
    out: str | Path,
    *,
    pool: Pool | None = None,
    **options: Unpack[EmbedOptions],
) -> Written:
    """Write the vectors to a file."""


@overload
def embed(
    model: str | Path,
    source: str | Path = "-",
    out: None = None,
    *,
    pool: TextPool | None = None,
    **options: Unpack[EmbedOptions],
) -> Iterator[Embedded[Vectors]]:
    """Return the vectors one by one."""


@overload
def embed(
    model: str | Path,
    source: str | Path = "-",
    out: None = None,
    *,
    pool: TokenPool,
    **options: Unpack[EmbedOptions],
) -> Iterator[Embedded[Spans]]:
    """Return the vectors one by one."""


def embed(
    model: str | Path,
    source: str | Path = "-",
    out: str | Path | None = None,
    *,
    layers: str = "-1",
    combine: Combine = "mean",
    pool: Pool | None = None,
    long: Long = "cut",
    field: str = "text",
    encoding: str | None = None,
    form: Format | None = None,
    threads: int | None = None,
    force: bool = False,
) -> Written | Iterator[Embedded[Vectors | Spans]]:
    """Embed each text of a file, or each of its words or pieces, in order.

    Vectors are written to `out`; without it they are returned one by one, as they come.
    """
    source = as_path("source", source)
    out = as_path("out", out, optional=True)
    check_string("layers", layers)
    check_choice("combine", combine, get_args(Combine))
    check_choice("pool", pool, get_args(Pool), optional=True)
    check_choice("long", long, get_args(Long))
    check_string("field", field, empty=False)
    check_names(encoding=encoding)
    check_flags(force=force)
    target = Path(out) if out is not None else None
    chosen = parse_layers(layers)
    check_target(target, pool not in ("words", "none"), force)
    find(str(model))

    with ExitStack() as stack:
        texts = stack.enter_context(opened(Source(source, field, encoding, form=form)))
        total = texts.count()
        # Torch is loaded only now: whatever can be refused without it is refused at once.
        from firth.predictor import load_predictor, say_unmatched

        predictor = load_predictor(model, threads)
        say_unmatched(predictor)
        task = predictor.embedder(pool, chosen, combine)
        open_source = stack.pop_all()
    vectors = _embed_texts(open_source, texts, total, predictor, task, long)
    if target is None:
        return vectors
    return _write(vectors, target, force)


def _embed_texts(
    open_source: ExitStack,
    texts: Source,
    total: int | None,
    predictor: Predictor,
    task: Embed,
    long: Long,
) -> Iterator[Embedded[Vectors | Spans]]:
    """Yield each text with its vectors, and close the source at its end."""
    from firth.predictor import Coverage, say_coverage

    coverage = Coverage()
    count = 0
    with open_source:
        shown, given = tee(texts)
        with Progress("embedding", "texts", total) as progress:
            answers = predictor.stream(task, given, long, progress, coverage)
            for text, answer in zip(shown, answers, strict=True):
                yield Embedded(text, answer)
                count += 1
        texts.say()
    if not count:
        note(f"{texts.title} holds no rows: there is nothing to embed")
    say_coverage(coverage)


def _write(vectors: Iterator[Embedded[Vectors | Spans]], target: Path, force: bool) -> Written:
    """Write vectors to a file."""
    count = 0
    with writer(target, force) as add:
        for text, answer in vectors:
            add(text, answer)
            count += 1
    return Written(target, count)
