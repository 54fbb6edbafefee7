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
    options = ("--epochs", "10", "--rate", "3e-4", "--batch", "8", "--json")
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
    options = ("--epochs", "12", "--rate", "1e-3", "--batch", "8", "--dev", files / "dev.spans.jsonl", "--json")
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
    options = ("--epochs", "12", "--rate", "3e-4", "--batch", "8", "--dev", files / "dev.numbers.jsonl", "--json")
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
