"""The head that stands on an encoder for what a folder's model does, in Hugging Face's shapes."""

from torch import nn

from firth.models.protocols import Encoder
from firth.nn.heads import PretrainHead
from firth.tasks.registry import find_kind


def make_head(
    kind: str | None,
    encoder: Encoder,
    labels: tuple[str, ...] = (),
    tied: bool = True,
    width: int | None = None,
) -> nn.Module | None:
    """Make a fresh head for a kind of model.

    `tied` lets the head for masked words share the embedding's table, `width` is that of features.
    """
    if kind is None:
        return None
    return find_kind(kind).make_head(encoder, kind, labels, tied, width)


def is_tied(head: nn.Module | None, encoder: Encoder) -> bool:
    """Return whether a head has no table of its own."""
    return not isinstance(head, PretrainHead) or head.masked.table is encoder.table


def tie(head: nn.Module | None, encoder: Encoder) -> None:
    """Let the head for masked words, where it is one, use the embedding's table."""
    if isinstance(head, PretrainHead):
        head.masked.table = encoder.table
