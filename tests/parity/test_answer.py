"""Answers to questions against transformers: windows, logits, losses and folders."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import firth
from firth.data.rows import EncodedExample, ExampleFeed
from firth.data.window import context_windows
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.reading.readers import Reading
from firth.tasks.answer import AnswerQuestion, token_logits
from firth.tasks.encoded import encode_examples
from firth.tasks.registry import readers
from firth.text.tokenizer import Tokenizer

TEXTS = [
    "In meteorology, precipitation is any product of the condensation of atmospheric water vapor "
    "that falls under gravity.",
    "The river rises in the hills east of the town, passes three mills and two bridges, and "
    "reaches the sea after forty miles.",
]
QUESTIONS = [
    ("What causes precipitation to fall?", 0, "gravity"),
    ("What condenses?", 0, "atmospheric water vapor"),
    ("What is precipitation?", 0, "any product of the condensation of atmospheric water vapor"),
    ("Where does the river rise?", 1, "in the hills east of the town"),
    ("How many mills does it pass?", 1, "three"),
    ("Who built the bridges?", 1, ""),
    ("What does it reach after forty miles?", 1, "the sea"),
    ("How long is it?", 1, "forty miles"),
]
LENGTH, STRIDE = 28, 6


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small encoder, eight questions, and a model that learned from them."""
    folder = tmp_path_factory.mktemp("answer")
    words = Tokenizer.train([*TEXTS, *(question for question, *_ in QUESTIONS)] * 3, size=400)
    torch.manual_seed(4)
    sizes = {"vocab": words.size, "width": 32, "depth": 2, "heads": 2, "inner": 64}
    encoder = Bert(BertSettings(**sizes, length=64, spread=0.2, pooler=False)).eval()
    save(Bundle(encoder, words), folder / "base")
    rows = []
    for question, number, text in QUESTIONS:
        context = TEXTS[number]
        answers = [{"text": text, "start": context.index(text)}] if text else []
        rows.append({"question": question, "context": context, "answers": answers})
    page = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "rows.jsonl").write_text(page)
    firth.finetune(
        "answer",
        folder / "base",
        folder / "rows.jsonl",
        folder / "model",
        dev=folder / "rows.jsonl",
        steps=20,
        rate=2e-3,
        length=LENGTH,
        stride=STRIDE,
        threads=1,
    )
    return folder


def theirs(folder: Path) -> transformers.PreTrainedModel:
    model, report = transformers.AutoModelForQuestionAnswering.from_pretrained(
        folder, output_loading_info=True
    )
    assert not any(report.values()), report
    return model.eval()


def encoded(folder: Path) -> transformers.BatchEncoding:
    """The windows of all questions as the usual recipe makes them."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer(
        [question for question, *_ in QUESTIONS],
        [TEXTS[number] for _, number, _ in QUESTIONS],
        truncation="only_second",
        max_length=LENGTH,
        stride=STRIDE,
        return_overflowing_tokens=True,
        padding=True,
        return_tensors="pt",
    )


def test_windows_are_those_of_the_tokenizers_library(place: Path) -> None:
    words = Tokenizer.open(place / "model")
    asked = encoded(place / "model")
    ours = []
    for question, number, _ in QUESTIONS:
        (whole,) = words.encode([question], [TEXTS[number]])
        ours += [window.row.ids for window in context_windows(whole, LENGTH, "slide", STRIDE)]
    real = asked["attention_mask"].bool()
    expected = [ids[mask].tolist() for ids, mask in zip(asked["input_ids"], real, strict=True)]
    assert len(ours) > len(QUESTIONS)
    assert ours == expected


def test_a_fine_tuned_folder_gives_the_same_logits_and_loss(place: Path) -> None:
    bundle = load(place / "model")
    assert bundle.settings["stride"] == STRIDE
    task = AnswerQuestion.of_bundle(bundle)
    found = [row.example for row in Reading(place / "rows.jsonl", readers=readers("answer"))]
    rows = []
    for example, one in zip(found, encode_examples(task, found, bundle, "slide"), strict=True):
        targets = [[task.targets(example, one.encodings, 0, row) for row in one.windows[0]]]
        rows.append(EncodedExample.of(one.windows, targets))
    batch = ExampleFeed(rows, [one.text for one in found]).batch(0, np.arange(len(found)))

    lengths = batch.lengths.tolist()
    size = max(lengths)

    def padded(stream: torch.Tensor) -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence(stream.split(lengths), batch_first=True)

    with torch.inference_mode():
        ours = token_logits(bundle.encoder, bundle.head, batch)
        loss = task.losses(bundle.encoder, bundle.head, batch)["span"]
        mask = padded(torch.ones_like(batch.ids))
        out = theirs(place / "model")(
            input_ids=padded(batch.ids),
            attention_mask=mask,
            token_type_ids=padded(batch.segments),
        )
    real = mask.bool()
    expected = torch.stack([out.start_logits[real], out.end_logits[real]], -1)
    assert expected.std() > 0.1
    assert (ours - expected).abs().max() <= 1e-5 * max(1.0, float(expected.abs().max()))

    # transformers' own loss lets padding take part: here every row is alone.
    total = 0.0
    model = theirs(place / "model")
    for row, (start, end) in enumerate(batch.targets["span"].tolist()):
        first = sum(lengths[:row])
        own = slice(first, first + lengths[row])
        with torch.inference_mode():
            total += float(
                model(
                    input_ids=batch.ids[None, own],
                    token_type_ids=batch.segments[None, own],
                    start_positions=torch.tensor([start]),
                    end_positions=torch.tensor([end]),
                ).loss
            )
    mean = float(loss) / task.counts(batch)["span"]
    assert mean == pytest.approx(total / len(lengths), rel=1e-5)
    assert size <= LENGTH


def test_folders_of_transformers_are_answered_and_fine_tuned(place: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    theirs(place / "model").save_pretrained(given)
    transformers.AutoTokenizer.from_pretrained(place / "model").save_pretrained(given)
    assert not (given / "firth.json").exists()
    model = firth.load(given, threads=1)
    assert model.bundle.kind == "answer"
    ours = firth.load(place / "model", threads=1)
    for question, number, _ in QUESTIONS:
        one = model.answer(question, TEXTS[number])
        other = ours.answer(question, TEXTS[number])
        # The folder says nothing of windows, and that nothing may be the answer.
        assert one.answer is not None
        assert one.answer in TEXTS[number]
        assert len(one.candidates) == len(other.candidates) == 5

    again = firth.finetune(
        "answer",
        given,
        place / "rows.jsonl",
        tmp_path / "again",
        dev=place / "rows.jsonl",
        steps=60,
        rate=5e-3,
        threads=1,
    )
    assert again.scores["f1"].value > 0.5
    theirs(tmp_path / "again")
    assert firth.load(tmp_path / "again").bundle.settings["answer_margin"] == 0.0
