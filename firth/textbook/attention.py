"""Attention worked out by hand: two textbooks' sentences, with the kernel that serves every model.

L words, D numbers of a word's vector.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from firth.nn.attention import attend
from firth.pages.attention import Chosen, Heads, attention_section
from firth.pages.textbook import Cell, Worked, WorkedRow, worked_section
from firth.textbook.drawing import Drawing, PrintedNumber, said_of_book

THINKING = ("Thinking", "Machines")
PRODUCTS = (112.0, 96.0)  # of the first word's query with both keys, as the book gives them
WIDTH = 64
BOOK_PRODUCTS = ("112", "96")
BOOK_SCALED = ("14", "12")
BOOK_WEIGHTS = (".88", ".12")

COMPUTERS = ("Computers", "are", "thinking", "machines")
MATRIX = ((0.2, 0.8), (-0.2, 0.5), (-0.3, -0.4), (0.7, 0.7))  # for queries, keys and values alike
FOURTH = 3
FOURTH_PRODUCTS = (".7", ".21", "-.49", ".98")
FOURTH_SCALED = (".49", ".15", "-.35", ".69")
FOURTH_WEIGHTS = (".30", ".21", ".13", ".36")
FOURTH_SUM = (".2331", ".5464")


def draw_thinking() -> Drawing:
    """Draw two words and 64 numbers a vector, of which the book gives only the products."""
    keys = torch.eye(2, WIDTH, dtype=torch.float64)
    query = torch.tensor([PRODUCTS], dtype=torch.float64) @ keys  # with these products
    _, weights = attend(query, keys, keys)
    products = (query @ keys.T)[0].tolist()
    scaled = [one / WIDTH**0.5 for one in products]
    numbers = [
        *_numbers("q₁ · k of", THINKING, products, BOOK_PRODUCTS),
        *_numbers("÷ 8 of", THINKING, scaled, BOOK_SCALED),
        *_numbers("softmax of", THINKING, weights[0].tolist(), BOOK_WEIGHTS),
    ]
    rows = [
        _step("query of Thinking · key", products, BOOK_PRODUCTS),
        _step("÷ √64 = 8", scaled, BOOK_SCALED),
        _step("softmax", weights[0].tolist(), BOOK_WEIGHTS),
    ]
    note = "From the top: what Thinking gives to each word. The two weights come to 1."
    picture = Worked("Attention of Thinking", note, THINKING, rows)
    unscaled = torch.tensor(PRODUCTS, dtype=torch.float64).softmax(0)
    notes = [
        said_of_book(numbers),
        f"The root is there for softmax: of 112 and 96 as they are it would give Machines "
        f"{unscaled[1]:.7f} instead of {weights[0, 1]:.2f}, and nearly no gradient.",
    ]
    return Drawing([worked_section("By hand", [picture])], numbers, notes)


def draw_computers() -> Drawing:
    """Draw four one-hot words and one matrix for queries, keys and values."""
    one_hot = torch.eye(len(COMPUTERS), dtype=torch.float64)
    vectors = one_hot @ torch.tensor(MATRIX, dtype=torch.float64)  # (L, D)
    sums, weights = attend(vectors, vectors, vectors)
    products = (vectors[FOURTH] @ vectors.T).tolist()
    scaled = [one / vectors.shape[1] ** 0.5 for one in products]
    own = weights[FOURTH].tolist()
    result = sums[FOURTH].tolist()
    numbers = [
        *_numbers("machines ·", COMPUTERS, products, FOURTH_PRODUCTS),
        *_numbers("÷ √2:", COMPUTERS, scaled, FOURTH_SCALED),
        *_numbers("softmax:", COMPUTERS, own, FOURTH_WEIGHTS),
        *_numbers("sum:", ("first number", "second number"), result, FOURTH_SUM),
    ]
    weighed = (weights[FOURTH, :, None] * vectors).tolist()
    rows = [
        WorkedRow("one-hot word", [Cell(row) for row in one_hot.tolist()]),
        WorkedRow("× W: query, key and value", [Cell(row) for row in vectors.tolist()]),
        _step("query of machines · key", products, FOURTH_PRODUCTS),
        _step("÷ √2 = 1.4142", scaled, FOURTH_SCALED),
        _step("softmax", own, FOURTH_WEIGHTS),
        WorkedRow("weight × value", [Cell(row) for row in weighed]),
        WorkedRow("sum", [Cell(result, f"[{'  '.join(FOURTH_SUM)}]")]),
    ]
    note = "A column for each word that machines looks at; at the bottom, what it becomes."
    picture = Worked("Attention of machines", note, COMPUTERS, rows)
    heads = _as_heads(vectors, weights, sums)
    whole = attention_section(COMPUTERS, [0] * len(COMPUTERS), heads, Chosen(query=FOURTH))
    rough = torch.tensor([float(one) for one in FOURTH_WEIGHTS], dtype=torch.float64) @ vectors
    notes = [
        said_of_book(numbers),
        f"From the rounded weights one gets {rough[0]:.4f} and {rough[1]:.4f}: round at the end.",
        "With one matrix for all three, every word's product with itself is its squared length; "
        "a model learns three matrices.",
    ]
    return Drawing([worked_section("By hand", [picture]), whole], numbers, notes)


def _numbers(
    what: str, words: Sequence[str], values: Sequence[float], book: Sequence[str]
) -> list[PrintedNumber]:
    """Return one number for each word."""
    found = zip(words, values, book, strict=True)
    return [PrintedNumber(f"{what} {word}", value, printed) for word, value, printed in found]


def _step(name: str, values: Sequence[float], book: Sequence[str]) -> WorkedRow:
    """Return a row of one number a word."""
    cells = [Cell([value], printed) for value, printed in zip(values, book, strict=True)]
    return WorkedRow(name, cells)


def _as_heads(vectors: Tensor, weights: Tensor, sums: Tensor) -> Heads:
    """Return a single head as a model of one layer has it."""
    one = vectors[None, None].numpy()  # (1, 1, L, D)
    return Heads(
        weights[None, None].numpy(), one, one, one, sums[None, None].numpy(), None, causal=False
    )
