"""Continue a file of texts with a language model, or name the likeliest ends of its lines."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from firth.data.examples import Example
from firth.predictor import Predictor, Progress
from firth.reading.layout import Cell
from firth.tasks.write import Completion, Continued, Manner


def manner(named: Mapping[str, Any]) -> Manner:
    """How to continue, by the names of the command's options."""
    fields = {"top-k": "top", "top-p": "mass", "stop": "stops"}
    return Manner(**{fields.get(name, name): value for name, value in named.items()})


class Writing:
    """Each text continued."""

    replaces = True
    columns: Mapping[str, Cell] = {"continuation": "text", "score": "number", "ended": "truth"}

    def __init__(self, predictor: Predictor, how: Manner) -> None:
        self.predictor, self.how = predictor, how
        how.check()

    def answers(self, asked: Iterable[Example], progress: Progress) -> Iterator[Continued]:
        """A continuation for each."""
        return self.predictor.writing((one.text for one in asked), self.how, progress)

    def table(self, asked: Example, answer: Continued) -> str:
        """The whole text."""
        return answer.text

    def record(self, asked: Example, answer: Continued) -> dict[str, Any]:
        """The whole text, the new part and its log-probability."""
        return answer._asdict()

    def cells(self, asked: Example, answer: Continued) -> dict[str, Any]:
        """The new part and its log-probability."""
        return {name: value for name, value in answer._asdict().items() if name in self.columns}


class Completing:
    """The likeliest ends of each line."""

    replaces = True
    columns: Mapping[str, Cell] = {"completions": "json"}

    def __init__(self, predictor: Predictor, top: int, tokens: int | None) -> None:
        self.predictor, self.top, self.tokens = predictor, top, tokens

    def answers(
        self, asked: Iterable[Example], progress: Progress
    ) -> Iterator[tuple[Completion, ...]]:
        """The ends of each."""
        return self.predictor.completing(
            (one.text for one in asked), self.top, self.tokens, progress
        )

    def table(self, asked: Example, answer: tuple[Completion, ...]) -> str:
        """The beginning, then the whole lines with their probabilities."""
        return "\n".join(
            [
                asked.text,
                *(
                    f"    {one.probability:7.2%}  {one.text}{'' if one.ended else ' ...'}"
                    for one in answer
                ),
            ]
        )

    def record(self, asked: Example, answer: tuple[Completion, ...]) -> dict[str, Any]:
        """The beginning and its ends."""
        return {"text": asked.text, "completions": [one._asdict() for one in answer]}

    def cells(self, asked: Example, answer: tuple[Completion, ...]) -> dict[str, Any]:
        """The ends."""
        return {"completions": [one._asdict() for one in answer]}
