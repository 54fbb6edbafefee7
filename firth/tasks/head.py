"""The head that stands on an encoder for each kind of task, with the shape that Hugging Face gives it."""

from torch import nn

from firth.models.bert import Bert
from firth.nn.heads import LinearHead, MaskedHead, PretrainHead


def make_head(
    kind: str | None, encoder: Bert, labels: tuple[str, ...] = (), tied: bool = True, width: int | None = None
) -> nn.Module | None:
    """A fresh head; `tied` lets the head for hidden words share the embedding's table, `width` is that of features."""
    s = encoder.settings
    if kind is None:
        return None
    if kind in ("pretrain", "fill"):
        masked = MaskedHead(s.width, s.vocab, s.eps, s.activation, encoder.embedding.token.weight if tied else None)
        return PretrainHead(masked, nn.Linear(s.width, 2) if kind == "pretrain" else None)
    outputs = {"answer": 2, "choice": 1, "regress": 1}.get(kind, len(labels))
    return LinearHead(width or s.width, outputs, s.dropout)


def is_tied(head: nn.Module | None, encoder: Bert) -> bool:
    """Whether a head has no table of its own."""
    return not isinstance(head, PretrainHead) or head.masked.table is encoder.embedding.token.weight


def tie(head: nn.Module | None, encoder: Bert) -> None:
    """Let the head for hidden words, where it is one, use the embedding's table."""
    if isinstance(head, PretrainHead):
        table = encoder.embedding.token.weight
        assert isinstance(table, nn.Parameter)
        head.masked.table = table
