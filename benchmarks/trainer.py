"""transformers' own Trainer on examples that Firth's readers read, and its answers as Firth's scorers want them."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    EvalPrediction,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from firth.data.examples import Example, Labelled, Tagged
from firth.folders.find import find
from firth.metrics.classes import Classes
from firth.metrics.entities import Entities
from firth.metrics.numbers import Numbers
from firth.reading.tagged import OUTSIDE
from firth.tasks.classify import Classify
from firth.tasks.regress import Regress
from firth.tasks.tag import Tag, tags_of, true_tags

NOT_SCORED = -100  # what transformers leaves out of a loss
ENCODED_AT_ONCE = 1000  # as the usual `map` over a data set does
Answer = str | float | list[str]
Row = dict[str, Any]


class Pupil:
    """minilm with a new head for a task, and the Trainer that teaches it."""

    def __init__(
        self, kind: str, train: Sequence[Example], dev: Sequence[Example], length: int, seed: int
    ) -> None:
        self.kind, self.dev, self.length, self.seed = kind, dev, length, seed
        self.labels = _labels(kind, [*train, *dev])
        self.tokenizer = AutoTokenizer.from_pretrained(find("minilm"))
        self.train_rows, self.dev_rows = self._rows(train), self._rows(dev)
        self.task = (
            {"classify": Classify, "tag": Tag}[kind](self.labels) if self.labels else Regress()
        )

    def trainer(
        self, folder: Path, callbacks: Sequence[TrainerCallback] = (), **arguments: Any
    ) -> Trainer:
        """A Trainer with its own defaults but for what is given; batches are padded to their longest row."""
        set_seed(self.seed)
        tag = self.kind == "tag"
        # Dropout is that of the folder, 0.1.
        model = (
            AutoModelForTokenClassification if tag else AutoModelForSequenceClassification
        ).from_pretrained(
            find("minilm"),
            num_labels=max(1, len(self.labels)),
            problem_type="regression" if self.kind == "regress" else None,
        )
        return Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=str(folder),
                use_cpu=True,
                report_to=[],
                disable_tqdm=True,
                logging_strategy="no",
                seed=self.seed,
                **arguments,
            ),
            data_collator=(DataCollatorForTokenClassification if tag else DataCollatorWithPadding)(
                self.tokenizer
            ),
            train_dataset=self.train_rows,
            eval_dataset=self.dev_rows,
            processing_class=self.tokenizer,
            compute_metrics=self._measured,
            callbacks=list(callbacks),
        )

    def _rows(self, examples: Sequence[Example]) -> list[Row]:
        """What the Trainer reads; a row of words also has the place of each word's first piece, which the Trainer drops."""
        rows: list[Row] = []
        for start in range(0, len(examples), ENCODED_AT_ONCE):
            part = examples[start : start + ENCODED_AT_ONCE]
            words = [
                [one.text[a:b] for a, b in one.tokens] for one in part if isinstance(one, Tagged)
            ]
            seconds = [
                one.second for one in part if isinstance(one, Labelled) and one.second is not None
            ]
            encoded = self.tokenizer(
                words or [one.text for one in part],
                seconds or None,
                is_split_into_words=bool(words),
                truncation=True,
                max_length=self.length,
            )
            for number, example in enumerate(part):
                row: Row = {name: column[number] for name, column in encoded.items()}
                if isinstance(example, Tagged):
                    row["firsts"] = _firsts(encoded.word_ids(number))
                rows.append(row | {"labels": self._target(example, row)})
        return rows

    def _target(self, example: Example, row: Row) -> list[int] | int | float:
        """A class, a number, or the tag of each word at its first piece."""
        if isinstance(example, Labelled):
            return (
                example.label if self.kind == "regress" else self.labels.index(str(example.label))
            )
        tags, targets = true_tags(example), [NOT_SCORED] * len(row["input_ids"])
        for word, place in row["firsts"].items():
            targets[place] = self.labels.index(tags[word])
        return targets

    def _measured(self, found: EvalPrediction) -> dict[str, float]:
        """Official scores on the held-out examples, and the one by which Firth keeps the best model."""
        scores = official(self.kind, self.labels, self.dev, self._answers(found))
        return scores | {"worth": self.task.select_value(scores)}

    def _answers(self, found: EvalPrediction) -> list[Answer]:
        if self.kind == "regress":
            return found.predictions.reshape(-1).tolist()
        best = found.predictions.argmax(-1)
        if self.kind == "classify":
            return [self.labels[number] for number in best]
        # A word that was cut off, or that has no pieces, is outside.
        counts = [len(example.tokens) for example in self.dev if isinstance(example, Tagged)]
        return [
            [
                self.labels[said[row["firsts"][word]]] if word in row["firsts"] else OUTSIDE
                for word in range(count)
            ]
            for count, row, said in zip(counts, self.dev_rows, best, strict=True)
        ]

    def scores(self, trainer: Trainer) -> dict[str, float]:
        """Official scores of what the Trainer holds now."""
        found = trainer.predict(self.dev_rows)
        return official(
            self.kind,
            self.labels,
            self.dev,
            self._answers(EvalPrediction(found.predictions, found.label_ids)),
        )


class Marks(TrainerCallback):
    """When each step ended; None where something was measured or saved between two steps."""

    def __init__(self) -> None:
        self.times: list[float | None] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the time."""
        self.times.append(time.perf_counter())

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        """Note that the next step's time is not its own."""
        self.times.append(None)


def _firsts(owners: Sequence[int | None]) -> dict[int, int]:
    """The first piece of each word."""
    return {owner: place for place, owner in reversed(list(enumerate(owners))) if owner is not None}


def _labels(kind: str, examples: Sequence[Example]) -> list[str]:
    if kind == "tag":
        return tags_of(
            sorted(
                {
                    span.label
                    for example in examples
                    if isinstance(example, Tagged)
                    for span in example.spans
                }
            )
        )
    return (
        sorted({str(example.label) for example in examples if isinstance(example, Labelled)})
        if kind == "classify"
        else []
    )


def official(
    kind: str, labels: Sequence[str], examples: Sequence[Example], answers: Sequence[Answer]
) -> dict[str, float]:
    """Scores of answers by the scorers that Firth's own answers go through."""
    if kind == "regress":
        scorer: Any = Numbers()
    elif kind == "classify":
        scorer = Classes(labels)
    else:
        scorer = Entities(sorted({label.partition("-")[2] for label in labels} - {""}))
    for example, answer in zip(examples, answers, strict=True):
        truth = true_tags(example) if isinstance(example, Tagged) else example.annotation
        scorer.add(truth, answer)
    found = scorer.sums.scores(scorer.score) | (
        {"spearman": scorer.spearman()} if kind == "regress" else {}
    )
    return {name: interval.value for name, interval in found.items()}
