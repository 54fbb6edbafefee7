"""The head that stands on an encoder for each kind of task, with the shape that Hugging Face gives it."""

from torch import nn

from firth.models.bert import Bert
from firth.models.gpt import Gpt
from firth.nn.heads import LinearHead, MaskedHead, PretrainHead


def make_head(
    kind: str | None,
    encoder: Bert | Gpt,
    labels: tuple[str, ...] = (),
    tied: bool = True,
    width: int | None = None,
) -> nn.Module | None:
    """A fresh head; `tied` lets the head for hidden words share the embedding's table, `width` is that of features."""
    if kind in (None, "continue"):  # what comes next is asked of the model itself
        return None
    if kind in ("pretrain", "fill"):
        assert isinstance(encoder, Bert)
        s = encoder.settings
        masked = MaskedHead(
            s.width, s.vocab, s.eps, s.activation, encoder.embedding.token.weight if tied else None
        )
        return PretrainHead(masked, nn.Linear(s.width, 2) if kind == "pretrain" else None)
    outputs = {"answer": 2, "choice": 1, "regress": 1}.get(kind, len(labels))
    bare = isinstance(encoder, Gpt) and width is None and kind != "tag"
    return LinearHead(width or encoder.width, outputs, encoder.settings.dropout, bias=not bare)


def is_tied(head: nn.Module | None, encoder: Bert | Gpt) -> bool:
    """Whether a head has no table of its own."""
    return (
        not (isinstance(head, PretrainHead) and isinstance(encoder, Bert))
        or head.masked.table is encoder.embedding.token.weight
    )


def tie(head: nn.Module | None, encoder: Bert) -> None:
    """Let the head for hidden words, where it is one, use the embedding's table."""
    if isinstance(head, PretrainHead):
        table = encoder.embedding.token.weight
        assert isinstance(table, nn.Parameter)
        head.masked.table = table
