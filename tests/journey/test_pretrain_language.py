"""From text to language models that count or descend: what they reach, that a kill changes no bit, and what is refused."""

import json
import random
import re
import signal
import time
from hashlib import sha256
from pathlib import Path

import pytest

from firth.bundle import load
from tests.conftest import SOAK
from tests.journey.command import run
from tests.journey.test_pretrain import refused
from tests.journey.test_processes import NEAR, STEPS, difference, job
from tests.journey.test_resume import checkpoints, journal, until, untimed
from tests.journey.warm import Warm

SMALL = ("--size", "tiny", "--precision", "fp32", "--threads", 1)
MODELS: dict[str, tuple[object, ...]] = {
    "ngram": ("--model", "ngram", "--order", 3),
    "ffnn": ("--model", "ffnn", *SMALL, "--rate", 0.003),
    "tanh": ("--model", "rnn", "--cell", "tanh", "--output", "classes", *SMALL),
    "lstm": ("--model", "rnn", "--output", "sampled", *SMALL, "--rate", 0.004),
    "gpt": ("--model", "gpt", *SMALL, "--batch", 700),
    "carrying": ("--model", "gpt", "--carry", *SMALL, "--batch", 700, "--length", 64),
}
PLAIN = {"lstm": ("--model", "rnn", *SMALL)}  # words that are drawn depend on who draws them
TRAINED, KILLED_STEPS = 120, 16
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
    assert made["dev"]["token_perplexity"] < made["baseline"]["token_perplexity"]
    bundle = load(out)
    assert bundle.kind == "continue"
    assert bundle.end == bundle.tokenizer.sep
    assert ("carried.safetensors" in str(list(checkpoints(out).rglob("*")))) == (name in ("ffnn", "tanh", "lstm", "carrying"))
    refused(warm.run("embed", out, "a text") if bundle.family != "gpt2" else warm.run("evaluate", out, tmp_path / "no"), "no")


@pytest.mark.parametrize("name", ["ffnn", "lstm", "gpt", "carrying"])
def test_a_kill_changes_no_bit(name: str, warm: Warm, corpus: Path, words_vocab: Path, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    words = ["pretrain", corpus, "--vocab", words_vocab, *MODELS[name], "--steps", KILLED_STEPS, "--dropout", 0.2]
    words += ["--micro", 300, "--check-every", 5, "--save-every", 3]

    def result(out: Path) -> list[object]:
        last = checkpoints(out) / f"step-{KILLED_STEPS:09}"
        found = [*sorted(last.glob("*.safetensors")), out / "model.safetensors"]
        return [*((path.name, sha256(path.read_bytes()).hexdigest()) for path in found), untimed(journal(out))]

    alone = tmp_path / "alone"
    begun = time.monotonic()
    assert warm.run(*words, "-o", alone).code == 0
    whole = time.monotonic() - begun
    out = tmp_path / "out"
    for kill in range(KILLS):
        place = draw.choice(["before-write", "mid-write", "before-rename", "after-rename"]) if kill % 2 == 0 else None
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


PARTS = """
import sys
from firth.verbs import counting
counting.TOKENS = 500
true = counting.Counting._count
counting.Counting._count = lambda self, at: (print(f"part {self.cuts.index(at)}.", file=sys.stderr, flush=True), true(self, at))[1]
"""


def test_counts_of_finished_parts_are_kept(warm: Warm, corpus: Path, tmp_path: Path) -> None:
    words = ["pretrain", corpus, *MODELS["ngram"]]
    alone = warm.run(*words, "-o", tmp_path / "alone")
    assert alone.code == 0, alone.err
    out = tmp_path / "out"
    seen: list[int] = []
    for times in (9, 5):
        ended = warm.run(*words, "-o", out, "--resume", before=PARTS, FIRTH_FAILPOINT=f"before-sync:{times}")
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
    again = set(range(int(damaged.name[:12]) // 500, -(-int(damaged.name[13:25]) // 500)))
    lost = {seen[-1], *(part for part in seen if seen.count(part) > 1)}
    assert set(seen) & set(last) <= again | lost
    assert sorted({*seen, *last}) == list(range(max(last) + 1))
    assert len(last) > 3
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "alone/model.safetensors").read_bytes()


def test_asked_to_stop_while_counting(warm: Warm, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    slow = PARTS + "import time\nquick = counting.count\ncounting.count = lambda *rest: (time.sleep(0.2), quick(*rest))[1]\n"
    process = warm.start("pretrain", corpus, *MODELS["ngram"], "-o", out, before=slow)
    while "part 1." not in process.err:
        assert process.running
        time.sleep(0.005)
    process.signal(signal.SIGTERM)
    ended = process.wait()
    assert ended.code == 3, ended
    assert "as asked; --resume goes on from there" in ended.err.splitlines()[-1]
    assert warm.run("pretrain", corpus, *MODELS["ngram"], "-o", out, "--resume").code == 0


@pytest.mark.parametrize("name", ["lstm", "gpt", "carrying"])
def test_two_processes_end_where_one_does(name: str, warm: Warm, corpus: Path, words_vocab: Path, tmp_path: Path) -> None:
    words = ["pretrain", corpus, "--vocab", words_vocab, *PLAIN.get(name, MODELS[name]), "--dropout", 0, "--steps", STEPS]
    words += ["--batch", 700, "--save-every", 3]
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


def test_a_model_is_gone_on_with(warm: Warm, corpus: Path, words_vocab: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert warm.run("pretrain", corpus, "-o", first, "--vocab", words_vocab, *MODELS["lstm"], "--steps", 40).code == 0
    words = ("--model", "rnn", "--precision", "fp32", "--threads", 1, "--steps", 40)
    ended = warm.run("pretrain", corpus, "-o", second, "--init", first, *words)
    assert ended.code == 0, ended.err
    before, after = (json.loads((out / "firth.json").read_text())["made"]["dev"]["loss"] for out in (first, second))
    assert after < before
    refused(warm.run("pretrain", corpus, "-o", tmp_path / "no", "--init", first, "--steps", 1), "say --model rnn")
    refused(
        warm.run("pretrain", corpus, "-o", tmp_path / "no", "--model", "gpt", "--init", first, "--steps", 1),
        "is not pretrained as gpt",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "ngram", "--steps", 5), "an n-gram counts its text once"),
        (("--model", "rnn"), "say how long to train"),
        (("--model", "gpt", "--steps", 5, "--cell", "lstm"), "--cell is for a new rnn, not for gpt"),
        (("--model", "rnn", "--steps", 5, "--order", 3), "--order is for a new ngram or ffnn"),
        (("--model", "ffnn", "--steps", 5, "--no-nsp"), "are for bert, not for ffnn"),
        (("--model", "rnn", "--steps", 5, "--batch", 10_000_000), "too few"),
    ],
)
def test_refused(words: tuple[object, ...], said: str, warm: Warm, corpus: Path, words_vocab: Path, tmp_path: Path) -> None:
    refused(warm.run("pretrain", corpus, "-o", tmp_path / "out", "--vocab", words_vocab, *words), said)
    assert not (tmp_path / "out").exists()
