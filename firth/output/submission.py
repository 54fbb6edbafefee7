"""Answers to a test set as the site of GLUE takes them: a table with an index and a prediction."""

from collections.abc import Iterable
from pathlib import Path

from firth.base.errors import InputError
from firth.base.files import new_file
from firth.tasks.classify import Classification
from firth.tasks.regress import Number
from firth.tasks.task import Answer

LEAST, MOST = 0.0, 5.0  # of the numbers that the site takes


def write_submission(path: Path, answers: Iterable[tuple[str, Answer]]) -> None:
    """Write each answer beside the index of its row."""
    with new_file(path, force=True) as fresh, fresh.open("w", encoding="utf-8") as file:
        file.write("index\tprediction\n")
        for index, answer in answers:
            file.write(f"{index}\t{_prediction(answer)}\n")


def _prediction(answer: Answer) -> str:
    if isinstance(answer, Number):
        return f"{min(MOST, max(LEAST, answer.value)):.3f}"
    if isinstance(answer, Classification):
        return str(answer.label)
    raise InputError(f"GLUE takes classes and numbers, and no {type(answer).__name__}")
