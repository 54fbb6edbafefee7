"""Name the likeliest ends of the line that a text begins, by a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from firth.data.examples import Example
from firth.tasks.decoding import Completion, Decoding
from firth.tasks.generate import TEXTS_AT_ONCE, PromptTask, make_generator
from firth.tasks.task import Answer, OpenModel

MOST_ANSWERS = 1000  # ends of a line, or pieces for a blank

if TYPE_CHECKING:
    from firth.tasks.generator import Generator, Prompt

TOP = 5  # ends of each line


@dataclass(frozen=True)
class Completed(Answer):
    """A text and the likeliest ends of its line, best first."""

    text: str
    completions: tuple[Completion, ...]

    def as_json(self) -> dict[str, object]:
        """Return the answer as a JSON object."""
        completions = [asdict(one) for one in self.completions]
        return {
            "text": self.text,
            "completions": completions,
            "truncated_tokens": self.truncated_tokens,
        }


class Complete(PromptTask[Completed]):
    """Name the `top` likeliest ends of each line, by beam search."""

    name = "complete"
    help = "The likeliest ends of each line, by a language model."
    predict_options = ("top", "tokens")
    columns = {"completions": "json"}

    def __init__(self, generator: Generator, top: int = TOP, tokens: int | None = None) -> None:
        Decoding(tokens).check()
        super().__init__(generator, tokens)
        self.top = top
        # Each of several beams counts as a text.
        self.at_once = max(1, TEXTS_AT_ONCE // generator.beams(top))

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder; the options are how many ends, and tokens at most."""
        return cls(make_generator(bundle), options.get("top") or TOP, options.get("tokens"))

    def generate(self, prompts: Sequence[Prompt], first: int) -> list[Completed]:
        """Complete prompts."""
        found = self.generator.complete(prompts, self.top, self.tokens)
        return [
            Completed(prompt.text, completions, truncated_tokens=prompt.truncated)
            for prompt, completions in zip(prompts, found, strict=True)
        ]

    def line(self, example: Example, answer: Completed) -> str:
        """Return the beginning, then the whole lines with their probabilities."""
        lines = [answer.text]
        for one in answer.completions:
            more = "" if one.ended else " ..."
            lines.append(f"    {one.probability:7.2%}  {one.text}{more}")
        return "\n".join(lines)


TASK = Complete
