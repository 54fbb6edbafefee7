"""Teach an encoder a task from examples: classes, numbers or named spans; once, with several seeds, or in folds."""

import json
import math
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from firth.base.arguments import as_path, check_flags
from firth.base.errors import InputError
from firth.base.files import read_json, refuse_folder, sha256
from firth.base.settings import complaint
from firth.base.signals import stoppable
from firth.data.examples import SHAPES, Example, Label, Labelled, is_pair, labels_of
from firth.data.record import listed, shortened
from firth.evaluation.scorer import Scorer, Scores, named, table
from firth.folders.bundle import Bundle, family_of, find, load, save
from firth.metrics.decisions import (
    PRECISIONS,
    Answer,
    Decided,
    Sheet,
    decide,
    label_temperature,
    sheet,
    temperature,
)
from firth.metrics.numbers import FEWEST
from firth.metrics.sums import Interval
from firth.pages.curves import curves
from firth.predictor import Predictor
from firth.reading.columns import Columns, Named
from firth.reading.readers import Reading
from firth.reading.split import parts, split, words_of
from firth.reading.survey import type_conflicts
from firth.reading.trained import TRAINED, read_trained, was_trained_on, write_trained
from firth.reading.usable import Usable, warn_of_missing
from firth.recipes.finetune import FinetuneSettings, TooLong, decided, lesson, metric_of, teach
from firth.recipes.head import PRETRAINED, Choice, choose_head
from firth.recipes.host import removable, training
from firth.tasks.tag import tags_of
from firth.train.loop import Outcome, machine
from firth.train.run import Run, refuse_other

NEVER = 2.0  # a threshold that no confidence reaches
FREE = {"save_every", "workers", "threads"}  # what a resumed run may change: no bit depends on it
PATHS = {"model", "train", "dev", "out"}  # of which only what stands there counts
UNSURE = "unsure"  # what `predict` says below the threshold
TRAINABLE = (
    "bert",
    "gpt2",
)  # families whose heads for a task can be written so that transformers reads them
DECIDED = {"batch", "combine", "epochs", "rate"}  # where they were left open


class Taught(NamedTuple):
    """What came of it."""

    outcome: Outcome
    scores: Scores  # of the model on held-out examples, with intervals; in folds, of every example by a model that did not see it
    sheet: Sheet | None  # for classes and labels: what it may decide alone
    each: dict[str, dict[str, float]]  # scores of every seed or fold, by its name
    positive: str | None = None  # the class that `f1` is of, where there are two
    kept: str | None = None  # of several seeds the one whose model is kept
    selected_by: str | None = (
        None  # the metric by which the best step, and the best seed, was selected
    )


Judged = tuple[
    Bundle | Path, Sequence[Example]
]  # a model, or where it stands, and examples that it did not learn from


class Split(NamedTuple):
    """Examples to learn from and to measure on."""

    train: list[Example]
    dev: list[Example]


def finetune(
    task: str,
    model: str | Path,
    train: str | Path,
    out: str | Path,
    *,
    dev: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    **options: Any,
) -> Taught:
    """Write a model for a task to a folder; while it is taught, the run lives beside it in `OUT.run`.

    The options are those of `FinetuneSettings`, which the command line has too.
    """
    check_flags(resume=resume, force=force)
    given: dict[str, Any] = {
        "task": task,
        "model": as_path("model", model),
        "train": as_path("train", train),
        "out": as_path("out", out),
        "dev": as_path("dev", dev, optional=True),
    }
    try:
        settings = FinetuneSettings(**given, **options)
    except ValidationError as error:
        raise InputError(complaint(error, FinetuneSettings)) from error
    with training(settings.threads):
        return _Finetuning(settings).go(resume, force)


class Made(NamedTuple):
    """The model to keep, how good it is, and the run that it came from."""

    bundle: Bundle
    taught: Taught
    run: Run


class _Finetuning:
    """One call of `finetune`."""

    def __init__(self, settings: FinetuneSettings) -> None:
        self.s = settings
        self.target, self.run = Run.beside(settings.out)
        self.rows: list[
            tuple[str, list[tuple[int, Example]]]
        ] = []  # of each file, with their lines
        self.readings: list[Reading] = []  # of --train and --dev
        self.columns: Columns | None = None  # of --train

    def go(self, resume: bool, force: bool) -> Taught:
        """All of it."""
        asked = self.s.model_dump(exclude=FREE | PATHS)
        replaces = self.run.replaces
        if resume and not replaces and (self.target / "firth.json").exists():
            return self._finished(asked)
        force = force or (resume and replaces)
        refuse_folder(self.target, force)
        for name in filter(None, (self.s.train, self.s.dev)):
            if Path(name).resolve().is_relative_to(self.target.resolve()):
                raise InputError(
                    f"{name} stands in {self.target}, which the model would replace; choose another name"
                )
        _refuse_family(self.s.model)
        self.sums = _sums(self.s)  # a file that isn't there is refused before the run has a folder
        with (
            stoppable("stopped as asked, outside of training; --resume goes on"),
            self.run.locked(),
        ):
            self.run.begin(asked, resume, force)
            train, lines = self._read(self.s.train)
            dev = self._read(self.s.dev)[0] if self.s.dev else []
            _refuse_other_shape(self.s, train, dev)
            self.kind, self.labels = _labels(self.s, train, dev)
            self.metric = metric_of(self.s, self.kind, self.labels)
            self.head = choose_head(self.s, self.kind, self.labels)
            self.labels = self.head.head.labels if self.head.kept else self.labels
            self.values = _typed(self.labels, self.readings, self.head)
            if plan := self.run.plan():
                _refuse_other_data(self.run.folder, plan.get("sha256", {}), self.sums)
            _say_learned(self.s, train, dev)
            if self.head.said:
                print(self.head.said, file=sys.stderr)
            examples = Split(train, dev) if dev or self.s.folds else self._split(train, lines)
            self.trained = read_trained(find(self.s.model))
            self._say_trained(examples.train if self.s.folds else examples.dev)
            self.run.write_plan({"asked": asked, "sha256": self.sums, "machine": machine()})
            try:
                made = self._made(examples)
            except TooLong as error:
                raise InputError(f"{self._place(error.example)}: {error}") from error
            self._save(made, examples, force)
            self._drop_copies()
        for line in removable(self.run):
            print(line, file=sys.stderr)
        return made.taught

    def _finished(self, asked: dict[str, Any]) -> Taught:
        """What came of a run that is at its end, as its folder has it."""
        made = read_json(self.target / "firth.json").get("made", {})
        # A folder of an older release lacks the options that came later: it was made as if they had been left out.
        fields = FinetuneSettings.model_fields.items()
        settings = {
            name: field.get_default(call_default_factory=True) for name, field in fields
        } | made.get("settings", {})
        wanted = {
            name: value for name, value in asked.items() if value is not None or name not in DECIDED
        }
        refuse_other(self.target, settings, settings | wanted)
        _refuse_other_data(self.target, made.get("sha256", {}), _sums(self.s))
        print(f"{self.target} is finished", file=sys.stderr)
        scores = {name: Interval(**interval) for name, interval in made["scores"].items()}
        decisions = Sheet.read(made["decisions"]) if "decisions" in made else None
        outcome = Outcome(made["steps"], made["best_step"], made.get("metrics", {}))
        more = made.get("positive"), made.get("kept"), made.get("selected_by")
        return Taught(outcome, scores, decisions, made.get("each", {}), *more)

    def _made(self, examples: Split) -> Made:
        if self.s.folds:
            return self._folds(examples.train, self.s.folds)
        if self.s.seeds > 1:
            return self._seeds(examples)
        bundle, outcome = self._teach(self.s, self.run, examples)
        return Made(bundle, self._judge(bundle, outcome, [(bundle, examples.dev)]), self.run)

    def _teach(
        self, settings: FinetuneSettings, run: Run, examples: Split, quiet: bool = False
    ) -> tuple[Bundle, Outcome]:
        bundle, outcome = teach(
            settings, run, self.kind, self.labels, *examples, keep=self.head.kept, quiet=quiet
        )
        bundle.values = self.values
        return bundle, outcome

    def _seeds(self, examples: Split) -> Made:
        """One seed after another on the same examples; the model that does best on those held out is kept."""
        worth = lesson(self.kind, self.labels, select=self.metric).worth
        best: Made | None = None  # the only one that stays in memory
        values: dict[str, dict[str, float]] = {}
        for seed in range(self.s.seed, self.s.seed + self.s.seeds):
            name = f"seed-{seed}"
            model, outcome = self._part(
                name, self.s.model_copy(update={"seed": seed}), examples, quiet=seed != self.s.seed
            )
            bundle = load(model)
            taught = self._judge(bundle, outcome, [(bundle, examples.dev)])._replace(kept=name)
            values[name] = _values(taught.scores)
            if best is None or worth(values[name]) > worth(_values(best.taught.scores)):
                best = Made(bundle, taught, Run(self.run.folder / name))
        assert best is not None
        return best._replace(taught=best.taught._replace(each=values))

    def _folds(self, examples: list[Example], count: int) -> Made:
        """Every example is answered by a model that did not see it; the model that is kept learns from them all."""
        judged: list[Judged] = []
        for number, own in enumerate(parts(examples, self.s.seed, count), 1):
            aside = set(own)
            others = [example for i, example in enumerate(examples) if i not in aside]
            model, _ = self._part(f"fold-{number}", self.s, Split(others, []), quiet=True)
            judged.append((model, [examples[i] for i in own]))
        bundle, outcome = self._teach(self.s, self.run, Split(examples, []))
        taught = self._judge(bundle, outcome, judged)
        heat = bundle.settings.get("temperature")
        each = {
            f"fold-{number}": _values(self._scores([pair], heat)[0])
            for number, pair in enumerate(judged, 1)
        }
        for values, (_, held) in zip(each.values(), judged, strict=True):
            for name in (
                ("pearson", "spearman") if len(held) < FEWEST else ()
            ):  # which so few say nothing of
                values.pop(name, None)
        return Made(bundle, taught._replace(each=each), self.run)

    def _part(
        self, name: str, settings: FinetuneSettings, examples: Split, quiet: bool
    ) -> tuple[Path, Outcome]:
        """One seed or fold, in a folder inside the run's; what is finished is not made again."""
        run = Run(self.run.folder / name)
        model = run.folder / "model"
        if not model.exists():
            print(name.replace("-", " "), file=sys.stderr, flush=True)
            run.folder.mkdir(exist_ok=True)
            bundle, outcome = self._teach(settings, run, examples, quiet)
            record = {"steps": outcome.steps, "best_step": outcome.best, "metrics": outcome.metrics}
            save(bundle, model, made=record)
        shutil.rmtree(run.checkpoints, ignore_errors=True)
        made = read_json(model / "firth.json")["made"]
        return model, Outcome(made["steps"], made["best_step"], made.get("metrics", {}))

    def _split(self, train: list[Example], lines: list[int]) -> Split:
        kept, held = split(train, self.s.seed)
        print(
            f"{len(held):,} of {len(train):,} examples are held out to measure on", file=sys.stderr
        )
        (self.run.folder / "held.json").write_text(
            json.dumps([lines[i] for i in held]) + "\n", encoding="utf-8"
        )
        found = Split([train[i] for i in kept], [train[i] for i in held])
        if unlearned := sorted(_names(found.dev) - _names(found.train)):
            print(
                f"note: only examples that are held out have {listed(unlearned)}, so that none is learned",
                file=sys.stderr,
            )
        return found

    def _say_trained(self, held: Sequence[Example]) -> None:
        """Warn of held-out rows that the model to begin with was trained on: keeping none of its head doesn't unlearn them."""
        if self.trained is None:
            if self.s.folds and self.head.head.kind not in PRETRAINED:
                what = f"{self.s.model} was fine-tuned before; where that was on these texts, the metrics of the folds are too good"
                print(f"note: {what}", file=sys.stderr)
            return
        if known := sum(was_trained_on(self.trained, example) for example in held):
            what = f"{known:,} of {len(held):,} held-out rows are texts that {self.s.model} was trained on"
            print(
                f"WARNING: {what}; the metrics on them say little (--dev FILE names new ones)",
                file=sys.stderr,
            )

    def _place(self, example: Example) -> str:
        """The file and line of an example."""
        places = (
            f"{name}:{line}" for name, rows in self.rows for line, one in rows if one is example
        )
        return next(places, shortened(example.text))

    def _read(self, name: str) -> tuple[list[Example], list[int]]:
        """The examples of a file, and the line of each."""
        columns = Named.of(self.s.text, self.s.second, self.s.label)
        reading = Reading(Path(name), columns, self.s.encoding, self.s.task, missing=self.s.missing)
        if name == self.s.train:
            self.columns = reading.columns
        usable = Usable(reading)
        rows = list(usable.numbered())
        usable.settle()
        if self.s.task == "classify":
            warn_of_missing(
                name, Counter(label for _, example in rows for label in labels_of(example))
            )
        self.readings.append(usable.reading)
        self.rows.append((name, rows))
        return [example for _, example in rows], [line for line, _ in rows]

    def _judge(self, bundle: Bundle, outcome: Outcome, judged: Sequence[Judged]) -> Taught:
        """Scores on held-out examples as a user would get them; classes also get a temperature and a sheet of decisions."""
        heat = self._temperature(judged) if self.s.task == "classify" else None
        if heat:
            bundle.settings["temperature"] = heat
        scores, answers = self._scores(judged, heat)
        if self.s.precision:
            self._set_threshold(bundle, answers)
        positive = self.labels[-1] if self.kind == "classify" else None
        precisions = sorted({*PRECISIONS, *([self.s.precision] if self.s.precision else [])})
        selected_by = None if self.s.folds else self.metric
        decisions = sheet(answers, self.labels, precisions) if answers else None
        return Taught(outcome, scores, decisions, {}, positive, selected_by=selected_by)

    def _predictor(self, model: Bundle | Path, heat: float | None = None) -> Predictor:
        """A model that answers with a temperature; those of folds are opened one at a time."""
        bundle = load(model) if isinstance(model, Path) else model
        if heat:
            bundle.settings["temperature"] = heat
        return Predictor(bundle, self.s.threads)

    def _temperature(self, judged: Sequence[Judged]) -> float:
        raw = [
            scores.tolist()
            for one, dev in judged
            for scores in self._predictor(one).raw(dev, self.s.long)
        ]
        has = [
            [label in labels_of(example) for label in self.labels]
            for _, dev in judged
            for example in dev
        ]
        logits, truth = np.array(raw), np.array(has)
        return (
            label_temperature(logits, truth)
            if self.kind == "several"
            else temperature(logits, truth.argmax(1))
        )

    def _scores(self, judged: Sequence[Judged], heat: float | None) -> tuple[Scores, list[Answer]]:
        scorer = Scorer(self.kind, self.labels)
        for one, dev in judged:
            scorer.read(self._predictor(one, heat), dev, self.s.long)
        return scorer.scores(), scorer.answers

    def _set_threshold(self, bundle: Bundle, answers: Sequence[Answer]) -> None:
        assert self.s.precision is not None
        chosen = decide(
            [c for _, _, c in answers], [t == s for t, s, _ in answers], self.s.precision
        )
        if chosen.threshold is None:
            print(
                f"WARNING: no confidence is right {_percent(self.s.precision)} of the time; the model will always be unsure",
                file=sys.stderr,
            )
        bundle.settings["threshold"] = NEVER if chosen.threshold is None else chosen.threshold

    def _save(self, made: Made, examples: Split, force: bool) -> None:
        taught, journal = made.taught, made.run.journal
        made.bundle.columns = self.columns.named if self.columns else None
        page = self.run.folder / "curves.html"
        page.write_text(curves(list(journal), self.target.name), encoding="utf-8")
        record = {
            "by": "finetune",
            "settings": decided(
                self.s, len(examples.train), made.bundle.encoder.width
            ).model_dump(),
            "sha256": self.sums,
            "examples": {"trained": len(examples.train), "held_out": len(examples.dev)},
            "best_step": taught.outcome.best,
            "steps": taught.outcome.steps,
            "metrics": taught.outcome.metrics,
            "scores": {name: interval._asdict() for name, interval in taught.scores.items()},
            **(
                {"decisions": taught.sheet.page(), "positive": taught.positive}
                if taught.sheet
                else {}
            ),
            **({"each": taught.each} if taught.each else {}),
            **({"kept": taught.kept} if taught.kept else {}),
            **({"selected_by": taught.selected_by} if taught.selected_by else {}),
            "machine": machine(),
        }
        write_trained(self.run.folder / TRAINED, examples.train, self.trained)
        beside = {
            "metrics.jsonl": journal.path,
            "curves.html": page,
            TRAINED: self.run.folder / TRAINED,
        }
        save(made.bundle, self.target, force, record, beside)
        (self.run.folder / TRAINED).unlink()
        self.run.settle()

    def _drop_copies(self) -> None:
        """Remove what a finished run has of an encoder that stayed, wholly or in part, as it was."""
        if self.s.features or self.s.top:
            for copy in (
                self.run.checkpoints,
                *self.run.folder.glob("seed-*/model"),
                *self.run.folder.glob("fold-*/model"),
            ):
                shutil.rmtree(copy, ignore_errors=True)


def _values(scores: Scores) -> dict[str, float]:
    return {name: interval.value for name, interval in scores.items()}


def _refuse_family(model: str) -> None:
    """Refuse a base model that can't be fine-tuned, before examples are read."""
    family = family_of(model)
    if family not in TRAINABLE:
        instead = "" if family.startswith("firth-") else " (firth embed gives its vectors)"
        raise InputError(
            f"{model} is a {family}; fine-tuning takes folders of BERT and GPT-2{instead}"
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
    """Stop before training where pairs are to be learned and single texts to be measured on, or the other way round."""
    learned, measured = ({is_pair(example) for example in examples} for examples in (train, dev))
    if learned and measured and not learned & measured:
        raise InputError(
            f"{s.dev} has {SHAPES[measured.pop()]}, where {s.train} has {SHAPES[learned.pop()]}"
        )


def _labels(
    s: FinetuneSettings, train: Sequence[Example], dev: Sequence[Example]
) -> tuple[str, tuple[str, ...]]:
    """What kind of head the examples ask for, and its labels in order."""
    if s.task == "regress":
        return "regress", ()
    known, measured = _names(train), _names(dev)
    if s.task == "tag" and not known:
        raise InputError(f"{s.train} has no named span in any text: there is nothing to learn")
    several = _has_lists(train)
    if several and not known:
        raise InputError(f"{s.train} has no label in any list: there is nothing to learn")
    if s.task == "classify" and not several and len(known) < 2:
        raise InputError(
            f"there is only one class, {next(iter(known), 'none')!r}: nothing can be told apart"
        )
    if several and s.balance:
        raise InputError(
            f"--balance is for one class a text, and {s.train} has lists of labels; leave it out"
        )
    if _has_lists(dev) and not several:
        raise InputError(
            f"{s.dev} has lists of labels, where {s.train} has one class for each text"
        )
    _say_unlearned(s, known, measured)
    if s.precision and UNSURE in known:
        raise InputError(
            f"a class is called {UNSURE!r}, which --precision lets the model say instead of a class; give it another name"
        )
    names = sorted(known | measured)
    if s.task == "tag":
        return "tag", tuple(tags_of(names))
    return "several" if several else "classify", tuple(names)


def _typed(labels: Sequence[str], readings: Sequence[Reading], head: Choice) -> tuple[Label, ...]:
    """The labels with the types that they have in the data; empty where all are strings.

    A .csv has no types: a head that is kept then has those of its folder.
    """
    for dev in readings[1:]:
        if conflict := next(type_conflicts(readings[0], dev), None):
            raise InputError(f"{dev.path} {conflict}")
    known: dict[str, Label] = (
        dict(zip(head.head.labels, head.head.values, strict=False)) if head.kept else {}
    )
    for reading in reversed(readings if readings[0].met else readings[:1]):
        known |= {label: met.value for label, met in reading.met.items()}
    values = tuple(known.get(label, label) for label in labels)
    if len(set(values)) < len(values):
        twice = next(
            (one, other) for at, one in enumerate(values) for other in values[:at] if one == other
        )
        raise InputError(
            f"{readings[0].path} has the labels {twice[1]!r} and {twice[0]!r}, which are equal: write one as text"
        )
    return () if all(isinstance(value, str) for value in values) else values


def _names(examples: Sequence[Example]) -> set[str]:
    return {name for example in examples for name in labels_of(example)}


def _has_lists(examples: Sequence[Example]) -> bool:
    return any(
        isinstance(example, Labelled) and isinstance(example.label, tuple) for example in examples
    )


def _say_unlearned(s: FinetuneSettings, known: set[str], measured: set[str]) -> None:
    """Name labels to measure on that nothing is learned about; if all are, the files are of different data."""
    unlearned = sorted(measured - known)
    if not unlearned:
        return
    if len(unlearned) == len(measured):
        raise InputError(
            f"{s.dev} has none of the labels of {s.train}, {listed(sorted(known))}; it has {listed(unlearned)}"
        )
    print(
        f"note: {s.dev} has labels that {s.train} lacks, so that none is learned: {listed(unlearned)}",
        file=sys.stderr,
    )


def _say_learned(s: FinetuneSettings, train: Sequence[Example], dev: Sequence[Example]) -> None:
    """Say how many texts to measure on are also learned from."""
    known = {words_of(example) for example in train} if dev else set()
    if learned := sum(words_of(example) in known for example in dev):
        said = f"{learned:,} of {len(dev):,} texts of {s.dev} are in {s.train} too"
        print(
            f"note: {said}: of them the scores say how well they were learned by heart (firth check names them)",
            file=sys.stderr,
        )


def show(taught: Taught, out: str | Path, as_json: bool) -> None:
    """Print the scores and, for classes, what the model may decide alone."""
    if as_json:
        scores = {name: interval._asdict() for name, interval in taught.scores.items()}
        decisions = taught.sheet.page() if taught.sheet else {}
        page = {
            "out": str(out),
            "steps": taught.outcome.steps,
            "metrics": scores,
            "decisions": decisions,
        }
        more: dict[str, Any] = {
            "each": taught.each,
            "kept": taught.kept,
            "selected_by": taught.selected_by,
        }
        more["positive"] = taught.positive if "f1" in scores else None
        print(json.dumps(page | {name: value for name, value in more.items() if value}))
        return
    kept = f"{taught.kept.replace('-', ' ')} is kept, " if taught.kept else ""
    by = f" (by {taught.selected_by})" if taught.selected_by else ""
    best = f"{kept}{taught.outcome.steps:,} steps, the best was step {taught.outcome.best:,}{by}"
    print(f"{out}: {best}; on held-out examples, with 95 % intervals:")
    print("\n".join(table(taught.scores, taught.positive)))
    if taught.each:
        _show_each(taught.each, taught.positive)
    if taught.sheet:
        print(
            "May decide alone, if it is to be right so often (>= is the low end of how often it is):"
        )
        print(
            f"  {'answer':20}"
            + "".join(f"{_percent(decided.precision):>26}" for decided in taught.sheet.all)
        )
        for name, rows in (("all", taught.sheet.all), *taught.sheet.labels.items()):
            print(
                f"  {shortened(name)[1:-1]:20}"
                + "".join(f"{_cell(decided):>26}" for decided in rows)
            )


def _show_each(each: dict[str, dict[str, float]], positive: str | None) -> None:
    """The mean and the spread of every score over seeds or folds."""
    what = next(iter(each)).partition("-")[0]
    print(f"Over {len(each)} {what}s:{'mean':>12}{'deviation':>12}{'lowest':>10}{'highest':>10}")
    for name in dict.fromkeys(name for scores in each.values() for name in scores):
        values = np.array([scores[name] for scores in each.values() if name in scores])
        deviation = f"{values.std(ddof=1):12.4f}" if len(values) > 1 else f"{'-':>12}"
        of = "" if len(values) == len(each) else f"   in {len(values)} of {len(each)}"
        print(
            f"  {named(name, positive):14}{values.mean():12.4f}{deviation}{values.min():10.4f}{values.max():10.4f}{of}"
        )


def _cell(decided: Decided) -> str:
    if decided.threshold is None:
        return "none"
    value, low, high = decided.decided
    return f"{value:.0%} ({100 * low:.0f} to {high:.0%}) >= {math.floor(100 * decided.right.low)}%"


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"
