"""Multiple choice: which of several options is right after a context.

B rows, E examples, O options of the example that has most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from firth.base.errors import InputError
from firth.data.examples import Example
from firth.data.options import Options, wrong_options
from firth.data.record import on_a_line
from firth.data.window import Long, Window, keep_second, part_sizes, windows
from firth.reading.choices import AskedChoiceReader, ChoiceReader
from firth.tasks.task import Answer, OpenModel
from firth.tasks.texts import TextTask, encoding_logits, row_logits
from firth.tasks.trained import Scoring, TrainingData

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.data.rows import Targets
    from firth.models.protocols import Backbone
    from firth.text.tokenizer import Encoding, Tokenizer

MOST_OPTION = 3 / 4  # of the room of a window that an option keeps while the context slides


@dataclass(frozen=True)
class Choice(Answer):
    """The option that was chosen: its number from 0, its text, and how probable each option is."""

    choice: int
    chosen: str
    probability: float
    probabilities: tuple[float, ...]

    def figures(self) -> dict[str, float]:
        """Return the probability of each option by its number."""
        return {f"option {number}": one for number, one in enumerate(self.probabilities, 1)}


class Choose(TextTask[Choice]):
    """Choose one of several options by a score for each, which is read with the context."""

    name = "choice"
    help = "Which of several options is right after a context: multiple choice."
    kinds = {name: "the right option"}
    reader = ChoiceReader
    asks = AskedChoiceReader
    asked_by = "--choice"
    calibrates = True
    twins = {"choice": "predicted_choice"}
    selectable = {name: ("accuracy",)}
    select = "accuracy"
    sums = ("right", "count", "loss")
    columns = {
        "predicted_choice": "whole",
        "chosen": "text",
        "probability": "number",
        "probabilities": "json",
    }

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = temperature

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder, with the temperature that it has."""
        return cls(bundle.settings.get("temperature", 1.0))

    @classmethod
    def of_examples(
        cls,
        kind: str,
        labels: Sequence[str],
        examples: Sequence[Example] = (),
        select: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the task to learn; there is one metric to select by."""
        return cls()

    @classmethod
    def plan(cls, data: TrainingData) -> tuple[str, tuple[str, ...]]:
        """Return that options have no labels: each row has its own."""
        return cls.name, ()

    @classmethod
    def outputs(cls, labels: Sequence[str]) -> int:
        """Return one: the score of an option."""
        return 1

    def check(self, example: Example, bundle: OpenModel) -> None:
        """Refuse what has no options to choose from."""
        if not isinstance(example, Options):
            cure = "(--context with a --choice for each asks one question)"
            raise InputError(f"it has no options to choose from {cure}")
        said = wrong_options(example.candidates)
        if said:
            raise InputError(f"it {said}")
        super().check(example, bundle)

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode the context with each of the options."""
        texts: list[str] = []
        seconds: list[str] = []
        for example in examples:
            for text, second in example.pairs:
                assert second is not None
                texts.append(text)
                seconds.append(second)
        # All pairs are encoded at once, and then dealt out to their examples.
        encodings = iter(tokenizer.encode(texts, seconds))
        found = []
        for example in examples:
            own = islice(encodings, len(example.pairs))
            found.append(list(own))
        return found

    def windows(self, encoding: Encoding, length: int | None, long: Long) -> list[Window]:
        """Cut the context, or slide over it; the option stays whole where it fits."""
        if length is None or len(encoding) <= length or long == "error":
            return super().windows(encoding, length, long)
        if long == "cut":
            return [Window(keep_second(encoding, length), 0)]
        context, option = part_sizes(encoding)
        marks = len(encoding) - context - option
        room = length - marks
        fits = option <= MOST_OPTION * room
        part = 0 if context and fits else None
        return windows(encoding, length, long, part=part)

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[Tensor],
        truncated: int,
    ) -> Choice:
        """Return the likeliest option, with probabilities that were calibrated in training."""
        import torch

        assert isinstance(example, Options)
        scores = torch.cat(list(logits)) / self.temperature
        probabilities = tuple(scores.softmax(0).tolist())
        best = probabilities.index(max(probabilities))
        return Choice(
            best,
            example.candidates[best],
            probabilities[best],
            probabilities,
            truncated_tokens=truncated,
        )

    def line(self, example: Example, answer: Choice) -> str:
        """Return the probability, the number and the text of what was chosen."""
        chosen = on_a_line(answer.chosen)
        return f"{answer.probability:7.2%}  {answer.choice}  {chosen}"

    def record(self, example: Example, answer: Choice) -> dict[str, Any]:
        """Return an answer as a JSON object, with the context and the options."""
        assert isinstance(example, Options)
        asked = {"context": example.text, "choices": list(example.candidates)}
        return asked | answer.as_json()

    def cells(self, example: Example, answer: Choice) -> dict[str, Any]:
        """Return the columns of a table."""
        return {
            "predicted_choice": answer.choice,
            "chosen": answer.chosen,
            "probability": answer.probability,
            "probabilities": list(answer.probabilities),
        }

    def targets(
        self, example: Example, encodings: Sequence[Encoding], number: int, window: Window
    ) -> Targets:
        """Return whether a row is of the right option."""
        import numpy as np

        assert isinstance(example, Options)
        if example.right is None or not 0 <= example.right < len(example.candidates):
            raise InputError(f"the label {example.right!r} is not the number of an option")
        return {"right": np.array([example.right == number])}

    def counts(self, batch: Batch) -> dict[str, float]:
        """Count examples."""
        examples = set(batch.owner)
        return {"choice": float(len(examples))}

    def losses(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy over the options of each example."""
        found = _option_scores(encoder, head, batch)
        return {"choice": _cross_entropy(found)}

    def tally(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Count a batch; all options of an example are in it."""
        found = _option_scores(encoder, head, batch)
        is_right = found.scores.argmax(1) == found.right
        return {
            "right": float(is_right.sum()),
            "count": float(len(found.right)),
            "loss": float(_cross_entropy(found)),
        }

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the loss and accuracy."""
        count = max(1.0, sums["count"])
        return {"loss": sums["loss"] / count, "accuracy": sums["right"] / count}

    def calibrate(
        self, examples: Sequence[Example], logits: Sequence[Sequence[Tensor]]
    ) -> dict[str, float]:
        """Return the temperature by which probability is right as often as it says."""
        import numpy as np

        from firth.metrics.decisions import temperature

        scores = []
        for of_example in logits:
            row = [float(option[0]) for option in of_example]
            scores.append(np.array(row))
        truth = [example.right or 0 for example in examples if isinstance(example, Options)]
        return {"temperature": temperature(scores, truth)}

    def scoring(
        self, others: Iterable[str] = (), positive: str | None = None, keep: bool = True
    ) -> Scoring:
        """Return what adds up choices and their probabilities."""
        return ChoiceScoring()


class ChoiceScoring(Scoring):
    """Adds up choices."""

    def __init__(self) -> None:
        from firth.metrics.choices import Choices
        from firth.metrics.decisions import Confidences

        self.tally: Choices = Choices()
        self.confidences: Confidences = Confidences()

    def add(self, example: Example, graded: Choice) -> None:
        """Count an answer."""
        assert isinstance(example, Options)
        right = graded.choice == example.right
        self.tally.add(right, len(example.candidates))
        self.confidences.add(graded.probability, right)


class _OptionScores(NamedTuple):
    """The scores of the options of each example, and the number of the right one."""

    scores: Tensor  # (E, O), minus infinity where an example has fewer options
    right: Tensor  # (E)


def _option_scores(encoder: Backbone, head: nn.Module, batch: Batch) -> _OptionScores:
    """Run a model on a batch; scores are the mean over the windows of an option."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    each_row = row_logits(encoder, head, batch)
    logits, first = encoding_logits(each_row, batch)  # (options, 1)
    numbers: dict[int, list[int]] = {}  # of the options of each example, in their order
    by_option = sorted(range(len(first)), key=lambda at: batch.encodings[first[at]])
    for at in by_option:
        example = batch.owner[first[at]]
        numbers.setdefault(example, []).append(at)

    is_right = batch.targets["right"].cpu()[first]
    scores = []
    right = []
    for options in numbers.values():
        scores.append(logits[options, 0])
        place = is_right[options].int().argmax()
        right.append(int(place))
    padded = pad_sequence(scores, batch_first=True, padding_value=-torch.inf)  # (E, O)
    return _OptionScores(padded, torch.tensor(right))


def _cross_entropy(found: _OptionScores) -> Tensor:
    """Sum the cross-entropy over examples."""
    import torch.nn.functional as F

    return F.cross_entropy(found.scores, found.right, reduction="sum")


TASK = Choose
