"""A family of a user's own, one file, goes the whole way: pretrain, resume, embed, finetune, predict."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.base.errors import InputError
from firth.samples.texts import TEXTS
from firth.samples.tickets import tickets
from firth.verbs.finetune import finetune
from firth.verbs.pretrain import pretrain
from tests.plugins.toy_family import FAMILY


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy that has read a few texts."""
    place = tmp_path_factory.mktemp("toy")
    text = "\n\n".join("\n".join(lines) for lines in TEXTS.values())
    (place / "text.txt").write_text(text + "\n", encoding="utf-8")
    pretrain(place / "text.txt", place / "base", model="toy", steps=6, length=32, batch=500)
    return place / "base"


def test_it_is_pretrained_and_opened_again(base: Path) -> None:
    assert json.loads((base / "config.json").read_text())["model_type"] == "toy"
    loaded = firth.load(str(base))
    assert loaded.bundle.record is FAMILY
    assert loaded.bundle.kind == "fill"
    vectors = loaded.embed(["The river rose.", "Prices fell."])
    assert vectors.shape == (2, 16)
    assert np.isfinite(vectors).all()
    (filled,) = loaded.predict(["The [MASK] rose."])
    assert filled


def test_a_finished_run_is_known_again(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = base.parent / "text.txt"
    options = {"model": "toy", "steps": 6, "length": 32, "batch": 500}
    with caplog.at_level(logging.INFO, "firth"):
        pretrain(text, base, resume=True, **options)
    assert "is finished" in caplog.text
    with pytest.raises(InputError, match="steps"):
        pretrain(text, base, resume=True, **options | {"steps": 7})


def test_it_goes_on_from_a_folder(base: Path, tmp_path: Path) -> None:
    text = base.parent / "text.txt"
    pretrain(text, tmp_path / "on", model="toy", init=base, steps=2, batch=500)
    assert firth.load(str(tmp_path / "on")).bundle.record is FAMILY


def test_options_of_others_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a b c\n", encoding="utf-8")
    for options, said in (
        ({"carry": True}, "carry=True is for gpt, not for toy"),
        ({"cell": "gru"}, "cell.* is for a new attention, seq2seq or rnn, not for toy"),
        ({"size": "large"}, "there is no toy of the size large; there are: tiny, mini"),
        ({"model_settings": {"heads": 2}}, "toy has no setting 'heads'"),
    ):
        with pytest.raises(InputError, match=said):
            pretrain(text, tmp_path / "out", model="toy", steps=1, **options)


def test_it_is_fine_tuned(base: Path, tmp_path: Path) -> None:
    rows = [json.dumps({"text": one.text, "label": one.about}) for one in tickets()[:60]]
    train = tmp_path / "train.jsonl"
    train.write_text("\n".join(rows) + "\n", encoding="utf-8")
    finetune("classify", base, train, tmp_path / "model", epochs=1)
    record = json.loads((tmp_path / "model" / "firth.json").read_text())
    assert record["task"] == "classify"
    assert record["head"]["labels"]
    assert firth.load(str(tmp_path / "model")).predict(["Where is my order?"])
