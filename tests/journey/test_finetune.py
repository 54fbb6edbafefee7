"""`firth finetune`: from a labelled file to a model with a score, which predicts, opens elsewhere and goes on after a kill."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from firth import load
from firth.bundle import find, save
from firth.samples.tickets import MARKED, tickets
from firth.text.tokenizer import Tokenizer
from firth.train import checkpoint
from firth.verbs.start import fresh
from tests.journey.command import run

ROOT = Path(__file__).parents[2]
COMMON = ("--threads", "1", "--seed", "3")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample tickets as files: classes as .csv, spans and numbers as .jsonl; every fifth is for dev."""
    folder = tmp_path_factory.mktemp("tickets")
    for name, keep in (("train", lambda i: i % 5 != 0), ("dev", lambda i: i % 5 == 0)):
        chosen = [ticket for i, ticket in enumerate(tickets()) if keep(i)]
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["number", "message", "queue"])
            writer.writerows([i, ticket.text, ticket.about] for i, ticket in enumerate(chosen))
        rows = [{"text": t.text, "spans": [n._asdict() for n in t.names]} for t in chosen]
        (folder / f"{name}.spans.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        rows = [{"text": t.text, "label": len(t.text) / 10} for t in chosen]
        (folder / f"{name}.numbers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def triage(files: Path) -> Path:
    """A classifier of tickets."""
    columns = ("--text", "message", "--label", "queue", "--dev", files / "dev.csv")
    options = ("--json",)
    ended = run(
        "finetune",
        "classify",
        "--model",
        "minilm",
        "--train",
        files / "train.csv",
        "-o",
        files / "triage",
        *columns,
        *options,
        *COMMON,
    )
    assert ended.code == 0, ended.err
    page = json.loads(ended.out)
    assert page["metrics"]["accuracy"]["value"] >= 0.8, page
    assert page["metrics"]["accuracy"]["low"] < page["metrics"]["accuracy"]["value"] <= page["metrics"]["accuracy"]["high"]
    assert set(page["decisions"]) == {"all", *MARKED}
    return files / "triage"


def test_it_predicts_with_the_names_that_were_given(triage: Path) -> None:
    ended = run("predict", triage, "The spout of my kettle leaks and the handle broke.", "--json")
    assert ended.code == 0, ended.err
    answer = json.loads(ended.out)
    assert answer["label"] == "defect"
    assert set(answer["shares"]) == set(MARKED)
    assert answer["confidence"] == max(answer["shares"].values())


def test_transformers_gives_the_same_scores(triage: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    texts = ["I was charged twice.", "Where is my parcel?"]
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(triage).eval(), AutoTokenizer.from_pretrained(triage)
    assert sorted(model.config.label2id) == sorted(MARKED)
    bundle = load(triage).bundle
    for text, decision in zip(texts, load(triage).predict(texts), strict=True):
        with torch.inference_mode():
            logits = model(**tokenizer([text], return_tensors="pt")).logits[0] / bundle.settings["temperature"]
        for label, share in decision.shares.items():
            assert float(logits.softmax(0)[model.config.label2id[label]]) == pytest.approx(share, abs=1e-5)


def test_the_folder_remembers_its_task(triage: Path) -> None:
    made = json.loads((triage / "firth.json").read_text())
    assert made["task"] == "classify"
    assert made["settings"]["temperature"] > 0
    assert made["made"]["settings"]["train"].endswith("train.csv")
    assert (triage / "curves.html").exists()
    assert (triage / "metrics.jsonl").exists()


def test_named_spans_come_back_as_characters(files: Path) -> None:
    options = ("--epochs", "5", "--rate", "1e-3", "--batch", "8", "--dev", files / "dev.spans.jsonl", "--json")
    ended = run(
        "finetune", "tag", "--model", "minilm", "--train", files / "train.spans.jsonl", "-o", files / "names", *options, *COMMON
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["metrics"]["f1"]["value"] > 0.6
    text = "The copper kettle went to Umeå."
    spans = json.loads(run("predict", files / "names", text, "--json").out)["spans"]
    assert ("copper kettle", "product") in [(span["text"], span["label"]) for span in spans]
    assert all(text[span["start"] : span["end"]] == span["text"] for span in spans)


def test_numbers_are_learned(files: Path) -> None:
    options = ("--epochs", "8", "--rate", "3e-4", "--batch", "8", "--dev", files / "dev.numbers.jsonl", "--json")
    ended = run(
        "finetune",
        "regress",
        "--model",
        "minilm",
        "--train",
        files / "train.numbers.jsonl",
        "-o",
        files / "size",
        *options,
        *COMMON,
    )
    assert ended.code == 0, ended.err
    metrics = json.loads(ended.out)["metrics"]
    assert metrics["pearson"]["value"] > 0.5
    assert {"spearman", "mse"} <= set(metrics)
    assert "value" in json.loads(run("predict", files / "size", "A short one.", "--json").out)


def test_without_dev_some_are_held_out_and_it_is_said(files: Path) -> None:
    columns = ("--text", "message", "--label", "queue", "--epochs", "1", "--balance", "--precision", "0.9")
    ended = run(
        "finetune", "classify", "--model", "minilm", "--train", files / "train.csv", "-o", files / "quick", *columns, *COMMON
    )
    assert ended.code == 0, ended.err
    assert "examples are held out to measure on" in ended.err
    assert "May decide alone" in ended.out
    assert json.loads((files / "quick" / "firth.json").read_text())["settings"]["threshold"] > 0


def test_a_killed_run_ends_with_the_same_bits(files: Path) -> None:
    columns = [
        "--text",
        "message",
        "--label",
        "queue",
        "--epochs",
        "2",
        "--batch",
        "16",
        "--save-every",
        "2",
        "--micro",
        "256",
        *COMMON,
    ]
    model = save(fresh("tiny", Tokenizer.open(find("minilm")), 64, 0.0, True, 1), files / "tiny")
    command = [sys.executable, "-m", "firth", "finetune", "classify", "--model", str(model), "--train", str(files / "train.csv")]
    command += columns

    def sums(name: str) -> dict[str, tuple[int, str]]:
        step = checkpoint.steps(files / f"{name}.run" / "checkpoints")[0]
        return json.loads((files / f"{name}.run" / "checkpoints" / f"step-{step:09}" / "manifest.json").read_text())["files"]

    subprocess.run([*command, "-o", str(files / "peace")], cwd=ROOT, check=True, capture_output=True, timeout=120)
    killed = subprocess.run(
        [*command, "-o", str(files / "killed")],
        cwd=ROOT,
        check=False,
        capture_output=True,
        timeout=120,
        env=os.environ | {"FIRTH_FAILPOINT": "before-rename:2"},
    )
    assert killed.returncode < 0
    subprocess.run([*command, "-o", str(files / "killed"), "--resume"], cwd=ROOT, check=True, capture_output=True, timeout=120)
    mine, theirs = sums("killed"), sums("peace")
    assert mine["weights.safetensors"] == theirs["weights.safetensors"]
    assert mine["optimizer.safetensors"] == theirs["optimizer.safetensors"]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ("", "has no|no examples|empty"),
        ("text,label\nonly one,a\nand another,a\n", "only one class"),
        ("text,label\nonly one,a\n", "too few|only one class"),
        ("alpha,beta\n1,2\n", "alpha"),
        ("text,label\nfine,a\nno label,\nfine too,b\n", r":3 .*label"),
    ],
)
def test_bad_examples_are_one_sentence(rows: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(rows)
    ended = run("finetune", "classify", "--model", "minilm", "--train", tmp_path / "bad.csv", "-o", tmp_path / "out", *COMMON)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert re.search(complaint, ended.err), ended.err


@pytest.fixture(scope="module")
def small(files: Path) -> Path:
    """An encoder that is quick to teach."""
    return save(fresh("tiny", Tokenizer.open(find("minilm")), 64, 0.0, True, 1), files / "small")


def taught(files: Path, out: Path, model: Path | str, *options: object) -> dict[str, object]:
    """What a run on the tickets prints."""
    columns = ("--text", "message", "--label", "queue", "--json", *COMMON)
    ended = run("finetune", "classify", "--model", model, "--train", files / "train.csv", "-o", out, *columns, *options)
    assert ended.code == 0, ended.err
    return json.loads(ended.out) | {"said": ended.err}


def test_features_teach_a_head_alone(files: Path, tmp_path: Path) -> None:
    page = taught(files, tmp_path / "out", "minilm", "--dev", files / "dev.csv", "--features", "-2..-1", "--batch", "8")
    assert page["metrics"]["accuracy"]["value"] >= 0.7
    assert not (tmp_path / "out.run" / "features.npy").exists()
    bundle, given = load(tmp_path / "out").bundle, load("minilm").bundle
    for name, weight in bundle.encoder.named_parameters():
        assert torch.equal(weight, given.encoder.get_parameter(name))
    assert bundle.features.mix.shares.abs().sum() > 0  # it learned how much of each layer to take
    assert json.loads(run("predict", tmp_path / "out", "The handle broke.", "--json").out)["label"] in MARKED


def test_spans_from_features(files: Path, tmp_path: Path) -> None:
    options = (
        "--features",
        "1,3,6",
        "--combine",
        "concat",
        "--batch",
        "8",
        "--rate",
        "3e-3",
        "--dev",
        files / "dev.spans.jsonl",
        "--json",
    )
    ended = run(
        "finetune", "tag", "--model", "minilm", "--train", files / "train.spans.jsonl", "-o", tmp_path / "out", *options, *COMMON
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["metrics"]["f1"]["value"] > 0.6


def test_only_the_top_is_taught(files: Path, small: Path, tmp_path: Path) -> None:
    taught(files, tmp_path / "out", small, "--top", "1", "--epochs", "1", "--length", "12")
    assert load(tmp_path / "out").bundle.length == 12  # what it learned on is what it reads
    before, after = load(small).bundle.encoder, load(tmp_path / "out").bundle.encoder
    changed = {name for name, weight in after.named_parameters() if not torch.equal(weight, before.get_parameter(name))}
    assert changed == {name for name, _ in after.named_parameters() if name.startswith(("blocks.1.", "pooler."))}


def test_patience_ends_a_run(files: Path, small: Path, tmp_path: Path) -> None:
    options = ("--epochs", "40", "--batch", "32", "--rate", "1e-9", "--patience", "2", "--dev", files / "dev.csv")
    assert taught(files, tmp_path / "out", small, *options)["steps"] < 40 * 3
    journal = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    measured = [record["dev"]["accuracy"] for record in journal if "dev" in record and record["step"]]
    assert len(measured) == 3  # the first is the best so far; two more bring nothing


def test_seeds_give_a_mean_and_keep_the_best(files: Path, small: Path, tmp_path: Path) -> None:
    options = ("--seeds", "3", "--epochs", "2", "--rate", "1e-3", "--batch", "8", "--dev", files / "dev.csv")
    page = taught(files, tmp_path / "out", small, *options)
    assert list(page["each"]) == ["seed-3", "seed-4", "seed-5"]
    accuracies = [scores["accuracy"] for scores in page["each"].values()]
    assert page["metrics"]["accuracy"]["value"] == max(accuracies)
    assert json.loads((tmp_path / "out" / "firth.json").read_text())["made"]["each"] == page["each"]
    alone = taught(files, tmp_path / "alone", small, *options[2:], "--seed", "4")
    assert alone["metrics"]["accuracy"]["value"] == page["each"]["seed-4"]["accuracy"]


def test_folds_answer_every_example_once(files: Path, small: Path, tmp_path: Path) -> None:
    options = ("--folds", "3", "--epochs", "2", "--rate", "1e-3", "--batch", "8")
    page = taught(files, tmp_path / "out", small, *options)
    assert list(page["each"]) == ["fold-1", "fold-2", "fold-3"]
    with (files / "train.csv").open(encoding="utf-8") as file:
        count = sum(1 for _ in file) - 1
    # Parts are as equal as they can be, so the score of all lies between those of the parts and is a whole number of answers.
    assert min(s["accuracy"] for s in page["each"].values()) <= page["metrics"]["accuracy"]["value"]
    assert page["metrics"]["accuracy"]["value"] <= max(s["accuracy"] for s in page["each"].values())
    assert page["metrics"]["accuracy"]["value"] * count == pytest.approx(round(page["metrics"]["accuracy"]["value"] * count))
    made = json.loads((tmp_path / "out" / "firth.json").read_text())
    assert made["made"]["examples"]["trained"] == count
    assert made["settings"]["temperature"] > 0


def test_parts_that_are_finished_are_not_made_again(files: Path, small: Path, tmp_path: Path) -> None:
    options = ("--folds", "2", "--epochs", "1", "--batch", "8")
    once = taught(files, tmp_path / "out", small, *options)
    (tmp_path / "out").rename(tmp_path / "first")
    again = taught(files, tmp_path / "out", small, *options, "--resume")
    assert "fold 1" in once["said"]
    assert "fold 1" not in again["said"]
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (tmp_path / "first" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--top", "1", "--features", "-1"), "--top teaches layers and --features teaches none"),
        (("--features", "9"), "has layers from 0"),
        (("--top", "3"), "has 2 layers, not 3"),
        (("--folds", "2", "--seeds", "2"), "leave --dev and --seeds out"),
        (("--folds", "90"), "too few for 90 folds"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(
    files: Path, small: Path, options: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    columns = ("--text", "message", "--label", "queue", "-o", tmp_path / "out", *COMMON)
    ended = run("finetune", "classify", "--model", small, "--train", files / "train.csv", *columns, *options)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err
    assert not (tmp_path / "out").exists()
