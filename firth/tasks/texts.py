"""What the tasks on whole texts share: one encoding of a text or a pair, and logits for each text.

B rows, K logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from firth.base.errors import InputError
from firth.data.examples import Example, is_pair
from firth.data.window import Window
from firth.tasks.trained import TrainedTask

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.models.protocols import Backbone
    from firth.text.tokenizer import Encoding, Tokenizer

A = TypeVar("A")


class TextTask(TrainedTask["Tensor", A]):
    """A task on texts or pairs of texts whose head reads a summary of the text."""

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode each text or pair once."""
        return [[encoding] for encoding in encode_texts(examples, tokenizer)]

    def logits(
        self, model: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Tensor]:
        """Return the logits of each row (K)."""
        every = row_logits(model, head, batch).cpu()  # (B, K)
        return list(every)

    def combine(self, rows: Sequence[Window], logits: Sequence[Tensor]) -> Tensor:
        """Return the mean over the windows of a text."""
        import torch

        if len(logits) == 1:
            return logits[0]
        windows = torch.stack(list(logits))
        return windows.mean(0)


def encode_texts(examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
    """Encode texts whole, and pairs as pairs; one call has either."""
    texts = [example.text for example in examples]
    seconds = [example.second for example in examples if example.second is not None]
    if not seconds:
        return tokenizer.encode(texts)
    if len(seconds) < len(texts):
        raise InputError("some texts have a second one and some have none")
    return tokenizer.encode(texts, seconds)


def encode_mixed(examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
    """Encode texts whole, and pairs as pairs, where one call may have both."""
    texts = [example for example in examples if not is_pair(example)]
    pairs = [example for example in examples if is_pair(example)]
    single = iter(encode_texts(texts, tokenizer))
    paired = iter(encode_texts(pairs, tokenizer))
    return [next(paired if is_pair(example) else single) for example in examples]


def row_logits(encoder: Backbone, head: nn.Module | None, batch: Batch) -> Tensor:
    """Return the head's logits of each row (B, K), from the summary that transformers has too."""
    hidden = encoder(*batch.stream)
    if head is None or hidden.pooled is None:
        raise InputError("this model has no head for whole texts")
    return head(hidden.pooled)  # type: ignore[no-any-return]


def encoding_logits(logits: Tensor, batch: Batch) -> tuple[Tensor, list[int]]:
    """Return the mean over the windows of each encoding, and the row where each is met first.

    The encodings are in the order in which they are met; rows (B, K) are in that of the batch.
    """
    import torch

    keys = list(zip(batch.owner, batch.encodings, strict=True))
    order = list(dict.fromkeys(keys))
    place = {key: number for number, key in enumerate(order)}
    index = torch.tensor([place[key] for key in keys])  # (B) the encoding of each row
    outputs = logits.shape[1]
    total = torch.zeros(len(order), outputs, dtype=logits.dtype)
    total = total.index_add_(0, index, logits.cpu())
    windows = torch.bincount(index)
    means = total / windows[:, None]
    first_rows = [keys.index(key) for key in order]
    return means, first_rows
