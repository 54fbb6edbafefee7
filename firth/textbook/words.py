"""Words as vectors: one-hot beside dense, and analogies as a plane.

D width, P words.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.pages.textbook import Frame, Mark, NumberSheet, Plane, plane_section, sheets_section
from firth.predictor import Predictor
from firth.probes.axes import project
from firth.probes.words import WordTable
from firth.textbook.drawing import Drawing, PrintedNumber

WORDS = ("hotel", "motel", "cat", "dog", "king", "queen", "paris", "rome")
ALIKE = (("hotel", "motel"), ("hotel", "cat"))
SHOWN = 32  # numbers of a dense vector
FEWEST = 2  # pairs that a plane is made of


class Relation(NamedTuple):
    """Pairs of words, of which the second is to the first as in every other pair."""

    first: str
    second: str
    pairs: Sequence[tuple[str, str]]


RELATIONS = (
    Relation(
        "men",
        "women",
        (("man", "woman"), ("king", "queen"), ("uncle", "aunt"), ("brother", "sister")),
    ),
    Relation(
        "countries",
        "capitals",
        (("france", "paris"), ("germany", "berlin"), ("sweden", "stockholm"), ("italy", "rome")),
    ),
)


def draw_one_hot(predictor: Predictor, name: str) -> Drawing:
    """Draw words as rows of zeros with a 1, and as rows of a model's table."""
    table = WordTable(predictor.bundle, name)
    words = [word for word in WORDS if table.find(word)]
    if len(words) < len(WORDS) // 2:
        raise InputError(f"{name} knows too few of the words {', '.join(WORDS)}")
    one_hot = torch.eye(len(words))
    dense = torch.stack([table.unit(word) for word in words])  # (P, D)
    like = (one_hot @ one_hot.T, dense @ dense.T)
    places = [f"number {number}" for number in range(1, len(words) + 1)]
    columns = [f"number {number}" for number in range(1, min(SHOWN, table.width) + 1)]
    shown = f"The first {len(columns)} of {table.width} numbers, at length 1."
    sheets = [
        NumberSheet(
            "One-hot", "As many numbers as words, one of them 1.", words, places, one_hot.numpy()
        ),
        NumberSheet("Dense", shown, words, columns, dense[:, :SHOWN].numpy()),
        NumberSheet("Cosines of one-hot words", "No two are alike.", words, words, like[0].numpy()),
        NumberSheet("Cosines of dense words", "Kin are alike.", words, words, like[1].numpy()),
    ]
    numbers = []
    for first, second in ALIKE:
        if first in words and second in words:
            at = words.index(first), words.index(second)
            numbers.append(PrintedNumber(f"one-hot: {first} · {second}", float(like[0][at]), "0"))
            numbers.append(PrintedNumber(f"dense: {first} · {second}", float(like[1][at])))
    notes = [
        "Between any two one-hot words the product is 0: nothing says that hotel and motel are "
        "kin.",
        f"A vocabulary of {len(table.words):,} words takes as many numbers a word one-hot; dense, "
        f"{table.width}.",
    ]
    return Drawing([sheets_section("The same words twice", sheets)], numbers, notes)


def draw_analogies(predictor: Predictor, name: str) -> Drawing:
    """Draw pairs of words on two axes, and what completes their analogies."""
    table = WordTable(predictor.bundle, name)
    planes = []
    notes = []
    numbers = []
    asked_for = 0  # analogies whose nearest word is one of those that were asked for
    for relation in RELATIONS:
        known = [pair for pair in relation.pairs if all(table.find(word) for word in pair)]
        if len(known) < FEWEST:
            continue
        plane, straight = _plane(table, relation._replace(pairs=known))
        planes.append(plane)
        numbers.append(straight)
        for pair in known[1:]:
            said, is_asked_for = _completed(table, known[0], pair)
            notes.append(said)
            asked_for += is_asked_for
    if not planes:
        raise InputError(
            f"{name} knows too few words for analogies, such as man, woman, king and queen"
        )
    notes += [
        f"In {asked_for} of {len(notes)} the nearest word is one of those that were asked for: "
        "books leave these out of the answer and seldom say so.",
        "Arrows look parallel where the plane is chosen for it: among all numbers they are as "
        "parallel as the table says, where 1 is parallel and 0 a right angle.",
    ]
    return Drawing([plane_section("Pairs of words", planes)], numbers, notes)


def _plane(table: WordTable, relation: Relation) -> tuple[Plane, PrintedNumber]:
    """Return the planes of some pairs, and how parallel their arrows are among all numbers."""
    vectors = torch.stack([table.unit(word) for pair in relation.pairs for word in pair])  # (P, D)
    marks = []
    for first, second in relation.pairs:
        marks.append(Mark(first, first, relation.first))
        marks.append(Mark(second, second, relation.second))
    arrows = [(number, number + 1) for number in range(0, len(marks), 2)]
    frames = []
    places, (across, upwards) = project(vectors)
    said = f"{across:.0%} of the variance across, {upwards:.0%} upwards"
    frames.append(_frame("two axes of most variance", said, places))
    frames.append(_frame("mean arrow across", "the mean arrow across", _along_arrows(vectors)))
    straight = _parallel(vectors)
    title = f"{relation.first} and {relation.second}"
    number = PrintedNumber(f"{title}: mean cosine of two arrows", straight)
    note = "An arrow leads from the first word of a pair to the second."
    return Plane(title.capitalize(), note, "Axes", marks, frames, arrows), number


def _frame(name: str, said: str, places: Tensor) -> Frame:
    """Return places in a plane, and how parallel the arrows look there."""
    drawn = f"mean cosine of two arrows in this plane: {_parallel(places):.4f}"
    return Frame(name, places.numpy(), f"{said}; {drawn}")


def _along_arrows(vectors: Tensor) -> Tensor:
    """Return places (P, 2): along the mean arrow, and on the axis of most variance beside it."""
    across = nn.functional.normalize((vectors[1::2] - vectors[0::2]).mean(0), dim=0)
    along = vectors @ across
    beside, _ = project(vectors - along[:, None] * across)
    return torch.stack([along - along.mean(), beside[:, 0]], 1)


def _parallel(vectors: Tensor) -> float:
    """Return the mean cosine of every two differences of pairs that stand one after another."""
    arrows = nn.functional.normalize(vectors[1::2] - vectors[0::2], dim=1)
    cosines = arrows @ arrows.T
    count = len(arrows)
    return float((cosines.sum() - count) / (count * (count - 1)))


def _completed(table: WordTable, given: tuple[str, str], pair: tuple[str, str]) -> tuple[str, bool]:
    """Say what completes an analogy, and tell whether it is one of the words asked for."""
    first, second = given
    third, wanted = pair
    vector = table.unit(second) - table.unit(first) + table.unit(third)
    asked = {row for word in (first, second, third) for row in table.find(word)}
    (free,), (barred,) = table.nearest(torch.stack([vector, vector]), [(), asked], 1)
    as_in_books = "as" if barred.word == wanted else f"and not {wanted} as"
    said = (
        f"{second} − {first} + {third}: the nearest word is {free.word} ({free.similarity:.4f}); "
        f"without those asked for it is {barred.word} ({barred.similarity:.4f}), {as_in_books} in "
        "books."
    )
    return said, free.word != barred.word
