"""Fine-tune and measure a model on every task of GLUE that a folder has, and write the table."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from firth.base.arguments import as_path, as_strings, as_whole, check_flags
from firth.base.errors import FirthError, InputError, Stopped
from firth.base.files import new_file, read_json, sha256
from firth.base.notes import note, progress_line
from firth.base.signals import stoppable
from firth.evaluation.glue import GlueCell, GlueReport, GlueResult, glue_scores
from firth.evaluation.glue_table import markdown, score_text
from firth.folders.find import find
from firth.metrics.sums import Interval
from firth.output.submission import write_submission
from firth.reading.glue import TASKS, GlueFolder, find_glue, known_tasks
from firth.reading.glue_data import GlueData, prepare_glue
from firth.reading.readers import Reading
from firth.recipes.host import temporary_runs
from firth.recipes.inputs import refuse_family
from firth.recipes.settings import FinetuneSettings
from firth.tasks.classify import Classify
from firth.tasks.registry import readers
from firth.tasks.task import Answer
from firth.text.lines import records
from firth.train.run import folder_size, refuse_other
from firth.verbs.evaluate import evaluate
from firth.verbs.finetune import finetune
from firth.verbs.predict import predict

PLAN = "glue.json"  # what a report was asked for
MOST_SEEDS = 100

Cells = dict[str, GlueCell]  # of one seed, by the set that the model was measured on


def glue(
    folder: str | Path,
    model: str | Path,
    out: str | Path,
    *,
    tasks: str | Sequence[str] | None = None,
    seeds: int = 1,
    seed: int = 1,
    epochs: float | None = None,
    steps: int | None = None,
    batch: int | None = None,
    rate: float | None = None,
    length: int | None = None,
    threads: int | None = None,
    resume: bool = False,
    force: bool = False,
) -> GlueReport:
    """Return what a model reaches on each task of a folder, and write it to `out` with all models.

    `tasks` are the tasks to measure, as a list or parted by commas, by default all. Options of the
    training are those of `finetune`; a task whose files can't be used is reported as failed.
    """
    check_flags(resume=resume, force=force)
    folder = as_path("folder", folder)
    model = as_path("model", model)
    out = as_path("out", out)
    names: Sequence[str] = ()
    if tasks is not None:
        names = known_tasks(tasks if isinstance(tasks, str) else as_strings("tasks", tasks))
    first = as_whole("seed", seed)
    count = as_whole("seeds", seeds, 1, MOST_SEEDS)
    options = {
        "epochs": epochs,
        "steps": steps,
        "batch": batch,
        "rate": rate,
        "length": length,
    }

    # What finetune would refuse is refused before anything is written.
    call = {
        "task": Classify.name,
        "model": model,
        "train": folder,
        "out": out,
        "seed": first,
        "threads": threads,
    }
    FinetuneSettings.given(call | options)
    refuse_family(model)
    found = find_glue(Path(folder), names)
    # --force empties the folder of the report.
    report = Path(out).resolve()
    for given in (folder, find(model)):
        if Path(given).resolve().is_relative_to(report):
            raise InputError(f"{given} stands in {out}; choose another name for the report")

    every_seed = range(first, first + count)
    benchmark = _Benchmark(model, Path(out), every_seed, options, threads, found.left_out)
    benchmark.begin(resume, force)
    with stoppable("stopped as asked; --resume goes on"), temporary_runs():
        benchmark.recall(find_glue(Path(folder)).folders)
        result = benchmark.run(found.folders)
    benchmark.say_removable()
    return result


class _Benchmark:
    """One call of `glue`."""

    def __init__(
        self,
        model: str,
        out: Path,
        seeds: range,
        options: dict[str, Any],
        threads: int | None,
        left_out: dict[str, str],
    ) -> None:
        self.model = model
        self.out = out
        self.seeds = seeds
        self.options = options
        self.threads = threads
        self.left_out = left_out
        self.failed: dict[str, str] = {}
        self.results: dict[str, GlueResult] = {}  # by the name of the set
        self.submissions: set[str] = set()

    def begin(self, resume: bool, force: bool) -> None:
        """Make the folder of the report, or go on in it with the same model and options."""
        files = sorted(find(self.model).glob("*.safetensors"))
        weights = {path.name: sha256(path) for path in files}
        plan = {"options": self.options, "weights": weights}
        record = self.out / PLAN
        is_report = record.is_file()
        if not is_report and not _is_free(self.out):
            raise InputError(f"{self.out} exists and is no report; choose another name")

        if is_report and resume:
            _refuse_other_report(self.out, read_json(record), plan)
        elif is_report and force:
            shutil.rmtree(self.out)
        elif is_report:
            cure = "--resume goes on with it, --force throws it away"
            raise InputError(f"{self.out} holds a report: {cure}")
        _write_json(record, plan)

    def run(self, folders: Sequence[GlueFolder]) -> GlueReport:
        """Measure the tasks one after another, small ones first; return what came of them."""
        by_size = sorted(folders, key=lambda found: found.files["train"].stat().st_size)
        count = len(by_size)
        for number, found in enumerate(by_size, 1):
            name = found.task.name
            progress_line(f"{name} ({number} of {count})")
            try:
                self._measure(found)
            except Stopped:
                raise
            except FirthError as error:
                self.failed[name] = str(error)
                note(f"{name} failed: {error}")
            report = self._write_report()
        return report

    def recall(self, folders: Sequence[GlueFolder]) -> None:
        """Take up what earlier calls reached: this one may be for other tasks."""
        for found in folders:
            name = found.task.name
            records = (self.out / "models" / name).glob("seed-*.json")
            seeds = sorted(int(record.stem.removeprefix("seed-")) for record in records)
            if not seeds:
                continue
            try:
                data = prepare_glue(found, self.out / "data" / name)
            except FirthError as error:
                self.failed[name] = str(error)
                note(f"{name} failed: {error}")
                continue
            self._add(data, [self._finished_cells(name, seed) for seed in seeds])
            answers = [self.out / "submission" / file for file in data.task.submissions.values()]
            self.submissions |= {str(path) for path in answers if path.exists()}

    def say_removable(self) -> None:
        """Say how large the models are, which a report doesn't need once it is written."""
        models = sorted((self.out / "models").glob("*/seed-*/"))
        megabytes = round(sum(map(folder_size, models)) / 1e6)
        if models:
            each = f"{self.out}/models/*/seed-*/ ({len(models)} models, {megabytes:,} MB)"
            progress_line(f"{each} may be removed: the report doesn't need them")

    def _measure(self, found: GlueFolder) -> None:
        """Train a task with each seed, and answer its test sets."""
        folder = self.out / "data" / found.task.name
        data = prepare_glue(found, folder)
        task = _task_of(data)
        every: list[Cells] = []
        for seed in self.seeds:
            every.append(self._cells(data, task, seed))
            self._add(data, every)
            self._write_report()

        on_dev = [one["dev"] for one in every]
        self._answer(data, on_dev)

    def _add(self, data: GlueData, every: Sequence[Cells]) -> None:
        """Take note of what the models of a task reached, a seed each."""
        for part, name in data.task.dev_sets.items():
            if part in data.rows:
                cells = [one[part] for one in every]
                self.results[name] = _result(data, part, name, cells)

    def _model(self, task: str, seed: int) -> Path:
        """Return where a model of a task stands; beside it is the record of what it reached."""
        return self.out / "models" / task / f"seed-{seed}"

    def _finished_cells(self, task: str, seed: int) -> Cells:
        """Return what a model that is finished reached."""
        model = self._model(task, seed)
        pages = read_json(model.with_name(f"{model.name}.json"))
        return {part: _read_cell(page, model) for part, page in pages.items()}

    def _cells(self, data: GlueData, task: str, seed: int) -> Cells:
        """Return what a model with one seed reaches; one that is finished isn't trained again."""
        name = data.task.name
        model = self._model(name, seed)
        record = model.with_name(f"{model.name}.json")
        if record.exists():
            return self._finished_cells(name, seed)

        progress_line(f"{name}, seed {seed}")
        on_dev = self._train(data, task, seed, model)
        cells = {"dev": on_dev}
        for part in data.task.dev_sets:
            if part not in data.rows or part == "dev":
                continue
            found = evaluate(model, data.file(part), threads=self.threads)
            scores = found.models[0].metrics
            # The training's time counts once.
            cells[part] = on_dev._replace(seconds=0.0, scores=scores)

        pages = {part: cell.as_json() for part, cell in cells.items()}
        _write_json(record, pages)
        checkpoints = model.with_name(f"{model.name}.run")
        shutil.rmtree(checkpoints, ignore_errors=True)
        for part, cell in cells.items():
            result = _result(data, part, data.task.dev_sets[part], [cell])
            _say_finished(result, seed)
        return cells

    def _train(self, data: GlueData, task: str, seed: int, model: Path) -> GlueCell:
        """Fine-tune a model with one seed, or go on where that stopped; return its dev metrics."""
        tuned = finetune(
            task,
            self.model,
            data.file("train"),
            model,
            dev=data.file("dev"),
            select=data.task.select,
            new_head=True,
            seed=seed,
            threads=self.threads,
            resume=True,
            **self.options,
        )
        lacking = [name for name in data.task.metrics if name not in tuned.scores]
        if lacking:
            raise InputError(f"{model} is not measured by {lacking[0]}, as {data.task.name} is")
        return GlueCell(
            seed,
            str(model),
            tuned.outcome.steps,
            _trained_seconds(model),
            tuned.scores,
        )

    def _answer(self, data: GlueData, cells: Sequence[GlueCell]) -> None:
        """Write the answers of the best seed's model to each test set."""
        metric = data.task.metrics[0]
        best = max(cells, key=lambda cell: cell.scores[metric].value)
        folder = self.out / "submission"
        record = folder / "models.json"  # which model each file is from
        made = {}
        if record.exists():
            made = read_json(record)
        chosen = Path(best.model).name
        for part, name in data.task.submissions.items():
            if part not in data.rows:
                continue
            path = folder / name
            is_made = made.get(name) == chosen and path.exists()
            if not is_made:
                answers = self._answers(best.model, data.file(part))
                write_submission(path, answers)
                made[name] = chosen
                _write_json(record, made)
            self.submissions.add(str(path))

    def _answers(self, model: str, file: Path) -> Iterator[tuple[str, Answer]]:
        """Yield the index of each row of a test set with its answer."""
        answers = predict(model, file, threads=self.threads)
        for (_, row), answered in zip(records(file), answers, strict=True):
            yield row["index"], answered.answer

    def _write_report(self) -> GlueReport:
        """Write what is known so far, as a page and as JSON."""
        results: list[GlueResult] = []
        for task in TASKS:
            names = [name for name in task.dev_sets.values() if name in self.results]
            results += [self.results[name] for name in names]
        report = GlueReport(
            str(self.out),
            self.model,
            tuple(results),
            dict(self.failed),
            dict(self.left_out),
            tuple(sorted(self.submissions)),
        )
        _write_json(self.out / "report.json", report.as_json())
        page = markdown(report)
        with new_file(self.out / "report.md", force=True) as fresh:
            fresh.write_text(page, encoding="utf-8")
        return report


def _is_free(folder: Path) -> bool:
    """Return whether a report may be written there: nothing stands there, or an empty folder."""
    if not folder.exists():
        return True
    return folder.is_dir() and not any(folder.iterdir())


def _refuse_other_report(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to go on with a report on another model, or with other options."""
    if before["weights"] != now["weights"]:
        raise InputError(f"{out} holds a report on another model; --force throws it away")
    refuse_other(out, before["options"], now["options"])


def _task_of(data: GlueData) -> str:
    """Return the task whose reader takes the rows."""
    task = Reading(data.file("train"), readers=readers()).task
    assert task is not None  # they were written with labels
    return task


def _result(data: GlueData, part: str, name: str, cells: Sequence[GlueCell]) -> GlueResult:
    """Return what models reach on one set, beside the majority class."""
    trained = data.labels.get("train", {})
    measured = data.labels.get(part, {})
    scores = glue_scores(data.task.metrics, cells, trained, measured)
    return GlueResult(
        name,
        data.rows["train"],
        data.rows[part],
        data.held_out,
        scores,
        tuple(cells),
    )


def _say_finished(result: GlueResult, seed: int) -> None:
    """Say what a model reached on a set."""
    shown = [f"{score.metric} {score_text(score)}" for score in result.scores]
    majority = 100 * result.scores[0].majority
    parts = [
        ", ".join(shown),
        f"{majority:.1f} is the majority class",
        f"{result.seconds:,.0f} s",
    ]
    progress_line(f"{result.name}, seed {seed}: {'; '.join(parts)}")


def _trained_seconds(model: Path) -> float:
    """Return how long a training took, over all processes that it lived in."""
    journal = records(model / "metrics.jsonl")
    seconds = [float(record["seconds"]) for _, record in journal]
    return max(seconds, default=0.0)


def _read_cell(page: dict[str, Any], model: Path) -> GlueCell:
    """Return a finished cell; its model is where the report is now."""
    scores = {name: Interval(**interval) for name, interval in page["scores"].items()}
    fields = page | {"model": str(model), "scores": scores}
    return GlueCell(**fields)


def _write_json(path: Path, page: dict[str, Any]) -> None:
    """Write a file of JSON, in place of an older one."""
    text = json.dumps(page, indent=1)
    with new_file(path, force=True) as fresh:
        fresh.write_text(f"{text}\n", encoding="utf-8")
