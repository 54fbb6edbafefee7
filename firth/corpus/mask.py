"""Hide words for the model to guess: 15 % of the pieces, of which 80 % become `[MASK]`, 10 % another piece and 10 % stay.

"BERT", Devlin et al., 2018; whole words as in Google's later release of it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.text.tokenizer import Tokenizer

HIDDEN, MASKED, CHANGED = 0.15, 0.8, 0.1
Numbers = NDArray[np.int64]


class Hidden(NamedTuple):
    """A text with pieces hidden: what the model reads, where to guess, and what stood there."""

    ids: Numbers
    places: Numbers
    words: Numbers


class Masker:
    """Hides pieces of texts in one vocabulary; `whole` hides all pieces of a word or none."""

    def __init__(self, tokenizer: Tokenizer, whole: bool = False) -> None:
        if tokenizer.mask is None:
            raise InputError("this vocabulary has no mask token, so no words can be hidden")
        self.mask = tokenizer.mask
        self.whole = whole
        special = {tokenizer.cls, tokenizer.sep, tokenizer.mask, tokenizer.pad, tokenizer.unk}
        self.ordinary = np.array([i for i in range(tokenizer.size) if i not in special])
        self.is_ordinary = np.zeros(tokenizer.size, bool)
        self.is_ordinary[self.ordinary] = True

    def hide(self, ids: Numbers, starts: NDArray[np.bool_], draw: np.random.Generator) -> Hidden:
        """Hide pieces of a text whose words begin at `starts`; special tokens are never hidden."""
        able = np.flatnonzero(self.is_ordinary[ids])
        unit = (
            np.cumsum(starts[able] | (np.diff(able, prepend=-2) > 1)) - 1
            if self.whole
            else np.arange(len(able))
        )
        chosen = able[_some(unit, draw)]
        roll = draw.random(len(chosen))
        other = self.ordinary[draw.integers(len(self.ordinary), size=len(chosen))]
        shown = np.where(
            roll < MASKED, self.mask, np.where(roll < MASKED + CHANGED, other, ids[chosen])
        )
        hidden = ids.copy()
        hidden[chosen] = shown
        return Hidden(hidden, chosen, ids[chosen])


def _some(unit: NDArray[Any], draw: np.random.Generator) -> NDArray[np.bool_]:
    """Choose units until 15 % of the pieces are hidden.

    The last unit, which would go beyond, is taken with the probability that makes the expected number of pieces exact, however
    short the text and however long its words.
    """
    sizes = np.bincount(unit)
    order = draw.permutation(len(sizes))
    total = np.cumsum(sizes[order])
    budget = HIDDEN * len(unit)
    full = int(np.searchsorted(total, budget, side="right"))
    taken = np.zeros(len(sizes), bool)
    taken[order[:full]] = True
    if full < len(order):
        before = total[full - 1] if full else 0
        taken[order[full]] = draw.random() < (budget - before) / sizes[order[full]]
    return taken[unit] if len(unit) else np.zeros(0, bool)
