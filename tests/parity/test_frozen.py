"""A folder whose head reads the layers of a frozen encoder: transformers opens the encoder and refuses to put a head on it."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer

from firth.families import bert
from firth.folders.bundle import Bundle
from firth.folders.features import Features
from firth.folders.read import load
from firth.folders.write import save
from firth.nn.heads import LinearHead
from firth.predictor import Predictor
from tests.parity.test_bert import close
from tests.parity.test_folders import BODIES, make, question, rewrite, same, theirs

LABELS = ("no", "yes")
TEXTS = ["abc de", "fig; a jig? big dig!"]
# Their classes with a head, but for GPT-2's language model: its head is the table of the encoder itself.
HEADS = [
    transformers.AutoModelForSequenceClassification,
    transformers.AutoModelForTokenClassification,
    transformers.AutoModelForQuestionAnswering,
    transformers.AutoModelForMultipleChoice,
    transformers.AutoModelForMaskedLM,
    transformers.AutoModelForNextSentencePrediction,
]


def frozen(base: Path) -> Bundle:
    """A classifier on two layers of an encoder that stays as it is."""
    opened = load(base)
    torch.manual_seed(0)
    features = Features(opened.encoder, (-2, -1), "concat").eval()
    head = LinearHead(features.width, len(LABELS)).eval()
    return Bundle(
        opened.encoder, opened.tokenizer, opened.family, "classify", head, LABELS, features=features
    )


@pytest.mark.parametrize("name", BODIES)
def test_transformers_opens_the_encoder_and_refuses_a_head(name: str, tmp_path: Path) -> None:
    given = make(name, tmp_path / "base")
    made = frozen(tmp_path / "base")
    folder = save(made, tmp_path / "frozen")
    asked = question(given)
    same(theirs(transformers.AutoModel.from_pretrained(folder).eval(), asked), theirs(given, asked))

    refused = [head for head in HEADS if type(given.config) in head._model_mapping]
    assert set(HEADS[:3]) <= set(refused)
    for head in refused:
        with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
            head.from_pretrained(folder)

    again = load(folder)  # a warning would be an error here
    assert again.unmatched == ((), ())
    assert Predictor(again, 1).predict(TEXTS) == Predictor(made, 1).predict(TEXTS)


def test_a_pipeline_refuses_it_and_sentence_transformers_embeds_with_it(tmp_path: Path) -> None:
    make("BertModel", tmp_path / "base")
    folder = save(frozen(tmp_path / "base"), tmp_path / "frozen")
    for task in ("text-classification", "ner"):
        with pytest.raises((RuntimeError, ValueError)):
            transformers.pipeline(task, model=str(folder))
    expected = Predictor(load(folder), 1).embed(TEXTS)
    close(
        torch.from_numpy(SentenceTransformer(str(folder), device="cpu").encode(TEXTS)),
        torch.from_numpy(expected),
    )


def test_a_folder_of_an_earlier_release_opens_as_before(tmp_path: Path) -> None:
    """It lacks the weights that let transformers refuse."""
    make("BertModel", tmp_path / "base")
    folder = save(frozen(tmp_path / "base"), tmp_path / "frozen")
    expected = Predictor(load(folder), 1).predict(TEXTS)
    guards = bert.LAYOUT.guards
    rewrite(folder, lambda tensors: [tensors.pop(guard) for guard in guards])
    record = json.loads((folder / "firth.json").read_text())
    del record["sha256"]["model.safetensors"]
    (folder / "firth.json").write_text(json.dumps(record))

    old = load(folder)
    assert old.unmatched == ((), ())
    assert Predictor(old, 1).predict(TEXTS) == expected
