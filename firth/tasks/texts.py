"""What the tasks on whole texts share: encoding a text or a pair, and a score for each text from those of its windows.

B rows, K scores.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.data.batch import Batch
from firth.data.examples import Example, Labelled
from firth.models.protocols import Encoder
from firth.text.tokenizer import Encoding, Tokenizer


def encode(examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
    """Encode texts whole, and pairs as pairs; one call has either."""
    seconds = [example.second if isinstance(example, Labelled) else None for example in examples]
    texts = [example.text for example in examples]
    if all(second is None for second in seconds):
        return tokenizer.encode(texts)
    if any(second is None for second in seconds):
        raise InputError("some texts have a second one and some have none")
    return tokenizer.encode(texts, [second or "" for second in seconds])


def row_scores(encoder: Encoder, head: nn.Module | None, batch: Batch) -> Tensor:
    """The head's scores of each row (B, K), from the pooler's summary as transformers has it."""
    hidden = encoder(*batch.stream)
    if head is None or hidden.pooled is None:
        raise InputError("this model has no head for whole texts")
    return head(hidden.pooled)  # type: ignore[no-any-return]


def text_scores(scores: Tensor, owner: Sequence[int]) -> tuple[Tensor, list[int]]:
    """The mean over the windows of each text, and the row where each text is met first."""
    order = list(dict.fromkeys(owner))
    place = {text: number for number, text in enumerate(order)}
    index = torch.tensor([place[text] for text in owner])
    total = torch.zeros(len(order), scores.shape[1], dtype=scores.dtype).index_add_(
        0, index, scores.cpu()
    )
    return total / torch.bincount(index)[:, None], [owner.index(text) for text in order]


def mean(scores: Sequence[Tensor]) -> Tensor:
    """The scores of a text from those of its windows."""
    return scores[0] if len(scores) == 1 else torch.stack(list(scores)).mean(0)
