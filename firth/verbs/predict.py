"""Answer a file of texts with whatever the model was made for."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, get_args, overload

from firth.base.arguments import (
    as_path,
    as_real,
    as_strings,
    as_whole,
    check_choice,
    check_flags,
    check_names,
    check_string,
    check_texts,
)
from firth.base.errors import InputError
from firth.base.files import read_json, refuse_existing
from firth.base.notes import note
from firth.base.progress import Progress
from firth.data.examples import Example
from firth.data.window import Long
from firth.folders.find import find
from firth.folders.read import head_of, refuse_unusable_head
from firth.metrics.decisions import Sheet
from firth.output.answers import TABLES, answers_file, check_ending, refuse_twins
from firth.output.written import Written
from firth.predictor import (
    MOST_ANSWERS,
    Coverage,
    Predictor,
    as_weight,
    load_predictor,
    say_coverage,
    say_unmatched,
)
from firth.reading.asked import Asked, GivenWords, asked_of_file
from firth.reading.candidates import CandidateRows, has_objects
from firth.reading.columns import USUAL
from firth.reading.format import Format
from firth.reading.layout import Cell, TableLayout
from firth.reading.source import Given, Source, opened
from firth.reading.tagged import TokenTextReader
from firth.tasks.classify import UNSURE
from firth.tasks.complete import Complete
from firth.tasks.registry import find_kind, gives, has_kind
from firth.tasks.task import Answer

if TYPE_CHECKING:
    from firth.tasks.registry import AnyTask


@dataclass(frozen=True)
class Prediction:
    """A text, or pair of texts, of the input and its answer."""

    _task: "AnyTask"
    _example: Example
    answer: Answer

    @property
    def text(self) -> str:
        """The text that was answered."""
        return self._example.text

    @property
    def second(self) -> str | None:
        """The second text of a pair."""
        return self._example.second

    def line(self) -> str:
        """Return the answer as a person reads it."""
        return self._task.line(self._example, self.answer)

    def as_json(self) -> dict[str, object]:
        """Return the answer as a JSON object, with what was asked."""
        return self._task.record(self._example, self.answer)


class PredictOptions(TypedDict, total=False):
    """Options of `firth.predict`."""

    target_precision: float | None
    score: bool
    weight: float | None
    orders: bool
    complete: bool
    top: int | None
    tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    stop: Iterable[str]
    seed: int | None
    long: Long | None
    field: str | None
    second: str | None
    pair: str | None
    question: str | None
    context: str | None
    choices: Iterable[str]
    encoding: str | None
    form: Format | None
    threads: int | None
    force: bool


@overload
def predict(
    model: str | Path,
    source: str | Path,
    out: str | Path,
    **options: Unpack[PredictOptions],
) -> Written:
    """Write the answers to a file."""


@overload
def predict(
    model: str | Path,
    source: str | Path = "-",
    out: None = None,
    **options: Unpack[PredictOptions],
) -> Iterator[Prediction]:
    """Return the answers one by one."""


def predict(
    model: str | Path,
    source: str | Path = "-",
    out: str | Path | None = None,
    *,
    target_precision: float | None = None,
    score: bool = False,
    weight: float | None = None,
    orders: bool = True,
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
    pair: str | None = None,
    question: str | None = None,
    context: str | None = None,
    choices: Iterable[str] = (),
    encoding: str | None = None,
    form: Format | None = None,
    threads: int | None = None,
    force: bool = False,
) -> Written | Iterator[Prediction]:
    """Answer each text of a file, or one text, or one `question` on a `context`, in order.

    `pair` is the second text of one text that is given as such; `choices` are options after a
    `context`, for a model of multiple choice. Answers are written to `out`, which keeps the columns
    of a table; without it they are returned one by one, as they come.
    `target_precision` sets for this call how sure the model must be to name a class; `orders` lets
    an n-gram model name the n-grams behind a likelihood, and `weight` is what a log-likelihood
    counts beside the scores that candidates come with (1).
    """
    lm_weight = as_weight(weight)
    source = str(source) if isinstance(source, Path) else source
    check_string("source", source)
    check_names(field=field)
    out = as_path("out", out, optional=True)
    check_flags(score=score, orders=orders, complete=complete, force=force)
    check_names(second=second, pair=pair, encoding=encoding)
    check_texts(question=question, context=context)
    check_choice("form", form, get_args(Format), optional=True)
    check_choice("long", long, get_args(Long), optional=True)
    asked_for = {
        "top": as_whole("top", top, 1, MOST_ANSWERS, optional=True),
        "tokens": as_whole("tokens", tokens, 1, optional=True),
        "temperature": None if temperature is None else as_real("temperature", temperature),
        "top_k": as_whole("top_k", top_k, 1, optional=True),
        "top_p": None if top_p is None else as_real("top_p", top_p, most=1.0),
        "stop": tuple(as_strings("stop", stop)),
        "seed": as_whole("seed", seed, optional=True),
    }
    options = {name: value for name, value in asked_for.items() if value not in (None, ())}
    target = Path(out) if out is not None else None
    if target is not None:
        check_ending(target)
        refuse_existing(target, force)
    if score and complete:
        raise InputError("--score rates texts and --complete ends them: ask for one of the two")
    given_choices = as_strings("choices", choices)
    refuse_unusable_head(model)
    words = GivenWords(source, field, second, pair, question, context, given_choices, form)
    asked = words.asked(score, complete)
    _refuse_weight(weight, source, form, score, second)
    if words.option is not None:
        _refuse_option(model, words.option)
    threshold = None
    if target_precision is not None:
        wanted_precision = as_real("target_precision", target_precision, most=1.0)
        threshold = _threshold(str(model), wanted_precision)

    predictor = load_predictor(model, threads)
    if threshold is not None:
        predictor.bundle.settings["threshold"] = threshold
    trained = predictor.bundle.columns if field is None and second is None else None
    own = None if score or complete else _own_task(predictor, options)
    asks = own.asks if own else TokenTextReader
    wanted = Source(source, field or USUAL, encoding, second, form, trained, asks)
    keeps_columns = asked is None and target is not None and target.suffix in TABLES
    with ExitStack() as stack:
        texts = stack.enter_context(opened(wanted, columns=keeps_columns))
        weighed = weight is not None
        lists = CandidateRows.of(texts, weighed) if score and asked is None else None
        say_unmatched(predictor)
        if score:
            task = _likelihood(predictor, options, orders, lists, lm_weight)
        else:
            task = own or _completions(predictor, options)
        if long is None:
            long = "slide" if score else predictor.bundle.long
        task.check_long(long)
        if task.takes_prompts and (second or pair):
            named = "second" if second else "pair"
            raise InputError(f"--{named} is not for continuing a text")
        if asked is None:
            asked = asked_of_file(texts, lists, single=task.takes_prompts)
        open_source = stack.pop_all()
    job = _Job(open_source, lists or texts, asked, predictor, task, long, target, force)
    predictions = _predictions(job)
    if target is None:
        return predictions
    return Written(target, sum(1 for _ in predictions))


class _Job(NamedTuple):
    """Rows that are read, the task that answers them, and where the answers go."""

    open_source: ExitStack
    source: Source | CandidateRows
    asked: Asked
    predictor: Predictor
    task: "AnyTask"
    long: Long
    target: Path | None
    force: bool


def _predictions(job: _Job) -> Iterator[Prediction]:
    """Yield each answer, written if there is a file for it, and close the source at its end."""
    coverage = Coverage()
    with job.open_source:
        ahead, asked_rows = _look_ahead(job.asked.rows)
        columns = job.task.columns_for(ahead)
        shown, rows = tee(asked_rows)
        with (
            Progress("predicting", "texts", job.asked.total) as progress,
            _target(job, columns) as add,
        ):
            examples = (row.example for row in rows)
            answers = job.predictor.stream(job.task, examples, job.long, progress, coverage)
            for one, answer in zip(shown, answers, strict=True):
                add(one, answer)
                yield Prediction(job.task, one.example, answer)
        job.source.say()
    say_coverage(coverage)


def _likelihood(
    predictor: Predictor,
    options: dict[str, Any],
    orders: bool,
    lists: CandidateRows | None,
    weight: float,
) -> "AnyTask":
    """Return the task of --score; with `orders` an n-gram model names the n-grams it used."""
    task = predictor.likelihood(orders, lists is not None, weight)
    _refuse_options(options, (), "score")
    return task


def _completions(predictor: Predictor, options: dict[str, Any]) -> "AnyTask":
    """Return the task of --complete."""
    _ = predictor.bundle.language  # refuses any other model
    _refuse_options(options, Complete.predict_options, "complete")
    return Complete.of_bundle(predictor.bundle, **options)


def _own_task(predictor: Predictor, options: dict[str, Any]) -> "AnyTask":
    """Return the task that the model was made for; options that are for another are refused."""
    if set(options) - {"top"}:
        _ = predictor.bundle.language  # refuses any other model
    if "top" in options and "top" not in predictor.task_class.predict_options:
        raise InputError("--top is for filling blanks, for questions and for --complete")
    return predictor.task(**options)


def _refuse_options(options: dict[str, Any], allowed: Collection[str], what: str) -> None:
    wrong = sorted(name.replace("_", "-") for name in set(options) - {"top", *allowed})
    if wrong:
        raise InputError(f"--{wrong[0]} is for continuing a text, not for --{what}")
    if "top" in options and "top" not in allowed:
        raise InputError("--top is for filling blanks, for questions and for --complete")


def _refuse_option(model: str | Path, option: str) -> None:
    """Refuse one question, or options, for a model of another task, before it is opened."""
    kind = head_of(model).kind
    task = find_kind(kind) if kind is not None and has_kind(kind) else None
    if task is None or task.asked_by != option:
        does = "no head" if kind is None else f"a head for {gives(kind)}"
        raise InputError(f"{option} is not for {model}, which has {does}")


def _threshold(model: str, precision: float) -> float:
    """Return how sure a classifier must be to be right so often, by what finetune found."""
    path = find(model) / "firth.json"
    made = read_json(path).get("made") if path.exists() else None
    if not isinstance(made, dict) or "decisions" not in made:
        raise InputError(
            f"{model} has no decisions on held-out texts: "
            "--target-precision is for classes that firth finetune trained"
        )
    try:
        sheet = Sheet.read(made["decisions"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: the decisions are damaged") from error
    if UNSURE in sheet.labels:
        raise InputError(
            f"a class of {model} is called {UNSURE!r}, "
            "which --target-precision lets the model say instead of a class"
        )
    threshold = sheet.threshold(precision)
    if threshold is None:
        known = [f"{decided.precision:g}" for decided in sheet.all if decided.threshold is not None]
        reached = f"known are: {', '.join(known)}" if known else "none is reached"
        raise InputError(
            f"--target-precision {precision:g}: "
            f"{model} was not right so often on held-out texts at any confidence; {reached}"
        )
    return threshold


def _refuse_weight(
    weight: float | None, source: str, form: Format | None, score: bool, second: str | None
) -> None:
    """Refuse a weight where no candidates with scores can be."""
    if weight is None:
        return
    if not score:
        raise InputError("--weight is for --score: it weighs the log-likelihoods of candidates")
    if second or not has_objects(Path(source), form):
        raise InputError(
            "--weight is for candidates with scores of their own, as rows of a .jsonl file have "
            "them (standard input: --format jsonl)"
        )


def _look_ahead(rows: Iterable[Given]) -> tuple[Example | None, Iterator[Given]]:
    """Return the first example, on which columns of answers depend, and all rows."""
    rest = iter(rows)
    head = list(islice(rest, 1))
    first = head[0].example if head else None
    return first, chain(head, rest)


@contextmanager
def _target(job: _Job, columns: Mapping[str, Cell]) -> Iterator[Callable[[Given, Any], None]]:
    """Give a function that writes an answer beside its row; without a file it does nothing."""
    if job.target is None:
        yield lambda _, __: None
        return
    task = job.task
    asked = job.asked
    target = job.target
    lines = target.suffix == ".jsonl"
    own = _own_columns(task, columns, lines)
    kept: set[str] = set()  # columns that were said to stay

    def check(given: Collection[str]) -> None:
        refuse_twins(target, given, own, asked.title)
        for name, column in task.twins.items():
            if lines and name in given and name not in kept:
                kept.add(name)
                has = f"{asked.title} has a column {name!r}, which is kept"
                note(f"{has}: the answers are in {column!r}")

    if asked.layout:
        check(asked.layout.columns)
    layout = asked.layout or TableLayout(0, {})
    with answers_file(target, job.force, layout, columns) as add:

        def write(one: Given, answer: Any) -> None:
            if asked.layout is None:
                check(one.row)
            fields = task.record(one.example, answer) if lines else {}
            if lines and task.replaces:
                add(one.row | fields)
                return
            taken = _taken(task, asked, one)
            new = {name: value for name, value in fields.items() if name not in taken}
            add(one.row | new | task.cells(one.example, answer))

        yield write


def _own_columns(task: "AnyTask", columns: Mapping[str, Cell], lines: bool) -> list[str]:
    """Return the columns and fields of the answers that an input must not have already."""
    if not lines:
        return [*columns]
    return [] if task.replaces else [*columns, *task.extra_fields]


def _taken(task: "AnyTask", asked: Asked, one: Given) -> Collection[str]:
    """Return the fields of the input, which an answer leaves alone, also in rows that lack them."""
    if asked.layout is not None:
        return asked.layout.columns
    # Standard input is read once: a later object may have a field that this one lacks.
    lines = list(one.row) == [USUAL]
    return one.row if lines else {*one.row, *task.twins, USUAL, "second"}
