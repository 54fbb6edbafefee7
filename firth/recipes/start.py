"""The encoder that pretraining starts from: new, or existing with its own or a new vocabulary."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.base.seeds import Purpose, number
from firth.corpus.mask import Numbers
from firth.families import bert
from firth.families.family import Family
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.models.protocols import Encoder
from firth.nn.draws import new_weights
from firth.nn.heads import PretrainHead
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
            f"of the new pieces {self.shared:,} keep their vectors, "
            f"{self.spelled:,} begin as the mean of the old that spell them, "
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
    own: Mapping[str, Any] | None = None,
    family: Family = bert.FAMILY,
) -> Bundle:
    """Return an encoder of a named size, or of `own` sizes, with new weights and pretraining heads.

    `follow` adds the head that says whether the second text follows the first.
    """
    values = {"vocab": tokenizer.size, "length": length, "pooler": follow, "causal": causal}
    settings = family.settings_for(size, own, **values)
    made = begun(settings, tokenizer, seed, follow, family)
    made.encoder.set_dropout(dropout)
    return made


def begun(
    settings: Any, tokenizer: Tokenizer, seed: int, follow: bool, family: Family = bert.FAMILY
) -> Bundle:
    """Return an encoder of these settings as pretraining begins with it."""
    kind = "pretrain" if follow else "fill"
    with new_weights(number(Purpose.WEIGHTS, seed)):
        encoder: Encoder = family.network(settings)
        encoder.initialise_masked()
        head = make_head(kind, encoder)
        assert head is not None
        head.apply(encoder.initialise)
    return Bundle(encoder, tokenizer, family.model_type, kind, head)


def expect(head: PretrainHead, counts: Numbers) -> None:
    """Let a new head begin with the frequency of each piece, which it would learn first of all."""
    seen = np.full(len(head.masked.bias), 0.5)  # a table may have rows that no piece has
    seen[: len(counts)] += counts
    with torch.no_grad():
        head.masked.bias.copy_(torch.from_numpy(np.log(seen / seen.sum())))


def going_on(
    model: str, tokenizer: Tokenizer | None, dropout: float, follow: bool, seed: int
) -> tuple[Bundle, Moved | None]:
    """Return an existing encoder with the heads of pretraining: those that it has, or new ones."""
    old = load(model)
    if not old.record.moves_vocabulary:
        raise InputError(f"{model} is a {old.family}; pretraining goes on with folders of BERT")
    encoder = old.encoder
    encoder.requires_grad_(True)
    encoder.set_dropout(dropout)
    kind = "pretrain" if follow else "fill"
    with new_weights(number(Purpose.WEIGHTS, seed)):
        head = make_head(kind, encoder)
        assert isinstance(head, PretrainHead)
        head.apply(encoder.initialise)
        encoder.set_pooler(follow)
    if isinstance(old.head, PretrainHead):
        head.masked = old.head.masked.requires_grad_(True)
        if follow and old.head.next is not None:
            head.next = old.head.next.requires_grad_(True)
    moved = _move(encoder, head, old.tokenizer, tokenizer) if tokenizer else None
    return Bundle(encoder, tokenizer or old.tokenizer, old.family, kind, head), moved


def _move(encoder: Encoder, head: PretrainHead, old: Tokenizer, new: Tokenizer) -> Moved:
    """Give every piece of a new vocabulary a vector and a bias made from the old.

    And a row, where the head has a table of its own.
    """
    tied = is_tied(head, encoder)
    tensors: list[Tensor] = [encoder.table, head.masked.bias]
    if not tied:
        tensors.append(head.masked.table)
    # Rows that no piece has mean nothing.
    before = [tensor.detach()[: old.size] for tensor in tensors]
    after = [tensor.mean(0).expand(new.size, *tensor.shape[1:]).clone() for tensor in before]
    shared = 0
    spelled = 0
    for piece in range(new.size):
        same = _same(piece, old, new)
        if same is not None:
            parts = [same]
            shared += 1
        else:
            parts = _spelling(piece, old, new)
            spelled += bool(parts)
        if parts:
            for fresh_rows, rows in zip(after, before, strict=True):
                fresh_rows[piece] = rows[parts].mean(0)
    encoder.replace_table(after[0])
    encoder.settings = encoder.settings.model_copy(update={"vocab": new.size})
    head.masked.bias = nn.Parameter(after[1])
    if tied:
        tie(head, encoder)
    else:
        head.masked.table = nn.Parameter(after[2])
    return Moved(shared, spelled, new.size - shared - spelled)


def _same(piece: int, old: Tokenizer, new: Tokenizer) -> int | None:
    """Return the old id of a piece of both vocabularies, or with the same role in both."""
    for role in ("pad", "unk", "cls", "sep", "mask"):
        if getattr(new, role) == piece:
            found: int | None = getattr(old, role)
            return found
    # Kinds spell pieces each in its own way: "##" inside a word, or letters that stand for bytes.
    if old.kind != new.kind:
        return None
    return old.id(new.piece(piece))


def _spelling(piece: int, old: Tokenizer, new: Tokenizer) -> list[int]:
    """Return the old pieces that spell a new one; none where the old vocabulary can't."""
    name = new.piece(piece)
    inside = False  # a word
    if new.kind == "wordpiece":
        inside = name.startswith("##")
        text = name.removeprefix("##")
    else:
        text = new.decode([piece])

    if REPLACEMENT in text and old.kind == new.kind == "bytes":
        # A part of a character has no text, but its bytes have names.
        found = [old.id(byte) for byte in name]
        known = [byte for byte in found if byte is not None]
        return known if len(known) == len(found) else []

    (encoding,) = old.encode([text], special=False)
    ids = encoding.ids
    if inside and ids and old.kind == "wordpiece":
        within = old.id(f"##{old.piece(ids[0])}")
        if within is not None:
            ids = [within, *ids[1:]]
    if old.unk in ids:
        return []
    return ids
