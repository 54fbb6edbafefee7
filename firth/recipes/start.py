"""The model that pretraining starts from: a fresh one, or an existing one, with its own vocabulary or a new one."""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from firth.base.errors import InputError
from firth.base.seeds import Purpose, number
from firth.corpus.mask import Numbers
from firth.folders.bundle import Bundle, load
from firth.models.bert import Bert, BertSettings, preset
from firth.nn.heads import Pooler, PretrainHead
from firth.tasks.head import is_tied, make_head, tie
from firth.text.repair import REPLACEMENT
from firth.text.tokenizer import Tokenizer


class Moved(NamedTuple):
    """How a new vocabulary's vectors came about."""

    shared: int  # pieces of both vocabularies, which keep their vectors
    spelled: int  # new pieces, the mean of the old pieces that spell them
    fresh: int  # new pieces that the old vocabulary can't spell, the mean of all

    def __str__(self) -> str:
        return (
            f"of the new pieces {self.shared:,} keep their vectors, {self.spelled:,} begin as the mean of the old that spell them, "
            f"{self.fresh:,} as the mean of all"
        )


def fresh(
    size: str,
    tokenizer: Tokenizer,
    length: int,
    dropout: float,
    follow: bool,
    seed: int,
    causal: bool = False,
) -> Bundle:
    """A BERT of a named size with new weights and the heads of pretraining."""
    settings = preset(size, tokenizer.size).model_copy(
        update={
            "length": length,
            "dropout": dropout,
            "attention_dropout": dropout,
            "pooler": follow,
            "causal": causal,
        }
    )
    return begun(settings, tokenizer, seed)


def begun(settings: BertSettings, tokenizer: Tokenizer, seed: int) -> Bundle:
    """A BERT of these settings as pretraining begins with it."""
    torch.default_generator.manual_seed(number(Purpose.WEIGHTS, seed))
    encoder = Bert(settings)
    encoder.look_around()
    kind = "pretrain" if settings.pooler else "fill"
    head = make_head(kind, encoder)
    assert head is not None
    head.apply(encoder.start)
    return Bundle(encoder, tokenizer, kind=kind, head=head)


def expect(head: PretrainHead, counts: Numbers) -> None:
    """Let a new head begin with how often each piece stands in the text, which it would learn before all else."""
    seen = np.full(len(head.masked.bias), 0.5)  # a table may have rows that no piece has
    seen[: len(counts)] += counts
    with torch.no_grad():
        head.masked.bias.copy_(torch.from_numpy(np.log(seen / seen.sum())))


def going_on(
    model: str, tokenizer: Tokenizer | None, dropout: float, follow: bool, seed: int
) -> tuple[Bundle, Moved | None]:
    """An existing encoder with the heads of pretraining: those that it has, or new ones."""
    old = load(model)
    if old.family != "bert":
        raise InputError(f"{model} is a {old.family}; pretraining goes on with folders of BERT")
    torch.default_generator.manual_seed(number(Purpose.WEIGHTS, seed))
    encoder = old.model
    assert isinstance(encoder, Bert)
    encoder.requires_grad_(True)
    encoder.settings = encoder.settings.model_copy(
        update={"dropout": dropout, "attention_dropout": dropout, "pooler": follow}
    )
    set_dropout(encoder, dropout)
    kind = "pretrain" if follow else "fill"
    head = make_head(kind, encoder)
    assert isinstance(head, PretrainHead)
    head.apply(encoder.start)
    if isinstance(old.head, PretrainHead):
        head.masked = old.head.masked.requires_grad_(True)
        if follow and old.head.next is not None:
            head.next = old.head.next.requires_grad_(True)
    if follow and encoder.pooler is None:
        encoder.pooler = Pooler(encoder.width).apply(encoder.start)
    if not follow:
        encoder.pooler = None
    moved = _move(encoder, head, old.tokenizer, tokenizer) if tokenizer else None
    return Bundle(encoder, tokenizer or old.tokenizer, kind=kind, head=head), moved


def set_dropout(encoder: nn.Module, rate: float) -> None:
    """Let every layer of an encoder drop at one rate."""
    for module in encoder.modules():
        if hasattr(module, "dropout"):
            module.dropout = rate  # type: ignore[assignment]


def _move(encoder: Bert, head: PretrainHead, old: Tokenizer, new: Tokenizer) -> Moved:
    """Give every piece of a new vocabulary a vector, a bias and, where the head has its own table, a row made from the old."""
    tied = is_tied(head, encoder)
    tensors = [
        encoder.embedding.token.weight,
        head.masked.bias,
        *([] if tied else [head.masked.table]),
    ]
    before = [
        tensor.detach()[: old.size] for tensor in tensors
    ]  # rows that no piece has mean nothing
    after = [tensor.mean(0).expand(new.size, *tensor.shape[1:]).clone() for tensor in before]
    counts = [0, 0, 0]
    for piece in range(new.size):
        same = _same(piece, old, new)
        parts = [same] if same is not None else _spelling(piece, old, new)
        if parts:
            for fresh_rows, rows in zip(after, before, strict=True):
                fresh_rows[piece] = rows[parts].mean(0)
        counts[0 if same is not None else 1 if parts else 2] += 1
    encoder.embedding.token = nn.Embedding.from_pretrained(after[0], freeze=False)
    encoder.settings = encoder.settings.model_copy(update={"vocab": new.size})
    head.masked.bias = nn.Parameter(after[1])
    if tied:
        tie(head, encoder)
    else:
        head.masked.table = nn.Parameter(after[2])
    return Moved(*counts)


def _same(piece: int, old: Tokenizer, new: Tokenizer) -> int | None:
    for role in ("pad", "unk", "cls", "sep", "mask"):
        if getattr(new, role) == piece:
            found: int | None = getattr(old, role)
            return found
    return old.id(new.piece(piece)) if old.kind == new.kind else None


def _spelling(piece: int, old: Tokenizer, new: Tokenizer) -> list[int]:
    """The old pieces that spell a new one; none where the old vocabulary can't."""
    name = new.piece(piece)
    inside = new.kind == "wordpiece" and name.startswith("##")
    text = name.removeprefix("##") if new.kind == "wordpiece" else new.decode([piece])
    if (
        REPLACEMENT in text and old.kind == new.kind == "bytes"
    ):  # a part of a character has no text, but its bytes have names
        ids = [number for byte in name if (number := old.id(byte)) is not None]
        return ids if len(ids) == len(name) else []
    ids = old.encode([text], special=False)[0].ids
    if inside and ids and old.kind == "wordpiece":
        within = old.id(f"##{old.piece(ids[0])}")
        ids = [ids[0] if within is None else within, *ids[1:]]
    return [] if old.unk in ids else ids
