"""Where a word of two textbooks' sentences looks, in the last layer but one, as they show it.

H heads, L tokens.
"""

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from firth.base.errors import InputError
from firth.output.page import attention_of
from firth.pages.page import PageSection
from firth.pages.textbook import Sheet, sheets_section
from firth.predictor import Predictor
from firth.probes.inside import look_inside
from firth.probes.row import Row, read_row
from firth.textbook.drawing import Drawing, PrintedNumber

ANIMAL = "The animal didn't cross the street because it was too {}"
ENDS = ("tired", "wide")
MAKING = (
    "It is in this spirit that a majority of American governments have passed new laws since 2009 "
    "making the registration or voting process more difficult"
)
BEST = 3  # words that are named of a head


def draw_animal(predictor: Predictor, name: str) -> Drawing:
    """Draw where *it* looks where the animal is tired, and where the street is wide."""
    sections: list[PageSection] = []
    sheets = []
    numbers = []
    found: dict[tuple[str, str], float] = {}
    tokens = 0
    for end in ENDS:
        row = read_row(predictor, ANIMAL.format(end))
        tokens += len(row.tokens)
        weights = look_inside(predictor, row).weights  # (N, H, L, L)
        (it, *_) = word_places(row, "it")
        layer = textbook_layer(len(weights))
        section = attention_of(predictor, row, layer, it)
        sections.append(section._replace(title=f"Too {end}"))
        for word in ("animal", "street"):
            seen = _to_word(weights[:, :, it], word_places(row, word))  # (N, H)
            sheets.append(_sheet(f"Too {end}: it looks at {word}", seen))
            mean = float(seen[layer].mean())
            found[end, word] = mean
            name = f"too {end}: it → {word}, layer {layer + 1}, mean of all heads"
            numbers.append(PrintedNumber(name, mean))
    notes = [
        "In books the picture turns: 'it' is the animal where it is tired, the street where it is "
        "wide. Here is what this model does.",
        _turned("animal", found),
        _turned("street", found),
        "Books choose a head and leave special tokens out; all heads and all tokens are shown here.",
    ]
    return Drawing([*sections, sheets_section("Every layer and head", sheets)], numbers, notes, tokens)


def draw_making(predictor: Predictor, name: str) -> Drawing:
    """Draw where *making* looks: whether any head sees what it is completed by."""
    row = read_row(predictor, MAKING)
    weights = look_inside(predictor, row).weights
    (making, *_) = word_places(row, "making")
    layer = textbook_layer(len(weights))
    own = weights[layer, :, making]  # (H, L)
    phrase = [*word_places(row, "more"), *word_places(row, "difficult")]
    to_phrase = own[:, phrase].sum(1)  # (H)
    even = len(phrase) / len(row.tokens)
    numbers = []
    for head, share in enumerate(to_phrase.tolist(), 1):
        numbers.append(PrintedNumber(f"head {head}: making → more difficult", share))
    best = int(to_phrase.argmax())
    above = int((to_phrase > even).sum())
    notes = [
        "In the paper many heads of layer 5 of 6 look from making to more difficult, which completes "
        f"it. In layer {layer + 1} of {len(weights)} of this model {above} of {len(own)} heads give "
        f"the two words more than an even share, {even:.4f}.",
        f"Most comes from head {best + 1}: {float(to_phrase[best]):.4f}. It looks at "
        f"{_named(row, own[best])}.",
    ]
    section = attention_of(predictor, row, layer, making, best)
    columns = list(row.tokens)
    rows = [f"head {head}" for head in range(1, len(own) + 1)]
    note = "A row is a head, a column a word that making looks at."
    sheet = Sheet(f"Layer {layer + 1}: making", note, rows, columns, own.numpy())
    return Drawing(
        [section, sheets_section("All heads of making", [sheet])], numbers, notes, len(row.tokens)
    )


def textbook_layer(depth: int) -> int:
    """Return the layer that is shown: the fifth of six, and the last but one of others."""
    return max(0, depth - 2)


def word_places(row: Row, word: str) -> list[int]:
    """Return the tokens of the first time that a word stands in a text."""
    match = re.search(rf"\b{word}\b", row.example.text)
    assert match is not None
    found = []
    for place, (start, end) in enumerate(row.encoding.offsets):
        if row.encoding.parts[place] == 0 and match.start() <= start < end <= match.end():
            found.append(place)
    if not found:
        raise InputError(f"this model doesn't read the word {word!r} of the example")
    return found


def _to_word(weights: Tensor, places: Sequence[int]) -> Tensor:
    """Return what each head (N, H, L) gives to a word's tokens (N, H)."""
    return weights[:, :, list(places)].sum(-1)


def _sheet(title: str, seen: Tensor) -> Sheet:
    depth, heads = seen.shape
    rows = [f"layer {number}" for number in range(1, depth + 1)]
    columns = [f"head {number}" for number in range(1, heads + 1)]
    return Sheet(title, "A row is a layer, a column a head.", rows, columns, seen.numpy())


def _turned(word: str, found: dict[tuple[str, str], float]) -> str:
    """Say how a word's weight changes with the end of the sentence."""
    tired, wide = (found[end, word] for end in ENDS)
    if abs(tired - wide) < torch.finfo(torch.float32).eps:
        return f"'it' gives {word} {tired:.4f} in both."
    more = "less" if wide < tired else "more"
    return f"'it' gives {word} {tired:.4f} with tired and {wide:.4f} with wide: {more}."


def _named(row: Row, weights: Tensor) -> str:
    """Name the tokens that get most of a head's weight."""
    best = weights.topk(min(BEST, len(row.tokens)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return ", ".join(f"{row.tokens[place]} {value:.4f}" for place, value in pairs)
