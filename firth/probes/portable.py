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
    mask: str  # the token in the place of a masked word
    length: int  # tokens of a text that are read
    heads: int
    eps: float
    activation: str
    head_activation: str
    causal: bool
    tensors: dict[str, NDArray[np.floating]]  # matrices in half precision, vectors in single


def portable_model(bundle: Bundle) -> PortableModel:
    """Return a model as arrays; one that a page can't hold or run is refused."""
    refuse_unportable(bundle)
    rules = wordpiece_rules(bundle.tokenizer)
    length = min(LONGEST, bundle.length or LONGEST)
    tensors = _tensors(bundle, length)
    weights = sum(tensor.numel() for tensor in tensors.values())
    if weights > MOST_WEIGHTS:
        raise InputError(
            f"this model has {weights:,} weights, and a page holds {MOST_WEIGHTS:,}: "
            f"{WHAT_FITS} ({HOW})"
        )
    settings = bundle.encoder.settings
    return PortableModel(
        rules,
        bundle.tokenizer.piece(bundle.tokenizer.mask or 0),
        length,
        settings.heads,
        settings.eps,
        settings.activation,
        bundle.encoder.activation,
        settings.causal,
        {name: _array(name, tensor) for name, tensor in tensors.items()},
    )


def refuse_unportable(bundle: Bundle) -> None:
    """Refuse a model that isn't what a page's script computes."""
    if not bundle.record.runs_in_page:
        family = bundle.record.name
        raise InputError(f"a page can't run a model of the family {family}: {WHAT_FITS} ({HOW})")
    if bundle.kind not in Fill.kinds or bundle.tokenizer.mask is None:
        raise InputError(
            "a page runs models that fill blanks, and this one has no head for masked words: "
            "give the pretrained model that it was made from"
        )
    if not bundle.tied:
        raise InputError(
            "a page runs models whose head for masked words shares the embedding's table, "
            "and this one has a table of its own"
        )


def _tensors(bundle: Bundle, length: int) -> dict[str, Tensor]:
    """Return the weights that a page needs for texts of up to so many tokens."""
    encoder = bundle.encoder
    found = {name: one for name, one in encoder.state_dict().items() if "pooler" not in name}
    first = encoder.settings.first_position
    positions = found["embedding.position.weight"][first : first + length]  # (L, D)
    # A text that stands alone is all of the first segment.
    if encoder.segments:
        positions = positions + found.pop("embedding.segment.weight")[0]
    found["embedding.position.weight"] = positions
    return found | {f"head.{name}": one for name, one in _masked_head(bundle).items()}


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
