"""Answer a file of texts with whatever the model does: a class, a number, named spans, blanks filled, the text continued."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import tee
from pathlib import Path
from typing import Any, Protocol, TextIO, get_args

from firth.base.arguments import as_path, as_real, as_strings, as_whole, check_choice, check_flags, check_names, check_string
from firth.base.errors import InputError
from firth.base.files import new_file, refuse_existing
from firth.base.progress import Progress
from firth.bundle import refuse_unusable_head
from firth.data.corpus import USUAL
from firth.data.examples import Example, Labelled, Line
from firth.data.record import on_a_line, shortened
from firth.data.window import Long
from firth.predict import MOST_ANSWERS, Predictor, load_predictor
from firth.predict import Progress as Told
from firth.tasks.classify import Decision
from firth.tasks.classify import as_json as decision_json
from firth.tasks.classify import as_text as decision_text
from firth.tasks.pretrain import Blank, Filled, Pretrain
from firth.tasks.pretrain import as_json as filled_json
from firth.tasks.tag import as_json as spans_json
from firth.verbs.embed import say_coverage, say_unmatched
from firth.verbs.rate import Asked, Rating
from firth.verbs.scores import figure
from firth.verbs.source import Source
from firth.verbs.write import Completing, Writing, manner

TOP = 5  # pieces for each blank, or ends of each line, where nothing is said


class Use(Protocol):
    """What a model is asked for, and how that is shown."""

    def answers(self, asked: Iterable[Any], progress: Told) -> Iterator[Any]:
        """An answer for each, in order."""
        ...

    def table(self, asked: Any, answer: Any) -> str:
        """An answer as a person reads it."""
        ...

    def record(self, asked: Any, answer: Any) -> dict[str, Any]:
        """An answer as a JSON object, with what was asked."""
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
    field: str = "text",
    second: str | None = None,
    encoding: str | None = None,
    threads: int | None = None,
    as_lines: bool = False,
    force: bool = False,
) -> None:
    """Write an answer for each text of a file, or for one text, in order."""
    source = str(source) if isinstance(source, Path) else source
    check_string("source", source)
    check_string("field", field, empty=False)
    out = as_path("out", out, optional=True)
    check_flags(score=score, complete=complete, as_lines=as_lines, force=force)
    check_names(second=second, encoding=encoding)
    check_choice("long", long, get_args(Long), optional=True)
    top = as_whole("top", top, 1, MOST_ANSWERS, optional=True)
    tokens, top_k = as_whole("tokens", tokens, 1, optional=True), as_whole("top_k", top_k, 1, optional=True)
    temperature = None if temperature is None else as_real("temperature", temperature)
    top_p = None if top_p is None else as_real("top_p", top_p, most=1.0)
    stop, seed = as_strings("stop", stop), as_whole("seed", seed, optional=True)
    target = Path(out) if out is not None else None
    if target is not None:
        if target.suffix != ".jsonl":
            raise InputError(f"{target}: answers are written to .jsonl")
        refuse_existing(target, force)
    if score and complete:
        raise InputError("--score rates texts and --complete ends them: ask for one of the two")
    given = {"tokens": tokens, "temperature": temperature, "top-k": top_k, "top-p": top_p, "stop": tuple(stop), "seed": seed}
    named = {name: value for name, value in given.items() if value not in (None, ())}
    refuse_unusable_head(model)
    examples, total, texts = _source(source, field, second, encoding, lists=score)
    predictor = load_predictor(model, threads)
    say_unmatched(predictor)
    lines = as_lines or target is not None
    use = _use(predictor, named, score, complete, top or TOP, long, lines)
    fills = isinstance(use, Answering) and isinstance(use.task, Pretrain)
    if top is not None and not fills and not isinstance(use, Completing):
        raise InputError("--top is for filling blanks and for --complete")
    if isinstance(use, Writing | Completing):
        if second:
            raise InputError("--second is not for continuing a text")
        examples = map(Line, texts) if isinstance(texts, Source) else examples
    shown, asked = tee(examples)
    with Progress("predicting", "texts", total) as progress, _target(target, force) as file:
        for one, answer in zip(shown, use.answers(asked, progress), strict=True):
            print(json.dumps(use.record(one, answer), ensure_ascii=False) if lines else use.table(one, answer), file=file)
    if texts:
        texts.say()
    say_coverage(predictor)


def _use(predictor: Predictor, named: dict[str, Any], score: bool, complete: bool, top: int, long: Long | None, lines: bool) -> Use:
    """What is asked for; options that are for something else are refused."""
    speaks = predictor.bundle.kind == "continue"
    if score or complete or (named and not speaks):
        _ = predictor.bundle.language  # refuses any other model
    allowed = {"tokens"} if complete else set() if score else set(named)
    if wrong := sorted(set(named) - allowed):
        raise InputError(f"--{wrong[0]} is for continuing a text, not for --{'score' if score else 'complete'}")
    if speaks and not score and long not in (None, "cut"):
        raise InputError(f"--long {long} is not for continuing a text: of one that is too long the end is read")
    if score:
        return Rating(predictor, long or "slide", lines)
    if complete:
        return Completing(predictor, top, named.get("tokens"))
    return Writing(predictor, manner(named)) if speaks else Answering(predictor, top, long or predictor.bundle.long)


def _source(
    source: str, field: str, second: str | None, encoding: str | None, lists: bool
) -> tuple[Iterable[Any], int | None, Source | Asked | None]:
    """What to answer, how many there are, and what to say of the file afterwards; pairs come from a file with two columns."""
    if not source:
        raise InputError("the text is empty; an empty text goes in as a line of a file, or of standard input")
    if is_text(source):
        if second or field != USUAL:
            raise InputError(f"--{'second' if second else 'text'} names a column of a file, and {shortened(source)} is a text")
        return [Line(source)], 1, None
    if lists and not second and Asked.fits(source):
        rows = Asked(source, field, encoding)
        return rows, rows.count(), rows
    if not second and source != "-" and not Path(source).suffix and not Path(source).exists():
        raise InputError(f"there is no file {source!r}; a text of one word goes in on standard input, with - for the file")
    texts = Source(source, field, encoding, second)
    total = texts.count()
    return texts.examples(), total, texts


def is_text(source: str) -> bool:
    """Tell a text from a file's name: a name exists, or looks like a path."""
    if source == "-":
        return False
    try:
        return not Path(source).exists() and (" " in source or "[" in source)
    except OSError:  # too long to be a name
        return True


@contextmanager
def _target(target: Path | None, force: bool) -> Iterator[TextIO]:
    if target is None:
        yield sys.stdout
        return
    with new_file(target, force) as path, path.open("w", encoding="utf-8") as file:
        yield file


class Answering:
    """The task that a model's head is for."""

    def __init__(self, predictor: Predictor, top: int, long: Long) -> None:
        self.predictor, self.long = predictor, long
        self.task = predictor.task(top)

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
                spans = [f"  {f.start}-{f.end}  {on_a_line(f.label)}  {f.confidence:.2%}" for f in found]
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


def _blank(blank: Blank) -> list[str]:
    choices = [f"    {choice.probability:7.2%}  {choice.piece}" for choice in blank.choices]
    return [f"  characters {blank.start}-{blank.end}", *(choices or ["    cut off before this blank"])]
