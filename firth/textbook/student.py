"""The table that a translator learns to give for *I am a student <eos>*.

L places of the sentence, V words of the vocabulary. A model's own table has a column more for what
else it can write.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.base.errors import InputError
from firth.pages.textbook import Cell, Worked, WorkedRow, worked_section
from firth.predictor import Predictor
from firth.probes.guesses import target_probabilities
from firth.probes.pair import read_pair
from firth.textbook.drawing import Drawing, PrintedNumber, said_of_book

VOCABULARY = ("a", "am", "i", "thanks", "student", "<eos>")
SENTENCE = ("i", "am", "a", "student", "<eos>")
SOURCE, TARGET, OTHER = "je suis étudiant", "I am a student", "thanks"
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


def draw_own_student(predictor: Predictor, name: str) -> Drawing:
    """Draw the table that a model of these words gives, and the targets beside it."""
    pair = read_pair(predictor, SOURCE, TARGET)
    bundle = predictor.bundle
    (other,) = bundle.targets.encode([OTHER], special=False)
    first = bundle.translator.first
    tokens = [*pair.ids, *other.ids]
    apart = len(pair.ids) == len(SENTENCE) and len(other) == 1
    if not apart or min(tokens) < first:
        raise InputError(
            f"{name} doesn't write {TARGET!r} and {OTHER!r} with a token for each word: the "
            "example is for a model of words that was trained on them (docs/translate.md)"
        )
    row_of = dict(zip([*SENTENCE, OTHER], [token - first for token in tokens], strict=True))
    probabilities = target_probabilities(predictor, pair).double()  # (L, O)
    own = probabilities[:, [row_of[word] for word in VOCABULARY]]  # (L, V)
    columns = list(VOCABULARY)
    table = own
    if probabilities.shape[1] > len(VOCABULARY):
        columns.append("all others")
        table = torch.cat([own, 1 - own.sum(1, keepdim=True)], 1)
    places = torch.tensor([VOCABULARY.index(word) for word in SENTENCE])
    likeliest = probabilities.argmax(1) == torch.tensor([row_of[word] for word in SENTENCE])
    note = f"The decoder is given {TARGET!r} word by word after {SOURCE!r} (teacher forcing)."
    tables = [
        _table("What the model gives", note, table, columns=columns),
        _table("The targets", "A row for each place, a 1 at its word.", _targets(places, 0.0)),
        _table(
            f"The targets with label smoothing {SMOOTHING}",
            "What training leads to where it was not told otherwise.",
            _targets(places, SMOOTHING),
        ),
    ]
    numbers = []
    for row, line in enumerate(table.tolist(), 1):
        for word, value in zip(columns, line, strict=True):
            numbers.append(PrintedNumber(f"place {row}, {word}", value))
    loss = float(-own[range(len(places)), places].log().mean())
    (answer,) = predictor.translate([SOURCE])
    notes = [
        f"The word of the target is the likeliest in {int(likeliest.sum())} of {len(places)} rows; "
        f"the loss is {loss:.4f} a word.",
        f"Of {SOURCE!r} the model makes {answer.translation!r}.",
    ]
    return Drawing([worked_section("Five rows of six", tables)], numbers, notes, len(pair.ids))


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


def _table(
    title: str,
    note: str,
    numbers: Tensor,
    printed: bool = False,
    columns: Sequence[str] = VOCABULARY,
) -> Worked:
    """Return a table of one number a cell."""
    rows = []
    for place, (word, line) in enumerate(zip(SENTENCE, numbers.tolist(), strict=True), 1):
        cells = []
        for other, value in zip(columns, line, strict=True):
            book = "1.0" if word == other else "0.0"
            cells.append(Cell([value], book if printed else None))
        rows.append(WorkedRow(f"{place}: {word}", cells))
    return Worked(title, note, columns, rows, shaded=True)
