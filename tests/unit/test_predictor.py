"""The predictor: what each call reports, which text an error names, and how many threads run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import firth
from firth.base.errors import InputError
from firth.predictor import TEXTS_AT_ONCE, Predictor
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
def gpt() -> Predictor:
    return Predictor(speakers.bundle("gpt"), threads=1)


def seen(model: Predictor) -> tuple[int, int]:
    """Texts of the last call, and how many of them were truncated."""
    return model.coverage.texts, model.coverage.cut


def test_vectors_report_the_truncation_of_their_own_call(encoder: Predictor) -> None:
    with pytest.warns(UserWarning, match="1 of 1 texts were longer"):
        encoder.embed([LONG])
    encoder.embed([SHORT, SHORT])  # without a warning, which would be an error here
    assert seen(encoder) == (2, 0)
    assert encoder.coverage.unseen == 0
    with pytest.warns(UserWarning, match="1 of 3 texts were longer"):
        encoder.embed([SHORT, LONG, SHORT])


def test_answers_report_the_truncation_of_their_own_call(masked: Predictor) -> None:
    with pytest.warns(UserWarning, match="1 of 1 texts were longer"):
        masked.predict([f"[MASK] {LONG}"])
    masked.predict([f"[MASK] {SHORT}"] * 2)
    assert seen(masked) == (2, 0)


def test_language_models_report_the_truncation_of_their_own_call(gpt: Predictor) -> None:
    for ask in (gpt.write, gpt.complete):
        with pytest.warns(UserWarning, match="1 of 1 texts were longer"):
            ask([LONG], tokens=2)
        ask([SHORT], tokens=2)
        assert seen(gpt) == (1, 0)
    gpt.score([SHORT, LONG])
    gpt.score([SHORT])
    assert seen(gpt) == (1, 0)


def test_a_text_beyond_the_first_chunk_is_named_by_its_number(encoder: Predictor) -> None:
    texts = ["a"] * (TEXTS_AT_ONCE + 3)
    with pytest.raises(InputError, match=rf"text {TEXTS_AT_ONCE + 4}: "):
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
