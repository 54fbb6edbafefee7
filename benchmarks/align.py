"""English-Swedish word translation by a map between word vectors that were trained apart.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.align [seed-1 ...] [--list] [--table] [--quick]

The vectors are word2vec's on the two sides of `tatoeba_en_sv`, 22,826 sentences each, with the words that are seen 10 times or more. The sides are trained
apart: nothing tells the one what the other says, though they say the same. `firth align` fits its maps, a rotation and a network, to 300 pairs of words
(benchmarks/data/en_sv_fit.tsv), and they are tried on 100 others (en_sv_test.tsv). The pairs are of our own, frequent words with one translation each; one of every four
neighbours by frequency is tried. Precision@k is the share of English words among whose k nearest Swedish words the translation is, with exact
binomial 95 % intervals. Chance is k of all Swedish words; the p-value against it is one-sided.

Vectors stand under FIRTH_MODELS and are made when they are missing; a cell that is in benchmarks/results/align.jsonl is not made again.
"""

import gzip
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import binomtest

import firth
from benchmarks.cells import Cell, Cells, command_line, commit
from firth.base.threads import keep_heap, usual
from firth.text.tokenizer import Tokenizer
from firth.text.vocabulary import LEAST as SMALLEST

CELLS = Cells("align")
PAIRS = Path(__file__).parent / "data"
FIELDS = {"en": "src", "sv": "tgt"}
LEAST = 10  # occurrences
EVERY_WORD = 1 << 16  # more than either side has
VECTORS: dict[str, Any] = {"model": "word2vec", "size": "mini", "epochs": 50.0}
QUICK: dict[str, Any] = {"model": "word2vec", "size": "tiny", "epochs": 1.0}
NEAREST = (1, 5)
MAPS = {"linear": "rotation", "network": "network"}
NAMES = [f"seed-{seed}" for seed in (1, 2)]


class Side(NamedTuple):
    """One language: its sentences to train on and to measure by, and a place for what is made."""

    language: str
    data: Path
    place: Path

    def text(self, part: str) -> Path:
        """A file of sentences, one a line."""
        path = self.place / f"align-{self.language}-{part}.txt"
        if not path.exists():
            source = self.data / "tatoeba_en_sv" / f"{part}.jsonl.gz"
            with gzip.open(source, "rt", encoding="utf-8") as rows:
                lines = [json.loads(row)[FIELDS[self.language]] for row in rows]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def vocabulary(self) -> Path:
        """The words that are seen often enough."""
        folder = self.place / f"align-{self.language}-words"
        if not folder.exists():
            text = self.text("train")
            size = often(text.read_text(encoding="utf-8").splitlines())
            firth.vocab([text], folder, kind="words", split="punctuation", size=size)
        return folder

    def vectors(self, seed: int, options: dict[str, Any]) -> Path:
        """Word vectors, which are trained if they aren't there."""
        folder = self.place / f"align-{self.language}-{seed}"
        firth.pretrain(
            [self.text("train")],
            folder,
            dev=str(self.text("dev")),
            vocab=str(self.vocabulary()),
            seed=seed,
            resume=True,
            **options,
        )
        return folder


def often(sentences: Sequence[str]) -> int:
    """How large a vocabulary is that has the special tokens and the words seen often enough."""
    every = Tokenizer.train(sentences, "words", EVERY_WORD, split="punctuation")
    encodings = every.encode(sentences, special=False)
    counts = np.bincount(np.concatenate([encoding.ids for encoding in encodings]))
    special = SMALLEST["words"] - 1
    return special + int((counts[special:] >= LEAST).sum())


def make(name: str, data: Path, models: Path, quick: bool = False) -> Cell:
    """Train vectors of both languages, fit the maps and try them."""
    seed = int(name.removeprefix("seed-"))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        options, shelf = (QUICK, place) if quick else (VECTORS, models)
        english, swedish = (
            Side(language, data, shelf).vectors(seed, options) for language in FIELDS
        )
        fit, test = (PAIRS / f"en_sv_{part}.tsv" for part in ("fit", "test"))
        found = firth.align(english, swedish, fit, place / "map", test=test, seed=seed).as_json()
    kept = {key: found[key] for key in ("pairs", "tested", "words", "chance", *MAPS)}
    return {"name": name, "seed": seed, **kept, "commit": commit()}


def table() -> None:
    """Print the finished cells."""
    ends = " | ".join(f"precision@{most} | chance" for most in NEAREST)
    print(f"| map | seed | {ends} |\n|---|---|---|---|---|---|")
    for cell in CELLS():
        for by, words in MAPS.items():
            parts = [_share(cell, by, f"at_{most}") for most in NEAREST]
            print(f"| {words} | {cell['seed']} | {' | '.join(parts)} |")


def _share(cell: Cell, by: str, which: str) -> str:
    """A precision with its interval and p-value, and what chance gives."""
    value, low, high = (cell[by][which][end] for end in ("value", "low", "high"))
    chance, tested = cell["chance"][which], cell["tested"]
    p = binomtest(round(value * tested), tested, chance, alternative="greater").pvalue
    return f"{value:.0%} ({low:.0%} to {high:.0%}), p = {p:.1g} | {chance:.2%}"


if __name__ == "__main__":
    keep_heap()
    torch.set_num_threads(usual())
    command_line(__doc__, CELLS, NAMES, make, table, quick=True)
