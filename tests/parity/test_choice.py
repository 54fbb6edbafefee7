"""Multiple choice as BertForMultipleChoice has it: the same logits from text, whoever saved the folder."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMultipleChoice, AutoTokenizer, BertForMultipleChoice

import firth
from firth.data.options import Options
from tests.parity.test_bert import close
from tests.parity.test_folders import make

QUESTIONS = [
    Options("a cab", ("bad face", "bead", "a fig jig")),
    Options("", ("z", "q q")),
    Options("abc de fad " * 3, ("bad dad fed", "ja", "cabbage", "i", "deaf")),
]

SEGMENTS = {"return_token_type_ids": True}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def theirs(folder: Path) -> list[torch.Tensor]:
    """What transformers says of each question from its text."""
    model = AutoModelForMultipleChoice.from_pretrained(folder).eval()
    assert type(model) is BertForMultipleChoice
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for one in QUESTIONS:
        count = len(one.candidates)
        rows = tokenizer([one.text] * count, list(one.candidates), padding=True, **SEGMENTS)
        given = {name: torch.tensor([values]) for name, values in rows.items()}
        with torch.inference_mode():
            found.append(model(**given).logits[0])
    return found


def same(folder: Path, expected: list[torch.Tensor]) -> None:
    """Compare the logits and probabilities of a folder that Firth opens."""
    predictor = firth.load(folder, threads=1)
    for logits, reference in zip(predictor.raw(QUESTIONS), expected, strict=True):
        close(torch.cat(logits), reference)
    for one, reference in zip(QUESTIONS, expected, strict=True):
        answer = predictor.choose(one.text, one.candidates)
        assert answer.choice == int(reference.argmax())


def test_theirs_is_answered_and_fine_tuned_here_and_ours_is_opened_there(tmp_path: Path) -> None:
    saved = make("BertForMultipleChoice", tmp_path / "given")
    expected = theirs(tmp_path / "given")
    assert torch.cat(expected).std() > 0.01
    same(tmp_path / "given", expected)

    rows = [
        {"context": one.text, "choices": list(one.candidates), "label": number % 2}
        for number, one in enumerate(QUESTIONS * 2)
    ]
    train = tmp_path / "train.jsonl"
    train.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out"
    firth.finetune(
        "choice", tmp_path / "given", train, out, dev=train, steps=3, rate=1e-2, batch=4, threads=1
    )
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["BertForMultipleChoice"]
    learned = theirs(out)
    moved = [float((one - other).abs().max()) for one, other in zip(learned, expected, strict=True)]
    assert max(moved) > 0.01
    same(out, learned)
    # The head that they had was trained on, not a new one.
    before = saved.classifier.weight.detach()
    after = AutoModelForMultipleChoice.from_pretrained(out).classifier.weight.detach()
    assert float((after - before).abs().max()) < 0.1
