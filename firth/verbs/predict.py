"""Answer a file of texts with whatever the model does: a class, a number, named spans, blanks filled, the text continued."""

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import tee
from pathlib import Path
from typing import Any, NamedTuple, Protocol, get_args

from firth.base.arguments import (
    as_path,
    as_real,
    as_strings,
    as_whole,
    check_choice,
    check_flags,
    check_names,
    check_string,
)
from firth.base.errors import InputError
from firth.base.files import refuse_existing
from firth.base.progress import Progress
from firth.data.examples import Example, Labelled, Line
from firth.data.record import on_a_line, shortened
from firth.data.window import Long
from firth.evaluation.scorer import figure
from firth.folders.bundle import refuse_unusable_head
from firth.output.answers import TABLES, answers_file, check_ending, refuse_twins
from firth.predictor import MOST_ANSWERS, Predictor, load_predictor, say_coverage, say_unmatched
from firth.predictor import Progress as Told
from firth.reading.columns import USUAL
from firth.reading.format import Format
from firth.reading.layout import Cell, TableLayout
from firth.reading.source import Given, Source, opened
from firth.tasks.classify import Classify, Decision, likeliest
from firth.tasks.classify import as_json as decision_json
from firth.tasks.classify import as_text as decision_text
from firth.tasks.pretrain import Blank, Filled, Pretrain
from firth.tasks.pretrain import as_json as filled_json
from firth.tasks.regress import Regress
from firth.tasks.tag import as_json as spans_json
from firth.verbs.rate import Asked, Rating
from firth.verbs.write import Completing, Writing, manner

TOP = 5  # pieces for each blank, or ends of each line, where nothing is said
# What ends like the name of a file is one, also with a blank in it.
FILES = {
    ".csv",
    ".tsv",
    ".tab",
    ".txt",
    ".json",
    ".jsonl",
    ".ndjson",
    ".parquet",
    ".arrow",
    ".feather",
    ".xls",
    ".xlsx",
    ".ods",
}
FILES |= {".conll", ".bio", ".iob", ".iob2", ".gz", ".zst", ".bz2", ".xz", ".zip"}
# Fields of an answer as an object that a column of the answers has too.
TWINS = {"label": "predicted_label", "value": "predicted_value", "spans": "predicted_spans"}


class Use(Protocol):
    """What a model is asked for, and how that is shown."""

    columns: Mapping[str, Cell]  # of an answer in a table
    replaces: (
        bool  # whether an answer's fields are written over those of an object with the same names
    )

    def answers(self, asked: Iterable[Any], progress: Told) -> Iterator[Any]:
        """An answer for each, in order."""
        ...

    def table(self, asked: Any, answer: Any) -> str:
        """An answer as a person reads it."""
        ...

    def record(self, asked: Any, answer: Any) -> dict[str, Any]:
        """An answer as a JSON object, with what was asked."""
        ...

    def cells(self, asked: Any, answer: Any) -> dict[str, Any]:
        """An answer as the columns of a table."""
        ...


def predict_file(
    model: str | Path,
    source: str | Path = "-",
    out: str | Path | None = None,
    *,
    score: bool = False,
    complete: bool = False,
    top: int | None = None,
    tokens: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: Iterable[str] = (),
    seed: int | None = None,
    long: Long | None = None,
    field: str | None = None,
    second: str | None = None,
    encoding: str | None = None,
    form: Format | None = None,
    threads: int | None = None,
    as_lines: bool = False,
    force: bool = False,
) -> None:
    """Write an answer for each text of a file, or for one text, in order; a table's columns are kept in a file of answers."""
    source = str(source) if isinstance(source, Path) else source
    check_string("source", source)
    check_names(field=field)
    out = as_path("out", out, optional=True)
    check_flags(score=score, complete=complete, as_lines=as_lines, force=force)
    check_names(second=second, encoding=encoding)
    check_choice("form", form, get_args(Format), optional=True)
    check_choice("long", long, get_args(Long), optional=True)
    top = as_whole("top", top, 1, MOST_ANSWERS, optional=True)
    tokens, top_k = (
        as_whole("tokens", tokens, 1, optional=True),
        as_whole("top_k", top_k, 1, optional=True),
    )
    temperature = None if temperature is None else as_real("temperature", temperature)
    top_p = None if top_p is None else as_real("top_p", top_p, most=1.0)
    stop, seed = as_strings("stop", stop), as_whole("seed", seed, optional=True)
    target = Path(out) if out is not None else None
    if target is not None:
        check_ending(target)
        refuse_existing(target, force)
    if score and complete:
        raise InputError("--score rates texts and --complete ends them: ask for one of the two")
    given = {
        "tokens": tokens,
        "temperature": temperature,
        "top-k": top_k,
        "top-p": top_p,
        "stop": tuple(stop),
        "seed": seed,
    }
    named = {name: value for name, value in given.items() if value not in (None, ())}
    refuse_unusable_head(model)
    _refuse_name(source, field, second, form)
    predictor = load_predictor(model, threads)
    trained = predictor.bundle.columns if field is None and second is None else None
    wanted = Source(source, field or USUAL, encoding, second, form, trained)
    with opened(wanted, columns=target is not None and target.suffix in TABLES) as texts:
        lists = Asked.of(texts) if score and not is_text(source) else None
        say_unmatched(predictor)
        use = _use(
            predictor,
            named,
            score,
            complete,
            top or TOP,
            long,
            as_lines or target is not None,
            lists is not None,
        )
        fills = isinstance(use, Answering) and isinstance(use.task, Pretrain)
        if top is not None and not fills and not isinstance(use, Completing):
            raise InputError("--top is for filling blanks and for --complete")
        if isinstance(use, Writing | Completing) and second:
            raise InputError("--second is not for continuing a text")
        asked = _asked(texts, lists, single=isinstance(use, Writing | Completing))
        shown, rows = tee(asked.rows)
        with (
            Progress("predicting", "texts", asked.total) as progress,
            _target(use, asked, target, force, as_lines) as add,
        ):
            for one, answer in zip(
                shown, use.answers((row.example for row in rows), progress), strict=True
            ):
                add(one, answer)
        (lists or texts).say()
    say_coverage(predictor)


def _use(
    predictor: Predictor,
    named: dict[str, Any],
    score: bool,
    complete: bool,
    top: int,
    long: Long | None,
    lines: bool,
    lists: bool,
) -> Use:
    """What is asked for; options that are for something else are refused."""
    speaks = predictor.bundle.kind == "continue"
    if score or complete or (named and not speaks):
        _ = predictor.bundle.language  # refuses any other model
    allowed = {"tokens"} if complete else set() if score else set(named)
    if wrong := sorted(set(named) - allowed):
        raise InputError(
            f"--{wrong[0]} is for continuing a text, not for --{'score' if score else 'complete'}"
        )
    if speaks and not score and long not in (None, "cut"):
        raise InputError(
            f"--long {long} is not for continuing a text: of one that is too long the end is read"
        )
    if score:
        return Rating(predictor, long or "slide", lines, lists)
    if complete:
        return Completing(predictor, top, named.get("tokens"))
    return (
        Writing(predictor, manner(named))
        if speaks
        else Answering(predictor, top, long or predictor.bundle.long)
    )


def _refuse_name(source: str, field: str | None, second: str | None, form: Format | None) -> None:
    """Refuse a source that is neither a text nor a file before anything is loaded."""
    if not source:
        raise InputError(
            "the text is empty; an empty text goes in as a line of a file, or of standard input"
        )
    if is_text(source):
        if second or field is not None:
            raise InputError(
                f"--{'second' if second else 'text'} names a column of a file, and {shortened(source)} is a text"
            )
        if form:
            raise InputError(
                f"--format is for a file or standard input, and {shortened(source)} is a text"
            )
    elif source != "-" and not Path(source).exists():
        if not Path(source).suffix:
            raise InputError(
                f"there is no file {source!r}; a text of one word goes in on standard input, with - for the file"
            )
        cure = (
            "; a text that ends like a file's name goes in on standard input, with - for the file"
            if " " in source
            else ""
        )
        raise InputError(f"there is no file {source!r}{cure}")


class _Asked(NamedTuple):
    """What to answer: the rows of an input, how many texts they have, and how the input was written, where that is known."""

    rows: Iterable[Given]
    total: int | None
    layout: TableLayout | None
    title: str


def _asked(texts: Source, lists: Asked | None, single: bool) -> _Asked:
    """What to answer; reading a file once beforehand finds whatever is wrong before any work is done."""
    if is_text(texts.name):
        text = texts.name
        return _Asked(
            [Given(Line(text), {"text": text})], 1, TableLayout(1, {"text": "text"}), "the text"
        )
    if lists:
        return _Asked(lists.given(), lists.count(), lists.layout(), texts.title)
    layout = texts.survey()
    rows = texts.given()
    return _Asked(
        map(texts.alone, rows) if single else rows,
        layout.count if layout else None,
        layout,
        texts.title,
    )


def is_text(source: str) -> bool:
    """Tell a text from a file's name: a name exists, or looks like a path or like a file."""
    if source == "-":
        return False
    try:
        path = Path(source)
        return (
            not path.exists()
            and (" " in source or "[" in source)
            and path.suffix.lower() not in FILES
        )
    except OSError:  # too long to be a name
        return True


@contextmanager
def _target(
    use: Use, asked: _Asked, target: Path | None, force: bool, as_lines: bool
) -> Iterator[Callable[[Given, Any], None]]:
    """Give a function that prints an answer, or writes it beside its row."""
    if target is None:
        yield lambda one, answer: print(_printed(use, one.example, answer, as_lines))
        return
    lines = target.suffix == ".jsonl"
    own = [*use.columns, *(["shares"] if lines and "best_label" in use.columns else [])]
    own = [] if lines and use.replaces else own
    kept: set[str] = set()  # columns that were said to stay

    def check(columns: Collection[str]) -> None:
        refuse_twins(target, columns, own, asked.title)
        for name in [
            name
            for name in TWINS
            if lines and name in columns and TWINS[name] in own and name not in kept
        ]:
            kept.add(name)
            said = f"{asked.title} has a column {name!r}, which is kept: the answers are in {TWINS[name]!r}"
            print(f"note: {said}", file=sys.stderr)

    if asked.layout:
        check(asked.layout.columns)
    with answers_file(target, force, asked.layout or TableLayout(0, {}), use.columns) as add:

        def write(one: Given, answer: Any) -> None:
            if asked.layout is None:
                check(one.row)
            fields = use.record(one.example, answer) if lines else {}
            if lines and use.replaces:
                add(one.row | fields)
            else:
                new = {
                    name: value for name, value in fields.items() if name not in _taken(asked, one)
                }
                add(one.row | new | use.cells(one.example, answer))

        yield write


def _taken(asked: _Asked, one: Given) -> Collection[str]:
    """Return the fields of the input, which an answer leaves alone, also in the rows that lack them."""
    if asked.layout is not None:
        return asked.layout.columns
    # Standard input is read once: a later object may have a field that this one lacks.
    lines = list(one.row) == [USUAL]
    return one.row if lines else {*one.row, *TWINS, USUAL, "second"}


def _printed(use: Use, asked: Any, answer: Any, as_lines: bool) -> str:
    return (
        json.dumps(use.record(asked, answer), ensure_ascii=False)
        if as_lines
        else use.table(asked, answer)
    )


class Answering:
    """The task that a model's head is for."""

    replaces = False
    columns: Mapping[str, Cell]

    def __init__(self, predictor: Predictor, top: int, long: Long) -> None:
        self.predictor, self.long = predictor, long
        self.task = predictor.task(top)
        match self.task:
            case Classify(several=several):
                label: Cell = "texts" if several else "label"
                self.columns = {
                    "predicted_label": label,
                    "best_label": label,
                    "confidence": "number",
                }
            case Regress():
                self.columns = {"predicted_value": "number"}
            case Pretrain():
                self.columns = {"blanks": "json"}
            case _:
                self.columns = {"predicted_spans": "json"}

    def answers(self, asked: Iterable[Example], progress: Told) -> Iterator[Any]:
        """An answer for each text or pair."""
        return self.predictor.stream(self.task, asked, self.long, progress)

    def table(self, asked: Example, answer: Any) -> str:
        """An answer as a person reads it."""
        match answer:
            case Filled(text, blanks):
                return "\n".join([text, *(line for blank in blanks for line in _blank(blank))])
            case Decision(_, confidence, _):
                return f"{confidence:7.2%}  {on_a_line(decision_text(answer))}"
            case float(value):
                return figure(value)
            case found:
                spans = [
                    f"  {f.start}-{f.end}  {on_a_line(f.label)}  {f.confidence:.2%}" for f in found
                ]
                return "\n".join([asked.text, *(spans or ["  nothing"])])

    def record(self, asked: Example, answer: Any) -> dict[str, Any]:
        """An answer as a JSON object, with what was asked."""
        second = asked.second if isinstance(asked, Labelled) else None
        given = {"text": asked.text} | ({} if second is None else {"second": second})
        match answer:
            case Filled():
                return filled_json(answer)
            case Decision():
                return given | decision_json(answer)
            case float(value):
                return given | {"value": value}
            case found:
                return given | {"spans": spans_json(asked.text, found)}

    def cells(self, asked: Example, answer: Any) -> dict[str, Any]:
        """An answer as the columns of a table; a label that isn't sure enough is only the best one."""
        match answer:
            case Filled():
                return {"blanks": filled_json(answer)["blanks"]}
            case Decision(label, confidence, shares):
                several = isinstance(self.task, Classify) and self.task.several
                best = likeliest(shares, several)
                best_label = label if label is not None else best if several else best[0]
                return {
                    "predicted_label": label,
                    "best_label": best_label,
                    "confidence": confidence,
                }
            case float(value):
                return {"predicted_value": value}
            case found:
                return {"predicted_spans": spans_json(asked.text, found)}


def _blank(blank: Blank) -> list[str]:
    choices = [f"    {choice.probability:7.2%}  {choice.piece}" for choice in blank.choices]
    return [
        f"  characters {blank.start}-{blank.end}",
        *(choices or ["    cut off before this blank"]),
    ]
