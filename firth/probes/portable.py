"""A small BERT as plain arrays, for a page that runs it by itself.

L tokens, D width.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from firth.base.errors import InputError
from firth.folders.bundle import Bundle
from firth.tasks.fill import Fill
from firth.text.rules import WordPieceRules, wordpiece_rules

MOST_WEIGHTS = 5_500_000  # in half precision and as text they are 15 MB
LONGEST = 128  # tokens
WHAT_FITS = "a tiny or mini BERT with some 8,000 pieces fits"
HOW = "firth vocab TEXT -o words --size 8000; firth pretrain TEXT -o base --vocab words --size mini"


class PortableModel(NamedTuple):
    """All that computes a text's attention, and what stands at its masked words."""

    rules: WordPieceRules
    mask: str  # the token for a masked word
    length: int  # tokens of a text that are read
    heads: int
    eps: float
    activation: str
    head_activation: str
    causal: bool
    tensors: dict[str, NDArray[np.floating]]  # matrices in half precision, vectors in single


def portable_model(bundle: Bundle) -> PortableModel:
    """Return a model as arrays; one that a page can't hold or run is refused."""
    record = bundle.record
    if not record.runs_in_page:
        raise InputError(
            f"a page can't run a model of the family {record.name}: {WHAT_FITS} ({HOW})"
        )
    mask = bundle.tokenizer.mask
    if bundle.kind not in Fill.kinds or bundle.head is None or mask is None:
        raise InputError(
            "a page runs models that fill blanks, and this one has no head for masked words: "
            "give the pretrained model that it was made from"
        )
    if not bundle.tied:
        raise InputError(
            "a page runs models whose head for masked words shares the embedding's table, "
            "and this one has a table of its own"
        )
    rules = wordpiece_rules(bundle.tokenizer)
    encoder = bundle.encoder
    settings = encoder.settings
    length = min(LONGEST, bundle.length or LONGEST)
    found = encoder.state_dict()
    found |= {f"head.{name}": tensor for name, tensor in _masked_head(bundle).items()}
    positions = found["embedding.position.weight"][settings.first_position :][:length]  # (L, D)
    # A text that stands alone is all of the first segment.
    if encoder.segments:
        positions = positions + found.pop("embedding.segment.weight")[0]
    found["embedding.position.weight"] = positions
    tensors = {name: _array(name, one) for name, one in found.items() if "pooler" not in name}
    weights = sum(one.size for one in tensors.values())
    if weights > MOST_WEIGHTS:
        raise InputError(
            f"this model has {weights:,} weights, and a page holds {MOST_WEIGHTS:,}: "
            f"{WHAT_FITS} ({HOW})"
        )
    return PortableModel(
        rules,
        bundle.tokenizer.piece(mask),
        length,
        settings.heads,
        settings.eps,
        settings.activation,
        encoder.activation,
        settings.causal,
        tensors,
    )


def _masked_head(bundle: Bundle) -> dict[str, Tensor]:
    """Return the weights of the head for masked words, without the table."""
    assert bundle.head is not None
    found = {}
    for name, tensor in bundle.head.state_dict().items():
        module, _, rest = name.partition(".")
        if module == "masked" and rest != "table":
            found[rest] = tensor
    return found


def _array(name: str, tensor: Tensor) -> NDArray[np.floating]:
    """Return a tensor as an array; a matrix in half precision."""
    array: NDArray[np.float32] = tensor.float().cpu().numpy()
    if array.ndim == 1:
        return array
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    if not np.isfinite(half).all():
        raise InputError(f"a page holds weights in 16 bits, and {name} has some too large for it")
    return half
