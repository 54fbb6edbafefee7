"""`firth view A.run B.run`: real runs of every kind on one page, and a run that is followed while it goes on."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.journey.command import ROOT, run
from tests.journey.small import NARROW
from tests.journey.warm import Started, Warm

pytestmark = pytest.mark.usefixtures("one_thread")
BRIEF = ("--steps", 6, "--check-every", 2, "--batch", 128, "--dtype", "fp32")
KINDS: dict[str, tuple[object, ...]] = {
    "masked": (*NARROW, "--length", 32, *BRIEF),
    "causal": ("--model", "gpt", *NARROW, "--length", 32, *BRIEF),
    "spans": ("--model", "transformer", *NARROW, "--length", 32, *BRIEF),
    "words": ("--model", "word2vec", "--steps", 300, "--check-every", 100, "--set", "width=8"),
    "counts": ("--model", "ngram", "--order", 3),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, corpus: Path, vocab: Path) -> Path:
    """Models of several kinds with their runs, trained on a real text."""
    folder = tmp_path_factory.mktemp("runs")
    for name, options in KINDS.items():
        words = () if name in ("words", "counts") else ("--vocab", vocab)
        ended = run("pretrain", corpus, "-o", folder / name, "--threads", 1, *words, *options)
        assert ended.code == 0, ended.err
    rows = [
        {"text": f"a text about {'tea' if at % 2 else 'boats'} {at}", "label": at % 2}
        for at in range(24)
    ]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    tuned = ("finetune", "classify", "--model", folder / "masked", "--train", folder / "rows.jsonl")
    ended = run(*tuned, "-o", folder / "sorted", "--epochs", 2, "--seeds", 2, "--threads", 1)
    assert ended.code == 0, ended.err
    return folder


def shown(page: Path) -> list[dict[str, Any]]:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    runs = json.loads(found[1])["sections"][0]["data"]["runs"]
    assert isinstance(runs, list)
    return runs


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_runs_of_every_kind_on_one_page(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    page = tmp_path / "page.html"
    ended = run(
        "view",
        "masked.run",
        "causal",
        "spans.run/metrics.jsonl",
        "words.run",
        "sorted.run",
        "counts",
        "-o",
        page,
    )
    assert ended.code == 0, ended.err
    assert ended.out == (
        f"{page}: masked.run, 6 steps; causal, 6 steps; spans.run, 6 steps; words.run, 300 steps; "
        "sorted.run seed-1, 6 steps; sorted.run seed-2, 6 steps; counts, 0 steps; open it in a browser\n"
    )
    runs = {one["name"]: one for one in shown(page)}
    assert {name: one["what"] for name, one in runs.items()} == {
        "masked.run": "pretrain bert",
        "causal": "pretrain gpt",
        "spans.run": "pretrain transformer",
        "words.run": "pretrain word2vec",
        "sorted.run seed-1": "finetune classify",
        "sorted.run seed-2": "finetune classify",
        "counts": "pretrain ngram",
    }
    assert {one["state"] for one in runs.values()} == {"finished"}
    for name, folder in (
        ("masked.run", "masked.run"),
        ("causal", "causal"),
        ("words.run", "words.run"),
        ("sorted.run seed-2", "sorted.run/seed-2"),
    ):
        steps = [one for one in records(place / folder) if "loss" in one]
        checks = [one for one in records(place / folder) if "dev" in one]
        assert runs[name]["steps"] == [one["step"] for one in steps]
        assert runs[name]["loss"] == pytest.approx([one["loss"] for one in steps], rel=1e-5)
        assert runs[name]["checkSteps"] == [one["step"] for one in checks]
    speeds = [one["speed"] for one in records(place / "words.run") if "speed" in one]
    assert runs["words.run"]["speed"] == pytest.approx(speeds, rel=0.01)
    assert "counted in one pass" in runs["counts"]["remark"]


def test_a_model_alone_shows_how_it_was_trained(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run("view", place / "masked")
    assert (ended.code, ended.out) == (0, "view.html: masked, 6 steps; open it in a browser\n")
    assert shown(Path("view.html"))[0]["kept"] in (2, 4, 6)
    assert run("view", place / "masked").err == (
        "firth: view.html exists; choose another name or say --force\n"
    )
    assert run("view", place / "masked", "--force").code == 0
    # With a text or an example it is a model as before.
    example = run("view", place / "masked", "--example", "one-hot", "--force")
    assert "runs" not in example.err
    assert run("view", place / "masked", "The assert statement", "--force").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("counts",), "counted in one pass: it has no steps and no curves"),
        (("counts.run",), "counted in one pass"),
        (("masked.run", "a text of words"), "masked.run is a run, and a text is for models"),
        (("masked.run", "text.txt"), "masked.run is a run, and a text is for models"),
        (("masked", "causal.run", "text.txt"), "causal.run is a run, and a text is for models"),
        (("a text of words", "masked.run"), "there is no run 'a text of words'"),
        (("text.txt", "masked.run"), "text.txt is no journal of a run"),
        (("masked.run", "empty"), "empty has no journal of a run"),
        (("masked.run", "minilm", "words.run"), "there is no run 'minilm'"),
        (("gone.run",), "there is no run 'gone.run'"),
        (("masked.run", "gone.run"), "there is no run 'gone.run'"),
        (("masked.run", "masked.run"), "named twice"),
        (("masked.run", "--pair", "b"), "--pair is for one model and a text"),
        (("masked.run", "--with-model"), "--with-model is for one model and a text"),
        (("masked.run", "--json"), "--json is not for runs"),
        (
            ("masked.run", "--follow", "--example", "bank"),
            "--follow is for runs, and this is about a picture",
        ),
        (("masked.run", "--port", "8000"), "--port is for --follow"),
        (("masked.run", "-o", "page.pdf"), ".html"),
        (("masked.run", "--follow", "-o", "page.html"), "writes no page.html"),
        (("empty", "--follow"), "empty has no journal of a run"),
        (("text.txt", "--follow"), "text.txt is no journal of a run"),
        (("a text of words", "--follow"), "there is no run"),
        (("--follow",), "which run?"),
        (("empty",), "which text?"),
        (("new.run",), "nothing is noted yet; firth view new.run --follow shows it as it comes"),
        (("damaged.run",), "metrics.jsonl:1 is no record of a run"),
        (("damaged.run", "--follow"), "metrics.jsonl:1 is no record of a run"),
    ],
)
def test_a_sentence_says_what_is_wrong(
    words: tuple[str, ...], said: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    Path("text.txt").write_text("a text\n")
    for folder in ("empty", "new.run", "damaged.run"):
        Path(folder).mkdir(exist_ok=True)
    Path("new.run/lock").touch()
    Path("damaged.run/metrics.jsonl").write_text("no record\n")
    ended = run("view", *words)
    assert (ended.code, ended.out) == (2, ""), ended
    assert said in ended.err
    assert ended.err.count("\n") == 1


def follow(*words: object) -> tuple["subprocess.Popen[str]", str]:
    """Start to follow runs, and return the address that is said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "firth", "view", *map(str, words), "--follow"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    address = re.match(r"(http://127\.0\.0\.1:\d+/) shows .*; Ctrl-C ends it\n", said)
    assert address, said + process.communicate()[1]
    return process, address[1]


def news(address: str) -> dict[str, Any]:
    """Return what the page of one run would be told."""
    with urllib.request.urlopen(f"{address}runs.json", timeout=20) as answer:
        (found,) = json.loads(answer.read())["runs"]
    assert isinstance(found, dict)
    return found


def until(address: str, started: Started | None, **wanted: Any) -> dict[str, Any]:
    """Wait for news."""
    latest = time.monotonic() + 60
    while True:
        found = news(address)
        if all(found[name] == value for name, value in wanted.items()):
            return found
        assert time.monotonic() < latest, (found, started and started.err)
        time.sleep(0.02)


def test_a_run_is_followed_killed_and_resumed(
    tmp_path: Path, corpus: Path, vocab: Path, warm: Warm
) -> None:
    out = tmp_path / "mine"
    options = ("--vocab", vocab, *NARROW, "--length", 32, "--batch", 256, "--dtype", "fp32")
    words = (
        "pretrain",
        corpus,
        "-o",
        out,
        *options,
        "--threads",
        1,
        "--steps",
        2000,
        "--save-every",
        50,
    )
    training = warm.start(*words)
    folder = tmp_path / "mine.run"
    while not (folder / "lock").exists():
        assert training.running, training.err
        time.sleep(0.005)
    process, address = follow(folder)
    try:
        until(address, training, state="going on")
        while not news(address)["steps"] or news(address)["steps"][-1] < 60:
            assert training.running, training.err
            time.sleep(0.02)
        training.signal(signal.SIGKILL)
        training.wait()
        stopped = until(address, None, state="stopped")
        assert stopped["what"] == "pretrain bert"
        assert stopped["steps"] == sorted(set(stopped["steps"]))
        again = warm.start(*words, "--resume")
        until(address, again, state="going on")
        while news(address)["steps"][-1] <= stopped["steps"][-1]:
            assert again.running, again.err
            time.sleep(0.02)
        again.signal(signal.SIGTERM)
        assert again.wait().code == 3
        found = until(address, None, state="stopped")
        kept = [one["step"] for one in records(folder) if "loss" in one]
        assert kept == list(range(1, kept[-1] + 1))
        assert found["steps"][-1] == kept[-1]
        process.send_signal(signal.SIGINT)
        out_text, err_text = process.communicate(timeout=20)
        assert (process.returncode, out_text) == (3, "")
        assert err_text == "firth: stopped as asked; the runs go on\n"
    finally:
        process.kill()
        process.communicate()


def test_a_port_that_is_taken(place: Path) -> None:
    process, address = follow(place / "masked.run")
    try:
        port = address.rsplit(":", 1)[1].strip("/")
        ended = run("view", place / "causal", "--follow", "--port", port)
        assert ended.code == 2
        assert ended.err.startswith(f"firth: port {port} can't be used (")
        assert news(address)["state"] == "finished"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 3
