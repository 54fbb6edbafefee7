"""English-Swedish word translation by a linear map between word vectors that were trained apart.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.align [seed-1 ...] [--list] [--table] [--quick]

The vectors are word2vec's on the two sides of `tatoeba_en_sv`, 22,826 sentences each, with the words that are seen 10 times or more. The sides are trained
apart: nothing tells the one what the other says, though they say the same. A map is fitted to 300 pairs of words (benchmarks/data/en_sv_fit.tsv) by
`firth align` and tried on 100 others (en_sv_test.tsv). The pairs are of our own, frequent words with one translation each; one of every four
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
from firth.base.threads import available, keep_heap
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


def pairs(name: str) -> list[tuple[str, str]]:
    """The English and Swedish words of a file."""
    lines = (PAIRS / f"en_sv_{name}.tsv").read_text(encoding="utf-8").splitlines()
    return [(english, swedish) for english, _, swedish in (line.partition("\t") for line in lines)]


def make(name: str, data: Path, models: Path, quick: bool = False) -> Cell:
    """Train vectors of both languages, fit a map and try it."""
    seed = int(name.removeprefix("seed-"))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        english, swedish = (
            Side(language, data, place if quick else models).vectors(
                seed, QUICK if quick else VECTORS
            )
            for language in FIELDS
        )
        mapped = place / "map"
        firth.align(english, swedish, dictionary=PAIRS / "en_sv_fit.tsv", out=mapped)
        ranks, words = tried(mapped, swedish)
    found = {f"precision@{most}": precision(ranks, most, words) for most in NEAREST}
    return {"name": name, "seed": seed, "words": words, **found, "commit": commit()}


def tried(mapped: Path, swedish: Path) -> tuple[list[int], int]:
    """At which place each translation to try comes, from 1, and among how many words."""
    source, target = (WordTable(load(folder), str(folder)) for folder in (mapped, swedish))
    units = target.units()
    order = list(target.words.values())
    ranks = []
    for word, translation in pairs("test"):
        cosines = units @ source.unit(word)
        ranks.append(1 + int((cosines > cosines[order.index(translation)]).sum()))
    return ranks, len(order)


def precision(ranks: Sequence[int], most: int, words: int) -> dict[str, float]:
    """The share of translations that come early enough, with its interval, against chance."""
    right = sum(rank <= most for rank in ranks)
    chance = most / words
    tested = binomtest(right, len(ranks), chance, alternative="greater")
    low, high = binomtest(right, len(ranks)).proportion_ci(0.95, "exact")
    return {
        "value": right / len(ranks),
        "low": float(low),
        "high": float(high),
        "chance": chance,
        "p": float(tested.pvalue),
    }


def table() -> None:
    """Print the finished cells."""
    print("| seed | Swedish words | precision@1 | chance | precision@5 | chance |")
    print("|---|---|---|---|---|---|")
    for cell in CELLS():
        parts = [f"{cell['seed']} | {cell['words']:,}"]
        for most in NEAREST:
            one = cell[f"precision@{most}"]
            share = (
                f"{one['value']:.0%} ({one['low']:.0%} to {one['high']:.0%}), p = {one['p']:.1g}"
            )
            parts.append(f"{share} | {one['chance']:.2%}")
        print(f"| {' | '.join(parts)} |")


if __name__ == "__main__":
    keep_heap()
    torch.set_num_threads(available())
    command_line(__doc__, CELLS, NAMES, make, table, quick=True)
