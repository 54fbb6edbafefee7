"""The forget gate of an LSTM with one unit and one input, by the layer that serves every model."""

import torch

from firth.nn.recurrent import Lstm
from firth.pages.textbook import Cell, Worked, WorkedRow, worked_section
from firth.textbook.drawing import Drawing, PrintedNumber, said_of_book

INPUT = 0.2
OUTPUT = 1.0  # h of the step before
CELL = 2.0  # c of the step before
WEIGHT = 1.0  # of both
FORGET = 2  # the gate's place among candidate, input, forget and output


def draw_gate() -> Drawing:
    """Draw how much of the cell state is kept."""
    layer = Lstm(1, 1).double()
    with torch.inference_mode():
        for weight in layer.parameters():
            weight.zero_()
        layer.take.weight[FORGET] = WEIGHT
        layer.keep.weight[FORGET] = WEIGHT
        x = torch.tensor([[INPUT]], dtype=torch.float64)
        state = torch.tensor([[OUTPUT], [CELL]], dtype=torch.float64)
        before_sigmoid = float((layer.take(x) + layer.keep(state[0]))[0, FORGET])
        found = layer.explain(x, state)
    gate = float(found["f"])
    kept = float(found["c"])
    numbers = [
        PrintedNumber("w · [h, x] + b", before_sigmoid, "1.2"),
        PrintedNumber("the gate f, its sigmoid", gate, ".77"),
        PrintedNumber("f × c", kept, "1.54"),
    ]
    rows = [
        WorkedRow("[h, x]", [Cell([OUTPUT, INPUT])]),
        WorkedRow("w", [Cell([WEIGHT, WEIGHT])]),
        WorkedRow("w · [h, x] + b, with b = 0", [Cell([before_sigmoid], "1.2")]),
        WorkedRow("sigmoid: the gate f", [Cell([gate], ".77")]),
        WorkedRow("f × c, with c = 2", [Cell([kept], "1.54")]),
    ]
    note = "A gate near 1 keeps the cell state, a gate near 0 forgets it."
    picture = Worked("One unit, one step", note, ["the unit"], rows)
    notes = [
        said_of_book(numbers),
        f"The product is of the unrounded gate, {gate:.4f}: {kept:.4f}. From .77 one gets 1.5400.",
        "This is the first half of the step: the cell state becomes f × c + i × g, and here the "
        "candidate g is 0.",
    ]
    return Drawing([worked_section("By hand", [picture])], numbers, notes)
