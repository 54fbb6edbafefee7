"""Fine-tune and judge a model: trained once, with one seed after another, or in folds.

A seed or fold has a folder of its own inside the run's; what is finished is not made again.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

from firth.base.files import read_json
from firth.base.notes import progress_line
from firth.data.examples import Example
from firth.evaluation.held_out import HeldOut, Judge, Judgement, values
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.reading.split import parts
from firth.recipes.examples import TrainDev
from firth.recipes.finetune import task_of_examples, train_task
from firth.recipes.labels import FinetuneGoal
from firth.recipes.settings import FinetuneSettings
from firth.recipes.texttotext import train_pairs
from firth.train.loop import Outcome
from firth.train.run import Run

FOLDERS = ("seed-*", "fold-*")


class JudgedModel(NamedTuple):
    """The model to keep, how good it is, and the run that it came from."""

    bundle: Bundle
    outcome: Outcome
    judgement: Judgement
    run: Run
    each: dict[str, dict[str, float]]  # metrics of every seed or fold, by its name
    kept: str | None  # of several seeds the one whose model is kept


class Finetuning:
    """Trains models of one goal in a run's folder, and judges them on held-out examples."""

    def __init__(self, s: FinetuneSettings, run: Run, goal: FinetuneGoal) -> None:
        self.s = s
        self.run = run
        self.goal = goal
        self.task = task_of_examples(s, goal.kind, goal.labels)
        self.judge = Judge(self.task, goal.labels, s.long, s.target_precision, s.threads)

    def train(self, examples: TrainDev) -> JudgedModel:
        """Train as the settings ask: in folds, with several seeds, or once."""
        if self.s.folds:
            return self._in_folds(examples.train, self.s.folds)
        if self.s.seeds > 1:
            return self._with_seeds(examples)
        bundle, outcome = self._train_one(self.s, self.run, examples)
        judgement = self._judge_kept(bundle, [HeldOut(bundle, examples.dev)])
        return JudgedModel(bundle, outcome, judgement, self.run, each={}, kept=None)

    def _with_seeds(self, examples: TrainDev) -> JudgedModel:
        """Train with one seed after another; keep the model that does best on held-out examples."""
        best: JudgedModel | None = None  # the only one that stays in memory
        best_value = 0.0
        each: dict[str, dict[str, float]] = {}
        for seed in range(self.s.seed, self.s.seed + self.s.seeds):
            name = f"seed-{seed}"
            settings = self.s.model_copy(update={"seed": seed})
            quiet = seed != self.s.seed
            model, outcome = self._train_part(name, settings, examples, quiet)

            bundle = load(model)
            judgement = self._judge_kept(bundle, [HeldOut(bundle, examples.dev)])
            each[name] = values(judgement.scores)
            value = self.task.select_value(each[name])
            if best is None or value > best_value:
                run = Run(self.run.folder / name)
                best = JudgedModel(bundle, outcome, judgement, run, each={}, kept=name)
                best_value = value
        assert best is not None
        return best._replace(each=each)

    def _in_folds(self, examples: list[Example], count: int) -> JudgedModel:
        """Let a model that did not see an example answer it; keep one that is trained on all."""
        folds: list[HeldOut] = []
        for number, own in enumerate(parts(examples, self.s.seed, count), 1):
            aside = set(own)
            others = [example for i, example in enumerate(examples) if i not in aside]
            held = [examples[i] for i in own]
            train = TrainDev(others, [])
            model, _ = self._train_part(f"fold-{number}", self.s, train, quiet=True)
            folds.append(HeldOut(model, held))

        bundle, outcome = self._train_one(self.s, self.run, TrainDev(examples, []))
        judgement = self._judge_kept(bundle, folds)
        each = {}
        for number, fold in enumerate(folds, 1):
            each[f"fold-{number}"] = self.judge.metrics(fold, judgement.calibrated)
        return JudgedModel(bundle, outcome, judgement, self.run, each, kept=None)

    def _judge_kept(self, bundle: Bundle, held_out: list[HeldOut]) -> Judgement:
        """Judge the model that is to be kept, and give it the settings that come of that."""
        judgement = self.judge.judge(held_out)
        bundle.settings |= judgement.settings
        return judgement

    def _train_part(
        self, name: str, settings: FinetuneSettings, examples: TrainDev, quiet: bool
    ) -> tuple[Path, Outcome]:
        """Train the model of a seed or fold, unless it is there; return where it is."""
        run = Run(self.run.folder / name)
        model = run.folder / "model"
        if not model.exists():
            progress_line(name.replace("-", " "))
            run.folder.mkdir(exist_ok=True)
            bundle, outcome = self._train_one(settings, run, examples, quiet)
            record = {"steps": outcome.steps, "best_step": outcome.best, "metrics": outcome.metrics}
            save(bundle, model, made=record)
        shutil.rmtree(run.checkpoints, ignore_errors=True)
        made = read_json(model / "firth.json")["made"]
        return model, Outcome(made["steps"], made["best_step"], made.get("metrics", {}))

    def _train_one(
        self, settings: FinetuneSettings, run: Run, examples: TrainDev, quiet: bool = False
    ) -> tuple[Bundle, Outcome]:
        goal = self.goal
        if self.task.contract != "encoder":
            return train_pairs(settings, run, goal.kind, goal.labels, *examples, quiet=quiet)
        keep = goal.head.kept
        bundle, outcome = train_task(
            settings, run, goal.kind, goal.labels, *examples, keep=keep, quiet=quiet
        )
        bundle.values = goal.values
        return bundle, outcome


def drop_copies(run: Run) -> None:
    """Remove the checkpoints of a finished run, and the models of its seeds or folds."""
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    for folders in FOLDERS:
        for copy in run.folder.glob(f"{folders}/model"):
            shutil.rmtree(copy, ignore_errors=True)
