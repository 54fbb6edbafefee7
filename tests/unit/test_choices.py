"""Multiple choice: rows as they are published, hostile ones, the loss over options, what is cut, and what is learned."""

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from firth.base.errors import InputError
from firth.data.examples import Line
from firth.data.options import Options
from firth.data.rows import EncodedExample, ExampleFeed
from firth.folders.bundle import Bundle
from firth.metrics.choices import Choices
from firth.metrics.decisions import temperature
from firth.models.bert import Bert, BertSettings
from firth.predictor import Predictor
from firth.reading.columns import Named
from firth.reading.readers import FileRow, Reading
from firth.reading.survey import Findings, survey
from firth.tasks import registry
from firth.tasks.choice import Choose
from firth.tasks.encoded import encode_examples
from firth.tasks.head import make_head
from firth.text.tokenizer import Encoding, Tokenizer
from firth.train.learner import Learner

SWAG = ("video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source")
TEXT = "The quick brown fox jumps over a lazy dog and nobody sees it fall asleep again"


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.train([TEXT, TEXT.upper(), "which one is right ?"] * 3, size=150)


def bundle(words: Tokenizer, length: int = 32) -> Bundle:
    torch.manual_seed(2)
    sizes = {"width": 32, "depth": 1, "heads": 2, "inner": 64, "length": length, "dropout": 0.0}
    encoder = Bert(BertSettings(vocab=words.size, spread=0.3, **sizes)).eval()
    head = make_head("choice", encoder)
    assert head is not None
    torch.nn.init.normal_(head.linear.weight, std=1.0)
    return Bundle(encoder, words, kind="choice", head=head.eval())


def ids_of(encoding: Encoding, part: int) -> list[int]:
    """Return the pieces of one text of a pair."""
    pieces = zip(encoding.ids, encoding.parts, strict=True)
    return [piece for piece, owner in pieces if owner == part]


def jsonl(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path, named: Named | None = None, **options: Any) -> list[FileRow]:
    return list(Reading(path, named, readers=registry.readers("choice"), **options))


def examples(path: Path, named: Named | None = None) -> list[Any]:
    return [row.example for row in read(path, named)]


def swag(path: Path, *rows: tuple[object, ...], labels: bool = True) -> Path:
    """Write SWAG's own csv, which begins with a column that has no name."""
    names = ["", *SWAG, *(f"ending{number}" for number in range(4)), *(["label"] * labels)]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def test_swags_own_csv(tmp_path: Path) -> None:
    row = (0, "v1", 1, "A man, tired. He", "A man, tired.", "He", "gold")
    endings = ("sits.", "flies.", "is a cup.", "eats the sea.")
    path = swag(tmp_path / "train.csv", (*row, *endings, 2))
    options = tuple(f"He {ending}" for ending in endings)
    assert examples(path) == [Options("A man, tired.", options, 2)]
    # What a folder remembers of its columns reads the same, and without labels too.
    reading = Reading(path, readers=registry.readers())
    assert reading.task == "choice"
    asked = Choose.asks
    bare = swag(tmp_path / "test.csv", (*row, *endings), labels=False)
    assert reading.columns is not None
    again = Reading(bare, trained=reading.columns.named, asks=asked)
    assert [one.example for one in again] == [Options("A man, tired.", options)]
    unlabelled = Reading(bare, readers=registry.readers("choice"))
    assert [one.example for one in unlabelled] == [None]
    assert unlabelled.counts.unlabelled == 1


def test_lists_of_any_length_and_labels_of_both_forms(tmp_path: Path) -> None:
    rows = [
        {"context": "a", "choices": ["x", "y"], "label": 1},
        {"context": "a", "choices": ["x", "y", "z y"], "label": "z  y"},
        {"context": "a", "choices": ["x", "y"], "label": "0"},
        {"context": "a", "choices": ["1", "0"], "label": "0"},
        {"context": "a", "choices": ["1", "0"], "label": 0},
        {"context": "", "choices": ["x", "y"], "label": 0.0},
        {"context": "a", "question": "who?", "choices": ["x", "y"], "label": 0},
    ]
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    found = examples(path)
    assert [one.right for one in found] == [1, 2, 0, 1, 0, 0, 0]
    assert [len(one.candidates) for one in found] == [2, 3, 2, 2, 2, 2, 2]
    assert [one.text for one in found] == ["a"] * 5 + ["", "a\nwho?"]


def test_a_question_alone_and_columns_that_are_named(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"question": "who?", "choices": ["x", "y"], "label": 0})
    assert examples(path) == [Options("who?", ("x", "y"), 0)]
    path = jsonl(tmp_path / "b.jsonl", {"story": "s", "ends": ["x", "y"], "gold": 1})
    assert examples(path, Named.of("story", "ends", "gold")) == [Options("s", ("x", "y"), 1)]
    table = tmp_path / "c.csv"
    table.write_text("story,one,two,gold\ns,x,y,1\n")
    assert examples(table, Named.of("story", "one,two", "gold")) == [Options("s", ("x", "y"), 1)]
    # Nobody but a person takes two columns for options, or one without lists.
    named = Named.of("story", "one,two", "gold")
    assert Reading(table, named, readers=registry.readers()).task == "classify"
    with pytest.raises(InputError, match=r"its column 'one' holds no list .*; rows look like"):
        read(table, Named.of("story", "one"))
    with pytest.raises(InputError, match=r"lacks a context and choices.*second= the options"):
        read(table, Named.of("story"))
    nested = {"question": "who?", "choices": {"text": ["x", "y"], "label": ["A", "B"]}}
    path = jsonl(tmp_path / "arc.jsonl", nested | {"answerKey": "A"})
    with pytest.raises(InputError, match=r"its column 'choices' holds no list .* rows look like"):
        read(path)
    with pytest.raises(InputError, match="has no column 'nowhere'"):
        read(table, Named.of("nowhere"))


@pytest.mark.parametrize(
    ("name", "kept", "twice"), [("mc_piqa", 1838, 0), ("mc_arc_easy", 2369, 7)]
)
def test_published_questions(name: str, kept: int, twice: int) -> None:
    if "FIRTH_DATA" not in os.environ:
        pytest.skip("FIRTH_DATA names no folder of data sets")
    reading = Reading(
        Path(os.environ["FIRTH_DATA"]) / name / "eval.jsonl.gz", readers=registry.readers()
    )
    said = [str(row.fault) for row in reading if row.fault]
    assert (reading.task, reading.counts.kept) == ("choice", kept)
    assert len(said) == twice
    assert all("twice, as number" in one for one in said)


@pytest.mark.parametrize(
    ("choices", "label", "said"),
    [
        (["x"], 0, "has one option, where there must be two or more"),
        ([], 0, "has no options"),
        (["x", " "], 0, "has an empty option, number 1"),
        (["x", "y", " x"], 0, "has the option 'x' twice, as number 0 and 2"),
        (["x", "y"], 2, "has the label 2, where its 2 options are numbered from 0 to 1"),
        (["x", "y"], -1, "has the label -1, where"),
        (["x", "y"], "-1", "has the label -1, where"),
        (["x", "y"], 10**400, "has the label 1000"),
        (["x", "y"], "Z", "has the label 'Z', which is neither a number nor an option"),
        (["x", "y"], 0.5, "has the label 0.5, which is neither"),
        (["x", "y"], True, "has the label True, which is neither"),
        (["x", "y"], [0], r"has the label \[0\], which is neither"),
        (["x", 3], 0, "where a list of words belongs"),
        ("x", 0, "where a list of words belongs"),
        ({"text": ["x", "y"]}, 0, "where a list of words belongs"),
        (None, 0, "where a list of words belongs"),
        (["x", "y\0"], 0, "NUL"),
    ],
)
def test_hostile_rows_are_named(choices: object, label: object, said: str, tmp_path: Path) -> None:
    good = {"context": "a", "choices": ["x", "y"], "label": 1}
    row = {"context": "a", "choices": choices, "label": label}
    (first, second) = read(jsonl(tmp_path / "rows.jsonl", good, row))
    assert first.fault is None
    assert second.example is None
    assert second.line == 2
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(str(second.fault))


def test_a_number_that_is_another_options_text_is_refused_where_nobody_can_tell(
    tmp_path: Path,
) -> None:
    row = (0, "v1", 1, "Add. It", "Add.", "It", "gold")
    path = swag(tmp_path / "train.csv", (*row, "3", "2", "1", "0", 1), (*row, "0", *"abc", 0))
    first, second = read(path)
    assert "the number of one option and the text of number 2" in str(first.fault)
    assert second.example == Options("Add.", ("It 0", "It a", "It b", "It c"), 0)


def test_unlabelled_rows_are_counted_and_what_check_says(tmp_path: Path) -> None:
    rows = [
        {"context": f"row {number}", "choices": ["x", "y", "z"][: 2 + number % 2], "label": 1}
        for number in range(4)
    ]
    path = jsonl(tmp_path / "rows.jsonl", *rows, {"context": "a", "choices": ["x", "y"]})
    findings = Findings()
    reading = Reading(path, readers=registry.readers())
    found = survey(reading, findings)
    assert (reading.task, reading.counts.kept, reading.counts.unlabelled) == ("choice", 4, 1)
    facts = found.labels.facts()
    assert facts.pop("chance") == pytest.approx(5 / 12)
    assert facts == {"options": {"2": 2, "3": 2}, "right": {"1": 4}}
    assert found.labels.summary() == ", 2 to 3 options a row, 41.7% right by chance"
    said = [finding.said for finding in findings.kept]
    assert "has the right option at number 1 in every row" in said


def test_the_loss_is_the_cross_entropy_over_the_options_of_a_row(words: Tokenizer) -> None:
    made = bundle(words)
    asked = [
        Options("which one is right ?", ("quick fox", "dog", "nobody falls asleep"), 2),
        Options("jumps over", ("a dog", "it"), 0),
    ]
    task = Choose()
    rows = []
    for one, found in zip(asked, encode_examples(task, asked, made, "cut"), strict=True):
        targets = [
            [task.targets(one, found.encodings, number, window) for window in every]
            for number, every in enumerate(found.windows)
        ]
        rows.append(EncodedExample.of(found.windows, targets))
    batch = ExampleFeed(rows, ["", ""]).batch(0, np.arange(2))
    assert task.counts(batch) == {"choice": 2.0}
    learner = Learner(made.encoder, made.head, task)
    with torch.inference_mode():
        loss = float(learner(batch)["choice"])
        tally = task.tally(made.encoder, made.head, batch)
    logits = [[float(one[0]) for one in found] for found in Predictor(made, 1).raw(asked)]
    assert [len(found) for found in logits] == [3, 2]
    expected = -log_softmax(logits[0])[2] - log_softmax(logits[1])[0]
    assert loss == pytest.approx(expected, rel=1e-5)
    right = int(np.argmax(logits[0]) == 2) + int(np.argmax(logits[1]) == 0)
    assert tally == pytest.approx({"right": right, "count": 2, "loss": expected}, rel=1e-5)


def test_the_option_stays_whole_and_the_end_of_the_context_too(words: Tokenizer) -> None:
    task = Choose()
    option = "nobody sees it fall asleep again"
    (encodings,) = task.encode([Options(f"{TEXT} " * 4 + "which one ?", (option, "dog"))], words)
    whole = encodings[0]
    own = ids_of(whole, 1)
    context = ids_of(whole, 0)
    for length in (len(own) + 3, len(own) + 10, 40):
        (window,) = task.windows(whole, length, "cut")
        row = window.row
        assert len(row) == length
        assert ids_of(row, 1) == own
        kept = ids_of(row, 0)
        assert kept == context[len(context) - len(kept) :]
        assert row.ids[0] == whole.ids[0]
        assert row.ids[-1] == whole.ids[-1]
    seen = set()
    for window in task.windows(whole, 40, "slide"):
        row = window.row
        assert ids_of(row, 1) == own
        seen |= {place for place, part in zip(row.offsets, row.parts, strict=True) if part == 0}
    assert len(seen) == len(context)
    # An option that alone is too long loses its end, and is told.
    (long,) = task.encode([Options("", (f"{TEXT} " * 4, "dog"))], words)
    (window,) = task.windows(long[0], 20, "cut")
    assert len(window.row) == 20
    with pytest.raises(InputError, match="tokens where the model takes 20"):
        task.windows(long[0], 20, "error")


def test_what_was_not_read_is_in_the_answer(words: Tokenizer) -> None:
    predictor = Predictor(bundle(words), 1)
    with pytest.warns(UserWarning, match="1 of 1 texts were longer"):
        answer = predictor.choose(f"{TEXT} " * 5, ["dog", "fox"])
    whole = predictor.choose(f"{TEXT} " * 5, ["dog", "fox"], long="slide")
    assert answer.truncated_tokens > 50
    assert whole.truncated_tokens == 0
    assert answer.as_json().keys() == {
        "choice",
        "chosen",
        "probability",
        "probabilities",
        "truncated_tokens",
    }
    assert answer.chosen == ["dog", "fox"][answer.choice]
    assert answer.probability == max(answer.probabilities)
    assert sum(answer.probabilities) == pytest.approx(1, abs=1e-6)


def test_what_has_no_options_is_refused(words: Tokenizer) -> None:
    predictor = Predictor(bundle(words), 1)
    for asked, said in [
        (Line("a text"), "text 1: it has no options to choose from"),
        (Options("a", ("dog",)), "text 1: it has one option"),
        (Options("a", ("dog", "dog")), "text 1: it has the option 'dog' twice"),
    ]:
        with pytest.raises(InputError, match=said):
            predictor.predict([asked])
    with pytest.raises(InputError, match="give a list of texts, not one string"):
        predictor.choose("a", "dog")
    other = bundle(words)
    other.kind, other.labels = "classify", ("a",)
    with pytest.raises(InputError, match="this model doesn't choose: it gives one class"):
        Predictor(other, 1).choose("a", ["dog", "fox"])


def test_accuracy_stands_beside_chance() -> None:
    tally = Choices()
    for number in range(200):
        tally.add(number % 4 == 0, 4 if number % 2 else 2)
    scores = tally.scores()
    assert scores["accuracy"].value == 0.25
    assert scores["accuracy"].low < 0.22
    assert scores["accuracy"].high > 0.28
    assert scores["chance"].value == pytest.approx(0.375)

    one = Choices()
    one.add(True, 2)
    accuracy = one.scores()["accuracy"]
    assert accuracy.value == accuracy.high == 1
    assert accuracy.low == pytest.approx(0.025)  # one lucky row shows no skill


def test_the_temperature_of_rows_with_different_numbers_of_options(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows, truth = [], []
    for number in range(4000):
        honest = draw.normal(0, 2, 2 + number % 3)
        shares = np.exp(honest) / np.exp(honest).sum()
        truth.append(int(draw.choice(len(honest), p=shares)))
        rows.append(honest)
    assert temperature(rows, truth) == pytest.approx(1.0, abs=0.12)
    assert temperature([3 * row for row in rows], truth) == pytest.approx(3.0, abs=0.36)
