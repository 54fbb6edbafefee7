"""The registry of textbooks' pictures: what draws each by hand, and what of a model.

Some can be drawn either way.
"""

from collections.abc import Callable

from firth.predictor import Predictor
from firth.textbook.attention import draw_computers, draw_thinking
from firth.textbook.bank import draw_bank
from firth.textbook.drawing import Drawing
from firth.textbook.gate import draw_gate
from firth.textbook.heads import draw_animal, draw_making
from firth.textbook.position import draw_own_positions, draw_sinusoids
from firth.textbook.student import draw_own_student, draw_student
from firth.textbook.words import draw_analogies, draw_one_hot

BY_HAND: dict[str, Callable[[], Drawing]] = {
    "thinking-machines": draw_thinking,
    "computers": draw_computers,
    "forget-gate": draw_gate,
    "sinusoids": draw_sinusoids,
    "student": draw_student,
}
BY_MODEL: dict[str, Callable[[Predictor, str], Drawing]] = {
    "animal": draw_animal,
    "making": draw_making,
    "one-hot": draw_one_hot,
    "analogies": draw_analogies,
    "bank": draw_bank,
    "sinusoids": draw_own_positions,
    "student": draw_own_student,
}
