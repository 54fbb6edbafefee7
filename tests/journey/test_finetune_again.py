"""Fine-tuning a fine-tuned folder: which head it begins with, which step it keeps, and which rows it has seen before."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import firth
from firth.data.examples import Line
from firth.samples.tickets import MARKED
from firth.tasks.registry import find_kind
from tests.journey.command import run
from tests.journey.place import LATER, QUEUES, STILL, TEXTS, Place

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("again"))


def answers(model: Path) -> list[Any]:
    """Scores of the tickets, before any calibration."""
    predictor = firth.load(model, threads=1)
    return [scores for text in TEXTS[:5] for (scores,) in predictor.raw([Line(text)])]


def same(one: Path, other: Path) -> bool:
    return all(
        torch.allclose(a, b, atol=1e-3) for a, b in zip(answers(one), answers(other), strict=True)
    )


@pytest.mark.parametrize("kind", ["classify", "several", "regress", "tag", "gpt"])
def test_the_head_of_the_same_task_and_labels_is_kept(kind: str, place: Place) -> None:
    model = place.model("regress" if kind == "gpt" else kind, gpt=kind == "gpt")
    kind = "regress" if kind == "gpt" else kind
    ended = place.tune(kind, model, f"{model.name}-kept")
    what = "same task" if kind == "regress" else "same task and labels"
    assert f"the head of {model} is kept: {what} (--new-head initialises one)\n" in ended.err
    kept = place.folder / f"{model.name}-kept"
    assert same(model, kept)
    assert firth.load(kept).bundle.labels == place.labels[kind]  # in the order of the folder


def test_a_new_head_is_initialised_and_that_is_said(place: Place) -> None:
    model = place.model("classify")
    ended = place.tune("classify", model, "new", "--new-head")
    assert "a new head is initialised: --new-head\n" in ended.err
    assert not same(model, place.folder / "new")
    other = place.model("classify", ("praise", "delivery", "spam"))
    added = sorted({*MARKED} - {"praise", "delivery"})
    said = f"added {', '.join(map(repr, added))}; missing 'spam'"
    assert (
        f"a new head is initialised: the labels differ from those of {other} ({said})\n"
        in place.tune("classify", other, "l").err
    )
    said = f"a new head is initialised: that of {model} gives one class, and this task a number\n"
    assert said in place.tune("regress", model, "n").err
    bare = place.model("classify")
    page = json.loads((bare / "config.json").read_text())
    (bare / "config.json").write_text(json.dumps(page | {"architectures": ["BertModel"]}))
    assert "head" not in place.tune("classify", bare, "b").err  # there was none to lose


def test_a_head_on_frozen_layers_is_kept_on_the_same_layers(place: Place) -> None:
    place.tune("classify", place.model("tag"), "frozen", "--features", "-2..-1", "--rate", "1e-2")
    frozen = place.folder / "frozen"
    ended = place.tune(
        "classify", frozen, "same", "--features", "1,2"
    )  # the same layers by other names
    assert f"the head of {frozen} is kept: same task and labels" in ended.err
    assert same(frozen, place.folder / "same")
    for out, options, reads in (
        ("other", ("--features", "1,2", "--combine", "concat"), "--features 1,2 --combine concat"),
        ("whole", (), "the whole encoder"),
    ):
        ended = place.tune("classify", frozen, out, *options)
        said = f"that of {frozen} reads --features 1,2 --combine weights, and this one {reads}"
        assert f"a new head is initialised: {said}\n" in ended.err


def test_folds_keep_no_head_and_seeds_begin_with_it(place: Place) -> None:
    place.tune("classify", place.model("classify"), "before")
    before = place.folder / "before"
    ended = place.tune("classify", before, "folds", "--folds", "2")
    assert (
        f"a new head is initialised: that of {before} may have seen the rows that --folds holds out\n"
        in ended.err
    )
    rows = f"{len(TEXTS)} of {len(TEXTS)} held-out rows"
    assert (
        f"WARNING: {rows} are texts that {before} was trained on; the metrics on them say little"
        in ended.err
    )
    ended = place.tune("classify", before, "seeds", "--seeds", "2")
    assert ended.err.count(f"the head of {before} is kept") == 1
    assert same(before, place.folder / "seeds")


def test_a_run_goes_on_only_with_the_same_head_metric_and_words(place: Place) -> None:
    model = place.model("classify")
    options = ("--new-head", "--select", "matthews", "--missing", "none")
    place.tune("classify", model, "whole", *options, "--force")
    assert "is finished" in place.tune("classify", model, "whole", *options, "--resume").err
    for left_out, rest in (
        ("new_head", options[1:]),
        ("select", (*options[:1], *options[3:])),
        ("missing", options[:3]),
    ):
        ended = place.tune("classify", model, "whole", *rest, "--resume", code=2)
        assert f"holds a run with {left_out} " in ended.err


def test_the_metric_that_selects_the_best_step_is_told(place: Place) -> None:
    model = place.model("classify")
    noisy = ("--rate", "0.03", "--epochs", "4", "--patience", "4", "--batch", "16", "--json")
    for name, metric, options in (
        ("balanced", "macro_f1", ("--balance",)),
        ("chosen", "accuracy", ("--balance", "--select", "accuracy")),
    ):
        page = json.loads(place.tune("classify", model, name, *noisy, *options).out)
        assert page["selected_by"] == metric
        made = json.loads((place.folder / name / "firth.json").read_text())["made"]
        assert made["selected_by"] == metric
        journal = [
            json.loads(line)
            for line in (place.folder / name / "metrics.jsonl").read_text().splitlines()
        ]
        measured = {
            record["step"]: record["dev"]
            for record in journal
            if "dev" in record and record["step"]
        }
        ranks = {step: (dev[metric], -dev["loss"]) for step, dev in measured.items()}
        assert ranks[made["best_step"]] == max(ranks.values())
    shown = place.tune("classify", model, "chosen", *noisy[:-1], *options, "--resume").out
    assert f"the best was step {made['best_step']} (by accuracy); on held-out examples" in shown


@pytest.mark.parametrize(
    ("kind", "labels", "select", "worse", "better"),
    [
        (
            "classify",
            ("a", "b"),
            "macro_f1",
            {"accuracy": 0.9, "macro_f1": 0.4},
            {"accuracy": 0.8, "macro_f1": 0.6},
        ),
        (
            "several",
            ("a", "b"),
            "exact",
            {"micro_f1": 0.9, "exact": 0.4},
            {"micro_f1": 0.8, "exact": 0.6},
        ),
        ("regress", (), "mse", {"pearson": 0.9, "mse": 4.0}, {"pearson": 0.8, "mse": 3.0}),
        (
            "regress",
            (),
            "mse",
            {"pearson": 0.9, "loss": 4.0},
            {"pearson": 0.8, "loss": 3.0},
        ),  # while training
        (
            "tag",
            ("O", "B-a", "I-a"),
            "accuracy",
            {"f1": 0.9, "accuracy": 0.4},
            {"f1": 0.8, "accuracy": 0.6},
        ),
    ],
)
def test_the_best_has_most_of_what_was_chosen(
    kind: str,
    labels: tuple[str, ...],
    select: str,
    worse: dict[str, float],
    better: dict[str, float],
) -> None:
    task = find_kind(kind)
    chosen, usual = task.of_examples(kind, labels, select=select), task.of_examples(kind, labels)
    assert chosen.select_value(better) > chosen.select_value(worse)
    assert usual.select_value(better) < usual.select_value(worse)


@pytest.mark.parametrize(
    ("kind", "options", "complaint"),
    [
        (
            "classify",
            ("--select", "auc"),
            "--select auc is no metric of classify; there are: accuracy, macro_f1, matthews, f1, micro_f1",
        ),
        (
            "classify",
            ("--select", "f1"),
            f"--select f1 is not for {len(QUEUES)} classes; there are: accuracy, macro_f1, matthews",
        ),
        (
            "several",
            ("--select", "accuracy"),
            "is not for lists of labels; there are: micro_f1, macro_f1, exact",
        ),
        (
            "tag",
            ("--select", "pearson"),
            "--select pearson is no metric of tag; there are: f1, accuracy",
        ),
        (
            "classify",
            ("--select", "accuracy", "--folds", "2"),
            "--select needs examples to measure on",
        ),
    ],
)
def test_a_metric_that_the_task_does_not_have_is_refused(
    kind: str, options: tuple[str, ...], complaint: str, place: Place
) -> None:
    ended = place.tune(
        kind,
        place.folder / "nowhere" if "auc" in options else place.model(kind),
        "refused",
        *options,
        code=2,
    )
    assert complaint in ended.err
    assert not (place.folder / "refused").exists()


def test_rows_that_a_model_was_trained_on_are_counted(place: Place) -> None:
    model = place.model("classify")
    place.tune("classify", model, "first", "--dev", place.file("dev", place.rows["classify"][30:]))
    known = [
        {**row, "text": f"  {row['text'].replace(' ', '  ')}\n"}
        for row in place.rows["classify"][:4]
    ]
    data = place.file("later", [*known, *({"text": t.text, "label": t.about} for t in LATER)])
    count = 4 + len(LATER)
    ended = run("evaluate", place.folder / "first", data, "--json", "--threads", "1")
    share = f"4 of {count} rows ({400 / count:.0f} %)"
    note = (
        f"note: {share} are texts that the model was trained on; its metrics on them say little\n"
    )
    assert note in ended.err
    assert json.loads(ended.out)["models"][0]["trained_on"] == 4
    place.file("second", [{"text": t.text, "label": t.about} for t in LATER] * 2)
    ended = run(
        "evaluate",
        place.folder / "first",
        place.folder / "second.jsonl",
        "--json",
        "--threads",
        "1",
    )
    assert ("trained on" in ended.err, json.loads(ended.out)["models"][0]["trained_on"]) == (
        False,
        0,
    )
    ended = run(
        "evaluate", model, data, "--json", "--threads", "1"
    )  # nobody wrote down what this one was trained on
    assert ("trained on" in ended.err, "trained_on" in json.loads(ended.out)["models"][0]) == (
        False,
        False,
    )
    # What a model was trained on first, it has still seen after it was trained on something else.
    train = place.folder / "second.jsonl"
    given = ("--train", train, "--dev", data, "-o", place.folder / "more", *STILL)
    ended = run("finetune", "classify", "--model", place.folder / "first", *given)
    assert f"WARNING: 4 of {count} held-out rows are texts that" in ended.err
    assert (
        json.loads(run("evaluate", place.folder / "more", data, "--json").out)["models"][0][
            "trained_on"
        ]
        == count
    )
