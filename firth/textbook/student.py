"""The table that a translator learns to give for *I am a student <eos>*.

L places of the sentence, V words of the vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.pages.textbook import Cell, Worked, WorkedRow, worked_section
from firth.textbook.drawing import Drawing, PrintedNumber, said_of_book

VOCABULARY = ("a", "am", "i", "thanks", "student", "<eos>")
SENTENCE = ("i", "am", "a", "student", "<eos>")
SMOOTHING = 0.1
STEPS = 100
RATE = 1.0


def draw_student() -> Drawing:
    """Draw what the loss asks for, and what training on it comes to."""
    places = torch.tensor([VOCABULARY.index(word) for word in SENTENCE])
    plain = _targets(places, 0.0)
    smoothed = _targets(places, SMOOTHING)
    tables = [
        _table("The targets", "A row for each place, a column for each word.", plain, True),
        _table(
            f"The targets with label smoothing {SMOOTHING}",
            f"{SMOOTHING} of each row is shared out over all six words.",
            smoothed,
        ),
        _table(
            f"After {STEPS} steps on the targets",
            "A table of logits, trained; softmax of each row.",
            _trained(places, 0.0),
        ),
        _table(
            f"After {STEPS} steps with label smoothing",
            "It stays where the targets are, and gets no surer.",
            _trained(places, SMOOTHING),
        ),
    ]
    numbers = []
    for row, word in enumerate(SENTENCE):
        for column, other in enumerate(VOCABULARY):
            book = "1.0" if word == other else "0.0"
            name = f"place {row + 1}, {other}"
            numbers.append(PrintedNumber(name, float(plain[row, column]), book))
    floor = float(-(smoothed * smoothed.log()).sum(1).mean())
    notes = [
        said_of_book(numbers),
        f"With label smoothing the true word's target is {float(smoothed.max()):.4f} and every "
        f"other's {float(smoothed.min()):.4f}; the loss can't fall below {floor:.4f} a word.",
    ]
    return Drawing([worked_section("Five rows of six", tables)], numbers, notes)


def _targets(places: Tensor, smoothing: float) -> Tensor:
    """Return what the loss takes for the truth (L, V): softmax less the gradient of its logits."""
    logits = torch.zeros(len(places), len(VOCABULARY), dtype=torch.float64, requires_grad=True)
    loss = F.cross_entropy(logits, places, reduction="sum", label_smoothing=smoothing)
    (gradient,) = torch.autograd.grad(loss, logits)
    return logits.detach().softmax(1) - gradient


def _trained(places: Tensor, smoothing: float) -> Tensor:
    """Return the distributions (L, V) that gradient descent comes to."""
    logits = torch.zeros(len(places), len(VOCABULARY), dtype=torch.float64, requires_grad=True)
    for _ in range(STEPS):
        loss = F.cross_entropy(logits, places, reduction="sum", label_smoothing=smoothing)
        (gradient,) = torch.autograd.grad(loss, logits)
        with torch.no_grad():
            logits -= RATE * gradient
    return logits.detach().softmax(1)


def _table(title: str, note: str, numbers: Tensor, printed: bool = False) -> Worked:
    """Return a table of one number a cell."""
    rows = []
    for place, (word, line) in enumerate(zip(SENTENCE, numbers.tolist(), strict=True), 1):
        cells = []
        for other, value in zip(VOCABULARY, line, strict=True):
            book = "1.0" if word == other else "0.0"
            cells.append(Cell([value], book if printed else None))
        rows.append(WorkedRow(f"{place}: {word}", cells))
    return Worked(title, note, VOCABULARY, rows, shaded=True)
