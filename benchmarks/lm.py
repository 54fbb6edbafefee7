"""Language models on the Penn Treebank, with its standard vocabulary of 10,000 words: how well each foretells the test text.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.lm [NAME ...] [--list] [--table] [--plot FOLDER] [--quick]

Every model is made by one call of `pretrain` and measured by `evaluate`: perplexity per word with an end for every line, also by
how often a word occurs in the training text. `output-*` are LSTMs that differ in how they find the probabilities of words and have
the same time. `segments` is what it costs the GPT of the cell `gpt` to read a text cut into segments, whose first words have
nothing before them, against windows that share half of their words. `--quick` takes a few steps of small models and writes
nothing down.

A run that was stopped goes on where it was; a cell that is in benchmarks/results/lm.jsonl is not made again. The models stand under
FIRTH_MODELS.
"""

import gzip
import json
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from benchmarks.cells import Cells, command_line, commit
from firth import evaluate, pretrain, vocab
from firth.base.threads import keep_heap, usual
from firth.evaluation.long_text import Way
from firth.evaluation.text import TextLines, foretell
from firth.pages.chart import chart, stacked
from firth.predictor import load_predictor

CELLS = Cells("lm")
LSTM = {"model": "rnn", "cell": "lstm", "size": "small"}
RUNS: dict[str, dict[str, Any]] = {
    "ngram-5": {"model": "ngram", "order": 5},
    "ffnn": {"model": "ffnn", "order": 6, "size": "small", "minutes": 20.0},
    "rnn": {"model": "rnn", "cell": "tanh", "size": "mini", "minutes": 20.0},
    "lstm": {**LSTM, "minutes": 60.0},
    # The steps of 20 quiet minutes, so that a busy machine changes no result.
    "gpt": {"model": "gpt", "size": "mini", "dropout": 0.3, "steps": 2946, "batch": 1024},
    "gpt-carry": {"model": "gpt", "carry": True, "size": "mini", "dropout": 0.3, "minutes": 20.0},
    **{
        f"output-{output}": {**LSTM, "output": output, "minutes": 5.0}
        for output in ("full", "classes", "sampled")
    },
}
SEGMENTS = (16, 32, 64, 128)
WAYS: tuple[Way, ...] = ("cut", "slide", "carry")
NAMES = [*RUNS, "segments"]
VOCABULARY = 30_000  # more than there are words, so that all of them are in it
QUICK = {"size": "tiny", "steps": 5}
QUICK_LINES = 100


def make(name: str, data: Path, models: Path, quick: bool = False) -> dict[str, Any]:
    """Make one cell; quickly, from the first lines and elsewhere."""
    if not quick:
        return _make(name, data / "ptb", models, quick)
    with tempfile.TemporaryDirectory() as place:
        for part in ("train", "dev", "test"):
            with gzip.open(data / "ptb" / f"{part}.txt.gz", "rt", encoding="utf-8") as whole:
                lines = [next(whole) for _ in range(QUICK_LINES)]
            with gzip.open(Path(place) / f"{part}.txt.gz", "wt", encoding="utf-8") as some:
                some.writelines(lines)
        return _make(name, Path(place), Path(place), quick)


def _make(name: str, text: Path, models: Path, quick: bool) -> dict[str, Any]:
    begun = time.time()
    found = (
        segments(text, models, quick) if name == "segments" else measured(name, text, models, quick)
    )
    return {"name": name, **found, "seconds": round(time.time() - begun, 1), "commit": commit()}


def model(name: str, text: Path, models: Path, quick: bool) -> Path:
    """The folder of a model, which is trained if it isn't there."""
    words, folder = models / "lm-words", models / f"lm-{name}"
    if not words.exists():
        vocab([text / "train.txt.gz"], words, kind="words", size=VOCABULARY, case="keep")
    options = dict(RUNS[name])
    if quick and "minutes" in options:
        options = {key: value for key, value in options.items() if key != "minutes"} | QUICK
    pretrain(
        [text / "train.txt.gz"],
        folder,
        dev=str(text / "dev.txt.gz"),
        vocab=str(words),
        resume=True,
        **options,
    )
    return folder


def measured(name: str, text: Path, models: Path, quick: bool) -> dict[str, Any]:
    """What a model makes of the test text, how large it is and how fast it learned."""
    folder = model(name, text, models, quick)
    made = json.loads((folder / "firth.json").read_text())["made"]
    way: Way | None = "carry" if RUNS[name].get("carry") else None
    (found,) = evaluate(folder, text / "test.txt.gz", counts=text / "train.txt.gz", long=way).models
    assert found.text is not None
    return {
        "settings": RUNS[name],
        "seed": made["settings"]["seed"],
        "steps": made["steps"],
        "best_step": made["best_step"],
        "dev": made["dev"],
        "perplexity": found.metrics["perplexity"]._asdict(),
        "frequency": {
            band.times: [band.words, round(band.perplexity.value, 2)] for band in found.text.bands
        },
        "tokens_per_second": _pace(folder, made),
        "megabytes": round((folder / "model.safetensors").stat().st_size / 1e6, 2),
    }


def _pace(folder: Path, made: dict[str, Any]) -> float | None:
    """Tokens that training read in a second, by the step that took the median time; an n-gram counts and takes no steps."""
    if not made["steps"]:
        return None
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    times = [record["seconds"] for record in records if "loss" in record]
    return round(
        made["training"]["batch"]
        / statistics.median(later - sooner for sooner, later in pairwise(times)),
        1,
    )


def segments(text: Path, models: Path, quick: bool) -> dict[str, Any]:
    """The perplexity of a GPT by how many tokens it reads at once, cut and sliding, and of one that carries what it read before."""
    lines, found = TextLines(text / "test.txt.gz"), {}
    for name, lengths, ways in (("gpt", SEGMENTS, WAYS[:2]), ("gpt-carry", SEGMENTS[-1:], WAYS)):
        predictor = load_predictor(model(name, text, models, quick))
        for length in lengths:
            predictor.bundle.settings["length"] = length
            for way in ways:
                begun = time.time()
                scores = foretell(predictor, lines, way).tally.scores()
                found[f"{name} {way} {length}"] = [
                    round(scores["perplexity"].value, 2),
                    round(time.time() - begun, 1),
                ]
    return {"perplexity": found}


def table() -> None:
    """Print the finished cells as three tables."""
    found = CELLS.by_name()
    runs = [found[name] for name in RUNS if name in found]
    print(
        "| model | test perplexity | megabytes | tokens/s in training | minutes |\n|---|---|---|---|---|"
    )
    for cell in runs:
        value, low, high = cell["perplexity"].values()
        pace = "-" if cell["tokens_per_second"] is None else f"{cell['tokens_per_second']:,.0f}"
        size, minutes = cell["megabytes"], cell["seconds"] / 60
        print(
            f"| {cell['name']} | {value:.1f} ({low:.1f} to {high:.1f}) | {size:.1f} | {pace} | {minutes:.1f} |"
        )
    bands = list(dict.fromkeys(times for cell in runs for times in cell["frequency"]))
    print(
        "\n| perplexity of words that occur in training ... times | "
        + " | ".join(bands)
        + " |\n|---|"
        + "---|" * len(bands)
    )
    for cell in runs:
        values = (
            f"{cell['frequency'][times][1]:,.0f}" if times in cell["frequency"] else "-"
            for times in bands
        )
        print(f"| {cell['name']} | " + " | ".join(values) + " |")
    if "segments" in found:
        print("\n| reads at once | perplexity | seconds |\n|---|---|---|")
        for name, (value, seconds) in found["segments"]["perplexity"].items():
            print(f"| {name} tokens | {value:.1f} | {seconds:.1f} |")


def plot(folder: Path) -> None:
    """Draw the perplexity by how often words occur, and by the length of segments."""
    found = CELLS.by_name()
    runs = {name: found[name] for name in RUNS if name in found and not name.startswith("output")}
    by_band = {
        name: [(number, value) for number, (_, value) in enumerate(cell["frequency"].values())]
        for name, cell in runs.items()
    }
    charts = [
        chart(
            "Perplexity of words, by a power of ten of how often they occur in training",
            by_band,
            "power of ten",
            log=True,
        )
    ]
    if "segments" in found:
        lines = {
            words: [
                (float(length), found["segments"]["perplexity"][f"gpt {way} {length}"][0])
                for length in SEGMENTS
            ]
            for way, words in (("cut", "segments"), ("slide", "sliding windows"))
        }
        charts.append(chart("Perplexity of the GPT", lines, "tokens at once"))
    (folder / "lm.svg").write_text(stacked(charts), encoding="utf-8")


if __name__ == "__main__":
    keep_heap()
    torch.set_num_threads(usual())
    command_line(__doc__, CELLS, NAMES, make, table, plot, quick=True)
