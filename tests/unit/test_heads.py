"""Which head a folder has, what its outputs are called, and what Firth says of a head that it can't use."""

import json
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save as pack_tensors

import firth
from firth.base.errors import InputError
from firth.folders.read import load
from firth.predictor import Predictor
from tests.journey.command import listing, run
from tests.unit.folders import (
    BERT_CONFIG,
    DISTIL_CONFIG,
    body,
    random_tensors,
    sound_folders,
    write,
)

ROBERTA_CONFIG = {**BERT_CONFIG, "model_type": "roberta", "pad_token_id": 1}
# An architecture, its configuration, the prefix of its body, and the weights of its head.
UNUSABLE = {
    "RobertaForCausalLM": (ROBERTA_CONFIG, "roberta", ("lm_head.dense", "lm_head.layer_norm")),
    "BertForNextSentencePrediction": (BERT_CONFIG, "bert", ("cls.seq_relationship",)),
    "DistilBertForSpans": (DISTIL_CONFIG, "distilbert", ("begin", "end")),
}


def headed(folder: Path, architecture: str) -> Path:
    """A small folder with a head that Firth has no reading for."""
    config, family, parts = UNUSABLE[architecture]
    shapes = body(family, f"{family}.") | {f"{part}.weight": (2, 8) for part in parts}
    write(folder, sound_folders()["distilbert"])
    (folder / "config.json").write_text(json.dumps({**config, "architectures": [architecture]}))
    (folder / "model.safetensors").write_bytes(pack_tensors(random_tensors(shapes)))
    return folder


@pytest.mark.parametrize("architecture", UNUSABLE)
def test_load_warns_of_a_head_that_is_left_out(architecture: str, tmp_path: Path) -> None:
    folder = headed(tmp_path / "model", architecture)
    names = ", ".join(f"{part}.weight" for part in UNUSABLE[architecture][2])
    with warnings.catch_warnings(record=True, action="always") as said:
        model = firth.load(folder, threads=1)
    assert [(one.category, one.filename) for one in said] == [(firth.FirthWarning, __file__)]
    can_not = f"has a {architecture} head that Firth can't use yet; embed reads its encoder"
    assert str(said[0].message) == f"{folder} {can_not}; weights left out: {names}"

    assert model.embed(["the cats"]).shape == (1, 8)
    with pytest.raises(InputError, match=f"this model {can_not}"):
        model.predict(["the cats"])


@pytest.mark.parametrize("architecture", UNUSABLE)
def test_predict_and_evaluate_refuse_it_before_they_read_data(
    architecture: str, tmp_path: Path
) -> None:
    folder = headed(tmp_path / "model", architecture)
    table = tmp_path / "rows.csv"
    table.write_bytes(
        b"text,label\nthe cats,a\n\xff\xff\xff,b\n"
    )  # a reader would stop at its third line
    before = listing(tmp_path)
    said = f"firth: {folder} has a {architecture} head that Firth can't use yet; embed reads its encoder\n"
    assert run("predict", folder, table, "-o", tmp_path / "out.jsonl") == (2, "", said)
    assert run("predict", folder, tmp_path / "missing.csv") == (2, "", said)
    assert run("evaluate", folder, "--data", table) == (2, "", said)
    assert listing(tmp_path) == before


def test_a_command_says_it_once_as_a_note(tmp_path: Path) -> None:
    folder = headed(tmp_path / "model", "DistilBertForSpans")
    texts = tmp_path / "texts.txt"
    texts.write_text("the cats\n")
    ended = run("embed", folder, texts, "-o", tmp_path / "vectors.npy")
    assert ended.code == 0
    head = "has a DistilBertForSpans head that Firth can't use yet; embed reads its encoder"
    assert ended.err == f"note: {folder} {head}; weights left out: begin.weight, end.weight\n"


def test_labels_are_in_the_order_of_their_numbers_however_the_file_sorts_them(
    tmp_path: Path,
) -> None:
    """A file that sorts its keys as text has "10" before "2"."""
    labels = {str(number): f"label {number}" for number in range(11)}
    config = {**BERT_CONFIG, "architectures": ["BertForSequenceClassification"], "id2label": labels}
    tensors = random_tensors(body("bert", "bert."))
    tensors["classifier.weight"] = torch.zeros(11, 8)
    tensors["classifier.bias"] = torch.eye(11)[10]  # number 10 is always the answer
    folder = write(tmp_path / "model", sound_folders()["masked"])
    (folder / "config.json").write_text(json.dumps(config, sort_keys=True))
    (folder / "model.safetensors").write_bytes(pack_tensors(tensors))
    written = json.loads((folder / "config.json").read_text())["id2label"]
    assert list(written)[:4] == ["0", "1", "10", "2"]

    bundle = load(folder)
    assert bundle.labels == tuple(labels.values())
    (decision,) = Predictor(bundle, 1).predict(["the cats"])
    assert decision.label == "label 10"
