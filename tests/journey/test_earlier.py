"""Folders and runs of earlier releases: they open and give the answers that they gave, and runs go on or are refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firth
from tests.journey.command import run

EARLIER = Path(__file__).parents[1] / "earlier"
PAGE: dict[str, Any] = json.loads((EARLIER / "answers.json").read_text())
BOUND = 1e-6
INPUTS = {
    "texts": [{"text": text} for text in PAGE["asked"]],
    "lines": [{"text": text} for text in PAGE["asked"] if text],
    "pairs": [{"text_a": first, "text_b": second} for first, second in PAGE["pairs"]],
    "mask": [{"text": PAGE["mask"]}],
}
PREDICTED = {
    "bert": "mask",
    "classify": "texts",
    "several": "texts",
    "tag": "texts",
    "features": "texts",
    "classify-gpt": "lines",
    "regress": "pairs",
    "regress-gpt": "pairs",
}
LANGUAGE = ("gpt", "rnn", "ffnn", "ngram")


def differences(before: Any, now: Any, where: str = "answer") -> list[str]:
    """What of an earlier answer isn't there any more; new fields are no difference."""
    if isinstance(before, dict):
        if not isinstance(now, dict):
            return [f"{where}: {now!r}"]
        return [
            line
            for key, value in before.items()
            for line in differences(value, now.get(key, "nothing"), f"{where}.{key}")
        ]
    if isinstance(before, list):
        if not isinstance(now, list) or len(now) != len(before):
            return [f"{where}: {now!r}"]
        pairs = zip(before, now, strict=True)
        return [
            line
            for number, (old, new) in enumerate(pairs)
            for line in differences(old, new, f"{where}[{number}]")
        ]
    if isinstance(before, float):
        near = isinstance(now, int | float) and abs(now - before) <= BOUND * max(1.0, abs(before))
        return [] if near else [f"{where}: {before!r} is now {now!r}"]
    return [] if before == now else [f"{where}: {before!r} is now {now!r}"]


def answered(*words: object) -> list[Any]:
    """The objects that a command prints."""
    ended = run(*words, "--json", "--threads", "1")
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def write(folder: Path, name: str) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in INPUTS[name]), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", PREDICTED)
def test_a_folder_answers_as_it_did(name: str, tmp_path: Path) -> None:
    now = answered("predict", EARLIER / name, write(tmp_path, PREDICTED[name]))
    assert differences(PAGE["answers"][name]["predict"], now) == []


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_language_model_speaks_as_it_did(name: str, tmp_path: Path) -> None:
    lines = write(tmp_path, "lines")
    scored = answered("predict", EARLIER / name, lines, "--score")
    assert differences(PAGE["answers"][name]["score"], scored) == []
    continued = answered("predict", EARLIER / name, lines, "--tokens", "6")
    assert differences(PAGE["answers"][name]["predict"], continued) == []


@pytest.mark.parametrize("name", ["bert", "classify", "tag", "features"])
def test_vectors_are_as_they_were(name: str) -> None:
    vectors = firth.load(EARLIER / name).embed(PAGE["asked"])
    before = np.array(PAGE["answers"][name]["embed"])
    assert np.abs(vectors - before).max() <= BOUND


def test_a_difference_is_seen() -> None:
    before = PAGE["answers"]["classify"]["predict"]
    now = json.loads(json.dumps(before))
    now[0]["confidence"] += 1e-5
    assert len(differences(before, now)) == 1
    assert len(differences(before, before[:1])) == 1


PRETRAIN = "pretrain corpus.txt -o again --init base --steps 8 --batch 256 --save-every 2"
FINETUNE = (
    "finetune classify --model base --train classes.jsonl -o triage"
    " --epochs 4 --batch 2 --save-every 2"
)


@pytest.mark.parametrize(("out", "words"), [("again", PRETRAIN), ("triage", FINETUNE)])
def test_an_interrupted_run_goes_on_or_is_refused(
    out: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EARLIER / "runs", tmp_path, dirs_exist_ok=True)
    shutil.copytree(EARLIER / "bert", tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    ended = run(*words.split(), "--threads", "1", "--resume")
    if ended.code == 0:
        assert "going on from step" in ended.err
        assert firth.load(out).embed(["a card"]).shape == (1, 16)
    else:
        assert ended.code == 2
        assert len(ended.err.strip().splitlines()) == 1
        assert f"{out}.run" in ended.err
