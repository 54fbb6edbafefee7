"""From text to word vectors: what is learned, what a folder gives, that a kill changes no bit, and what is refused."""

import json
import random
import signal
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth.folders.read import load
from tests.journey.command import run
from tests.journey.test_pretrain import refused
from tests.journey.test_resume import checkpoints, journal
from tests.journey.warm import PROCESSOR_CLOCK, Warm

MODELS = ("word2vec", "cbow", "glove", "bernoulli")
SMALL = ("--size", "tiny", "--threads", 1)
# A text of a few thousand words, in many steps.
QUICK: dict[str, tuple[object, ...]] = {
    "word2vec": ("--batch", 200, "--rate", 0.1, "--set", "sample=0.01"),
    "cbow": ("--batch", 200, "--rate", 0.2, "--set", "sample=0.01"),
    "glove": ("--batch", 1000, "--set", "x_max=10"),
    "bernoulli": (
        "--batch",
        200,
    ),
}
KILLED_STEPS = 20


@pytest.fixture(scope="module")
def words(corpus: Path) -> Path:
    """Whole words of the text."""
    folder = corpus.with_name("words-of-vectors")
    ended = run("vocab", corpus, "-o", folder, "--kind", "words", "--size", 600)
    assert ended.code == 0, ended.err
    return folder


def made(out: Path) -> Any:
    return json.loads((out / "firth.json").read_text())["made"]


@pytest.mark.parametrize("model", MODELS)
def test_vectors_are_learned_and_saved(
    model: str, warm: Warm, corpus: Path, words: Path, tmp_path: Path
) -> None:
    out = tmp_path / "v"
    ended = warm.run(
        *("pretrain", corpus, "-o", out, "--model", model, "--vocab", words, *SMALL),
        *(*QUICK[model], "--epochs", 30),
    )
    assert ended.code == 0, ended.err
    losses = [record["loss"] for record in journal(out) if "loss" in record]
    assert losses[-1] < 0.8 * losses[0]
    assert all("speed" in record for record in journal(out) if "loss" in record)
    story = made(out)
    assert story["training"]["epochs"] == 30
    if model != "glove":
        assert story["dev"]["loss"] > 0
        assert story["baseline"]["loss"] > 0

    bundle = load(out)
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == f"firth-{model}"
    assert config["window"] == (10 if model == "glove" else 5)
    table = bundle.encoder.table.detach()
    tokenizer = bundle.tokenizer
    for mark in (tokenizer.pad, tokenizer.unk, tokenizer.cls, tokenizer.sep, tokenizer.mask):
        assert mark is None or not table[mark].any()
    assert float((table != 0).any(1).float().mean()) > 0.8

    # A text is the mean of its words, and nothing else.
    vectors = tmp_path / "vectors.npy"
    texts = tmp_path / "texts.txt"
    texts.write_text("the\nthe value of the class\n", encoding="utf-8")
    ended = warm.run("embed", out, texts, "-o", vectors)
    assert ended.code == 0, ended.err
    found = np.load(vectors)
    numbers = [tokenizer.id(word) for word in "the value of the class".split()]
    assert tokenizer.unk not in numbers
    mean = table[numbers].mean(0).numpy()
    unit = mean / np.linalg.norm(mean)
    given = found[1] / np.linalg.norm(found[1])
    assert np.abs(given - unit).max() < 1e-6
    texts.write_text("\n", encoding="utf-8")
    refused(run("embed", out, texts, "-o", tmp_path / "no.npy"), "it has no tokens")


def result(out: Path) -> list[object]:
    last = checkpoints(out) / f"step-{KILLED_STEPS:09}"
    found = [*sorted(last.glob("*.safetensors")), out / "model.safetensors"]
    clocks = ("seconds", "speed", "tokens")
    records = [
        {key: value for key, value in record.items() if key not in clocks}
        for record in journal(out)
    ]
    return [*((path.name, sha256(path.read_bytes()).hexdigest()) for path in found), records]


@pytest.mark.parametrize("model", MODELS)
def test_a_kill_changes_no_bit(
    model: str, warm: Warm, corpus: Path, words: Path, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    command: list[object] = ["pretrain", corpus, "--vocab", words, "--model", model, *SMALL]
    command += [*QUICK[model], "--steps", KILLED_STEPS, "--save-every", 3, "--check-every", 6]
    alone = tmp_path / "alone"
    begun = time.monotonic()
    assert warm.run(*command, "-o", alone).code == 0
    whole = time.monotonic() - begun
    out = tmp_path / "out"
    for place in ("mid-write:3", None, "before-rename:2"):
        if place:
            killed = warm.start(*command, "-o", out, "--resume", FIRTH_FAILPOINT=place)
        else:
            killed = warm.start(*command, "-o", out, "--resume")
            time.sleep(draw.uniform(0, whole))
            killed.signal(signal.SIGKILL)
        if killed.wait().code == 0:
            break
    ended = warm.run(*command, "-o", out, "--resume")
    assert ended.code == 0, ended.err
    assert result(out) == result(alone)


SLOW_STEPS = """
import time
from firth.recipes.updates import UpdateLoop
true = UpdateLoop._step
UpdateLoop._step = lambda self: (time.sleep(0.05), true(self))[1]
"""


def test_asked_to_stop(warm: Warm, corpus: Path, words: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["pretrain", corpus, "--vocab", words, "--model", "word2vec", *SMALL]
    command += [*QUICK["word2vec"], "--steps", 60, "-o", out]
    process = warm.start(*command, before=SLOW_STEPS)
    while not journal(out):
        assert process.running, process.err
        time.sleep(0.005)
    process.signal(signal.SIGTERM)
    ended = process.wait()
    assert ended.code == 3, ended
    assert "as asked; --resume goes on from there" in ended.err.splitlines()[-1]
    ended = warm.run(*command, "--resume")
    assert ended.code == 0, ended.err
    assert "going on from step" in ended.err
    assert made(out)["steps"] == 60


def test_by_the_clock(warm: Warm, corpus: Path, words: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["pretrain", corpus, "--vocab", words, "--model", "cbow", *SMALL]
    ended = warm.run(*command, "--minutes", 0.05, "-o", out, before=PROCESSOR_CLOCK)
    assert ended.code == 0, ended.err
    assert made(out)["steps"] >= 1
    rates = [record["rate"] for record in journal(out) if "rate" in record]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--length", 64), "--length means nothing to a word2vec"),
        (("--schedule", "constant"), "--schedule means nothing to a word2vec"),
        (("--init", "minilm"), "--init means nothing to a word2vec"),
        (("--no-nsp",), "--no-nsp and --whole-words are for bert"),
        (("--carry",), "--carry is for gpt"),
        (("--order", 3), "--order is for a new"),
        (("--steps", 3, "--epochs", 2), "--minutes, --steps or --epochs, one of them"),
        (("--set", "window=0"), "--window: Input should be greater than 0"),
        (("--set", "x_max=3"), "word2vec has no setting 'x_max'"),
    ],
)
def test_what_means_nothing_is_refused(
    options: tuple[object, ...], said: str, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    refused(run("pretrain", corpus, "--model", "word2vec", *options, "-o", out), said)
    assert not out.exists()


def test_a_vocabulary_of_pieces_is_refused(corpus: Path, vocab: Path, tmp_path: Path) -> None:
    ended = run(
        *("pretrain", corpus, "--model", "glove", "--vocab", vocab, "-o", tmp_path / "out"),
        *("--threads", 1),
    )
    refused(ended, "firth vocab --kind words learns another")


def test_a_text_without_pairs_is_refused(words: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the\nof\nclass\nvalue\n" * 20, encoding="utf-8")
    ended = run(
        *("pretrain", text, "--model", "glove", "--vocab", words, "-o", tmp_path / "out"),
        *("--threads", 1),
    )
    refused(ended, "no two words of the text stand in one line")


def test_two_threads_give_the_same_bits_each_time(
    warm: Warm, corpus: Path, words: Path, tmp_path: Path
) -> None:
    """Also on a machine where they take turns."""
    found = []
    for name in ("one", "other"):
        out = tmp_path / name
        command = ["pretrain", corpus, "--vocab", words, "--model", "word2vec", "--size", "tiny"]
        ended = warm.run(*command, "--batch", 500, "--steps", 12, "--threads", 2, "-o", out)
        assert ended.code == 0, ended.err
        found.append((out / "model.safetensors").read_bytes())
    assert found[0] == found[1]


def test_a_head_is_trained_on_vectors_as_they_are(
    warm: Warm, corpus: Path, words: Path, tmp_path: Path
) -> None:
    out = tmp_path / "v"
    command = ["pretrain", corpus, "--vocab", words, "--model", "word2vec", *SMALL]
    assert warm.run(*command, "--steps", 5, "-o", out).code == 0
    rows = [{"text": "the value of the class", "label": "a"}, {"text": "an object", "label": "b"}]
    pairs = [{"text_a": row["text"], "text_b": "a list", "label": row["label"]} for row in rows]
    for name, given in (("single", rows), ("pairs", pairs)):
        train = tmp_path / f"{name}.jsonl"
        train.write_text("".join(json.dumps(row) + "\n" for row in given * 10))
        made_of = tmp_path / name
        ended = warm.run(
            *("finetune", "classify", "--model", out, "--train", train, "--dev", train),
            *("--features", 0, "--epochs", 1, "--threads", 1, "-o", made_of),
        )
        assert ended.code == 0, ended.err
        before = load(out).encoder.table
        assert np.array_equal(load(made_of).encoder.table.detach(), before.detach())
