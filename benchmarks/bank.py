"""How well the sense of *bank* is told from its vector, by whether the clue stands before the word or after it.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.bank [MODEL ...] [--list] [--table] [--quick]

60 sentences of our own in benchmarks/data/bank.jsonl, each with *bank* once: half of the river and half of money, half with the clue before
the word and half with it after, 15 of each kind. Nothing on the other side gives the sense away: of the words that do, none stands there.
Each sentence has a counterpart of the other sense, in the same place of its kind; where the clue comes after, the word before *bank* is the
same in both.

Leave one out: a sentence has the sense of whose other sentences the mean is nearer, by the cosine of unit vectors of *bank*. A tie, which is
what all sentences are for word vectors that don't depend on them, is half right. What says nothing of the sense, such as the word before
*bank*, then comes out below half: the sentence is missing from its own sense's mean, and its counterpart isn't missing from the other. So the
figures are given a second time with the counterpart left out too. Accuracy has exact binomial 95 % intervals, and a two-sided p-value
against guessing; of an odd number of ties the test counts the smaller half. The vectors are those after the last layer; the others are
reported too.

word2vec, the one-way LSTM, ELMo and BERT are those of benchmarks.knowledge, pretrained on the same text, and are made when they are missing.
A model that is in benchmarks/results/bank.jsonl is not measured again.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest

from benchmarks.cells import Cell, Cells, command_line, commit
from benchmarks.knowledge import Shelf
from firth.base.threads import keep_heap, usual
from firth.predictor import Predictor, load_predictor
from firth.probes.senses import contextual_vectors, static_vectors
from firth.tasks.embed import Vectors

CELLS = Cells("bank")
FILE = Path(__file__).parent / "data" / "bank.jsonl"
WORD = "bank"
SENSES, SIDES = ("river", "money"), ("before", "after")
OUT = {"one": "leave one out", "two": "its counterpart too"}
MODELS = {
    "word2vec": "word2vec",
    "lstm": "LSTM, one way",
    "elmo": "ELMo",
    "bert": "BERT",
    "minilm": "minilm",
}
TIE = 1e-6  # cosines that differ less are those of the same vectors


class Sentence(NamedTuple):
    """A sentence with its sense, the side of the word on which the clue stands, and its clues."""

    text: str
    sense: str
    clue: str
    words: tuple[str, ...]


def sentences() -> list[Sentence]:
    """The sentences of the file."""
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return [Sentence(row["text"], row["sense"], row["clue"], tuple(row["words"])) for row in rows]


def layers(predictor: Predictor, texts: Sequence[str]) -> list[Vectors]:
    """The word's vectors in all texts, after each layer; of word vectors, those of the table."""
    if predictor.bundle.encoder.depth == 0:
        return [static_vectors(predictor, WORD, texts)]
    return contextual_vectors(predictor, WORD, texts)


def counterparts(given: Sequence[Sentence]) -> NDArray[np.int64]:
    """Where the counterpart of each sentence stands: of the other sense, in the same place of its kind."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for number, one in enumerate(given):
        kinds.setdefault((one.sense, one.clue), []).append(number)
    found = np.empty(len(given), np.int64)
    for side in SIDES:
        river, money = (kinds[sense, side] for sense in SENSES)
        found[river], found[money] = money, river
    return found


def told(
    vectors: Vectors, first: NDArray[np.bool_], out: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Whether each sentence is nearer to the others of its sense: 1, 0, or of a tie a half.

    `out` names another sentence to leave out with each.
    """
    rows = _unit(vectors.astype(np.float64))
    found = np.empty(len(rows))
    for number, row in enumerate(rows):
        others = np.arange(len(rows)) != number
        if out is not None:
            others[out[number]] = False
        means = [
            rows[others & (first == sense)].mean(0) for sense in (first[number], ~first[number])
        ]
        own, other = _unit(np.stack(means)) @ row
        found[number] = 0.5 if abs(own - other) < TIE else float(own > other)
    return found


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors of length 1; one of zeros, of a word that a model has not learned, stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def score(right: NDArray[np.float64]) -> dict[str, Any]:
    """How many are right, with an interval and the p-value of guessing."""
    tested = binomtest(int(right.sum()), len(right), 0.5)
    low, high = tested.proportion_ci(0.95, "exact")
    return {
        "right": float(right.sum()),
        "of": len(right),
        "ties": int((right == 0.5).sum()),
        "low": float(low),
        "high": float(high),
        "p": float(tested.pvalue),
    }


def make(name: str, data: Path, models: Path, quick: bool = False) -> Cell:
    """Measure one model, layer by layer."""
    with tempfile.TemporaryDirectory() as place:
        shelf = Shelf(data, Path(place) if quick else models, quick)
        predictor = load_predictor("minilm" if name == "minilm" else shelf.model(name))
        given = sentences()
        every = layers(predictor, [one.text for one in given])
    river = np.array([one.sense == SENSES[0] for one in given])
    found = []
    for vectors in every:
        right = told(vectors, river)
        paired = told(vectors, river, counterparts(given))
        found.append({"one": parts(given, right), "two": parts(given, paired)})
    wrong = [one.text for one, half in zip(given, right, strict=True) if half == 0]
    return {"name": name, "layers": found, "wrong": wrong, "commit": commit()}


def parts(given: Sequence[Sentence], right: NDArray[np.float64]) -> dict[str, Any]:
    """The scores by the side of the clue, and of all sentences."""
    by_side = {side: np.array([one.clue == side for one in given]) for side in SIDES}
    return {side: score(right[chosen]) for side, chosen in by_side.items()} | {"both": score(right)}


def table() -> None:
    """Print the last layer of each model, and then how many are right after every layer."""
    found = {name: cell["layers"] for name, cell in CELLS.by_name().items()}
    for out, words in OUT.items():
        print(f"| {words} | clue before | clue after | all 60 |\n|---|---|---|---|")
        for name in (name for name in MODELS if name in found):
            last = found[name][-1][out]
            print(f"| {MODELS[name]} | {' | '.join(shown(last[part]) for part in last)} |")
        print()
    print("| right of 30 by layer, clue before / after | leave one out |\n|---|---|")
    for name in (name for name in MODELS if name in found):
        each = (
            " / ".join(f"{one['one'][side]['right']:g}" for side in SIDES) for one in found[name]
        )
        print(f"| {MODELS[name]} | {', '.join(each)} |")


def shown(one: dict[str, Any]) -> str:
    """An accuracy with its interval and p-value."""
    share = one["right"] / one["of"]
    return f"{share:.0%} ({one['low']:.0%} to {one['high']:.0%}), p = {one['p']:.2g}"


if __name__ == "__main__":
    keep_heap()
    torch.set_num_threads(usual())
    command_line(__doc__, CELLS, list(MODELS), make, table, quick=True)
