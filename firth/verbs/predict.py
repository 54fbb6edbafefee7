"""Answer a file of texts with whatever the model was made for."""

from __future__ import annotations

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
    as_weight,
    as_whole,
    check_choice,
    check_flags,
    check_names,
    check_string,
    check_texts,
)
from firth.base.errors import InputError
from firth.base.files import refuse_existing
from firth.base.notes import note
from firth.base.progress import Progress
from firth.data.examples import Example
from firth.data.window import Long
from firth.folders.heads import head_of, refuse_unusable_head
from firth.output.answers import TABLES, check_ending
from firth.output.beside import answers_beside
from firth.output.written import Written
from firth.reading.asked import Asked, GivenWords, asked_of_file
from firth.reading.candidates import CandidateRows, has_objects
from firth.reading.columns import USUAL
from firth.reading.format import Format
from firth.reading.layout import Cell
from firth.reading.source import Given, Source, opened
from firth.reading.tagged import TokenTextReader
from firth.tasks.complete import MOST_ANSWERS, Complete
from firth.tasks.encoded import ExampleError
from firth.tasks.registry import find_kind, gives, has_kind
from firth.tasks.task import Answer
from firth.tasks.translate import MOST_BEAM

if TYPE_CHECKING:
    from firth.predictor import Predictor
    from firth.tasks.registry import AnyTask

TOP_IS_FOR = "--top is for filling blanks, for questions, for translating and for --complete"
OF_TRANSLATION = ("align", "beam")


@dataclass(frozen=True)
class Prediction:
    """A text, or pair of texts, of the input and its answer."""

    _task: AnyTask
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
    beam: int | None
    align: bool
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
    beam: int | None = None,
    align: bool = False,
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
    check_flags(align=align)
    options = _task_options(top, tokens, temperature, top_k, top_p, stop, seed)
    if beam is not None:
        options["beam"] = as_whole("beam", beam, 1, MOST_BEAM)
    if align:
        options["align"] = True

    target = _checked_target(out, force)
    if score and complete:
        raise InputError("--score rates texts and --complete ends them: ask for one of the two")
    given_choices = as_strings("choices", choices)
    refuse_unusable_head(model)
    words = GivenWords(source, field, second, pair, question, context, given_choices, form)
    asked = words.asked(score, complete)
    if weight is not None:
        _refuse_weight(words, score)
    if words.option is not None:
        _refuse_option(model, words.option)
    # Torch is loaded only now: whatever can be refused without it is refused at once.
    from firth.predictor import load_predictor

    threshold = None
    if target_precision is not None:
        from firth.evaluation.thresholds import stored_threshold

        wanted_precision = as_real("target_precision", target_precision, most=1.0)
        threshold = stored_threshold(str(model), wanted_precision)

    predictor = load_predictor(model, threads)
    if threshold is not None:
        predictor.bundle.settings["threshold"] = threshold
    wish = _Wish(score, complete, orders, weight is not None, lm_weight, options)
    call = _Call(words, asked, wish, encoding, long, target, force)
    predictions = _predictions(_opened(call, predictor))
    if target is None:
        return predictions
    return Written(target, sum(1 for _ in predictions))


def _task_options(
    top: int | None,
    tokens: int | None,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    stop: Iterable[str],
    seed: int | None,
) -> dict[str, Any]:
    """Return the options that were given for a task, checked."""
    options = {
        "top": as_whole("top", top, 1, MOST_ANSWERS, optional=True),
        "tokens": as_whole("tokens", tokens, 1, optional=True),
        "temperature": None if temperature is None else as_real("temperature", temperature),
        "top_k": as_whole("top_k", top_k, 1, optional=True),
        "top_p": None if top_p is None else as_real("top_p", top_p, most=1.0),
        "stop": tuple(as_strings("stop", stop)),
        "seed": as_whole("seed", seed, optional=True),
    }
    return {name: value for name, value in options.items() if value not in (None, ())}


def _checked_target(out: str | None, force: bool) -> Path | None:
    """Return the file to write, unless answers can't be written to it."""
    if out is None:
        return None
    target = Path(out)
    check_ending(target)
    refuse_existing(target, force)
    return target


def _refuse_weight(words: GivenWords, score: bool) -> None:
    """Refuse a weight where no candidates with scores can be."""
    if not score:
        raise InputError("--weight is for --score: it weighs the log-likelihoods of candidates")
    if words.second or not has_objects(Path(words.source), words.form):
        raise InputError(
            "--weight is for candidates with scores of their own, as rows of a .jsonl file have "
            "them (standard input: --format jsonl)"
        )


def _refuse_option(model: str | Path, option: str) -> None:
    """Refuse one question, or options, for a model of another task, before it is opened."""
    kind = head_of(model).kind
    task = None
    if kind is not None and has_kind(kind):
        task = find_kind(kind)
    if task is None or task.asked_by != option:
        does = "no head" if kind is None else f"a head for {gives(kind)}"
        raise InputError(f"{option} is not for {model}, which has {does}")


# What the model is to do


class _Wish(NamedTuple):
    """What is wanted of a model: its own task, a likelihood (--score) or ends (--complete)."""

    score: bool
    complete: bool
    orders: bool  # an n-gram model names the n-grams behind a likelihood
    weighed: bool  # candidates come with scores of their own
    weight: float
    options: dict[str, Any]

    def own_task(self, predictor: Predictor) -> AnyTask | None:
        """Return the task that the model was made for, unless another one is wanted.

        Options that are for another are refused.
        """
        if self.score or self.complete:
            return None
        kind = predictor.bundle.kind
        own = find_kind(kind).predict_options if kind and has_kind(kind) else ()
        others = set(self.options) - set(own)
        _refuse_translating(others)
        if others - {"top"}:
            _ = predictor.bundle.language  # refuses any other model
        if others:
            raise InputError(TOP_IS_FOR)
        return predictor.task(**self.options)

    def other_task(self, predictor: Predictor, lists: bool) -> AnyTask:
        """Return the task of --score, of single texts or of lists, or that of --complete."""
        if self.score:
            task = predictor.likelihood(self.orders, lists, self.weight)
            self._refuse_options((), "score")
            return task
        _ = predictor.bundle.language  # refuses any other model
        self._refuse_options(Complete.predict_options, "complete")
        return Complete.of_bundle(predictor.bundle, **self.options)

    def _refuse_options(self, allowed: Collection[str], what: str) -> None:
        others = set(self.options) - {"top", *allowed}
        _refuse_translating(others)
        wrong = sorted(name.replace("_", "-") for name in others)
        if wrong:
            raise InputError(f"--{wrong[0]} is for continuing a text, not for --{what}")
        if "top" in self.options and "top" not in allowed:
            raise InputError(TOP_IS_FOR)


def _refuse_translating(options: Collection[str]) -> None:
    """Refuse options of translating where something else is asked for."""
    for name in OF_TRANSLATION:
        if name in options:
            raise InputError(f"--{name} is for translating")


# The rows, and their answers


class _Call(NamedTuple):
    """What a call of `predict` asks for, checked."""

    words: GivenWords
    asked: Asked | None  # where it is no file
    wish: _Wish
    encoding: str | None
    long: Long | None
    target: Path | None
    force: bool


class _Job(NamedTuple):
    """Rows that are read, the task that answers them, and where the answers go."""

    open_source: ExitStack
    source: Source | CandidateRows
    asked: Asked
    predictor: Predictor
    task: AnyTask
    long: Long
    target: Path | None
    force: bool


def _opened(call: _Call, predictor: Predictor) -> _Job:
    """Open the source, and choose the task that answers its rows."""
    from firth.predictor import say_unmatched

    wish = call.wish
    own = wish.own_task(predictor)
    wanted = _source(call, predictor, own)
    is_file = call.asked is None
    keeps_columns = is_file and call.target is not None and call.target.suffix in TABLES
    with ExitStack() as stack:
        texts = stack.enter_context(opened(wanted, columns=keeps_columns))
        lists = None
        if wish.score and is_file:
            lists = CandidateRows.of(texts, wish.weighed)
        say_unmatched(predictor)

        task = own or wish.other_task(predictor, lists is not None)
        long = _long(call, predictor)
        task.check_long(long)
        if task.takes_prompts:
            _refuse_second(call.words)
        asked = call.asked or asked_of_file(texts, lists, single=task.takes_prompts)
        open_source = stack.pop_all()
    source = lists or texts
    return _Job(open_source, source, asked, predictor, task, long, call.target, call.force)


def _source(call: _Call, predictor: Predictor, own: AnyTask | None) -> Source:
    """Return the source of the rows, whose columns the model or its task may know."""
    words = call.words
    trained = None
    if words.field is None and words.second is None:
        trained = predictor.bundle.columns
    asks = own.asks if own else TokenTextReader
    field = words.field or USUAL
    return Source(words.source, field, call.encoding, words.second, words.form, trained, asks)


def _long(call: _Call, predictor: Predictor) -> Long:
    """Return what becomes of a long text: as is asked for, or as the model has it."""
    if call.long is not None:
        return call.long
    if call.wish.score:
        return "slide"
    return predictor.bundle.long


def _refuse_second(words: GivenWords) -> None:
    """Refuse a second text where single texts are continued."""
    if words.second or words.pair:
        named = "second" if words.second else "pair"
        raise InputError(f"--{named} is not for continuing a text")


def _predictions(job: _Job) -> Iterator[Prediction]:
    """Yield each answer, written if there is a file for it, and close the source at its end."""
    from firth.predictor import Coverage, say_coverage

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
            for one, answer in _beside(shown, answers):
                add(one, answer)
                yield Prediction(job.task, one.example, answer)
        job.source.say()
    if ahead is None:
        note(f"{job.asked.title} holds no rows: there is nothing to answer")
    say_coverage(coverage)


def _beside(rows: Iterator[Given], answers: Iterator[Any]) -> Iterator[tuple[Given, Any]]:
    """Yield each row with its answer; name the place of a row that can't be answered."""
    done = 0
    try:
        for answer in answers:
            yield next(rows), answer
            done += 1
    except ExampleError as error:
        wrong = next(islice(rows, error.number - done, None))
        if wrong.place is None:
            raise
        raise InputError(f"{wrong.place}: {error.reason}") from error


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
    with answers_beside(job.target, job.force, job.task, job.asked, columns) as add:
        yield add
