"""The predictor: what each call reports, which text an error names, and how many threads run."""

import random
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.base.errors import InputError
from firth.data.window import Long
from firth.folders.bundle import Bundle
from firth.predictor import Predictor
from firth.tasks.head import make_head
from firth.tasks.task import EXAMPLES_AT_ONCE, Answer
from tests.conftest import count
from tests.unit import speakers
from tests.unit.folders import sound_folders, write

SHORT, LONG = "the cat", "the cat . " * 12  # the models read 12, 16 or 24 tokens


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def encoder(tmp_path: Path) -> Predictor:
    return firth.load(write(tmp_path / "sentence", sound_folders()["sentence"]), threads=1)


@pytest.fixture
def masked(tmp_path: Path) -> Predictor:
    return firth.load(write(tmp_path / "masked", sound_folders()["masked"]), threads=1)


@pytest.fixture
def classifier(encoder: Predictor) -> Predictor:
    plain = encoder.bundle
    torch.manual_seed(0)
    head = make_head("classify", plain.encoder, ("n", "y"))
    assert head is not None
    folder = Bundle(plain.model, plain.tokenizer, "bert", "classify", head.eval(), ("n", "y"))
    return Predictor(folder, threads=1)


@pytest.fixture
def gpt() -> Predictor:
    return Predictor(speakers.bundle("gpt"), threads=1)


def truncated(answers: Sequence[Answer]) -> list[bool]:
    """Return which answers say that their text was cut."""
    return [answer.truncated_tokens > 0 for answer in answers]


def test_vectors_report_the_truncation_of_their_own_call(encoder: Predictor) -> None:
    with pytest.warns(UserWarning, match="1 of 1 texts were longer"):
        alone = encoder.embed([LONG])
    encoder.embed([SHORT, SHORT])  # without a warning, which would be an error here
    with pytest.warns(UserWarning, match="1 of 3 texts were longer"):
        encoder.embed([SHORT, LONG, SHORT])
    vectors, coverage = encoder.embed([SHORT, LONG, LONG], report=True)  # in place of a warning
    assert (coverage.texts, coverage.cut) == (3, 2)
    assert coverage.unseen > 0
    assert np.allclose(vectors[1:], alone, atol=1e-6)
    assert encoder.embed([SHORT], report=True)[1].unseen == 0


def test_answers_carry_the_truncation_of_their_text(masked: Predictor) -> None:
    with pytest.warns(UserWarning, match="1 of 2 texts were longer"):
        assert truncated(masked.predict([f"[MASK] {LONG}", "[MASK]"])) == [True, False]
    assert truncated(masked.predict([f"[MASK] {SHORT}"] * 2)) == [False, False]


def test_language_models_carry_the_truncation_of_their_text(gpt: Predictor) -> None:
    for ask in (gpt.write, gpt.complete):
        with pytest.warns(UserWarning, match="1 of 2 texts were longer"):
            assert truncated(ask([SHORT, LONG], tokens=2)) == [False, True]
        assert truncated(ask([SHORT], tokens=2)) == [False]
    assert truncated(gpt.score([SHORT, LONG])) == [False, False]  # nothing of it is lost


Question = tuple[str, tuple[str, ...], Long]  # what is asked, of which texts, read how


def ask(predictor: Predictor, question: Question) -> list[Answer] | tuple[Any, Any]:
    """Return the answers, or of embedding the vectors as bytes and what was not read."""
    method, texts, long = question
    if method == "predict":
        return predictor.predict(texts, long=long)
    if method == "words":
        spans, coverage = predictor.embed(texts, pool="words", long=long, report=True)
        return [(one.vectors.tobytes(), one.offsets) for one in spans], coverage
    vectors, coverage = predictor.embed(texts, long=long, report=True)
    return vectors.tobytes(), coverage


def unread(answer: list[Answer] | tuple[Any, Any]) -> int:
    """Return how many tokens were not read."""
    if isinstance(answer, tuple):
        return int(answer[1].unseen)
    return sum(one.truncated_tokens for one in answer)


@pytest.mark.parametrize("kind", ["classifier", "filler", "encoder"])
def test_threads_share_a_predictor(
    kind: str, masked: Predictor, encoder: Predictor, classifier: Predictor, seed: int
) -> None:
    """Eight threads ask one model 2,000 questions; every answer is that of a single thread.

    Answers carry how many tokens were not read; vectors come with a report of it.
    """
    predictor = {"classifier": classifier, "filler": masked, "encoder": encoder}[kind]
    draw = random.Random(seed)
    methods = ["words", "text"] if kind == "encoder" else ["predict", "text"]
    mark = "[MASK] " if kind == "filler" else ""
    questions: list[Question] = []
    for _ in range(40):
        lengths = draw.choices(range(12), k=draw.randint(1, 4))
        texts = tuple(f"{mark}a {'the cat . ' * length}" for length in lengths)
        questions.append((draw.choice(methods), texts, draw.choice(["cut", "slide"])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [ask(predictor, question) for question in questions]
        numbers = draw.choices(range(len(questions)), k=count(2000))
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda number: ask(predictor, questions[number]), numbers)
            for number, answer in zip(numbers, answers, strict=True):
                assert answer == alone[number]
    assert 0 < sum(unread(answer) > 0 for answer in alone) < len(alone)


def test_a_text_beyond_the_first_chunk_is_named_by_its_number(encoder: Predictor) -> None:
    texts = ["a"] * (EXAMPLES_AT_ONCE + 3)
    with pytest.raises(InputError, match=rf"text {EXAMPLES_AT_ONCE + 4}: "):
        encoder.embed([*texts, LONG], long="error")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_model_runs_on_the_threads_that_were_asked_for(tmp_path: Path, threads: int) -> None:
    torch.set_num_threads(2)
    model = firth.load(write(tmp_path / "model", sound_folders()["sentence"]), threads=threads)
    used: list[int] = []
    model.bundle.encoder.register_forward_hook(lambda *_: used.append(torch.get_num_threads()))
    model.embed([SHORT])
    assert used == [threads]
    assert torch.get_num_threads() == 2
