"""ELMo as a person meets it: pretrained on a text, measured both ways, fine-tuned whole and frozen, asked."""

import json
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.folders.read import load
from firth.samples.tickets import tickets
from tests.journey.command import run

pytestmark = pytest.mark.usefixtures("one_thread")
PRODUCTS = ("kettle", "pan")
STEPS = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tickets as a text, and which of two products each is about."""
    folder = tmp_path_factory.mktemp("tickets")
    texts = [ticket.text for ticket in tickets()]
    (folder / "text.txt").write_text("\n".join(texts))
    named = [(text, word) for text in texts for word in PRODUCTS if word in text.lower()]
    rows = [json.dumps({"text": text, "label": word}) for text, word in named]
    (folder / "classes.jsonl").write_text("\n".join(rows))
    return folder


@pytest.fixture(scope="module")
def pretrained(files: Path) -> Path:
    out = files / "elmo"
    ended = run(
        *("pretrain", files / "text.txt", "-o", out, "--model", "elmo", "--size", "tiny"),
        *("--set", "width=24", "--steps", STEPS, "--batch", 500, "--dtype", "fp32"),
        *("--rate", 0.01),
    )
    assert ended.code == 0, ended.err
    return out


def test_the_loss_of_both_models_falls(pretrained: Path) -> None:
    lines = (pretrained / "metrics.jsonl").read_text().splitlines()
    records = [record for record in map(json.loads, lines) if "loss" in record]
    assert len(records) == STEPS
    for name in ("forward", "backward"):
        assert records[-1][name] < 0.9 * records[0][name]
    assert records[0]["loss"] == pytest.approx(records[0]["forward"] + records[0]["backward"])
    made = json.loads((pretrained / "firth.json").read_text())["made"]
    dev = made["dev"]
    mean = (dev["forward_perplexity"] + dev["backward_perplexity"]) / 2
    assert dev["mean_perplexity"] == pytest.approx(mean)
    # How layers are mixed is left to a task.
    bundle = load(pretrained)
    assert bundle.length is None
    assert bundle.encoder.mix.shares.tolist() == [0, 0, 0]
    assert bundle.encoder.mix.scale.tolist() == [1]


def test_a_text_is_measured_both_ways(pretrained: Path, files: Path) -> None:
    texts = (files / "text.txt").read_text().splitlines()[:20]
    (files / "few.txt").write_text("\n".join(texts))
    ended = run("evaluate", pretrained, "--data", files / "few.txt", "--json")
    assert ended.code == 0, ended.err
    page = json.loads(ended.out)
    answers = firth.load(pretrained).predict(texts)
    words = sum(len(text.split()) + 1 for text in texts)
    for way in ("forward", "backward"):
        total = sum(getattr(answer, way) for answer in answers)
        expected = np.exp(-total / words)
        assert page["metrics"][f"{way}_perplexity"] == pytest.approx(expected, rel=1e-5)
    assert page["models"][0]["tokens"] == sum(answer.tokens for answer in answers)
    refused = run("predict", pretrained, "a text with <s> in it")
    assert refused.code == 2
    assert "holds '<s>', the mark before a text" in refused.err
    refused = run("evaluate", pretrained, "--data", files / "few.txt", "--long", "cut")
    assert refused.err.endswith(
        "--long is not for models that give how likely a text is, forwards and backwards\n"
    )


def finetuned(pretrained: Path, files: Path, name: str, *options: object) -> dict[str, float]:
    train = files / "classes.jsonl"
    ended = run(
        *("finetune", "classify", "--model", pretrained, "--train", train, "--dev", train),
        *("-o", files / name, "--batch", 8, "--json", *options),
    )
    assert ended.code == 0, ended.err
    scores: dict[str, float] = json.loads(ended.out)["metrics"]
    return scores


def test_a_fine_tuned_model_has_learned_its_mix_of_layers(pretrained: Path, files: Path) -> None:
    scores = finetuned(pretrained, files, "whole", "--epochs", 30)
    assert scores["accuracy"]["value"] > 0.9
    bundle = load(files / "whole")
    assert bundle.kind == "classify"
    mix = bundle.encoder.mix
    assert mix.shares.abs().max() > 1e-3
    assert mix.scale.item() != 1
    assert str(mix) in (files / "whole" / "README.md").read_text()
    names = [key for key in bundle.head.state_dict() if "table" in key]
    assert names == []  # the output layer of pretraining is left behind

    long = " ".join(["the kettle is broken"] * 300)
    (answer,) = json.loads(f"[{run('predict', files / 'whole', long, '--json').out}]")
    assert answer["truncated_tokens"] == 0
    assert run("evaluate", files / "whole", files / "classes.jsonl").code == 0
    refused = run(
        *("pretrain", files / "text.txt", "-o", files / "no", "--model", "elmo"),
        *("--init", files / "whole", "--steps", 1),
    )
    assert refused.code == 2
    assert "has no output layer to go on with" in refused.err


def test_features_learn_their_own_mix(pretrained: Path, files: Path) -> None:
    options = ("--features", "0..2", "--combine", "weights", "--epochs", 60)
    scores = finetuned(pretrained, files, "frozen", *options)
    assert scores["accuracy"]["value"] > 0.8
    bundle = load(files / "frozen")
    assert bundle.features is not None
    assert bundle.features.mix.shares.abs().max() > 1e-3
    card = (files / "frozen" / "README.md").read_text()
    assert f"reads its layers 0, 1, 2 as {bundle.features.mix}." in card
    base = load(pretrained).encoder.state_dict()
    kept = bundle.encoder.state_dict()
    assert all((kept[name] == base[name]).all() for name in base)


def test_pretraining_goes_on(pretrained: Path, files: Path) -> None:
    ended = run(
        *("pretrain", files / "text.txt", "-o", files / "more", "--model", "elmo"),
        *("--init", pretrained, "--steps", 2, "--batch", 500, "--dtype", "fp32"),
    )
    assert ended.code == 0, ended.err
    first, last = (
        json.loads((one / "firth.json").read_text()) for one in (pretrained, files / "more")
    )
    before, after = (one["made"]["dev"]["mean_perplexity"] for one in (first, last))
    assert after < 1.2 * before
    bundle = load(files / "more")
    assert bundle.head.table is bundle.encoder.table


def test_words_have_vectors_that_depend_on_both_sides(pretrained: Path) -> None:
    model = firth.load(pretrained)
    texts = ["the kettle is broken", "a kettle is broken", "the kettle was late"]
    spans = model.embed(texts, pool="words")
    vectors = [one.vectors[1] for one in spans]
    assert vectors[0].shape == (48,)
    assert spans[0].offsets[1] == (4, 10)
    # Before the word only the forward half differs, behind it only the backward half.
    assert np.array_equal(vectors[0][24:], vectors[1][24:])
    assert not np.allclose(vectors[0][:24], vectors[1][:24], atol=1e-5)
    assert np.allclose(vectors[0][:24], vectors[2][:24], atol=1e-6)
    assert not np.allclose(vectors[0][24:], vectors[2][24:], atol=1e-5)
