"""Continue a text with a language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from firth.base.errors import InputError
from firth.data.examples import Example, is_pair
from firth.data.window import Long
from firth.tasks.decoding import Decoding, GeneratedText
from firth.tasks.encoded import ExampleError
from firth.tasks.task import Answered, OpenModel, Progress, Task

if TYPE_CHECKING:
    from firth.tasks.generator import Generator, Prompt

CONTINUE = "continue"  # how folders spell what a language model does
TEXTS_AT_ONCE = 64  # that are continued together
KEEP_END = "(the ends were kept; fewer new tokens leave more room)"

A = TypeVar("A")


class PromptTask(Task[A]):
    """A task that continues single texts, some at a time."""

    takes_prompts = True
    replaces = True
    at_once = TEXTS_AT_ONCE

    def __init__(self, generator: Generator, tokens: int | None) -> None:
        self.generator = generator
        self.tokens = generator.most(tokens)  # new ones, at most

    def check_long(self, long: Long) -> None:
        """Refuse to read a prompt in windows."""
        if long != "cut":
            what = "of one that is too long the end is read"
            raise InputError(f"--long {long} is not for continuing a text: {what}")

    def cure(self, long: Long) -> str:
        """Say what leaves more room for the prompt."""
        return KEEP_END

    def answers(
        self,
        bundle: OpenModel,
        examples: Sequence[Example],
        long: Long,
        first: int,
        progress: Progress | None,
    ) -> list[Answered[A]]:
        """Continue some texts."""
        for number, example in enumerate(examples, first):
            if is_pair(example):
                reason = "it is a pair, and single texts are continued"
                raise ExampleError(number, example, f"text {number + 1}: {reason}", reason)
        prompts = self.generator.prompts([example.text for example in examples], self.tokens)
        answers = self.generate(prompts, first)
        if progress:
            progress(first + len(examples))
        pairs = zip(answers, prompts, strict=True)
        return [Answered(answer, prompt.truncated) for answer, prompt in pairs]

    def generate(self, prompts: Sequence[Prompt], first: int) -> list[A]:
        """Answer prompts; `first` is the first one's number, on which its draws depend."""
        raise NotImplementedError


class Generate(PromptTask[GeneratedText]):
    """Continue each text by the likeliest tokens or by draws."""

    name = "generate"
    help = "The text that comes next, by a language model."
    kinds = {CONTINUE: "the text that comes next"}
    measured_on = "text"
    predict_options = ("tokens", "temperature", "top_k", "top_p", "stop", "seed")
    columns = {"continuation": "text", "score": "number", "ended": "truth"}

    def __init__(
        self,
        generator: Generator,
        decoding: Decoding = Decoding(),  # noqa: B008 - frozen
    ) -> None:
        decoding.check()
        super().__init__(generator, decoding.tokens)
        self.decoding = decoding

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder; the options are those of `Decoding`."""
        decoding = Decoding(
            **{name: options[name] for name in cls.predict_options if name in options}
        )
        decoding.check()
        return cls(make_generator(bundle), decoding)

    def generate(self, prompts: Sequence[Prompt], first: int) -> list[GeneratedText]:
        """Continue prompts."""
        return self.generator.generate(prompts, self.decoding, first)

    def line(self, example: Example, answer: GeneratedText) -> str:
        """Return the whole text."""
        return answer.text


def make_generator(bundle: OpenModel) -> Generator:
    """Return what continues texts with an opened language model."""
    from firth.tasks.generator import Generator

    return Generator(bundle.language, bundle.tokenizer, bundle.end, bundle.length)


TASK = Generate
