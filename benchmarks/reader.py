"""transformers' Trainer on questions and contexts by its usual recipe, and the answers of the model that it makes."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

from firth.folders.find import find

N_BEST, LONGEST = 20, 30
AT_ONCE = 32  # windows
Row = dict[str, Any]


class Count(Protocol):
    """A number that can be added to."""

    count: int


class Reader:
    """minilm with a new head for answers, and the Trainer that teaches it."""

    def __init__(self, length: int, stride: int, seed: int, tokens: Count | None = None) -> None:
        self.length, self.stride, self.seed, self.tokens = length, stride, seed, tokens
        self.tokenizer = AutoTokenizer.from_pretrained(find("minilm"))

    def trainer(
        self,
        questions: Sequence[Row],
        folder: Path,
        batch: int,
        epochs: int,
        rate: float,
        warmup: float,
        save_every: int | None,
    ) -> Trainer:
        """A Trainer with batches grouped by length and padded to their longest row."""
        set_seed(self.seed)
        rows = self._rows(questions)
        steps = epochs * -(-len(rows) // batch)
        model = AutoModelForQuestionAnswering.from_pretrained(find("minilm"))
        return Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=str(folder),
                use_cpu=True,
                report_to=[],
                disable_tqdm=True,
                logging_strategy="no",
                seed=self.seed,
                num_train_epochs=epochs,
                per_device_train_batch_size=batch,
                learning_rate=rate,
                warmup_steps=round(warmup * steps),
                weight_decay=0.01,
                train_sampling_strategy="group_by_length",
                save_strategy="steps" if save_every else "no",
                save_steps=save_every or 1,
                save_total_limit=1,
            ),
            data_collator=self._collated(),
            train_dataset=rows,
        )

    def _collated(self) -> Callable[[list[Row]], Mapping[str, Any]]:
        """Pad a batch, and count its real tokens where somebody wants to know."""
        pad = DataCollatorWithPadding(self.tokenizer)

        def collate(rows: list[Row]) -> Mapping[str, Any]:
            if self.tokens is not None:
                self.tokens.count += sum(len(row["input_ids"]) for row in rows)
            found: Mapping[str, Any] = pad(rows)
            return found

        return collate

    def _windows(self, questions: Sequence[Row]) -> Any:
        return self.tokenizer(
            [row["question"] for row in questions],
            [row["context"] for row in questions],
            truncation="only_second",
            max_length=self.length,
            stride=self.stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )

    def _rows(self, questions: Sequence[Row]) -> list[Row]:
        """Windows with the tokens where the first answer begins and ends, or the first token."""
        found = self._windows(questions)
        rows = []
        for number, owner in enumerate(found["overflow_to_sample_mapping"]):
            row: Row = {
                name: found[name][number]
                for name in ("input_ids", "token_type_ids", "attention_mask")
            }
            place = (0, 0)
            answers = questions[owner]["answers"]
            if answers:
                start = answers[0]["start"]
                end = start + len(answers[0]["text"])
                place = self._place(found, number, start, end)
            rows.append(row | {"start_positions": place[0], "end_positions": place[1]})
        return rows

    def _place(self, found: Any, number: int, start: int, end: int) -> tuple[int, int]:
        offsets, parts = found["offset_mapping"][number], found.sequence_ids(number)
        own = [at for at, part in enumerate(parts) if part == 1]
        if not own or offsets[own[0]][0] > start or offsets[own[-1]][1] < end:
            return 0, 0
        touched = [at for at in own if offsets[at][0] < end and offsets[at][1] > start]
        return (touched[0], touched[-1]) if touched else (0, 0)

    def answers(self, model: Any, questions: Sequence[Row]) -> dict[str, str]:
        """The best span of each question: of the best starts and ends of each window those that fit."""
        found = self._windows(questions)
        model.eval()
        best: dict[int, tuple[float, str]] = {}
        sizes = [len(ids) for ids in found["input_ids"]]
        order = sorted(range(len(sizes)), key=lambda number: -sizes[number])
        for begun in range(0, len(order), AT_ONCE):
            picked = order[begun : begun + AT_ONCE]
            names = ("input_ids", "token_type_ids", "attention_mask")
            batch = self.tokenizer.pad(
                {name: [found[name][number] for number in picked] for name in names},
                return_tensors="pt",
            )
            with torch.inference_mode():
                out = model(**batch)
            for row, number in enumerate(picked):
                owner = found["overflow_to_sample_mapping"][number]
                context = questions[owner]["context"]
                one = self._best(found, number, out.start_logits[row], out.end_logits[row], context)
                if one is not None and one[0] > best.get(owner, (float("-inf"), ""))[0]:
                    best[owner] = one
        return {row["id"]: best.get(at, (0.0, ""))[1] for at, row in enumerate(questions)}

    def _best(
        self, found: Any, number: int, starts: Any, ends: Any, context: str
    ) -> tuple[float, str] | None:
        offsets, parts = found["offset_mapping"][number], found.sequence_ids(number)
        size = len(parts)
        first, last = (
            one[:size].argsort(descending=True)[:N_BEST].tolist() for one in (starts, ends)
        )
        spans = [
            (float(starts[a] + ends[b]), context[offsets[a][0] : offsets[b][1]])
            for a in first
            for b in last
            if a <= b < a + LONGEST and parts[a] == parts[b] == 1
        ]
        return max(spans, default=None)
