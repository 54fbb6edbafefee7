"""Fine-tuning from Python: the seed that is kept, class weights, what a resumed run may change."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.base.errors import InputError
from tests.unit.folders import sound_folders, write

QUICK: dict[str, Any] = {"batch": 8, "rate": 0.03, "dropout": 0.0, "threads": 1}
Rows = list[tuple[str, str]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of width 8 whose vocabulary has cats."""
    return write(tmp_path / "model", sound_folders()["sentence"])


def write_rows(path: Path, rows: Rows) -> Path:
    records = [{"text": text, "label": label} for text, label in rows]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def animals(count: int, seed: int) -> Rows:
    """Texts of three words; half of them name a cat."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        words, animal = [draw.choice(["a", "b", "c", "the"]) for _ in range(3)], draw.random() < 0.5
        if animal:
            words[draw.randrange(3)] = draw.choice(["cat", "cats"])
        rows.append((" ".join(words), "animal" if animal else "other"))
    return rows


def test_of_several_seeds_the_best_model_is_kept(model: Path, tmp_path: Path) -> None:
    held_out = animals(64, seed=2)
    train = write_rows(tmp_path / "train.jsonl", animals(32, seed=1))
    dev = write_rows(tmp_path / "dev.jsonl", held_out)
    options = QUICK | {"seed": 2, "seeds": 3, "epochs": 4}
    made = firth.finetune("classify", model, train, tmp_path / "out", dev=dev, **options)
    accuracy = {name: scores["accuracy"] for name, scores in made.each.items()}
    assert len(set(accuracy.values())) == 3, "seeds that score alike tell nothing: choose others"
    assert made.kept == max(accuracy, key=lambda name: accuracy[name])
    assert made.scores["accuracy"].value == max(accuracy.values())

    answers = firth.load(tmp_path / "out", threads=1).predict([text for text, _ in held_out])
    right = sum(answer.label == label for answer, (_, label) in zip(answers, held_out, strict=True))
    assert right / len(held_out) == max(accuracy.values())


def learned_share(out: Path, text: str, label: str) -> float:
    """The probability of a label as the loss left it, before calibration."""
    model = firth.load(out, threads=1)
    shares = model.predict([text])[0].probabilities
    temperature = model.bundle.settings["temperature"]
    raw = {name: share**temperature for name, share in shares.items()}
    return raw[label] / sum(raw.values())


def test_balanced_classes_count_the_same_in_all(model: Path, tmp_path: Path) -> None:
    """One text has two labels, so that the model can only learn how much each of them weighs."""
    labels = ["many"] * 12 + ["few"] * 4
    rows = write_rows(tmp_path / "rows.jsonl", [("the cat", label) for label in labels])
    shares = {}
    for balance in (False, True):
        options = QUICK | {"balance": balance, "batch": 16, "rate": 0.01, "epochs": 20}
        firth.finetune("classify", model, rows, tmp_path / f"out-{balance}", dev=rows, **options)
        shares[balance] = learned_share(tmp_path / f"out-{balance}", "the cat", "many")
    assert shares[False] == pytest.approx(0.75, abs=0.05)
    assert shares[True] == pytest.approx(0.5, abs=0.05)


CHANGES: dict[str, Any] = {
    "dropout": 0.2,
    "warmup": 0.3,
    "micro": 100,
    "seed": 5,
    "rate": 0.02,
    "balance": True,
    "length": 10,
    "long": "slide",
}


@pytest.mark.parametrize("finished", [True, False])
def test_a_resumed_run_refuses_other_settings(model: Path, tmp_path: Path, finished: bool) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", animals(8, seed=1)), tmp_path / "out"
    options = QUICK | {"dev": rows, "epochs": 1}
    firth.finetune("classify", model, rows, out, **options)
    if not finished:
        out.rename(tmp_path / "elsewhere")
    place = out if finished else tmp_path / "out.run"
    for name, value in CHANGES.items():
        with pytest.raises(InputError, match=rf"{place} holds a run with {name} "):
            firth.finetune("classify", model, rows, out, resume=True, **options | {name: value})
    assert firth.finetune("classify", model, rows, out, resume=True, **options).outcome.steps == 1
