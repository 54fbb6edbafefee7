"""Where a word of two textbooks' sentences looks, in the last layer but one, as they show it.

H heads, L tokens.
"""

import re

import torch
from torch import Tensor

from firth.base.errors import InputError
from firth.output.page import attention_of
from firth.pages.attention import Chosen
from firth.pages.page import PageSection
from firth.pages.textbook import NumberSheet, sheets_section
from firth.predictor import Predictor
from firth.probes.inside import look_inside
from firth.probes.row import Row, read_row
from firth.textbook.drawing import Drawing, PrintedNumber

ANIMAL = "The animal didn't cross the street because it was too {}"
ENDS = ("tired", "wide")
LOOKED_AT = ("animal", "street")
MAKING = (
    "It is in this spirit that a majority of American governments have passed new laws since 2009 "
    "making the registration or voting process more difficult"
)
BEST = 3  # words that are named of a head


class WordPlaces:
    """Finds the tokens of a word; a word that a model doesn't read is refused."""

    def __init__(self, predictor: Predictor, name: str) -> None:
        self.unknown = predictor.bundle.tokenizer.unk
        self.name = name  # of the model

    def __call__(self, row: Row, word: str) -> list[int]:
        """Return the tokens of the first time that a word stands in a text."""
        match = re.search(rf"\b{word}\b", row.example.text)
        assert match is not None
        found = []
        read = zip(row.encoding.ids, row.encoding.parts, row.encoding.offsets, strict=True)
        for place, (token, part, (start, end)) in enumerate(read):
            inside = match.start() <= start < end <= match.end()
            if part == 0 and inside and token != self.unknown:
                found.append(place)
        if not found:
            raise InputError(f"{self.name} doesn't read the word {word!r} of the example")
        return found


def draw_animal(predictor: Predictor, name: str) -> Drawing:
    """Draw where *it* looks where the animal is tired, and where the street is wide."""
    places = WordPlaces(predictor, name)
    rows = [read_row(predictor, ANIMAL.format(end)) for end in ENDS]
    seen = torch.stack([_from_it(predictor, row, places) for row in rows])  # (2, 2, N, H)
    depth = seen.shape[2]
    layer = textbook_layer(depth)
    # How much a head turns from the animal to the street: the one that turns most is shown.
    turns = (seen[1, 1] - seen[1, 0]) - (seen[0, 1] - seen[0, 0])  # (N, H)
    head = int(turns[layer].argmax())
    sections: list[PageSection] = []
    sheets = []
    numbers = []
    for end, row, of_row in zip(ENDS, rows, seen, strict=True):
        section = attention_of(predictor, row, Chosen(layer, head, places(row, "it")[0]))
        sections.append(section._replace(title=f"Too {end}"))
        for word, weights in zip(LOOKED_AT, of_row, strict=True):
            sheets.append(_sheet(f"Too {end}: it looks at {word}", weights))
            mean = float(weights[layer].mean())
            numbers.append(PrintedNumber(f"too {end}: it → {word}, mean of all heads", mean))
            own = float(weights[layer, head])
            numbers.append(PrintedNumber(f"too {end}: it → {word}, head {head + 1}", own))
    notes = [
        "In books the picture turns: 'it' looks at the animal where it is tired, and at the street "
        f"where it is wide. All numbers here are of layer {layer + 1} of {depth} of this model.",
        f"Over all heads {_turned(seen[:, :, layer].mean(2))}.",
        f"In head {head + 1}, which turns most, {_turned(seen[:, :, layer, head])}.",
        "Books choose a head and leave special tokens out; here are all heads and all tokens.",
    ]
    sections.append(sheets_section("Every layer and head", sheets))
    return Drawing(sections, numbers, notes, sum(len(row.tokens) for row in rows))


def draw_making(predictor: Predictor, name: str) -> Drawing:
    """Draw where *making* looks: whether any head sees what it is completed by."""
    places = WordPlaces(predictor, name)
    row = read_row(predictor, MAKING)
    weights = look_inside(predictor, row).weights
    (making, *_) = places(row, "making")
    layer = textbook_layer(len(weights))
    own = weights[layer, :, making]  # (H, L)
    phrase = [*places(row, "more"), *places(row, "difficult")]
    to_phrase = own[:, phrase].sum(1)  # (H)
    even = len(phrase) / len(row.tokens)
    numbers = []
    for head, share in enumerate(to_phrase.tolist(), 1):
        numbers.append(PrintedNumber(f"head {head}: making → more difficult", share))
    best = int(to_phrase.argmax())
    above = int((to_phrase > even).sum())
    notes = [
        "In the paper many heads of layer 5 of 6 look from making to more difficult, which "
        f"completes it. In layer {layer + 1} of {len(weights)} of this model {above} of {len(own)} "
        f"heads give the two words more than an even share, {even:.4f}.",
        f"Most comes from head {best + 1}: {float(to_phrase[best]):.4f}. It looks at "
        f"{_named(row, own[best])}.",
    ]
    section = attention_of(predictor, row, Chosen(layer, best, making))
    columns = list(row.tokens)
    rows = [f"head {head}" for head in range(1, len(own) + 1)]
    note = "A row is a head, a column a word that making looks at."
    sheet = NumberSheet(f"Layer {layer + 1}: making", note, rows, columns, own.numpy())
    return Drawing(
        [section, sheets_section("All heads of making", [sheet])], numbers, notes, len(row.tokens)
    )


def textbook_layer(depth: int) -> int:
    """Return the layer that is shown: the fifth of six, and the last but one of others."""
    return max(0, depth - 2)


def _from_it(predictor: Predictor, row: Row, places: WordPlaces) -> Tensor:
    """Return how much *it* gives to the animal and the street in every head (2, N, H)."""
    (it, *_) = places(row, "it")
    weights = look_inside(predictor, row).weights[:, :, it]  # (N, H, L)
    words = [places(row, word) for word in LOOKED_AT]
    return torch.stack([weights[:, :, of_word].sum(-1) for of_word in words])


def _sheet(title: str, seen: Tensor) -> NumberSheet:
    depth, heads = seen.shape
    rows = [f"layer {number}" for number in range(1, depth + 1)]
    columns = [f"head {number}" for number in range(1, heads + 1)]
    return NumberSheet(title, "A row is a layer, a column a head.", rows, columns, seen.numpy())


def _turned(weights: Tensor) -> str:
    """Say how much *it* gives to both words with both ends, by weights of ends and words (2, 2)."""
    (tired_animal, tired_street), (wide_animal, wide_street) = weights.tolist()
    return (
        f"the animal gets {tired_animal:.4f} with tired and {wide_animal:.4f} with wide, the "
        f"street {tired_street:.4f} and {wide_street:.4f}"
    )


def _named(row: Row, weights: Tensor) -> str:
    """Name the tokens that get most of a head's weight."""
    best = weights.topk(min(BEST, len(row.tokens)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return ", ".join(f"{row.tokens[place]} {value:.4f}" for place, value in pairs)
