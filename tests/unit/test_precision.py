"""Whether bf16 is chosen."""

import subprocess

import pytest

from firth.train import precision


def test_the_trial_comes_to_the_same_answer_again() -> None:
    assert precision.gains_from_bf16() == precision.gains_from_bf16()


def test_a_processor_that_can_not_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "ABLE", set())
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    assert not precision.gains_from_bf16()


@pytest.mark.parametrize(
    ("trial", "gains"),
    [
        ("print(1.51)", True),
        ("print(1.49)", False),
        ("import os; os.abort()", False),
        ("raise SystemExit(1)", False),
    ],
)
def test_what_the_trial_says_is_heeded_and_its_death_too(
    monkeypatch: pytest.MonkeyPatch, trial: str, gains: bool
) -> None:
    monkeypatch.setattr(precision, "TRIAL", trial)
    monkeypatch.setattr(
        precision.Path, "read_text", lambda *_, **__: "\nflags\t: fpu avx512_bf16\nbugs: none\n"
    )
    assert precision.gains_from_bf16() == gains
