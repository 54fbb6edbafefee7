"""Which head a folder has, what its outputs are called, and what Firth says of a head that it can't use."""

import json
from pathlib import Path

import torch
from safetensors.torch import save as pack_tensors

from firth.bundle import load
from firth.predict import Predictor
from tests.unit.folders import BERT_CONFIG, body, random_tensors, sound_folders, write


def test_labels_are_in_the_order_of_their_numbers_however_the_file_sorts_them(tmp_path: Path) -> None:
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
