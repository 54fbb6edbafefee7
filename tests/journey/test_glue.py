"""`firth glue` from a folder as published to the table, the models and the answers; after any stop too."""

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.reading.glue import TASKS
from tests.glue_files import table, write_glue, write_superglue
from tests.journey.command import Ended, listing, run
from tests.journey.place import Place
from tests.journey.warm import Warm

pytestmark = pytest.mark.usefixtures("one_thread")

SHORT = ("--steps", "1", "--batch", "4", "--threads", "1")
SUBMISSIONS = ("MNLI-m", "MNLI-mm", "AX", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC", "RTE")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT with a head for other labels."""
    return Place(tmp_path_factory.mktemp("models")).model("classify")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("glue")
    write_glue(folder)
    return write_superglue(folder)


def page_of(report: Path) -> dict[str, Any]:
    page: dict[str, Any] = json.loads((report / "report.json").read_text())
    return page


def scores_of(report: Path) -> dict[str, Any]:
    """What can't depend on when a run was stopped."""
    return {
        one["name"]: [(cell["seed"], cell["steps"], cell["scores"]) for cell in one["cells"]]
        for one in page_of(report)["results"]
    }


def predictions(report: Path, name: str) -> list[str]:
    lines = (report / "submission" / f"{name}.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    first = 9000 if name in ("MNLI-m", "MNLI-mm") else 0
    rows = [line.split("\t") for line in lines[1:]]
    assert [int(index) for index, _ in rows] == [*range(first, first + 8)]
    return [prediction for _, prediction in rows]


def test_every_task_from_its_files_to_the_table(
    published: Path, model: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    ended = run("glue", published, "--model", model, "-o", report, *SHORT)
    assert ended.code == 0, ended.err
    assert ended.out == (report / "report.md").read_text()
    found = page_of(report)
    sets = [name for task in TASKS for name in task.dev_sets.values()]
    assert [one["name"] for one in found["results"]] == sets
    assert found["failed"] == {}
    assert found["left_out"] == {"WiC": "firth has no task for it"}
    assert "RTE, seed 1: accuracy " in ended.err
    assert " is the majority class; " in ended.err
    assert "is left out" in ended.out
    for line in (
        "| Pre-OpenAI SOTA ",
        "| BERT-large ",
        "| T5 ",
        "| majority class ",
        f"| {model} ",
    ):
        assert line in ended.out
    of_set = {one["name"]: one for one in found["results"]}
    mrpc = {one["metric"]: one for one in of_set["MRPC"]["scores"]}
    assert mrpc["f1"]["majority"] == 0.0  # of as many the first by the alphabet, which isn't F1's
    assert mrpc["accuracy"]["majority"] == 0.5
    assert of_set["COPA"]["scores"][0]["majority"] == 0.5
    cell = of_set["MRPC"]["cells"][0]
    assert cell["scores"]["f1"]["low"] <= mrpc["f1"]["mean"] <= cell["scores"]["f1"]["high"]
    again = firth.evaluate(cell["model"], report / "data" / "MRPC" / "dev.jsonl", threads=1)
    assert again.models[0].metrics["f1"].value == mrpc["f1"]["mean"]
    assert of_set["MNLI-mm"]["cells"][0]["model"] == of_set["MNLI-m"]["cells"][0]["model"]
    assert of_set["MNLI-mm"]["seconds"] == 0.0
    assert found["seconds"] == sum(one["seconds"] for one in found["results"])

    assert set(found["submissions"]) == {
        str(report / "submission" / f"{name}.tsv") for name in (*SUBMISSIONS, "WNLI")
    }
    for name in ("CoLA", "SST-2", "MRPC", "QQP", "WNLI"):
        assert set(predictions(report, name)) <= {"0", "1"}
    for name in ("QNLI", "RTE"):
        assert set(predictions(report, name)) <= {"entailment", "not_entailment"}
    for name in ("MNLI-m", "MNLI-mm", "AX"):
        assert set(predictions(report, name)) <= {"entailment", "neutral", "contradiction"}
    numbers = predictions(report, "STS-B")
    assert all(0 <= float(one) <= 5 and len(one.partition(".")[2]) == 3 for one in numbers)
    answers = [json.loads(line) for line in _predicted(report, "RTE")]
    assert predictions(report, "RTE") == [one["label"] for one in answers]


def _predicted(report: Path, name: str) -> list[str]:
    """What `firth predict` says of a test set."""
    test = report / "data" / name / "test.jsonl"
    ended = run("predict", report / "models" / name / "seed-1", test, "--json", "--threads", "1")
    assert ended.code == 0, ended.err
    return ended.out.splitlines()


def in_two(published: Path, model: Path, report: Path, *more: object) -> list[object]:
    """Words for two tasks with two seeds each."""
    tasks = ("--tasks", "wnli,rte", "--seeds", "2")
    return ["glue", published, "--model", model, "-o", report, *tasks, *SHORT, *more]


def test_a_killed_report_goes_on_where_it_was(
    published: Path, model: Path, tmp_path: Path, warm: Warm
) -> None:
    whole = tmp_path / "whole"
    assert warm.run(*in_two(published, model, whole)).code == 0
    scores = scores_of(whole)
    assert [len(cells) for cells in scores.values()] == [2, 2]

    report = tmp_path / "report"
    # The third model is about to be put in its place.
    ended = warm.run(
        *in_two(published, model, report),
        before="import os\nos.environ['FIRTH_FAILPOINT'] = 'before-folder-rename:3'",
    )
    assert ended.code == -signal.SIGKILL
    before = finished(report)
    assert len(before) == 2
    assert len(page_of(report)["results"][0]["cells"]) == 2  # the report is of what is finished
    again = warm.run(*in_two(published, model, report, "--resume"))
    assert again.code == 0, again.err
    assert finished(report).items() > before.items()
    assert scores_of(report) == scores
    assert "sd " in again.out
    assert not [*report.rglob("*.run")]

    shown = listing(report)
    once_more = warm.run(*in_two(published, model, report, "--resume"))
    assert once_more.out == again.out
    assert "seed 1" not in once_more.err
    assert listing(report) == shown
    assert f"{report}/models/*/seed-*/ (4 models, " in once_more.err

    for folder in report.glob("models/*/seed-*/"):
        shutil.rmtree(folder)
    without = warm.run(*in_two(published, model, report, "--resume"))
    assert without.out == again.out
    assert not finished(report)
    assert "may be removed" not in without.err


def finished(report: Path) -> dict[str, int]:
    """When each model was saved."""
    return {
        str(path): path.stat().st_mtime_ns for path in report.glob("models/*/*/model.safetensors")
    }


def test_a_request_to_stop_is_obeyed_and_goes_on(
    published: Path, model: Path, tmp_path: Path, warm: Warm
) -> None:
    report = tmp_path / "report"
    words = ["glue", published, "--model", model, "-o", report, "--tasks", "rte"]
    words += ["--steps", "100000", "--batch", "4", "--threads", "1"]
    started = warm.start(*words)
    journal = report / "models" / "RTE" / "seed-1.run" / "metrics.jsonl"
    end = time.monotonic() + 60
    while started.running and time.monotonic() < end:
        if journal.exists() and journal.read_text().count("\n") > 5:
            break
        time.sleep(0.01)
    started.signal(signal.SIGTERM)
    ended = started.wait()
    assert ended.code == 3
    assert "as asked; --resume goes on" in ended.err
    refused = run(*words)
    assert refused.code == 2
    assert (
        f"{report} holds a report: --resume goes on with it, --force throws it away" in refused.err
    )
    other = run(*words, "--resume", "--rate", "1e-3")
    assert other.code == 2
    assert "holds a run with rate None, not 0.001" in other.err
    anew = run(*words[:-6], *SHORT, "--force", "--json")
    assert anew.code == 0, anew.err
    assert json.loads(anew.out) == page_of(report)


def test_a_damaged_task_fails_and_the_others_go_on(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write_glue(folder)
    with (folder / "RTE" / "train.tsv").open("a") as file:
        file.write("8\tone field too few\n")
    report = tmp_path / "report"
    words = ["glue", folder, "--model", model, "-o", report, "--tasks", "rte,WNLI", *SHORT]
    ended = run(*words)
    assert ended.code == 1
    said = f"{folder / 'RTE' / 'train.tsv'}:10 has 2 fields where there should be 4"
    assert f"note: RTE failed: {said}" in ended.err
    assert ended.err.endswith(f"firth: failed: RTE ({report} says why)\n")
    assert said in page_of(report)["failed"]["RTE"]
    assert [one["name"] for one in page_of(report)["results"]] == ["WNLI"]
    assert f"RTE failed: {said}" in ended.out

    head = ("index", "sentence1", "sentence2", "label")
    rows = [(at, f"one {at}", "two", ("entailment", "not_entailment")[at % 2]) for at in range(8)]
    table(folder / "RTE" / "train.tsv", [head, *rows])
    mended = run(*words, "--resume")
    assert mended.code == 0, mended.err
    assert {one["name"] for one in page_of(report)["results"]} == {"RTE", "WNLI"}


def refusal(*words: object) -> Ended:
    ended = run("glue", *words)
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    return ended


def test_a_wrong_call_is_refused_before_anything_is_written(
    published: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report"
    asked = ("--model", model, "-o", out)
    assert "looked for folders" in refusal(tmp_path, *asked).err
    assert "nowhere is no folder" in refusal(tmp_path / "nowhere", *asked).err
    assert "there is no task 'sst-5'" in refusal(published, *asked, "--tasks", "sst-5").err
    both = refusal(published, *asked, "--steps", "5", "--epochs", "1").err
    assert "--steps and --epochs both say how long to train" in both
    language = Path(__file__).parents[1] / "earlier" / "ffnn"
    said = refusal(published, "--model", language, "-o", out).err
    assert "fine-tuning takes folders of bert, roberta" in said
    assert not out.exists()
    inside = refusal(published, "--model", model, "-o", published.parent).err
    assert f"{published} stands in {published.parent}" in inside
    out.mkdir()
    (out / "letter.txt").write_text("mine")
    assert "exists and is no report" in refusal(published, *asked, "--force").err
    assert (out / "letter.txt").exists()
    with pytest.raises(firth.InputError, match="seeds is a whole number from 1 to 100, not 0"):
        firth.glue(published, model, tmp_path / "other", seeds=0)


def test_another_model_or_other_files_are_refused_in_a_report(
    published: Path, model: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    firth.glue(published, model, report, tasks=["wnli"], steps=1, batch=4, threads=1)
    other = Place(tmp_path).model("regress")
    said = run("glue", published, "--model", other, "-o", report, *SHORT, "--resume")
    assert said.code == 2
    assert "holds a report on another model; --force throws it away" in said.err
    # A further task joins those of the report, also where that was moved.
    moved = report.rename(tmp_path / "moved")
    more = firth.glue(
        published, model, moved, tasks=["cola"], steps=1, batch=4, threads=1, resume=True
    )
    assert [one.name for one in more.results] == ["CoLA", "WNLI"]
    assert "| WNLI |" in (moved / "report.md").read_text()
    assert more.results[1].cells[0].model == str(moved / "models" / "WNLI" / "seed-1")
    assert more.results[0].scores[0].metric == "matthews"
