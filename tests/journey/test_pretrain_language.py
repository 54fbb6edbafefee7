"""From text to language models that count or descend: what they reach, that a kill changes no bit, and what is refused."""

import json
import random
import re
import signal
import time
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.gpt import Gpt, GptSettings
from firth.text.tokenizer import Tokenizer
from firth.verbs.evaluate import evaluate
from tests.conftest import SOAK
from tests.journey.command import run
from tests.journey.small import NARROW
from tests.journey.test_pretrain import refused
from tests.journey.test_processes import NEAR, STEPS, difference, job
from tests.journey.test_resume import checkpoints, journal, until, untimed
from tests.journey.warm import Warm

SMALL = ("--size", "tiny", "--dtype", "fp32", "--threads", 1)
MODELS: dict[str, tuple[object, ...]] = {
    "ngram": ("--model", "ngram", "--order", 3),
    "ffnn": ("--model", "ffnn", *SMALL, "--rate", 0.003),
    "tanh": ("--model", "rnn", "--cell", "tanh", "--output", "classes", *SMALL),
    "lstm": ("--model", "rnn", "--output", "sampled", *SMALL, "--rate", 0.004),
    "gpt": ("--model", "gpt", *SMALL, *NARROW, "--batch", 700),
    "elmo": ("--model", "elmo", *SMALL, "--set", "width=32", "--batch", 700, "--rate", 0.01),
    "transformer": ("--model", "transformer", *SMALL, *NARROW, "--batch", 700, "--rate", 0.01),
    "carrying": ("--model", "gpt", "--carry", *SMALL, *NARROW, "--batch", 700, "--length", 64),
}
PLAIN = {"lstm": ("--model", "rnn", *SMALL)}  # words that are drawn depend on who draws them
OTHER_KINDS = {"elmo": "bidirectional", "transformer": "translate"}
TRAINED = 60
KILLED_STEPS = 10
KILLS = 20 if SOAK else 3


@pytest.fixture(scope="module")
def words_vocab(corpus: Path) -> Path:
    """Whole words of the text."""
    folder = corpus.with_name("words")
    ended = run("vocab", corpus, "-o", folder, "--kind", "words", "--size", 1500)
    assert ended.code == 0, ended.err
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_a_model_learns(name: str, warm: Warm, corpus: Path, vocab: Path, tmp_path: Path) -> None:
    out, length = tmp_path / "out", () if name == "ngram" else ("--steps", TRAINED)
    ended = warm.run("pretrain", corpus, "-o", out, "--vocab", vocab, *MODELS[name], *length)
    assert ended.code == 0, ended.err
    made = json.loads((out / "firth.json").read_text())["made"]
    (figure,) = made["baseline"]
    assert made["dev"][figure] < made["baseline"][figure]
    bundle = load(out)
    if name in OTHER_KINDS:
        assert bundle.kind == OTHER_KINDS[name]
        return
    assert bundle.kind == "continue"
    assert bundle.end == bundle.tokenizer.sep
    assert ("carried.safetensors" in str(list(checkpoints(out).rglob("*")))) == (
        name in ("ffnn", "tanh", "lstm", "carrying")
    )
    refused(
        warm.run("embed", out, "a text")
        if bundle.family != "gpt2"
        else warm.run("evaluate", out, tmp_path / "no"),
        "no",
    )


@pytest.mark.parametrize("name", ["ffnn", "lstm", "gpt", "carrying", "elmo", "transformer"])
def test_a_kill_changes_no_bit(
    name: str, warm: Warm, corpus: Path, words_vocab: Path, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    words = [
        "pretrain",
        corpus,
        "--vocab",
        words_vocab,
        *MODELS[name],
        "--steps",
        KILLED_STEPS,
        "--dropout",
        0.2,
    ]
    words += ["--micro", 300, "--check-every", 5, "--save-every", 3]

    def result(out: Path) -> list[object]:
        last = checkpoints(out) / f"step-{KILLED_STEPS:09}"
        found = [*sorted(last.glob("*.safetensors")), out / "model.safetensors"]
        return [
            *((path.name, sha256(path.read_bytes()).hexdigest()) for path in found),
            untimed(journal(out)),
        ]

    alone = tmp_path / "alone"
    begun = time.monotonic()
    assert warm.run(*words, "-o", alone).code == 0
    whole = time.monotonic() - begun
    out = tmp_path / "out"
    for kill in range(KILLS):
        place = (
            draw.choice(["before-write", "mid-write", "before-rename", "after-rename"])
            if kill % 2 == 0
            else None
        )
        if place:
            killed = warm.start(*words, "-o", out, "--resume", FIRTH_FAILPOINT=f"{place}:1")
        else:
            killed = warm.start(*words, "-o", out, "--resume")
            time.sleep(draw.uniform(0, whole))
            killed.signal(signal.SIGKILL)
        if killed.wait().code == 0:
            break
    assert warm.run(*words, "-o", out, "--resume").code == 0
    assert result(out) == result(alone)


PART = 100  # tokens that are counted at once
PARTS = f"""
import sys
from firth.recipes import counted as counting
from firth.recipes.piles import Piles
counting.TOKENS = {PART}
true = Piles._count
Piles._count = lambda self, at: (print(f"part {{self.cuts.index(at)}}.", file=sys.stderr, flush=True), true(self, at))[1]
"""


def test_counts_of_finished_parts_are_kept(warm: Warm, corpus: Path, tmp_path: Path) -> None:
    words = ["pretrain", corpus, *MODELS["ngram"]]
    alone = warm.run(*words, "-o", tmp_path / "alone")
    assert alone.code == 0, alone.err
    out = tmp_path / "out"
    seen: list[int] = []
    for times in (9, 5):
        ended = warm.run(
            *words, "-o", out, "--resume", before=PARTS, FIRTH_FAILPOINT=f"before-sync:{times}"
        )
        assert ended.code == -signal.SIGKILL, ended.err
        seen += [int(part) for part in re.findall(r"part (\d+)\.", ended.err)]
    damaged = sorted((tmp_path / "out.run/counts").glob("0*"))[0]
    data = bytearray(damaged.read_bytes())
    data[-5] ^= 4
    damaged.write_bytes(data)
    ended = warm.run(*words, "-o", out, "--resume", before=PARTS)
    assert ended.code == 0, ended.err
    assert f"note: {damaged} was damaged" in ended.err
    last = [int(part) for part in re.findall(r"part (\d+)\.", ended.err)]
    again = set(range(int(damaged.name[:12]) // PART, -(-int(damaged.name[13:25]) // PART)))
    lost = {seen[-1], *(part for part in seen if seen.count(part) > 1)}
    assert set(seen) & set(last) <= again | lost
    assert sorted({*seen, *last}) == list(range(max(last) + 1))
    assert len(last) > 3
    assert (out / "model.safetensors").read_bytes() == (
        tmp_path / "alone/model.safetensors"
    ).read_bytes()


def test_asked_to_stop_while_counting(warm: Warm, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    slow = (
        PARTS
        + "import time\nquick = counting.count\ncounting.count = lambda *rest: (time.sleep(0.2), quick(*rest))[1]\n"
    )
    process = warm.start("pretrain", corpus, *MODELS["ngram"], "-o", out, before=slow)
    while "part 1." not in process.err:
        assert process.running
        time.sleep(0.005)
    process.signal(signal.SIGTERM)
    ended = process.wait()
    assert ended.code == 3, ended
    assert "as asked; --resume goes on from there" in ended.err.splitlines()[-1]
    assert warm.run("pretrain", corpus, *MODELS["ngram"], "-o", out, "--resume").code == 0


@pytest.mark.parametrize("name", ["lstm", "gpt", "carrying", "elmo"])
def test_two_processes_end_where_one_does(
    name: str, warm: Warm, corpus: Path, words_vocab: Path, tmp_path: Path
) -> None:
    words = [
        "pretrain",
        corpus,
        "--vocab",
        words_vocab,
        *PLAIN.get(name, MODELS[name]),
        "--dropout",
        0,
        "--steps",
        STEPS,
    ]
    words += ["--batch", 700, "--rate", 0.001, "--save-every", 3]
    assert warm.run(*words, "-o", tmp_path / "one").code == 0
    with job(warm, *words, "-o", tmp_path / "two") as two:
        assert [ended.code for ended in two.wait()] == [0, 0]
    assert difference(tmp_path / "one", tmp_path / "two") <= NEAR
    stopped = [*words, "-o", tmp_path / "three", "--resume"]
    with job(warm, *stopped) as three:
        until(3, three.ranks[0], tmp_path / "three")
        three.ranks[0].signal(signal.SIGTERM)
        assert [ended.code for ended in three.wait()] == [3, 3]
    with job(warm, *stopped) as three:
        assert [ended.code for ended in three.wait()] == [0, 0]
    assert difference(tmp_path / "two", tmp_path / "three") == 0


def test_a_model_is_gone_on_with(
    warm: Warm, corpus: Path, words_vocab: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert (
        warm.run(
            "pretrain", corpus, "-o", first, "--vocab", words_vocab, *MODELS["lstm"], "--steps", 20
        ).code
        == 0
    )
    words = ("--model", "rnn", "--dtype", "fp32", "--threads", 1, "--steps", 20)
    ended = warm.run("pretrain", corpus, "-o", second, "--init", first, *words)
    assert ended.code == 0, ended.err
    before, after = (
        json.loads((out / "firth.json").read_text())["made"]["dev"]["loss"]
        for out in (first, second)
    )
    assert after < before
    refused(
        warm.run("pretrain", corpus, "-o", tmp_path / "no", "--init", first, "--steps", 1),
        "say --model rnn",
    )
    refused(
        warm.run(
            "pretrain",
            corpus,
            "-o",
            tmp_path / "no",
            "--model",
            "gpt",
            "--init",
            first,
            "--steps",
            1,
        ),
        "is not pretrained as gpt",
    )


def test_a_gpt_keeps_its_length_and_its_marks(
    warm: Warm, corpus: Path, words_vocab: Path, tmp_path: Path
) -> None:
    """A line ends in training as it does afterwards, also where the tokenizer has other marks than the model."""
    words = Tokenizer.open(words_vocab)
    torch.manual_seed(0)
    sizes = {
        "vocab": words.size,
        "width": 16,
        "depth": 1,
        "heads": 2,
        "inner": 32,
        "length": 32,
        "spread": 0.4,
    }
    save(
        Bundle(
            Gpt(GptSettings(**sizes, start=words.sep, end=words.cls)), words, "gpt2", "continue"
        ),
        tmp_path / "first",
    )
    (tmp_path / "dev.txt").write_text("the value of the statement\nan expression is a value\n")
    call = (
        "pretrain",
        corpus,
        "--model",
        "gpt",
        "--init",
        tmp_path / "first",
        "--dev",
        tmp_path / "dev.txt",
        "--steps",
        1,
    )
    call += ("--rate", 1e-9, "--batch", 300, "--dtype", "fp32", "--threads", 1)
    ended = warm.run(*call, "-o", tmp_path / "out")
    assert ended.code == 0, ended.err
    trained = json.loads((tmp_path / "out/firth.json").read_text())["made"]["dev"][
        "token_perplexity"
    ]
    used = (
        evaluate(tmp_path / "out", tmp_path / "dev.txt", threads=1)
        .models[0]
        .metrics["perplexity"]
        .value
    )
    assert trained == pytest.approx(used, rel=1e-4)
    refused(warm.run(*call, "-o", tmp_path / "no", "--length", 64), "first reads 32 tokens, not 64")


@pytest.mark.parametrize("name", ["ngram", "ffnn", "lstm"])
def test_a_start_mark_in_the_text(name: str, warm: Warm, tmp_path: Path) -> None:
    lines, marked = (
        "we sat in the garden\nthey sat\nwe drank tea\n",
        "the new price is <s>5</s> 4\n",
    )
    for file, text in {
        "good": f"{lines}\nthey sat\n",
        "first": f"{marked}\n{lines}",
        "last": f"{lines}\n{marked}",
    }.items():
        (tmp_path / f"{file}.txt").write_text(text)
    good, first, last = (tmp_path / f"{file}.txt" for file in ("good", "first", "last"))
    words = ("-o", tmp_path / "out", *PLAIN.get(name, MODELS[name]))
    words += () if name == "ngram" else ("--steps", 2, "--batch", 10, "--length", 5)
    for text, wrong in (((first,), first), ((last,), last), ((good, "--dev", first), first)):
        refused(
            warm.run("pretrain", *text, *words),
            "holds the start mark '<s>'",
            f"(grep -rnF '<s>' {wrong} finds it)",
        )
    ended = warm.run("pretrain", good, *words)
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "ngram", "--steps", 5), "an n-gram counts its text once"),
        (("--model", "ngram", "--length", 64), "an n-gram counts its text once"),
        (("--model", "ngram", "--batch", 700), "an n-gram counts its text once"),
        (("--model", "ngram", "--rate", 0.1), "an n-gram counts its text once"),
        (("--model", "ngram", "--dropout", 0), "an n-gram counts its text once"),
        (
            ("--model", "ngram", "--micro", 64, "--check-every", 2),
            "leave --micro and --check-every out",
        ),
        (("--model", "ffnn", "--steps", 5, "--order", 1), "--order is 2 or more"),
        (("--model", "rnn"), "say how long to train"),
        (
            ("--model", "gpt", "--steps", 5, "--cell", "lstm"),
            "--cell is for a new attention, seq2seq or rnn, not for gpt",
        ),
        (("--model", "rnn", "--steps", 5, "--order", 3), "--order is for a new ngram or ffnn"),
        (("--model", "ffnn", "--steps", 5, "--no-nsp"), "are for bert, not for ffnn"),
        (("--model", "rnn", "--steps", 5, "--batch", 10_000_000), "too few"),
    ],
)
def test_refused(
    words: tuple[object, ...],
    said: str,
    warm: Warm,
    corpus: Path,
    words_vocab: Path,
    tmp_path: Path,
) -> None:
    refused(
        warm.run("pretrain", corpus, "-o", tmp_path / "out", "--vocab", words_vocab, *words), said
    )
    assert not (tmp_path / "out").exists()
