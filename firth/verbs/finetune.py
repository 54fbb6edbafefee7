"""Fine-tune an encoder for a task from examples: once, with several seeds, or in folds."""

from pathlib import Path
from typing import Any, NamedTuple, Unpack

from firth.base.arguments import as_path, check_flags
from firth.base.errors import InputError
from firth.base.notes import progress_line
from firth.data.record import shortened
from firth.evaluation.figures import Scores
from firth.folders.find import find
from firth.metrics.decisions import Sheet
from firth.metrics.sums import Interval
from firth.reading.trained import TRAINED, Hashes, read_trained, write_trained
from firth.recipes.examples import (
    ExampleFile,
    TrainDev,
    refuse_other_shape,
    say_shared,
    split_off_dev,
    warn_of_trained,
)
from firth.recipes.finetune import own_options, settled
from firth.recipes.host import training
from firth.recipes.inputs import input_hashes, refuse_missing, refuse_other_inputs, refuse_replaced
from firth.recipes.labels import FinetuneGoal, decide_goal
from firth.recipes.options import FinetuneOptions
from firth.recipes.repeated import Finetuning, JudgedModel, drop_copies
from firth.recipes.session import Session
from firth.recipes.settings import FinetuneSettings
from firth.recipes.texttotext import settled_pairs
from firth.tasks.encoded import ExampleError
from firth.tasks.registry import find_trained
from firth.train.loop import Outcome, machine

FREE = {"save_every", "workers", "threads"}  # what a resumed run may change: no bit depends on it
OTHER_PATHS = ("dev", "target", "dev_target", "vectors", "vocab")  # that may be left out
PATHS = {"model", "train", "out", *OTHER_PATHS}  # of which only what stands there counts
DECIDED = {"batch", "combine", "epochs", "rate"}  # where they were left open


class FinetuneResult(NamedTuple):
    """A fine-tuned model: where it is, how its run ended and how good it is."""

    out: str
    outcome: Outcome
    # Of the model on held-out examples, with intervals; in folds, of every example by a model that
    # did not see it.
    scores: Scores
    sheet: Sheet | None  # for classes and labels: what it may decide alone
    each: dict[str, dict[str, float]]  # metrics of every seed or fold, by its name
    positive: str | None = None  # the class that `f1` is of, where there are two
    kept: str | None = None  # of several seeds the one whose model is kept
    selected_by: str | None = None  # the metric that selected the best step, and the best seed


def finetune(
    task: str,
    model: str | Path,
    train: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    **options: Unpack[FinetuneOptions],
) -> FinetuneResult:
    """Write a model for a task to a folder; until it is there, the run is beside it in `OUT.run`.

    The options are those of `FinetuneSettings`, which the command line has too.
    """
    check_flags(resume=resume, force=force)
    paths: dict[str, str | None] = {
        "model": as_path("model", model),
        "train": as_path("train", train),
        "out": as_path("out", out),
    }
    for name in OTHER_PATHS:
        paths[name] = as_path(name, options.get(name), optional=True)
    settings = FinetuneSettings.given({**options, **paths, "task": task})
    asked = settings.model_dump(exclude=FREE | PATHS)
    session = Session(settings.out, FinetuneSettings, asked, resume=resume, force=force)
    with training(settings.threads):
        made = session.finished()
        if made is not None:
            return _finished(settings, session, made)
        return _finetune(settings, session)


def _finetune(s: FinetuneSettings, session: Session) -> FinetuneResult:
    """Read the examples, train, measure and save."""
    session.refuse_folder()
    refuse_replaced(s, session.target)
    # A file that isn't there is refused before the run has a folder.
    refuse_missing(s.task, s.model, s.train, s.dev, s.vectors, s.vocab, s.target, s.dev_target)
    hashes = input_hashes(s)
    with session.running():
        prepared = _prepare(s, session, hashes)
        trained = _train(s, session, prepared)
        result = _result(s, trained, prepared.goal)
        _save(s, session, prepared, trained, result)
        if s.features or s.top:
            # Each copy has a whole encoder, which stayed as it was, if only in part.
            drop_copies(session.run)
    session.say_removable()
    return result


class _Prepared(NamedTuple):
    """Examples that are read and held out, and what they ask of the model."""

    hashes: dict[str, Any]  # of the files that the run begins with
    files: list[ExampleFile]  # of --train and --dev
    examples: TrainDev
    goal: FinetuneGoal
    trained: Hashes | None  # of the texts that the base model was trained on


def _prepare(s: FinetuneSettings, session: Session, hashes: dict[str, Any]) -> _Prepared:
    """Read the examples, decide what kind of model they ask for, and plan the run."""
    run = session.run
    train = ExampleFile.read(s, s.train, s.target)
    dev = ExampleFile.read(s, s.dev, s.dev_target) if s.dev else None
    if dev:
        refuse_other_shape(train, dev)
    goal = decide_goal(s, train, dev)
    plan = run.plan()
    if plan:
        refuse_other_inputs(run.folder, plan.get("sha256", {}), hashes)
    if dev:
        say_shared(train, dev)
    if goal.head.said:
        progress_line(goal.head.said)

    if dev:
        examples = TrainDev(train.examples, dev.examples)
    elif s.folds:
        examples = TrainDev(train.examples, [])
    else:
        examples = split_off_dev(s, train, run.folder / "held.json")
    held = examples.dev or examples.train  # in folds every example is held out once
    find_trained(s.task).check_dev(held, s.dev or s.train, own_options(s))
    trained = read_trained(find(s.model)) if s.new_family is None else None
    warn_of_trained(s, goal.head.head, trained, held)

    run.write_plan({"asked": session.asked, "sha256": hashes, "machine": machine()})
    files = [train, dev] if dev else [train]
    return _Prepared(hashes, files, examples, goal, trained)


def _train(s: FinetuneSettings, session: Session, prepared: _Prepared) -> JudgedModel:
    """Train and judge the model; name the line of an example that it can't be trained on."""
    try:
        return Finetuning(s, session.run, prepared.goal).train(prepared.examples)
    except ExampleError as error:
        example = error.example
        places = filter(None, (file.place_of(example) for file in prepared.files))
        place = next(places, shortened(example.text))
        raise InputError(f"{place}: {error}") from error


def _result(s: FinetuneSettings, trained: JudgedModel, goal: FinetuneGoal) -> FinetuneResult:
    judgement = trained.judgement
    return FinetuneResult(
        s.out,
        trained.outcome,
        judgement.scores,
        judgement.sheet,
        trained.each,
        judgement.positive,
        trained.kept,
        selected_by=None if s.folds else goal.metric,
    )


def _save(
    s: FinetuneSettings,
    session: Session,
    prepared: _Prepared,
    model: JudgedModel,
    result: FinetuneResult,
) -> None:
    """Write the model's folder, with the record of the run and the hashes of its texts."""
    examples = prepared.examples
    columns = prepared.files[0].reading.columns
    model.bundle.columns = columns.named if columns else None
    decide = settled if find_trained(s.task).contract == "encoder" else settled_pairs
    settings = decide(s, len(examples.train), model.bundle)
    record: dict[str, Any] = {
        "by": "finetune",
        "settings": settings.model_dump(),
        "sha256": prepared.hashes,
        "examples": {"trained": len(examples.train), "held_out": len(examples.dev)},
        **_record(result),
        "machine": machine(),
    }

    path = session.run.folder / TRAINED
    write_trained(path, examples.train, prepared.trained)
    session.save(model.bundle, record, model.run.journal, {TRAINED: path})
    path.unlink()


def _record(result: FinetuneResult) -> dict[str, Any]:
    """Return what firth.json keeps of a result; `_finished` reads it."""
    outcome = result.outcome
    scores = {name: interval._asdict() for name, interval in result.scores.items()}
    record: dict[str, Any] = {
        "best_step": outcome.best,
        "steps": outcome.steps,
        "metrics": outcome.metrics,
        "scores": scores,
    }
    if result.sheet:
        record["decisions"] = result.sheet.page()
        record["positive"] = result.positive
    if result.each:
        record["each"] = result.each
    if result.kept:
        record["kept"] = result.kept
    if result.selected_by:
        record["selected_by"] = result.selected_by
    return record


def _finished(s: FinetuneSettings, session: Session, made: dict[str, Any]) -> FinetuneResult:
    """Return what came of a run that is at its end, as its folder has it."""
    stored = FinetuneSettings.stored(made.get("settings", {}), FinetuneSettings.model_fields)
    undecided = {name for name in DECIDED if session.asked[name] is None}
    wanted = {name: value for name, value in session.asked.items() if name not in undecided}
    session.refuse_other(stored, stored | wanted)
    refuse_other_inputs(session.target, made.get("sha256", {}), input_hashes(s))
    progress_line(f"{session.target} is finished")

    scores = {name: Interval(**interval) for name, interval in made["scores"].items()}
    decisions = Sheet.read(made["decisions"]) if "decisions" in made else None
    outcome = Outcome(made["steps"], made["best_step"], made.get("metrics", {}))
    return FinetuneResult(
        s.out,
        outcome,
        scores,
        decisions,
        made.get("each", {}),
        made.get("positive"),
        made.get("kept"),
        made.get("selected_by"),
    )
