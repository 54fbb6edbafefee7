"""Words as vectors: one-hot beside dense, and analogies as a plane.

D width, P words.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.pages.page import PageSection
from firth.pages.textbook import Frame, Mark, Sheet, plane_section, sheets_section
from firth.predictor import Predictor
from firth.probes.movement import project
from firth.probes.words import WordTable
from firth.textbook.drawing import Drawing, PrintedNumber

WORDS = ("hotel", "motel", "cat", "dog", "king", "queen", "paris", "rome")
ALIKE = (("hotel", "motel"), ("hotel", "cat"))
SHOWN = 32  # numbers of a dense vector
PEOPLE = (("man", "woman"), ("king", "queen"), ("uncle", "aunt"), ("brother", "sister"))
CAPITALS = (("france", "paris"), ("germany", "berlin"), ("sweden", "stockholm"), ("italy", "rome"))
FEWEST = 2  # pairs that a plane is made of


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
        Sheet("One-hot", "As many numbers as words, one of them 1.", words, places, one_hot.numpy()),
        Sheet("Dense", shown, words, columns, dense[:, :SHOWN].numpy()),
        Sheet("Cosines of one-hot words", "No two are alike.", words, words, like[0].numpy()),
        Sheet("Cosines of dense words", "Kin are alike.", words, words, like[1].numpy()),
    ]
    numbers = []
    for first, second in ALIKE:
        if first in words and second in words:
            at = words.index(first), words.index(second)
            numbers.append(PrintedNumber(f"one-hot: {first} · {second}", float(like[0][at]), "0"))
            numbers.append(PrintedNumber(f"dense: {first} · {second}", float(like[1][at])))
    notes = [
        "Between any two one-hot words the product is 0: nothing says that hotel and motel are kin.",
        f"A vocabulary of {len(table.words):,} words takes as many numbers a word one-hot; dense, "
        f"{table.width}.",
    ]
    return Drawing([sheets_section("The same words twice", sheets)], numbers, notes)


def draw_analogies(predictor: Predictor, name: str) -> Drawing:
    """Draw pairs of words on two axes, and what completes their analogies."""
    table = WordTable(predictor.bundle, name)
    sections = []
    notes = []
    numbers = []
    for title, pairs in (("Men and women", PEOPLE), ("Countries and capitals", CAPITALS)):
        known = [pair for pair in pairs if all(table.find(word) for word in pair)]
        if len(known) < FEWEST:
            continue
        section, number = _plane(table, title, known)
        sections.append(section)
        numbers.append(number)
        for pair in known[1:]:
            notes.append(_completed(table, known[0], pair))
    if not sections:
        raise InputError(
            f"{name} knows too few words for analogies, such as man, woman, king and queen"
        )
    notes.append(
        "Books draw the arrows as parallel and don't say that the words asked for are left out of "
        "the answer: else the nearest is mostly one of them."
    )
    return Drawing(sections, numbers, notes)


def _plane(
    table: WordTable, title: str, pairs: Sequence[tuple[str, str]]
) -> tuple[PageSection, PrintedNumber]:
    """Return the plane of some pairs, and how parallel their arrows are among all numbers."""
    words = [word for pair in pairs for word in pair]
    vectors = torch.stack([table.unit(word) for word in words])  # (P, D)
    places, variance = project(vectors)
    marks = []
    for first, second in pairs:
        marks.append(Mark(first, first, "from"))
        marks.append(Mark(second, second, "to"))
    arrows = [(number, number + 1) for number in range(0, len(words), 2)]
    straight = _parallel(vectors)
    drawn = _parallel(places)
    first, second = (f"{part:.0%}" for part in variance)
    said = (
        f"Principal components: {first} of the variance across, {second} upwards. Cosine of two "
        f"arrows, mean: {drawn:.4f} in the plane, {straight:.4f} among all {table.width} numbers."
    )
    section = plane_section(title, said, marks, [Frame("all", places.numpy(), said)], arrows)
    return section, PrintedNumber(f"{title.lower()}: mean cosine of two arrows", straight)


def _parallel(vectors: Tensor) -> float:
    """Return the mean cosine of every two differences of pairs that stand one after another."""
    arrows = nn.functional.normalize(vectors[1::2] - vectors[0::2], dim=1)
    cosines = arrows @ arrows.T
    count = len(arrows)
    return float((cosines.sum() - count) / (count * (count - 1)))


def _completed(table: WordTable, given: tuple[str, str], pair: tuple[str, str]) -> str:
    """Say what completes an analogy, with and without the words that were asked for."""
    first, second = given
    third, wanted = pair
    vector = table.unit(second) - table.unit(first) + table.unit(third)
    asked = {row for word in (first, second, third) for row in table.find(word)}
    (free,), (barred,) = table.nearest(torch.stack([vector, vector]), [(), asked], 1)
    return (
        f"{second} − {first} + {third}: the nearest word is {free.word} ({free.similarity:.4f}); "
        f"without those asked for it is {barred.word} ({barred.similarity:.4f}), where books have "
        f"{wanted}."
    )

