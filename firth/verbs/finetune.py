"""Fine-tune an encoder for a task from examples: once, with several seeds, or in folds."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from firth.base.arguments import as_path, check_flags
from firth.base.errors import DataWarning, InputError
from firth.base.files import read_json, sha256
from firth.base.notes import note, progress_line, warn
from firth.data.examples import SHAPES, Example, Label, is_pair
from firth.data.record import listed, shortened
from firth.evaluation.figures import Scores
from firth.folders.bundle import Bundle
from firth.folders.find import family_of, find, trainable_types
from firth.folders.read import load
from firth.folders.write import save
from firth.metrics.decisions import PRECISIONS, GradedAnswer, Sheet, decide, sheet
from firth.metrics.numbers import FEWEST
from firth.metrics.sums import Interval
from firth.predictor import Predictor
from firth.reading.columns import Columns, Named
from firth.reading.labels import type_conflicts
from firth.reading.readers import Reading
from firth.reading.split import parts, split, words_of
from firth.reading.trained import TRAINED, read_trained, was_trained_on, write_trained
from firth.reading.usable import Usable, warn_of_missing
from firth.recipes.finetune import (
    decided,
    metric_of,
    own_options,
    task_of_examples,
    train_task,
)
from firth.recipes.head import HeadChoice, choose_head
from firth.recipes.host import training
from firth.recipes.options import FinetuneOptions
from firth.recipes.session import Session
from firth.recipes.settings import FinetuneSettings
from firth.tasks.encoded import ExampleError
from firth.tasks.registry import find_trained, is_trained_kind, readers
from firth.tasks.trained import Scoring, TrainingData
from firth.train.loop import Outcome, machine
from firth.train.run import Run

NEVER = 2.0  # a threshold that no confidence reaches
FREE = {"save_every", "workers", "threads"}  # what a resumed run may change: no bit depends on it
PATHS = {"model", "train", "dev", "out"}  # of which only what stands there counts
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


# A model, or where it stands, and examples that it was not trained on.
Judged = tuple[Bundle | Path, Sequence[Example]]


class TrainDev(NamedTuple):
    """Examples to learn from and to measure on."""

    train: list[Example]
    dev: list[Example]


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
    paths = {
        "model": as_path("model", model),
        "train": as_path("train", train),
        "out": as_path("out", out),
        "dev": as_path("dev", options.get("dev"), optional=True),
    }
    settings = FinetuneSettings.given({**options, **paths, "task": task})
    with training(settings.threads):
        return _Finetuning(settings, resume, force).go()


class Made(NamedTuple):
    """The model to keep, how good it is, and the run that it came from."""

    bundle: Bundle
    result: FinetuneResult
    run: Run


class _Finetuning:
    """One call of `finetune`."""

    def __init__(self, settings: FinetuneSettings, resume: bool, force: bool) -> None:
        self.s = settings
        self.asked = settings.model_dump(exclude=FREE | PATHS)
        self.session = Session(
            settings.out, FinetuneSettings, self.asked, resume=resume, force=force
        )
        self.target = self.session.target
        self.run = self.session.run
        self.rows: list[tuple[str, list[tuple[int, Example]]]] = []  # of each file, with lines
        self.readings: list[Reading] = []  # of --train and --dev
        self.columns: Columns | None = None  # of --train
        self.calibrated: dict[str, float] = {}  # settings that make confidences true

    def go(self) -> FinetuneResult:
        """Read the examples, train, measure and save; or say how a finished run ended."""
        made = self.session.finished()
        if made is not None:
            return self._finished(made)
        self.session.refuse_folder()
        for name in filter(None, (self.s.train, self.s.dev)):
            if Path(name).resolve().is_relative_to(self.target.resolve()):
                stands = f"{name} stands in {self.target}, which the model would replace"
                raise InputError(f"{stands}; choose another name")
        refuse_family(self.s.model)
        self.sums = _sums(self.s)  # a file that isn't there is refused before the run has a folder
        with self.session.running():
            examples = self._examples()
            try:
                made_model = self._made(examples)
            except ExampleError as error:
                raise InputError(f"{self._place(error.example)}: {error}") from error
            self._save(made_model, examples)
            self._drop_copies()
        self.session.say_removable()
        return made_model.result

    def _examples(self) -> TrainDev:
        """Read the examples, decide what kind of model they ask for, and plan the run."""
        train, lines = self._read(self.s.train)
        dev = self._read(self.s.dev)[0] if self.s.dev else []
        _refuse_other_shape(self.s, train, dev)
        self.kind, self.labels = _labels(self.s, train, dev)
        self.metric = metric_of(self.s, self.kind, self.labels)
        self.head = choose_head(self.s, self.kind, self.labels)
        if self.head.kept:
            self.labels = self.head.head.labels
        self.values = _typed(self.labels, self.readings, self.head)
        if plan := self.run.plan():
            _refuse_other_data(self.run.folder, plan.get("sha256", {}), self.sums)
        _say_learned(self.s, train, dev)
        if self.head.said:
            progress_line(self.head.said)
        examples = TrainDev(train, dev) if dev or self.s.folds else self._split(train, lines)
        held = examples.dev or examples.train  # in folds every example is held out once
        find_trained(self.s.task).check_dev(held, self.s.dev or self.s.train, own_options(self.s))
        self.trained = read_trained(find(self.s.model))
        self._say_trained(examples.train if self.s.folds else examples.dev)
        self.run.write_plan({"asked": self.asked, "sha256": self.sums, "machine": machine()})
        return examples

    def _finished(self, made: dict[str, Any]) -> FinetuneResult:
        """Return what came of a run that is at its end, as its folder has it."""
        settings = FinetuneSettings.stored(made.get("settings", {}), FinetuneSettings.model_fields)
        wanted = {
            name: value
            for name, value in self.asked.items()
            if value is not None or name not in DECIDED
        }
        self.session.refuse_other(settings, settings | wanted)
        _refuse_other_data(self.target, made.get("sha256", {}), _sums(self.s))
        progress_line(f"{self.target} is finished")
        scores = {name: Interval(**interval) for name, interval in made["scores"].items()}
        decisions = Sheet.read(made["decisions"]) if "decisions" in made else None
        outcome = Outcome(made["steps"], made["best_step"], made.get("metrics", {}))
        return FinetuneResult(
            self.s.out,
            outcome,
            scores,
            decisions,
            made.get("each", {}),
            made.get("positive"),
            made.get("kept"),
            made.get("selected_by"),
        )

    def _made(self, examples: TrainDev) -> Made:
        if self.s.folds:
            return self._folds(examples.train, self.s.folds)
        if self.s.seeds > 1:
            return self._seeds(examples)
        bundle, outcome = self._teach(self.s, self.run, examples)
        return Made(bundle, self._judge(bundle, outcome, [(bundle, examples.dev)]), self.run)

    def _teach(
        self, settings: FinetuneSettings, run: Run, examples: TrainDev, quiet: bool = False
    ) -> tuple[Bundle, Outcome]:
        bundle, outcome = train_task(
            settings, run, self.kind, self.labels, *examples, keep=self.head.kept, quiet=quiet
        )
        bundle.values = self.values
        return bundle, outcome

    def _seeds(self, examples: TrainDev) -> Made:
        """Train with one seed after another; keep the model that does best on held-out examples."""
        select_value = task_of_examples(self.s, self.kind, self.labels).select_value
        best: Made | None = None  # the only one that stays in memory
        values: dict[str, dict[str, float]] = {}
        for seed in range(self.s.seed, self.s.seed + self.s.seeds):
            name = f"seed-{seed}"
            settings = self.s.model_copy(update={"seed": seed})
            model, outcome = self._part(name, settings, examples, quiet=seed != self.s.seed)
            bundle = load(model)
            result = self._judge(bundle, outcome, [(bundle, examples.dev)])._replace(kept=name)
            values[name] = _values(result.scores)
            value = select_value(values[name])
            if best is None or value > select_value(_values(best.result.scores)):
                best = Made(bundle, result, Run(self.run.folder / name))
        assert best is not None
        return best._replace(result=best.result._replace(each=values))

    def _folds(self, examples: list[Example], count: int) -> Made:
        """Let a model that did not see an example answer it; keep one that is trained on all."""
        judged: list[Judged] = []
        for number, own in enumerate(parts(examples, self.s.seed, count), 1):
            aside = set(own)
            others = [example for i, example in enumerate(examples) if i not in aside]
            path, _ = self._part(f"fold-{number}", self.s, TrainDev(others, []), quiet=True)
            judged.append((path, [examples[i] for i in own]))
        bundle, outcome = self._teach(self.s, self.run, TrainDev(examples, []))
        result = self._judge(bundle, outcome, judged)
        each = {}
        for number, (model, held) in enumerate(judged, 1):
            values = _values(self._scored([(model, held)]).scores())
            if len(held) < FEWEST:  # which say nothing of a correlation
                values.pop("pearson", None)
                values.pop("spearman", None)
            each[f"fold-{number}"] = values
        return Made(bundle, result._replace(each=each), self.run)

    def _part(
        self, name: str, settings: FinetuneSettings, examples: TrainDev, quiet: bool
    ) -> tuple[Path, Outcome]:
        """One seed or fold, in a folder inside the run's; what is finished is not made again."""
        run = Run(self.run.folder / name)
        model = run.folder / "model"
        if not model.exists():
            progress_line(name.replace("-", " "))
            run.folder.mkdir(exist_ok=True)
            bundle, outcome = self._teach(settings, run, examples, quiet)
            record = {"steps": outcome.steps, "best_step": outcome.best, "metrics": outcome.metrics}
            save(bundle, model, made=record)
        shutil.rmtree(run.checkpoints, ignore_errors=True)
        made = read_json(model / "firth.json")["made"]
        return model, Outcome(made["steps"], made["best_step"], made.get("metrics", {}))

    def _split(self, train: list[Example], lines: list[int]) -> TrainDev:
        kept, held = split(train, self.s.seed)
        progress_line(f"{len(held):,} of {len(train):,} examples are held out to measure on")
        held_lines = json.dumps([lines[i] for i in held])
        (self.run.folder / "held.json").write_text(f"{held_lines}\n", encoding="utf-8")
        found = TrainDev([train[i] for i in kept], [train[i] for i in held])
        if unlearned := sorted(_names(found.dev) - _names(found.train)):
            only = f"only examples that are held out have {listed(unlearned)}"
            note(f"{only}, so that none is learned")
        return found

    def _say_trained(self, held: Sequence[Example]) -> None:
        """Warn of held-out rows that the base model was trained on.

        A new head doesn't unlearn them.
        """
        if self.trained is None:
            if self.s.folds and is_trained_kind(self.head.head.kind):
                note(
                    f"{self.s.model} was fine-tuned before; where that was on these texts, "
                    "the metrics of the folds are too good"
                )
            return
        if known := sum(was_trained_on(self.trained, example) for example in held):
            warn(
                f"{known:,} of {len(held):,} held-out rows are texts that {self.s.model} "
                "was trained on; the metrics on them say little (--dev FILE names new ones)",
                DataWarning,
            )

    def _place(self, example: Example) -> str:
        """Return the file and line of an example."""
        places = (
            f"{name}:{line}" for name, rows in self.rows for line, one in rows if one is example
        )
        return next(places, shortened(example.text))

    def _read(self, name: str) -> tuple[list[Example], list[int]]:
        """Return the examples of a file, and the line of each."""
        columns = Named.of(self.s.text, self.s.second, self.s.label)
        reading = Reading(
            Path(name), columns, self.s.encoding, readers(self.s.task), self.s.missing
        )
        if name == self.s.train:
            self.columns = reading.columns
        usable = Usable(reading)
        rows = list(usable.numbered())
        usable.settle()
        if reading.reader.classes:
            warn_of_missing(name, Counter(label for _, one in rows for label in one.names))
        self.readings.append(usable.reading)
        self.rows.append((name, rows))
        return [example for _, example in rows], [line for line, _ in rows]

    def _judge(self, bundle: Bundle, outcome: Outcome, judged: Sequence[Judged]) -> FinetuneResult:
        """Measure models on held-out examples, by the answers that a user would get.

        Where the task has confidences, they are calibrated first, and what may be decided alone is
        told.
        """
        self.calibrated = self._calibrated(judged)
        bundle.settings |= self.calibrated
        scoring = self._scored(judged)
        if self.s.target_precision:
            self._set_threshold(bundle, scoring.answers)
        decisions = None
        if scoring.answers:
            precisions = {*PRECISIONS, self.s.target_precision or PRECISIONS[0]}
            decisions = sheet(scoring.answers, self.labels, sorted(precisions))
        return FinetuneResult(
            self.s.out,
            outcome,
            scoring.scores(),
            decisions,
            each={},
            positive=scoring.positive,
            selected_by=None if self.s.folds else self.metric,
        )

    def _predictor(self, model: Bundle | Path, calibrated: Mapping[str, float]) -> Predictor:
        """Open a model with the settings that make its confidences true; folds, one at a time."""
        bundle = load(model) if isinstance(model, Path) else model
        bundle.settings |= calibrated
        return Predictor(bundle, self.s.threads)

    def _calibrated(self, judged: Sequence[Judged]) -> dict[str, float]:
        """Return the settings that make confidences true on held-out examples."""
        task = task_of_examples(self.s, self.kind, self.labels)
        if not task.calibrates:
            return {}
        logits = [
            found for one, dev in judged for found in self._predictor(one, {}).raw(dev, self.s.long)
        ]
        return task.calibrate([example for _, dev in judged for example in dev], logits)

    def _scored(self, judged: Sequence[Judged]) -> Scoring:
        scoring = task_of_examples(self.s, self.kind, self.labels).scoring()
        for one, dev in judged:
            self._predictor(one, self.calibrated).grade(scoring, dev, self.s.long)
        return scoring

    def _set_threshold(self, bundle: Bundle, answers: Sequence[GradedAnswer]) -> None:
        assert self.s.target_precision is not None
        confidences = [confidence for _, _, confidence in answers]
        right = [truth == predicted for truth, predicted, _ in answers]
        chosen = decide(confidences, right, self.s.target_precision)
        if chosen.threshold is None:
            warn(
                f"no confidence is right {percent(self.s.target_precision)} of the time; "
                "the model will always be unsure",
                DataWarning,
            )
        bundle.settings["threshold"] = NEVER if chosen.threshold is None else chosen.threshold

    def _save(self, made: Made, examples: TrainDev) -> None:
        result = made.result
        made.bundle.columns = self.columns.named if self.columns else None
        settings = decided(self.s, len(examples.train), made.bundle.encoder.width)
        record: dict[str, Any] = {
            "by": "finetune",
            "settings": settings.model_dump(),
            "sha256": self.sums,
            "examples": {"trained": len(examples.train), "held_out": len(examples.dev)},
            "best_step": result.outcome.best,
            "steps": result.outcome.steps,
            "metrics": result.outcome.metrics,
            "scores": {name: interval._asdict() for name, interval in result.scores.items()},
        }
        if result.sheet:
            record |= {"decisions": result.sheet.page(), "positive": result.positive}
        more = {"each": result.each, "kept": result.kept, "selected_by": result.selected_by}
        record |= {name: value for name, value in more.items() if value}
        record["machine"] = machine()
        trained = self.run.folder / TRAINED
        write_trained(trained, examples.train, self.trained)
        self.session.save(made.bundle, record, made.run.journal, {TRAINED: trained})
        trained.unlink()

    def _drop_copies(self) -> None:
        """Remove the copies that a finished run has of an encoder that stayed, if only in part."""
        if not self.s.features and not self.s.top:
            return
        shutil.rmtree(self.run.checkpoints, ignore_errors=True)
        for part in ("seed", "fold"):
            for copy in self.run.folder.glob(f"{part}-*/model"):
                shutil.rmtree(copy, ignore_errors=True)


def _values(scores: Scores) -> dict[str, float]:
    return {name: interval.value for name, interval in scores.items()}


def refuse_family(model: str) -> None:
    """Refuse a base model that can't be fine-tuned, before examples are read."""
    family = family_of(model)
    if not family.takes_heads:
        instead = " (firth embed gives its vectors)" if family.is_encoder else ""
        taken = ", ".join(trainable_types())
        raise InputError(
            f"{model} is a {family.model_type}; fine-tuning takes folders of {taken}{instead}"
        )


def _sums(s: FinetuneSettings) -> dict[str, Any]:
    """What tells the examples and the weights to begin with from others."""
    weights = {path.name: sha256(path) for path in sorted(find(s.model).glob("*.safetensors"))}
    return {
        "train": sha256(Path(s.train)),
        "dev": sha256(Path(s.dev)) if s.dev else None,
        "model": weights,
    }


def _refuse_other_data(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name, value in now.items():
        if before.get(name) != value:
            raise InputError(
                f"{folder} holds a run in which --{name} had other content; --force throws it away"
            )


def _refuse_other_shape(
    s: FinetuneSettings, train: Sequence[Example], dev: Sequence[Example]
) -> None:
    """Stop before training where one file has pairs and the other single texts."""
    learned = {is_pair(example) for example in train}
    measured = {is_pair(example) for example in dev}
    if learned and measured and not learned & measured:
        raise InputError(
            f"{s.dev} has {SHAPES[measured.pop()]}, where {s.train} has {SHAPES[learned.pop()]}"
        )


def _labels(
    s: FinetuneSettings, train: Sequence[Example], dev: Sequence[Example]
) -> tuple[str, tuple[str, ...]]:
    """Return what kind of model the examples ask for, and its labels in order."""
    data = TrainingData(train, dev, s.train, s.dev, own_options(s))
    kind, labels = find_trained(s.task).plan(data)
    _say_unlearned(s, data.train_names, data.dev_names)
    return kind, labels


def _typed(
    labels: Sequence[str], readings: Sequence[Reading], head: HeadChoice
) -> tuple[Label, ...]:
    """The labels with the types that they have in the data; empty where all are strings.

    A .csv has no types: a head that is kept then has those of its folder.
    """
    for dev in readings[1:]:
        if conflict := next(type_conflicts(readings[0].path, readings[0].met, dev.met), None):
            raise InputError(f"{dev.path} {conflict}")
    known: dict[str, Label] = {}
    if head.kept:
        known = dict(zip(head.head.labels, head.head.values, strict=False))
    for reading in reversed(readings if readings[0].met else readings[:1]):
        known |= {label: met.value for label, met in reading.met.items()}
    values = tuple(known.get(label, label) for label in labels)
    for place, value in enumerate(values):
        if value in values[:place]:
            equal = values[values.index(value)]
            raise InputError(
                f"{readings[0].path} has the labels {equal!r} and {value!r}, which are equal: "
                "write one as text"
            )
    return () if all(isinstance(value, str) for value in values) else values


def _names(examples: Sequence[Example]) -> set[str]:
    return {name for example in examples for name in example.names}


def _say_unlearned(s: FinetuneSettings, known: set[str], measured: set[str]) -> None:
    """Name labels of the dev set that the train set lacks; if it lacks all, stop."""
    unlearned = sorted(measured - known)
    if not unlearned:
        return
    if len(unlearned) == len(measured):
        raise InputError(
            f"{s.dev} has none of the labels of {s.train}, {listed(sorted(known))}; "
            f"it has {listed(unlearned)}"
        )
    lacks = f"{s.dev} has labels that {s.train} lacks, so that none is learned"
    note(f"{lacks}: {listed(unlearned)}")


def _say_learned(s: FinetuneSettings, train: Sequence[Example], dev: Sequence[Example]) -> None:
    """Say how many texts to measure on are also learned from."""
    known = {words_of(example) for example in train} if dev else set()
    if learned := sum(words_of(example) in known for example in dev):
        both = f"{learned:,} of {len(dev):,} texts of {s.dev} are in {s.train} too"
        note(
            f"{both}: of them the scores say how well they were learned by heart "
            "(firth check names them)"
        )


def percent(share: float) -> str:
    """Return a share in per cent, with as many digits as it needs."""
    return f"{100 * share:.4g}%"
