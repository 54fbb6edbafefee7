"""Cross-attention: what each token of a target looks at of its source, in every head and layer.

N layers, H heads, S source tokens, U target tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from firth.base.errors import InputError
from firth.data.examples import Example, Line
from firth.data.window import Long
from firth.tasks.attention import SEVERAL_TEXTS, AttentionMap
from firth.tasks.encoded import TOKENS_PER_BATCH, ExampleError, encode_numbered
from firth.tasks.task import Answered, OpenModel, Progress, Task
from firth.tasks.translate import Translate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firth.text.tokenizer import Encoding


class _Side(NamedTuple):
    """A target: its text, its tokens with the end mark, and where they stand in it."""

    text: str
    ids: list[int]
    offsets: list[tuple[int, int]]


class AttendAcross(Task["list[AttentionMap]"]):
    """The cross-attention of a translator: of pairs, or of texts with their own translations."""

    name = "cross-attention"
    help = "The attention weights between source and target, for each text."
    at_once = SEVERAL_TEXTS

    def __init__(self, translate: Translate) -> None:
        self.translate = translate

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder whose model translates."""
        return cls(Translate.of_bundle(bundle))

    def check_long(self, long: Long) -> None:
        """Refuse to read a source in windows."""
        self.translate.check_long(long)

    def cure(self, long: Long) -> str:
        """Say what would let the model read what was cut off."""
        return self.translate.cure(long)

    def answers(
        self,
        bundle: OpenModel,
        examples: Sequence[Example],
        long: Long,
        first: int,
        progress: Progress | None,
    ) -> list[Answered[list[AttentionMap]]]:
        """Translate what has no target, and return the weights of each pair."""
        lines = [Line(example.text) for example in examples]
        encoded = encode_numbered(self.translate, lines, bundle, long, first)
        targets = self._targets(bundle, examples, long, first)
        rows = [one.windows[0][0].row for one in encoded]
        weights = _weights(bundle, rows, targets)
        if progress:
            progress(first + len(examples))
        maps = map(partial(_map, bundle), examples, rows, targets, weights)
        return [Answered([one], its.truncated) for one, its in zip(maps, encoded, strict=True)]

    def _targets(
        self, bundle: OpenModel, examples: Sequence[Example], long: Long, first: int
    ) -> list[_Side]:
        """Return the target of each example: as given, or the model's translation."""
        alone = [Line(example.text) for example in examples if example.second is None]
        own = iter(self.translate.answers(bundle, alone, long, first, None))
        texts = [
            next(own).answer.translation if example.second is None else example.second
            for example in examples
        ]
        found = []
        for number, encoding in enumerate(bundle.targets.encode(texts, special=False)):
            ids = [*encoding.ids, bundle.translator.end]
            most = bundle.translator.length
            example = examples[number]
            if example.second is not None and most is not None and len(ids) > most:
                said = f"its target has {len(ids):,} tokens, and the model takes {most:,}"
                place = first + number
                raise ExampleError(place, example, f"text {place + 1}: {said}", said)
            offsets = [*encoding.offsets, (0, 0)]
            found.append(_Side(texts[number], ids[:most], offsets[:most]))
        return found


def _map(
    bundle: OpenModel, example: Example, row: Encoding, side: _Side, weights: NDArray[Any]
) -> AttentionMap:
    """Return the record of a pair."""
    return AttentionMap(
        example.text,
        side.text,
        [bundle.tokenizer.piece(token) for token in row.ids],
        list(row.offsets),
        list(row.parts),
        weights,
        target_tokens=[bundle.targets.piece(token) for token in side.ids],
        target_offsets=side.offsets,
    )


def _weights(
    bundle: OpenModel, rows: Sequence[Encoding], targets: Sequence[_Side]
) -> list[NDArray[Any]]:
    """Return the weights of each pair (N, H, U, S), by batches of sources of like length."""
    import torch

    from firth.data.batch import make_batch, plan

    found: dict[int, NDArray[Any]] = {}
    for picked in plan([len(row) for row in rows], TOKENS_PER_BATCH):
        batch = make_batch([rows[number] for number in picked])
        ids = torch.tensor([token for number in picked for token in targets[number].ids])
        lengths = torch.tensor([len(targets[number].ids) for number in picked])
        with torch.inference_mode():
            layers = list(bundle.translator.cross_attention(batch.ids, batch.lengths, ids, lengths))
        if not layers:
            raise InputError("this model has no attention between source and target")
        for place, number in enumerate(picked):
            every = [layer[place].weights for layer in layers]
            found[number] = torch.stack(every).float().cpu().numpy()
    return [found[number] for number in range(len(rows))]
