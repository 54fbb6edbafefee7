"""Word vectors: the speed and the quality of word2vec against gensim's, and the quality of the other objectives.

    FIRTH_DATA=... python -m benchmarks.vectors speed [--rounds N] [--threads N ...] [--json] [--quick]
    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.vectors quality [NAME ...] [--list] [--quick]
    python -m benchmarks.vectors table

`speed`: one pass over the first 5 million words of `corpus/wikipedia_en`, 100 numbers a word, a window of 5, 5 negatives, one and two
threads against gensim's two workers. Both get the same words and the same vocabulary; rounds are interleaved.

`quality`: all of `wikipedia_en`, with the seeds 1 to 3 where gensim has the model, else with 1: WordSim-353 and SimLex-999 (Spearman's
correlation with the cosine) and the questions of questions-words.txt, by one function for everybody. A cell that is in
benchmarks/results/vectors.jsonl is not made again; the models stand under FIRTH_MODELS.

gensim is no dependency of Firth: `pip install gensim` into the environment that runs this.
"""

import argparse
import gzip
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks.cells import Cell, Cells, commit
from benchmarks.table import Row, show
from firth import load, pretrain, vocab
from firth.base.clock import Clock
from firth.corpus.shards import open_shards
from firth.corpus.stream import TokenStream
from firth.corpus.windows import word_counts
from firth.recipes.settings import PretrainSettings
from firth.recipes.updates import UpdateLoop, UpdateSettings
from firth.recipes.windowed import Windowed
from firth.text.tokenizer import Tokenizer
from firth.train.run import Run

CELLS = Cells("vectors")
WORDS = 5_000_000
QUICK_WORDS = 200_000
ROUNDS = 5
THREADS = 2
GOAL = 1.0
VOCABULARY = 30_000
WIDTH = 100
WINDOW = 5
NEGATIVES = 5
SAMPLE = 1e-3
SEEDS = (1, 2, 3)
OURS = ("word2vec", "cbow", "glove", "bernoulli")
THEIRS = ("word2vec", "cbow")
EPOCHS = {"glove": 25}  # others take 5
NAMES = [
    *(f"{who}-{model}-{seed}" for model in THEIRS for seed in SEEDS for who in ("firth", "gensim")),
    *(f"firth-{model}-{SEEDS[0]}" for model in OURS if model not in THEIRS),
]
SCORES = ("wordsim353", "simlex999", "analogies")
AT_ONCE = 500  # questions

Floats = NDArray[np.float32]


def gensim_model(skip_gram: bool, seed: int) -> Any:
    """Return a new model of gensim's, with the settings that ours has."""
    try:
        from gensim.models import Word2Vec
    except ImportError:
        sys.exit("this benchmark compares with gensim: pip install gensim")
    return Word2Vec(
        vector_size=WIDTH,
        window=WINDOW,
        negative=NEGATIVES,
        sample=SAMPLE,
        min_count=1,
        sg=int(skip_gram),
        alpha=0.025 if skip_gram else 0.05,
        workers=THREADS,
        seed=seed,
    )


def sentences(stream: TokenStream, tokenizer: Tokenizer) -> list[list[str]]:
    """Return the lines of a stream as gensim reads them: without what our vocabulary doesn't know."""
    known = word_counts(stream, tokenizer) > 0
    ids = stream.read(0, stream.size)
    stops = np.flatnonzero(ids == stream.end)
    pieces = [tokenizer.piece(number) for number in range(tokenizer.size)]
    lines = []
    for line in np.split(ids, stops):
        words = [pieces[number] for number in line[known[line]]]
        if words:
            lines.append(words)
    return lines


def beginning(source: Path, target: Path, words: int) -> None:
    """Write the first lines of a text, with so many words."""
    with gzip.open(source, "rt", encoding="utf-8") as lines, target.open("w") as file:
        total = 0
        for line in lines:
            file.write(line)
            total += len(line.split())
            if total >= words:
                return


def speed(data: Path, rounds: int, threads: Sequence[int], as_json: bool, quick: bool) -> None:
    """Train one pass with both in turn."""
    words = QUICK_WORDS if quick else WORDS
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        text = folder / "text.txt"
        beginning(data / "corpus/wikipedia_en.txt.gz", text, words)
        vocab([text], folder / "words", kind="words", size=VOCABULARY)
        tokenizer = Tokenizer.open(folder / "words")
        shards = open_shards(folder / "data", [text], tokenizer)
        settings = PretrainSettings.given(
            {"corpus": [str(text)], "out": str(folder / "v"), "model": "word2vec"}
        )
        recipe = Windowed(settings, tokenizer)
        recipe.read(shards, None)
        known = int(recipe.counts.sum())
        lines = sentences(recipe.lines.kept, tokenizer)
        assert sum(map(len, lines)) == known

        ours: dict[int, list[float]] = {count: [] for count in threads}
        theirs = []
        for number in range(rounds):
            for count in threads:
                torch.set_num_threads(count)
                seconds = our_pass(recipe, folder / f"run-{number}-{count}")
                ours[count].append(known / seconds)
            theirs.append(known / their_pass(lines))
    rows = []
    for count in threads:
        for name, of in (("best", max), ("median", statistics.median)):
            one, other = of(ours[count]), of(theirs)
            title = f"{known / 1e6:.1f} M words, threads {count}, {name}"
            against = f"gensim, {THREADS} workers"
            rows.append(Row(title, one, other, against, one / other, "words/s", GOAL))
    show(rows, as_json)


def our_pass(recipe: Windowed, folder: Path) -> float:
    """Return the seconds that a run's loop takes, with its measurements and its checkpoint."""
    family = recipe.family
    settings = family.settings_for(
        family.default_size,
        {"window": WINDOW, "negatives": NEGATIVES, "sample": SAMPLE},
        vocab=recipe.tokenizer.size,
        width=WIDTH,
    )
    training = UpdateSettings(
        seed=1, epochs=1, batch=recipe.batch, lr=family.rate, decays=family.decays
    )
    folder.mkdir()
    updates = recipe.updates(settings, training, folder)
    begun = time.perf_counter()
    UpdateLoop(updates, training, Run(folder), Clock()).train()
    return time.perf_counter() - begun


def their_pass(lines: list[list[str]]) -> float:
    """Return the seconds that gensim trains, without those in which it counts its words."""
    model = gensim_model(True, seed=1)
    model.build_vocab(lines)
    begun = time.perf_counter()
    model.train(lines, total_examples=len(lines), epochs=1)
    return time.perf_counter() - begun


def rows_of(path: Path) -> Iterable[list[str]]:
    """Yield the fields of each line of a file that is no comment."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.lower().split()


def similarity(units: Floats, places: dict[str, int], path: Path) -> tuple[float, int]:
    """Return the rank correlation of cosines with what people said, and the pairs it is over."""
    cosines, said = [], []
    for one, two, score, *_ in rows_of(path):
        if one in places and two in places:
            cosines.append(float(units[places[one]] @ units[places[two]]))
            said.append(float(score))
    return float(spearmanr(cosines, said).statistic), len(said)


def analogies(units: Floats, places: dict[str, int], path: Path) -> tuple[float, int]:
    """Return how often b - a + c is nearest to d, of all words but the three, and of how many."""
    rows = [row for row in rows_of(path) if row[0] != ":"]
    asked = [[places[word] for word in row] for row in rows if all(word in places for word in row)]
    right = 0
    for first in range(0, len(asked), AT_ONCE):
        a, b, c, d = np.array(asked[first : first + AT_ONCE]).T
        cosines = (units[b] - units[a] + units[c]) @ units.T
        for given in (a, b, c):
            cosines[np.arange(len(a)), given] = -np.inf
        right += int((cosines.argmax(1) == d).sum())
    return right / max(1, len(asked)), len(asked)


def scores(words: Sequence[str], vectors: Floats, data: Path) -> dict[str, Any]:
    """Return what a table of vectors reaches; words are those that have one."""
    places = {word: place for place, word in enumerate(words)}
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    folder = data / "word_similarity"
    found = {
        "wordsim353": similarity(units, places, folder / "wordsim353.tsv"),
        "simlex999": similarity(units, places, folder / "simlex999.txt"),
        "analogies": analogies(units, places, folder / "questions-words.txt"),
    }
    return {name: [round(value, 4), count] for name, (value, count) in found.items()}


def quality(name: str, data: Path, models: Path, quick: bool) -> Cell:
    """Make one cell."""
    who, model, seed = name.split("-")
    epochs = 1 if quick else EPOCHS.get(model, 5)
    text = data / "corpus/wikipedia_en.txt.gz"
    if quick:
        source, text = text, models / "text.txt"
        beginning(source, text, QUICK_WORDS)
    folder = models / "vectors-words"
    if not folder.exists():
        vocab([text], folder, kind="words", size=VOCABULARY)
    tokenizer = Tokenizer.open(folder)
    begun = time.time()
    about: dict[str, Any] = {}
    if who == "firth":
        words, vectors, about = ours(model, int(seed), epochs, text, models, data)
    else:
        words, vectors = gensims(model, int(seed), epochs, text, models)
    seconds = round(time.time() - begun, 1)
    assert tokenizer.kind == "words"
    found = scores(words, vectors, data)
    cell = {"name": name, "who": who, "model": model, "seed": int(seed), "epochs": epochs}
    return {**cell, **found, **about, "seconds": seconds, "commit": commit()}


def ours(
    model: str, seed: int, epochs: int, text: Path, models: Path, data: Path
) -> tuple[list[str], Floats, dict[str, Any]]:
    """Train vectors with Firth."""
    folder = models / f"vectors-{model}-{seed}"
    pretrain(
        [text],
        folder,
        model=model,
        size="mini",
        vocab=models / "vectors-words",
        dev=data / "corpus/wikipedia_en.dev.txt.gz",
        epochs=epochs,
        seed=seed,
        threads=1,
        resume=True,
    )
    made = json.loads((folder / "firth.json").read_text())["made"]
    bundle = load(folder).bundle
    table = bundle.encoder.table.detach().numpy()
    known = np.flatnonzero(table.any(1))
    words = [bundle.tokenizer.piece(int(number)) for number in known]
    about = {"dev": made["dev"], "baseline": made["baseline"], "training": made["training"]}
    return words, table[known], about


def gensims(
    model: str, seed: int, epochs: int, text: Path, models: Path
) -> tuple[list[str], Floats]:
    """Train vectors with gensim on the same words."""
    tokenizer = Tokenizer.open(models / "vectors-words")
    assert tokenizer.sep is not None
    shards = open_shards(models / "vectors-data", [text], tokenizer)
    lines = sentences(TokenStream(shards, tokenizer.sep), tokenizer)
    trained = gensim_model(model == "word2vec", seed)
    trained.build_vocab(lines)
    trained.train(lines, total_examples=len(lines), epochs=epochs)
    return trained.wv.index_to_key, trained.wv.vectors


def table() -> None:
    """Print the scores of each model over its seeds: the lowest, the mean and the highest."""
    print("| model | epochs | seeds | " + " | ".join(SCORES) + " |")
    print("|---|---|---|" + "---|" * len(SCORES))
    cells = sorted(CELLS(), key=lambda cell: (cell["model"], cell["who"], cell["seed"]))
    for (model, who), group in itertools.groupby(cells, lambda cell: (cell["model"], cell["who"])):
        found = list(group)
        columns = []
        for score in SCORES:
            values = [cell[score][0] for cell in found]
            mean = statistics.mean(values)
            columns.append(f"{min(values):.3f} {mean:.3f} {max(values):.3f}")
        print(f"| {who} {model} | {found[0]['epochs']} | {len(found)} | {' | '.join(columns)} |")


def main() -> None:
    """Read the command line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("part", choices=("speed", "quality", "table"))
    arguments.add_argument("names", nargs="*", metavar="NAME", help="cells of quality")
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="of speed")
    arguments.add_argument(
        "--threads", type=int, nargs="+", default=(1, THREADS), help="of ours, in speed"
    )
    arguments.add_argument("--json", action="store_true", help="rows of speed as JSON lines")
    arguments.add_argument("--list", action="store_true", help="name the cells of quality")
    arguments.add_argument(
        "--quick", action="store_true", help="on little text; nothing is written down"
    )
    options = arguments.parse_intermixed_args()
    done = CELLS.by_name()
    if options.part == "table":
        table()
    elif options.part == "speed":
        data = Path(os.environ["FIRTH_DATA"])
        speed(data, options.rounds, options.threads, options.json, options.quick)
    elif options.list:
        print("\n".join(f"{name}{' (done)' if name in done else ''}" for name in NAMES))
    elif options.quick:
        with tempfile.TemporaryDirectory() as place:
            for name in options.names or [f"firth-{OURS[0]}-1"]:
                cell = quality(name, Path(os.environ["FIRTH_DATA"]), Path(place), quick=True)
                print(json.dumps(cell), flush=True)
    else:
        for name in options.names or NAMES:
            if name not in done:
                data, models = (Path(os.environ[key]) for key in ("FIRTH_DATA", "FIRTH_MODELS"))
                CELLS.add(quality(name, data, models, quick=False))


if __name__ == "__main__":
    main()
