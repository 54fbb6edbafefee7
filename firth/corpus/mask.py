"""Mask words for the model to predict: 15 % of the pieces.

Of these 80 % become `[MASK]`, 10 % another piece and 10 % stay. "BERT", Devlin et al., 2018; whole
words as in Google's later release of it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.text.tokenizer import Tokenizer

CHOSEN = 0.15  # share of the pieces
AS_MASK = 0.8  # share of the chosen
AS_OTHER = 0.1
Numbers = NDArray[np.int64]


class MaskedText(NamedTuple):
    """A text with pieces masked: what the model reads, where to predict, and what stood there."""

    ids: Numbers
    places: Numbers
    words: Numbers


class Masker:
    """Masks pieces of texts in one vocabulary; `whole` masks all pieces of a word or none."""

    def __init__(self, tokenizer: Tokenizer, whole: bool = False) -> None:
        if tokenizer.mask is None:
            raise InputError("this vocabulary has no mask token, so no words can be hidden")
        self.mask = tokenizer.mask
        self.whole = whole
        special = {tokenizer.cls, tokenizer.sep, tokenizer.mask, tokenizer.pad, tokenizer.unk}
        self.ordinary = np.array([i for i in range(tokenizer.size) if i not in special])
        self.is_ordinary = np.zeros(tokenizer.size, bool)
        self.is_ordinary[self.ordinary] = True

    def hide(
        self, ids: Numbers, starts: NDArray[np.bool_], draw: np.random.Generator
    ) -> MaskedText:
        """Mask pieces of a text whose words begin at `starts`; special tokens are never masked."""
        able = np.flatnonzero(self.is_ordinary[ids])
        unit = np.arange(len(able))  # (pieces) what is masked together
        if self.whole:
            # A word also begins after a special token, which stands between two pieces.
            after_gap = np.diff(able, prepend=-2) > 1
            unit = np.cumsum(starts[able] | after_gap) - 1
        chosen = able[_choose(unit, draw)]
        count = len(chosen)
        words = ids[chosen]

        roll = draw.random(count)
        others = draw.integers(len(self.ordinary), size=count)
        changed = roll < AS_MASK + AS_OTHER
        shown = np.where(changed, self.ordinary[others], words)
        shown = np.where(roll < AS_MASK, self.mask, shown)
        masked = ids.copy()
        masked[chosen] = shown
        return MaskedText(masked, chosen, words)


def _choose(unit: NDArray[Any], draw: np.random.Generator) -> NDArray[np.bool_]:
    """Choose units at random until 15 % of the pieces are masked; return which pieces are.

    The last unit, which would go beyond, is taken with the probability that makes the expected
    number of pieces exact, however short the text and however long its words.
    """
    sizes = np.bincount(unit)
    units = len(sizes)
    order = draw.permutation(units)
    total = np.cumsum(sizes[order])
    budget = CHOSEN * len(unit)

    full = int(np.searchsorted(total, budget, side="right"))
    taken = np.zeros(units, bool)
    taken[order[:full]] = True
    if full < units:
        last = order[full]
        before = total[full] - sizes[last]
        part = (budget - before) / sizes[last]
        taken[last] = draw.random() < part
    chosen: NDArray[np.bool_] = taken[unit]
    return chosen
