"""The vector of one word in sentences of two senses, layer by layer."""

import numpy as np
import torch

from firth.base.errors import InputError
from firth.pages.textbook import Frame, Mark, Plane, plane_section
from firth.predictor import Predictor
from firth.probes.axes import project
from firth.probes.senses import compare_senses, contextual_vectors, static_vectors
from firth.samples.texts import MONEY, RIVER, WORD
from firth.tasks.embed import Vectors
from firth.textbook.drawing import Drawing, PrintedNumber


def draw_bank(predictor: Predictor, name: str) -> Drawing:
    """Draw *bank* in ten sentences on two axes after every layer."""
    if not predictor.bundle.gives_vectors or not predictor.bundle.encoder.depth:
        raise InputError(f"{name} has no layers in which the vector of a word could change")
    sentences = [*RIVER, *MONEY]
    static = static_vectors(predictor, WORD, sentences)
    layers = [static, *contextual_vectors(predictor, WORD, sentences)]
    names = ["embedding table", *(f"layer {number}" for number in range(1, len(layers)))]
    frames = []
    numbers = []
    for layer, vectors in zip(names, layers, strict=True):
        frame, found = _frame(layer, vectors)
        frames.append(frame)
        numbers += found
    groups = ["by a river"] * len(RIVER) + ["with deposits"] * len(MONEY)
    marks = []
    for number, (text, group) in enumerate(zip(sentences, groups, strict=True), 1):
        marks.append(Mark(str(number), text, group))
    note = "Principal components of each layer by itself; choose the layer, point at a sentence."
    senses = compare_senses(layers[-1], len(RIVER))
    notes = [
        "In the embedding table 'bank' has one vector: all sentences are one point.",
        f"After the last layer the nearest other sentence has the same sense for {senses.right} of "
        f"{len(sentences)}.",
    ]
    plane = Plane("Bank on two axes", note, "After", marks, frames)
    return Drawing([plane_section("Ten sentences", [plane])], numbers, notes)


def _frame(layer: str, vectors: Vectors) -> tuple[Frame, list[PrintedNumber]]:
    """Return where the word is after a layer, and how alike its senses are."""
    places, _ = project(torch.from_numpy(np.asarray(vectors)))
    senses = compare_senses(vectors, len(RIVER))
    numbers = [
        PrintedNumber(f"{layer}: cosine within a sense", senses.same),
        PrintedNumber(f"{layer}: cosine across senses", senses.different),
    ]
    said = f"{layer}: cosine {senses.same:.4f} within a sense, {senses.different:.4f} across"
    return Frame(layer, places.numpy(), said), numbers
