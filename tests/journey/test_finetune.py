"""`firth finetune`: from a labelled file to a model with a score, which predicts, opens elsewhere and goes on after a kill."""

import csv
import hashlib
import json
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import firth
from firth import load
from firth.base.errors import InputError
from firth.folders.bundle import Bundle
from firth.folders.find import find
from firth.folders.write import save
from firth.models.gpt import Gpt, GptSettings
from firth.recipes import finetune as teach
from firth.recipes.start import fresh
from firth.samples.tickets import MARKED, tickets
from firth.text.tokenizer import Tokenizer
from firth.train import checkpoint
from tests.journey.command import run
from tests.journey.warm import Warm

ROOT = Path(__file__).parents[2]
COMMON = ("--threads", "1", "--seed", "3")
SHORT = ("--epochs", "1", *COMMON)


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
        rows = [{"text": t.text, "label": 10.0 * list(MARKED).index(t.about)} for t in chosen]
        (folder / f"{name}.numbers.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
    return folder


@pytest.fixture(scope="module")
def triage(files: Path) -> Path:
    """A classifier of tickets."""
    columns = ("--text", "message", "--label", "queue", "--dev", files / "dev.csv")
    options = ("--epochs", "5", "--batch", "4", "--rate", "2e-4", "--json")
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
    assert (
        page["metrics"]["accuracy"]["low"]
        < page["metrics"]["accuracy"]["value"]
        <= page["metrics"]["accuracy"]["high"]
    )
    assert set(page["decisions"]["labels"]) == {*MARKED}
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
    model, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(triage).eval(),
        AutoTokenizer.from_pretrained(triage),
    )
    assert sorted(model.config.label2id) == sorted(MARKED)
    bundle = load(triage).bundle
    for text, decision in zip(texts, load(triage).predict(texts), strict=True):
        with torch.inference_mode():
            logits = (
                model(**tokenizer([text], return_tensors="pt")).logits[0]
                / bundle.settings["temperature"]
            )
        for label, share in decision.probabilities.items():
            assert float(logits.softmax(0)[model.config.label2id[label]]) == pytest.approx(
                share, abs=1e-5
            )


def test_the_folder_remembers_its_task(triage: Path) -> None:
    made = json.loads((triage / "firth.json").read_text())
    assert made["task"] == "classify"
    assert made["settings"]["temperature"] > 0
    assert made["made"]["settings"]["train"].endswith("train.csv")
    assert (triage / "curves.html").exists()
    assert (triage / "metrics.jsonl").exists()


def test_named_spans_come_back_as_characters(files: Path) -> None:
    options = (
        "--epochs",
        "3",
        "--rate",
        "1e-3",
        "--batch",
        "8",
        "--dev",
        files / "dev.spans.jsonl",
        "--json",
    )
    ended = run(
        "finetune",
        "tag",
        "--model",
        "minilm",
        "--train",
        files / "train.spans.jsonl",
        "-o",
        files / "names",
        *options,
        *COMMON,
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["metrics"]["f1"]["value"] > 0.6
    text = "The copper kettle went to Umeå."
    spans = json.loads(run("predict", files / "names", text, "--json").out)["spans"]
    assert ("copper kettle", "product") in [(span["text"], span["label"]) for span in spans]
    assert all(text[span["start"] : span["end"]] == span["text"] for span in spans)
    (files / "two.txt").write_text(f"{text}\nThank you.\n")
    lines = run("predict", files / "names", files / "two.txt").out.splitlines()
    assert [line for line in lines if not line.startswith("  ")] == [
        text,
        "Thank you.",
    ]  # each above its spans


def test_numbers_are_learned(files: Path) -> None:
    options = (
        "--epochs",
        "3",
        "--rate",
        "3e-4",
        "--batch",
        "4",
        "--dev",
        files / "dev.numbers.jsonl",
        "--json",
    )
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


def test_numbers_far_from_zero_are_learned_in_their_own_unit(
    files: Path, small: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    texts = [
        f"{word} {other}" for word in ("parcel", "invoice") for other in MARKED for _ in range(4)
    ]
    rows = [{"text": text, "label": 262.0 if "parcel" in text else 238.0} for text in texts]
    (tmp_path / "minutes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = (
        "--dev",
        tmp_path / "minutes.jsonl",
        "--epochs",
        "4",
        "--rate",
        "4e-3",
        "--batch",
        "8",
        "--json",
        *COMMON,
    )
    ended = run(
        "finetune",
        "regress",
        "--model",
        small,
        "--train",
        tmp_path / "minutes.jsonl",
        "-o",
        tmp_path / "out",
        *options,
    )
    assert ended.code == 0, ended.err
    assert (
        json.loads(ended.out)["metrics"]["mse"]["value"] < 100
    )  # the variance is 144, and answering 0 misses by 62,644
    said = [answer.value for answer in load(tmp_path / "out").predict(texts)]
    assert all(225 < value < 275 for value in said)
    model, words = (
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "out"),
        AutoTokenizer.from_pretrained(small),
    )
    with torch.inference_mode():
        theirs = model.eval()(**words(texts, padding=True, return_tensors="pt")).logits[:, 0]
    assert theirs.tolist() == pytest.approx(said, abs=1e-3)
    journal = [
        json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    ]
    first = next(record["loss"] for record in journal if "loss" in record)
    assert (
        60 < first < 1000
    )  # also in the user's unit: about the variance, where the mean is all that is known


def test_without_dev_some_are_held_out_and_it_is_said(files: Path, small: Path) -> None:
    columns = (
        "--text",
        "message",
        "--label",
        "queue",
        "--epochs",
        "1",
        "--balance",
        "--target-precision",
        "0.9",
    )
    ended = run(
        "finetune",
        "classify",
        "--model",
        small,
        "--train",
        files / "train.csv",
        "-o",
        files / "quick",
        *columns,
        *COMMON,
    )
    assert ended.code == 0, ended.err
    assert "examples are held out to measure on" in ended.err
    assert "May decide alone" in ended.out
    assert json.loads((files / "quick" / "firth.json").read_text())["settings"]["threshold"] > 0


def test_several_labels_at_once_have_a_sheet_and_a_threshold(small: Path, tmp_path: Path) -> None:
    signs = {"invoice": "billing", "parcel": "delivery"}
    texts = [
        f"{first} {second} {i}"
        for i in range(8)
        for first in (*signs, "hello")
        for second in (*signs, "hello")
    ]
    rows = [
        {"text": text, "label": [label for word, label in signs.items() if word in text]}
        for text in texts
    ]
    data = tmp_path / "lists.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = (
        "--dev",
        data,
        "--epochs",
        "3",
        "--rate",
        "4e-3",
        "--batch",
        "8",
        "--target-precision",
        "0.9",
        "--json",
        *COMMON,
    )
    ended = run(
        "finetune", "classify", "--model", small, "--train", data, "-o", tmp_path / "out", *options
    )
    assert ended.code == 0, ended.err
    page = json.loads(ended.out)
    assert page["metrics"]["exact"]["value"] > 0.5
    assert list(page["decisions"]["labels"]) == ["billing", "delivery"]
    remembered = json.loads((tmp_path / "out" / "firth.json").read_text())["settings"]
    assert remembered["temperature"] != 1.0
    alone = page["decisions"]["all"][0]
    assert remembered["threshold"] == alone["threshold"]
    answers = [
        json.loads(line)
        for line in run("predict", tmp_path / "out", data, "--json").out.splitlines()
    ]
    given = [answer["label"] for answer in answers if answer["label"] != "unsure"]
    assert len(given) == round(alone["decided"]["value"] * len(rows))
    assert all(
        (answer["label"] == "unsure") == (answer["confidence"] < remembered["threshold"])
        for answer in answers
    )
    found = json.loads(run("evaluate", tmp_path / "out", data, "--json").out)["models"][0]
    assert (
        found["metrics"] == page["metrics"]
    )  # what it is unsure of counts as what it would have said
    assert [found["confidence"][name] for name in ("answered", "right")] == [
        alone["decided"],
        alone["right"],
    ]


def test_pairs_and_which_class_the_f1_is_of(small: Path, tmp_path: Path) -> None:
    words = ("invoice", "parcel", "kettle", "pan")
    rows = [
        (a, b, "same" if a == b else "different")
        for a in words
        for b in words
        for _ in range(2 if a != b else 6)
    ]
    data = tmp_path / "pairs.tsv"
    data.write_text(
        "sentence1\tsentence2\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows)
    )
    options = ("--dev", data, "--epochs", "1", "--rate", "1e-3", "--batch", "8", *COMMON)
    ended = run(
        "finetune", "classify", "--model", small, "--train", data, "-o", tmp_path / "out", *options
    )
    assert ended.code == 0, ended.err
    assert re.search(r"^  f1 \(same\) +[\d.]+ +[\d.]+ to [\d.]+$", ended.out, re.MULTILINE)
    assert re.search(r"^  all .* (\d+% \(\d+ to \d+%\) >= \d+%|none)$", ended.out, re.MULTILINE)
    columns = ("--text", "sentence1", "--second", "sentence2")
    answers = [
        json.loads(line)
        for line in run("predict", tmp_path / "out", data, *columns, "--json").out.splitlines()
    ]
    assert [(answer["text"], answer["second"]) for answer in answers] == [row[:2] for row in rows]
    assert "  f1 (same) " in run("evaluate", tmp_path / "out", data).out
    model = load(tmp_path / "out")
    pairs = [(answer["text"], answer["second"]) for answer in answers]
    assert [decision.probabilities for decision in model.predict(pairs)] == [
        pytest.approx(answer["shares"]) for answer in answers
    ]
    with pytest.raises(
        InputError,
        match="text 1: the model learned from pairs of texts, and this one has no second text",
    ):
        model.predict(["only one"])
    alone = run("predict", tmp_path / "out", "only one text")
    assert (alone.code, "learned from pairs of texts" in alone.err) == (2, True)
    assert model.embed(["any text has a vector"]).shape == (1, 64)


def test_a_model_of_single_texts_refuses_pairs(triage: Path) -> None:
    with pytest.raises(
        InputError,
        match="text 1: the model learned from single texts, and this one has a second one",
    ):
        load(triage).predict([("It broke.", "Send another.")])
    with pytest.raises(InputError, match=r"text 1 is of type tuple \(\('a', 'b', 'c'\)\)"):
        load(triage).predict([("a", "b", "c")])
    with pytest.raises(InputError, match="long is one of cut, slide, error, not 'foo'"):
        load(triage).predict(["It broke."], long="foo")  # type: ignore[arg-type]


def test_spans_inside_words_are_counted_and_said(small: Path, tmp_path: Path) -> None:
    """A genitive's s, and a unit that is written onto its number: whole words are learned, found and compared."""
    rows = [
        {"text": "Jag gillar Lunds gator", "spans": [[11, 15, "ort"]]},
        {
            "text": "Vi tog 20kg ris till Lund",
            "spans": [[7, 9, "antal"], [9, 11, "enhet"], [21, 25, "ort"]],
        },
    ] * 4
    data = tmp_path / "names.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    checked = run("check", data, "--model", small)
    assert checked.code == 0
    said = "has the first of 12 spans (of 16) that begin or end inside a word"
    assert f"note: {data}:1 {said}" in checked.out
    ended = run(
        "finetune",
        "tag",
        "--model",
        small,
        "--train",
        data,
        "--dev",
        data,
        "-o",
        tmp_path / "out",
        *SHORT,
    )
    assert ended.code == 0, ended.err
    begun = "note: spans that begin or end inside a word became whole words: 12 of 16 to learn from and 12 of 16 to measure on"
    assert begun in ended.err
    assert (
        "note: 12 of 16 spans begin or end inside a word; each is compared as"
        in run("evaluate", tmp_path / "out", data).err
    )


def test_examples_that_stand_where_the_model_goes_are_kept(
    few: Path, small: Path, tmp_path: Path
) -> None:
    out = save(load(small).bundle, tmp_path / "out")
    train = out / "train.jsonl"
    train.write_bytes(few.read_bytes())
    ended = run(
        "finetune", "classify", "--model", small, "--train", train, "-o", out, "--force", *SHORT
    )
    assert (ended.code, "stands in" in ended.err) == (2, True)
    assert train.read_bytes() == few.read_bytes()


def test_a_killed_run_ends_with_the_same_bits(
    warm: Warm, files: Path, small: Path, tmp_path: Path
) -> None:
    words = ["finetune", "classify", "--model", small, "--train", files / "train.csv"]
    words += ["--text", "message", "--label", "queue", "--epochs", "2", "--batch", "16"]
    words += ["--save-every", "2", "--micro", "256", *COMMON]

    def sums(name: str) -> dict[str, tuple[int, str]]:
        checkpoints = tmp_path / f"{name}.run" / "checkpoints"
        step = checkpoint.saved_steps(checkpoints)[0]
        return json.loads((checkpoints / f"step-{step:09}" / "manifest.json").read_text())["files"]

    alone = warm.run(*words, "-o", tmp_path / "peace")
    assert alone.code == 0, alone.err
    killed = warm.run(*words, "-o", tmp_path / "killed", FIRTH_FAILPOINT="before-rename:2")
    assert killed.code == -signal.SIGKILL
    ended = warm.run(*words, "-o", tmp_path / "killed", "--resume")
    assert ended.code == 0, ended.err
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
        (
            "text,label\nno label,\nnone either, \n",
            "all of its 2 rows have no label in column 'label'",
        ),
    ],
)
def test_bad_examples_are_one_sentence(rows: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(rows)
    ended = run(
        "finetune",
        "classify",
        "--model",
        "minilm",
        "--train",
        tmp_path / "bad.csv",
        "-o",
        tmp_path / "out",
        *COMMON,
    )
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert re.search(complaint, ended.err), ended.err


@pytest.fixture(scope="module")
def small(files: Path) -> Path:
    """An encoder that is quick to teach."""
    words = Tokenizer.train([ticket.text for ticket in tickets()], size=600)
    sizes = {"width": 64}
    return save(fresh("tiny", words, 64, 0.0, True, 1, own=sizes), files / "small")


def taught(files: Path, out: Path, model: Path | str, *options: object) -> dict[str, object]:
    """What a run on the tickets prints."""
    columns = ("--text", "message", "--label", "queue", "--json", *COMMON)
    ended = run(
        "finetune",
        "classify",
        "--model",
        model,
        "--train",
        files / "train.csv",
        "-o",
        out,
        *columns,
        *options,
    )
    assert ended.code == 0, ended.err
    return json.loads(ended.out) | {"said": ended.err}


def test_features_teach_a_head_alone(files: Path, tmp_path: Path) -> None:
    page = taught(
        files,
        tmp_path / "out",
        "minilm",
        "--dev",
        files / "dev.csv",
        "--features",
        "-2..-1",
        "--batch",
        "8",
    )
    assert page["metrics"]["accuracy"]["value"] >= 0.7
    assert not (tmp_path / "out.run" / "features.npy").exists()
    bundle, given = load(tmp_path / "out").bundle, load("minilm").bundle
    for name, weight in bundle.encoder.named_parameters():
        assert torch.equal(weight, given.encoder.get_parameter(name))
    assert bundle.features.mix.shares.abs().sum() > 0  # it learned how much of each layer to take
    assert (
        json.loads(run("predict", tmp_path / "out", "The handle broke.", "--json").out)["label"]
        in MARKED
    )


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
        "finetune",
        "tag",
        "--model",
        "minilm",
        "--train",
        files / "train.spans.jsonl",
        "-o",
        tmp_path / "out",
        *options,
        *COMMON,
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["metrics"]["f1"]["value"] > 0.6


def test_only_the_top_is_taught(files: Path, small: Path, tmp_path: Path) -> None:
    taught(files, tmp_path / "out", small, "--top", "1", "--epochs", "1", "--length", "12")
    assert load(tmp_path / "out").bundle.length == 12  # what it learned on is what it reads
    before, after = load(small).bundle.encoder, load(tmp_path / "out").bundle.encoder
    changed = {
        name
        for name, weight in after.named_parameters()
        if not torch.equal(weight, before.get_parameter(name))
    }
    assert changed == {
        name for name, _ in after.named_parameters() if name.startswith(("blocks.1.", "pooler."))
    }


NUMBERED = [(" ".join(["very"] * count) + " good", float(count)) for count in range(20)]


def measurements(out: Path) -> list[dict[str, Any]]:
    """What was measured after the first step."""
    journal = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [record for record in journal if "dev" in record and record["step"]]


def test_patience_ends_a_run(files: Path, small: Path, tmp_path: Path) -> None:
    options = (
        "--epochs",
        "20",
        "--batch",
        "32",
        "--rate",
        "0.05",
        "--patience",
        "3",
        "--dev",
        files / "dev.csv",
    )
    steps = taught(files, tmp_path / "out", small, *options)["steps"]
    measured = measurements(tmp_path / "out")
    assert [record["step"] for record in measured] == list(range(2, steps + 1, 2))  # once an epoch
    ranks = [(record["dev"]["accuracy"], -record["dev"]["loss"]) for record in measured]
    assert ranks.index(max(ranks)) == len(ranks) - 4  # three after the best
    assert steps < 40


def test_equal_scores_are_told_apart_by_the_loss(files: Path, small: Path, tmp_path: Path) -> None:
    """F1 is 0 each time, here because there is nothing to find: the step with the least loss is kept, and patience waits."""
    nameless = "".join(
        json.dumps({"text": text, "spans": []}) + "\n"
        for text in ("it broke", "where is the lid", "thank you")
    )
    (tmp_path / "dev.jsonl").write_text(nameless)
    given = (
        "--train",
        files / "train.spans.jsonl",
        "--dev",
        tmp_path / "dev.jsonl",
        "-o",
        tmp_path / "out",
        *COMMON,
    )
    options = ("--epochs", "5", "--batch", "8", "--rate", "1e-4", "--patience", "1", "--json")
    page = json.loads(run("finetune", "tag", "--model", small, *given, *options).out)
    measured = measurements(tmp_path / "out")
    assert [record["dev"]["f1"] for record in measured] == [0.0] * 5
    losses = [record["dev"]["loss"] for record in measured]
    assert losses == sorted(losses, reverse=True)
    assert (
        json.loads((tmp_path / "out" / "firth.json").read_text())["made"]["best_step"]
        == page["steps"]
        == measured[-1]["step"]
    )


def test_too_few_numbers_for_a_correlation_are_told_apart_by_the_loss(
    small: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.jsonl").write_text(rows_of(*NUMBERED))
    given = (
        "--train",
        tmp_path / "train.jsonl",
        "-o",
        tmp_path / "out",
        "--epochs",
        "4",
        "--rate",
        "1e-3",
        *COMMON,
    )
    assert run("finetune", "regress", "--model", small, *given).code == 0
    measured = measurements(tmp_path / "out")  # on two
    assert {record["dev"]["pearson"] for record in measured} == {0.0}
    best = min(measured, key=lambda record: record["dev"]["loss"])
    assert (
        json.loads((tmp_path / "out" / "firth.json").read_text())["made"]["best_step"]
        == best["step"]
    )


def test_folds_of_too_few_numbers_have_no_mean_of_correlations(small: Path, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(rows_of(*NUMBERED))
    given = (
        "--train",
        tmp_path / "train.jsonl",
        "-o",
        tmp_path / "out",
        "--folds",
        "10",
        "--epochs",
        "1",
        *COMMON,
    )
    whole, _, folds = run("finetune", "regress", "--model", small, *given).out.partition(
        "Over 10 folds"
    )
    assert "pearson" in whole
    assert "pearson" not in folds  # two points always lie on a line
    assert "mse" in folds


def test_folds_without_a_type_have_no_part_in_its_mean(small: Path, tmp_path: Path) -> None:
    """One name of its type: it is missed in its own fold, and no other says anything of it."""
    lines = [{"text": f"Ada came {i} times", "spans": [[0, 3, "WHO"]]} for i in range(8)]
    lines.append({"text": "the key is here", "spans": [[4, 7, "RARE"]]})
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = (
        "--train",
        tmp_path / "train.jsonl",
        "-o",
        tmp_path / "out",
        "--folds",
        "3",
        "--epochs",
        "20",
        *COMMON,
    )
    ended = run("finetune", "tag", "--model", small, *given, "--rate", "1e-3")
    each = json.loads((tmp_path / "out" / "firth.json").read_text())["made"]["each"]
    has = [scores["f1 RARE"] for scores in each.values() if "f1 RARE" in scores]
    assert has == [0.0]
    assert re.search(
        r"f1 RARE +0\.0000 +- +0\.0000 +0\.0000   in 1 of 3$", ended.out, re.MULTILINE
    ), ended.out


def test_seeds_give_a_mean_and_keep_the_best(files: Path, small: Path, tmp_path: Path) -> None:
    options = (
        "--seeds",
        "3",
        "--epochs",
        "2",
        "--rate",
        "1e-3",
        "--batch",
        "8",
        "--dev",
        files / "dev.csv",
    )
    page = taught(files, tmp_path / "out", small, *options)
    assert list(page["each"]) == ["seed-3", "seed-4", "seed-5"]
    accuracies = [scores["accuracy"] for scores in page["each"].values()]
    assert page["metrics"]["accuracy"]["value"] == max(accuracies)
    assert json.loads((tmp_path / "out" / "firth.json").read_text())["made"]["each"] == page["each"]
    best = max(page["each"], key=lambda name: page["each"][name]["accuracy"])
    assert (
        page["kept"]
        == json.loads((tmp_path / "out" / "firth.json").read_text())["made"]["kept"]
        == best
    )
    weights = [
        tmp_path / "out" / "model.safetensors",
        tmp_path / "out.run" / best / "model" / "model.safetensors",
    ]
    assert weights[0].read_bytes() == weights[1].read_bytes()
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
    assert page["metrics"]["accuracy"]["value"] * count == pytest.approx(
        round(page["metrics"]["accuracy"]["value"] * count)
    )
    made = json.loads((tmp_path / "out" / "firth.json").read_text())
    assert made["made"]["examples"]["trained"] == count
    assert made["settings"]["temperature"] > 0


def test_parts_that_are_finished_are_not_made_again(
    files: Path, small: Path, tmp_path: Path
) -> None:
    options = ("--folds", "2", "--epochs", "1", "--batch", "8")
    once = taught(files, tmp_path / "out", small, *options)
    (tmp_path / "out").rename(tmp_path / "first")
    again = taught(files, tmp_path / "out", small, *options, "--resume")
    assert "fold 1" in once["said"]
    assert "fold 1" not in again["said"]
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (
        tmp_path / "first" / "model.safetensors"
    ).read_bytes()


def rows_of(*rows: tuple[str, object]) -> str:
    """Texts and their labels as lines of JSON."""
    return "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)


PAIR = rows_of(("it broke", "0"), ("thank you", "1"), ("it leaks", "0"))


@pytest.mark.parametrize(
    ("train", "dev", "complaint"),
    [
        (
            PAIR,
            rows_of(("it fell", "neg"), ("lovely", "pos")),
            "dev.jsonl has none of the labels of .*'0', '1'; it has 'neg', 'pos'",
        ),
        (rows_of(("it broke", "0"), ("it leaks", "0")), PAIR, "only one class, '0'"),
        (rows_of(("it broke", []), ("it leaks", [])), PAIR, "train.jsonl has no label in any list"),
        (
            PAIR,
            '{"text_a": "it fell", "text_b": "it broke", "label": "1"}\n',
            "dev.jsonl has pairs of texts, where .*train.jsonl has single texts",
        ),
        (
            PAIR,
            rows_of(("it fell", ["0", "1"]), ("lovely", ["1"])),
            "dev.jsonl has lists of labels, where .*train.jsonl has one class",
        ),
    ],
)
def test_labels_to_measure_on_that_were_not_learned(
    train: str, dev: str, complaint: str, small: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.jsonl").write_text(train)
    (tmp_path / "dev.jsonl").write_text(dev)
    given = (
        "--train",
        tmp_path / "train.jsonl",
        "--dev",
        tmp_path / "dev.jsonl",
        "-o",
        tmp_path / "out",
        *COMMON,
    )
    ended = run("finetune", "classify", "--model", small, *given)
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
    assert re.search(complaint, ended.err), ended.err


def test_a_label_that_only_dev_has_is_named(small: Path, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(PAIR)
    (tmp_path / "dev.jsonl").write_text(rows_of(("it fell", "0"), ("when", "2")))
    given = (
        "--train",
        tmp_path / "train.jsonl",
        "--dev",
        tmp_path / "dev.jsonl",
        "-o",
        tmp_path / "out",
        "--epochs",
        "1",
        *COMMON,
    )
    ended = run("finetune", "classify", "--model", small, *given)
    assert ended.code == 0, ended.err
    assert (
        f"note: {tmp_path}/dev.jsonl has labels that {tmp_path}/train.jsonl lacks, so that none is learned: '2'\n"
        in ended.err
    )


def test_texts_without_a_single_span_are_refused(small: Path, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(
        "".join(json.dumps({"text": t, "spans": []}) + "\n" for t in ("it broke", "it leaks"))
    )
    ended = run(
        "finetune",
        "tag",
        "--model",
        small,
        "--train",
        tmp_path / "train.jsonl",
        "-o",
        tmp_path / "out",
        *COMMON,
    )
    assert (ended.code, ended.err) == (
        2,
        f"firth: {tmp_path}/train.jsonl has no named span in any text: there is nothing to learn\n",
    )


@pytest.mark.parametrize(
    ("task", "rows", "option", "complaint"),
    [
        (
            "regress",
            rows_of(("short", 1.0), ("longer", 2.0)),
            ("--target-precision", "0.9"),
            "--target-precision is for classes; leave it out of regress",
        ),
        (
            "tag",
            '{"text": "it", "spans": []}\n',
            ("--balance",),
            "--balance is for classes; leave it out of tag",
        ),
        (
            "classify",
            rows_of(("it broke", ["a", "b"]), ("it leaks", ["b"])),
            ("--balance",),
            "has lists of labels; leave it out",
        ),
    ],
)
def test_options_for_classes_are_refused_elsewhere(
    task: str, rows: str, option: tuple[str, ...], complaint: str, small: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.jsonl").write_text(rows)
    ended = run(
        "finetune",
        task,
        "--model",
        small,
        "--train",
        tmp_path / "train.jsonl",
        "-o",
        tmp_path / "out",
        *option,
        *COMMON,
    )
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
    assert complaint in ended.err


LONG = "The lid of the pan is dented and the handle came off when I washed it, and now nobody at your shop answers my letters."
FEW = rows_of(
    ("it broke", "defect"),
    (LONG, "defect"),
    ("thank you", "praise"),
    ("lovely, thank you", "praise"),
)


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Four tickets, of which one is long."""
    (tmp_path / "few.jsonl").write_text(FEW)
    return tmp_path / "few.jsonl"


@pytest.fixture(scope="module")
def brief(files: Path) -> Path:
    """An encoder that takes 64 tokens, in a folder that says to read 16."""
    bundle = fresh("tiny", Tokenizer.open(find("minilm")), 64, 0.0, True, 1, own={"width": 16})
    bundle.settings["length"] = 16
    return save(bundle, files / "brief")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--seeds", "2"),
            "cut: 1 of 4 to learn from and 1 of 4 to measure on (--long slide reads them all)",
        ),
        (("--long", "slide"), "read in windows: 1 of 4 to learn from and 1 of 4 to measure on"),
    ],
)
def test_long_texts_are_told_once(
    options: tuple[str, ...], said: str, few: Path, brief: Path, tmp_path: Path
) -> None:
    given = ("--train", few, "--dev", few, "--epochs", "1", *options, *COMMON)
    ended = run("finetune", "classify", "--model", brief, "-o", tmp_path / "out", *given)
    assert ended.code == 0, ended.err
    assert [line for line in ended.err.splitlines() if "longer" in line] == [
        f"note: texts longer than 16 tokens were {said}"
    ]
    assert load(tmp_path / "out").bundle.length == 16  # as the folder that it came from said


def test_how_long_texts_are_read_is_remembered(few: Path, brief: Path, tmp_path: Path) -> None:
    given = ("--train", few, "--dev", few, "--epochs", "1", "--long", "slide", *COMMON)
    assert run("finetune", "classify", "--model", brief, "-o", tmp_path / "out", *given).code == 0
    slid, cut = (
        run("predict", tmp_path / "out", LONG, "--json", "--long", way) for way in ("slide", "cut")
    )
    assert run("predict", tmp_path / "out", LONG, "--json") == slid
    assert slid.out != cut.out
    model = load(tmp_path / "out")
    assert model.predict([LONG])[0].probabilities == pytest.approx(json.loads(slid.out)["shares"])
    assert "were cut" not in run("evaluate", tmp_path / "out", few).err
    assert "were cut" in run("evaluate", tmp_path / "out", few, "--long", "cut").err


def test_a_text_that_is_too_long_is_named(few: Path, brief: Path, tmp_path: Path) -> None:
    given = ("--train", few, "--dev", few, "--long", "error", *COMMON)
    ended = run("finetune", "classify", "--model", brief, "-o", tmp_path / "out", *given)
    assert ended.code == 2
    assert f"\nfirth: {few}:2: a text has 30 tokens where the model takes 16" in ended.err


def test_a_run_does_not_go_on_with_other_data(few: Path, small: Path, tmp_path: Path) -> None:
    shutil.copy(few, tmp_path / "dev.jsonl")
    shutil.copytree(small, tmp_path / "model")
    given = ("--train", few, "--dev", tmp_path / "dev.jsonl", "--epochs", "1", *COMMON)
    words = (
        "finetune",
        "classify",
        "--model",
        tmp_path / "model",
        *given,
        "-o",
        tmp_path / "out",
        "--resume",
    )
    assert run(*words).code == 0
    shutil.copytree(tmp_path / "out", tmp_path / "kept")
    for name, path in (
        ("train", few),
        ("dev", tmp_path / "dev.jsonl"),
        ("model", tmp_path / "model" / "model.safetensors"),
    ):
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        for folder in (
            "out",
            "out.run",
        ):  # the model that is finished, and the run that it came from
            ended = run(*words)
            said = f"firth: {tmp_path / folder} holds a run in which --{name} had other content; --force throws it away\n"
            assert (ended.code, ended.err) == (2, said)
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
        path.write_bytes(before)
        shutil.copytree(tmp_path / "kept", tmp_path / "out")


@pytest.mark.parametrize("family", ["bert", "gpt"])
def test_pieces_that_no_example_has_wait_and_change_nothing(
    few: Path, family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / family
    many = Tokenizer.open(find("minilm"))
    sizes = {"width": 32, "depth": 1}
    if family == "bert":
        table = "bert.embeddings.word_embeddings.weight"
        save(fresh("tiny", many, 64, 0.0, True, 1, own=sizes), model)
    else:
        table = "transformer.wte.weight"
        settings = GptSettings(
            vocab=many.size, heads=2, inner=64, length=64, start=101, end=102, **sizes
        )
        save(Bundle(Gpt(settings), many, "gpt2", "continue"), model)
    options = {
        "dev": str(few),
        "epochs": 3.0,
        "batch": 2,
        "rate": 1e-3,
        "dropout": 0.0,
        "threads": 1,
    }
    firth.finetune("classify", model, few, tmp_path / "narrow", **options)
    monkeypatch.setattr(teach, "narrow_table", lambda encoder, rows: (None, rows))
    firth.finetune("classify", model, few, tmp_path / "whole", **options)
    before, after, whole = (
        load_file(Path(folder) / "model.safetensors")
        for folder in (model, tmp_path / "narrow", tmp_path / "whole")
    )
    texts = [json.loads(line)["text"] for line in few.read_text().splitlines()]
    taught = sorted({piece for row in many.encode(texts) for piece in row.ids})
    others = np.setdiff1d(np.arange(many.size), taught)
    assert torch.equal(after[table][others], before[table][others])
    assert not torch.isclose(after[table][taught], before[table][taught], atol=1e-6).all()
    for name, weight in whole.items():
        kept = weight[taught] if name == table else weight
        mine = after[name][taught] if name == table else after[name]
        assert torch.allclose(kept, mine, atol=2e-5), name
    moments = load_file(
        next((tmp_path / "narrow.run" / "checkpoints").glob("step-*")) / "optimizer.safetensors"
    )
    assert max(len(moment) for moment in moments.values() if moment.ndim > 1) < 1000


def test_the_outcome_of_seeds_and_of_a_finished_run_has_metrics(
    few: Path, small: Path, tmp_path: Path
) -> None:
    given = {"dev": few, "epochs": 1.0, "batch": 2, "seeds": 2, "threads": 1}
    made = firth.finetune("classify", small, few, tmp_path / "out", **given)
    assert made.outcome.metrics["loss"] > 0
    assert made.outcome.metrics["accuracy"] == made.scores["accuracy"].value
    again = firth.finetune("classify", small, few, tmp_path / "out", resume=True, **given)
    assert again.outcome == made.outcome


def test_a_run_that_is_finished_says_so(few: Path, small: Path, tmp_path: Path) -> None:
    words = (
        "finetune",
        "classify",
        "--model",
        small,
        "--train",
        few,
        "--dev",
        few,
        "-o",
        tmp_path / "out",
        "--json",
        *COMMON,
    )
    first = run(*words, "--epochs", "1")
    again = run(*words, "--epochs", "1", "--resume")
    assert (again.code, again.err) == (0, f"{tmp_path / 'out'} is finished\n")
    assert again.out == first.out  # with its decision sheet
    made = json.loads((tmp_path / "out" / "firth.json").read_text())["made"]
    assert made["sha256"]["train"] == hashlib.sha256(few.read_bytes()).hexdigest()
    other = run(*words, "--epochs", "2", "--resume")
    assert (other.code, other.out) == (2, "")
    assert "holds a run with epochs 1.0, not 2.0" in other.err


def test_a_forced_run_that_was_stopped_goes_on(
    warm: Warm, few: Path, small: Path, tmp_path: Path
) -> None:
    """The model that it is to replace says nothing of whether it has ended."""
    words = (
        "finetune",
        "classify",
        "--model",
        small,
        "--train",
        few,
        "--dev",
        few,
        "-o",
        tmp_path / "out",
        "--batch",
        "2",
        *COMMON,
    )
    assert run(*words, "--epochs", "1").code == 0
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    process = warm.start(*words, "--epochs", "9", "--force", before=WAITING.format("Judge.judge"))
    while "here\n" not in process.err:
        assert process.running, process.err
        time.sleep(0.005)
    process.signal(signal.SIGTERM)
    assert process.wait().code == 3
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before
    ended = run(*words, "--epochs", "9", "--resume")
    assert ended.code == 0, ended.err
    assert json.loads((tmp_path / "out" / "firth.json").read_text())["made"]["steps"] == 18
    assert run(*words, "--epochs", "9", "--resume").err == f"{tmp_path / 'out'} is finished\n"


def test_a_refused_call_leaves_nothing_in_the_way(few: Path, small: Path, tmp_path: Path) -> None:
    words = (
        "finetune",
        "classify",
        "--model",
        small,
        *SHORT,
        "--train",
        few,
        "--dev",
        few,
        "-o",
        tmp_path / "out",
    )
    assert run(*words, "--top", "9").code == 2
    assert run(*words, "--top", "1").code == 0


def test_a_file_that_is_not_there_leaves_nothing_behind(
    few: Path, small: Path, tmp_path: Path
) -> None:
    for missing in ("--train", "--dev"):
        named = {"--train": few, "--dev": few, missing: tmp_path / "no.csv"}
        words = [word for pair in named.items() for word in pair]
        ended = run(
            "finetune", "classify", "--model", small, *words, "-o", tmp_path / "out", *SHORT
        )
        assert ended.code == 2
        assert "no.csv is missing" in ended.err
    assert list(tmp_path.iterdir()) == [few]


def test_a_run_is_told_by_what_its_files_hold(few: Path, small: Path, tmp_path: Path) -> None:
    common = ("--dev", few, "-o", tmp_path / "out", "--epochs", "1", *COMMON)
    assert run("finetune", "classify", "--model", small, "--train", few, *common).code == 0
    (tmp_path / "out").rename(tmp_path / "first")
    other = tmp_path / "other.jsonl"
    other.write_bytes(few.read_bytes())
    ended = run(
        "finetune", "classify", "--model", f"{small}/", "--train", other, *common, "--resume"
    )
    assert ended.code == 0, ended.err


STOPPED_AT_THE_END = """
import os, signal
from firth.train.loop import Loop
once, ends = Loop._save, []
def save(self):
    once(self)
    if self.step == self.settings.steps and not ends:
        ends.append(self.step)
        os.kill(os.getpid(), signal.SIGTERM)
Loop._save = save
"""


def test_asked_to_stop_at_the_last_step_of_a_seed(
    warm: Warm, few: Path, small: Path, tmp_path: Path
) -> None:
    given = (
        "--train",
        few,
        "--dev",
        few,
        "-o",
        tmp_path / "out",
        "--epochs",
        "1",
        "--batch",
        "2",
        "--seeds",
        "2",
        *COMMON,
    )
    words = ("finetune", "classify", "--model", small, *given)
    ended = warm.run(*words, before=STOPPED_AT_THE_END)
    assert ended.code == 3, ended.err
    assert "seed 4" not in ended.err
    assert ended.err.endswith(
        "firth: stopped at the last step, 2, as asked; --resume goes on from there\n"
    )
    assert "seed 4" in run(*words, "--resume").err


def test_what_is_held_out_is_named_by_its_lines(small: Path, tmp_path: Path) -> None:
    rows = [
        ("it broke", "defect"),
        ("thank you", "praise"),
        *((f"ticket {n}", "defect" if n % 2 else "praise") for n in range(1100)),
    ]
    train = tmp_path / "train.jsonl"
    train.write_text('{"text": "nobody knows"}\n' + rows_of(*rows))
    given = ("--train", train, "-o", tmp_path / "out", "--features", "0", "--epochs", "1", *COMMON)
    ended = run("finetune", "classify", "--model", small, *given)
    assert (
        "train.jsonl: 1 of 1,103 rows have no label in column 'label' and were skipped (first: line 1)\n"
        in ended.err
    )
    held = json.loads((tmp_path / "out.run" / "held.json").read_text())
    lines = train.read_text().splitlines()
    labels = [json.loads(lines[line - 1])["label"] for line in held]
    assert (labels.count("defect"), labels.count("praise")) == (55, 55)
    assert max(held) > 1000


def test_what_is_learned_and_measured_too_is_said(small: Path, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(PAIR)
    (tmp_path / "dev.jsonl").write_text(rows_of(("it  broke", "0"), ("lovely", "1")))
    given = (
        "--train",
        tmp_path / "train.jsonl",
        "--dev",
        tmp_path / "dev.jsonl",
        "-o",
        tmp_path / "out",
        "--epochs",
        "1",
        *COMMON,
    )
    ended = run("finetune", "classify", "--model", small, *given)
    assert (
        f"note: 1 of 2 texts of {tmp_path}/dev.jsonl are in {tmp_path}/train.jsonl too" in ended.err
    )


def test_a_label_that_only_held_out_examples_have_is_named(small: Path, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(rows_of(("it broke", "defect"), ("thank you", "praise")))
    ended = run(
        "finetune",
        "classify",
        "--model",
        small,
        "--train",
        tmp_path / "train.jsonl",
        "-o",
        tmp_path / "out",
        *COMMON,
    )
    assert re.search(
        "note: only examples that are held out have '(defect|praise)', so that none is learned",
        ended.err,
    ), ended.err


def test_one_label_that_texts_have_or_lack(small: Path, tmp_path: Path) -> None:
    rows = rows_of(
        *(
            (f"{word} {n}", ["urgent"] if word == "help" else [])
            for n in range(20)
            for word in ("help", "thanks")
        )
    )
    (tmp_path / "train.jsonl").write_text(rows)
    given = (
        "--train",
        tmp_path / "train.jsonl",
        "-o",
        tmp_path / "out",
        "--rate",
        "1e-3",
        "--epochs",
        "5",
        *COMMON,
    )
    ended = run("finetune", "classify", "--model", small, *given)
    assert ended.code == 0, ended.err
    (tmp_path / "ask.txt").write_text("help 3\nthanks 4\n")
    said = [
        json.loads(line)["label"]
        for line in run(
            "predict", tmp_path / "out", tmp_path / "ask.txt", "--json"
        ).out.splitlines()
    ]
    assert said == [["urgent"], []]
    assert [
        line.split()[1:]
        for line in run("predict", tmp_path / "out", tmp_path / "ask.txt").out.splitlines()
    ] == [
        ["urgent"],
        ["no", "label"],
    ]


def test_the_precision_that_was_asked_for_is_in_the_sheet(
    few: Path, small: Path, tmp_path: Path
) -> None:
    words = (
        "finetune",
        "classify",
        "--model",
        small,
        "--train",
        few,
        "--dev",
        few,
        "--epochs",
        "1",
        "--json",
        *COMMON,
    )
    page = json.loads(run(*words, "-o", tmp_path / "out", "--target-precision", "0.5").out)
    asked = page["decisions"]["all"][0]
    assert asked["precision"] == 0.5
    assert (
        json.loads((tmp_path / "out" / "firth.json").read_text())["settings"]["threshold"]
        == asked["threshold"]
    )
    (tmp_path / "odd.jsonl").write_text(FEW.replace("praise", "unsure"))
    odd = (
        "--train",
        tmp_path / "odd.jsonl",
        "--dev",
        tmp_path / "odd.jsonl",
        "-o",
        tmp_path / "odd",
        "--target-precision",
        "0.9",
    )
    ended = run("finetune", "classify", "--model", small, *odd, *COMMON)
    assert ended.code == 2
    assert "a class is called 'unsure'" in ended.err


def test_paths_may_be_paths(few: Path, small: Path, tmp_path: Path) -> None:
    firth.finetune("classify", small, few, tmp_path / "out", dev=few, epochs=1.0, threads=1)
    assert len(load(tmp_path / "out").predict(["it broke"])) == 1
    with pytest.raises(InputError, match="is missing \\(None\\)"):
        load(tmp_path / "out").predict([None])  # type: ignore[list-item]


WAITING = """
import sys, time
from firth.evaluation.held_out import Judge
from firth.recipes.examples import ExampleFile
def wait(*rest):
    print("here", file=sys.stderr, flush=True)
    time.sleep(60)
{} = wait
"""


@pytest.mark.parametrize("place", ["ExampleFile.read", "Judge.judge"])
def test_asked_to_stop_outside_of_training(
    place: str, warm: Warm, few: Path, small: Path, tmp_path: Path
) -> None:
    words = (
        "finetune",
        "classify",
        "--model",
        small,
        *SHORT,
        "--train",
        few,
        "--dev",
        few,
        "-o",
        tmp_path / "out",
    )
    process = warm.start(*words, before=WAITING.format(place))
    while "here\n" not in process.err:
        assert process.running, process.err
        time.sleep(0.005)
    process.signal(signal.SIGTERM)
    ended = process.wait()
    assert ended.code == 3
    assert ended.err.endswith("firth: stopped as asked, outside of training; --resume goes on\n")
    assert run(*words, "--resume").code == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--top", "1", "--features", "-1"), "--top teaches layers and --features teaches none"),
        (("--features", "9"), "has layers from 0"),
        (("--top", "3"), "has 2 layers, not 3"),
        (("--folds", "2", "--seeds", "2"), "leave --dev and --seeds out"),
        (("--folds", "90"), "too few for 90 folds"),
        (("--combine", "sum"), "--combine is for the layers of --features"),
        (("--head", "bilstm"), "--head is for the layers of --features; say which"),
        (("--head", "linear"), "--head is for the layers of --features; say which"),
        (("--epochs", "inf"), "epochs: Input should be a finite number"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(
    files: Path, small: Path, options: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    columns = ("--text", "message", "--label", "queue", "-o", tmp_path / "out", *COMMON)
    ended = run(
        "finetune", "classify", "--model", small, "--train", files / "train.csv", *columns, *options
    )
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err
    assert not (tmp_path / "out").exists()
