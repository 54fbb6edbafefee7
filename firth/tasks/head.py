"""The head that stands on an encoder for what a folder's model does, in Hugging Face's shapes."""

from torch import nn

from firth.models.language import check_output
from firth.models.protocols import Encoder
from firth.nn.heads import MaskedHead, PretrainHead
from firth.nn.softmax import FullSoftmax
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
    layer = _vocabulary_layer(head)
    return layer is None or layer.table is encoder.table


def tie(head: nn.Module | None, encoder: Encoder) -> None:
    """Let a head over the vocabulary, where it is one, use the embedding's table."""
    layer = _vocabulary_layer(head)
    if layer is not None:
        layer.table = encoder.table


def _vocabulary_layer(head: nn.Module | None) -> MaskedHead | FullSoftmax | None:
    """Return the layer of a head that has a row for every piece, if it has one."""
    if isinstance(head, PretrainHead):
        return head.masked
    if isinstance(head, FullSoftmax):
        return head
    return None


def check_head(head: nn.Module | None) -> None:
    """Refuse a head whose tensors, read from a folder, don't fit each other."""
    if head is not None:
        check_output(head, "firth.head")
