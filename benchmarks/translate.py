"""Translation: one vector, attention, attention everywhere; how fast the Transformer learns and translates.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.translate pace [RUN ...] [--quick]
    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.translate runs [RUN ...] [--quick]
    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.translate alignments [--quick]
    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.translate spans [NAME ... | pace | table] [--quick]
    FIRTH_DATA=... python -m benchmarks.translate speed [--steps 100] [--quick] [--json]
    python -m benchmarks.translate decode [--rounds 7] [--quick] [--json]
    python -m benchmarks.translate table
    python -m benchmarks.translate plot FOLDER

`runs` trains each model on its pairs for so many steps as its minutes hold on a quiet machine, and translates the test set by beam
search. Steps are fixed in this file, so that a busy machine changes no result; `pace` trains each for three minutes and says how many
to write here. A run that was stopped goes on where it was. Models stand under FIRTH_MODELS; cells that are in
benchmarks/results/translate.jsonl are not made again.

A cell has sacreBLEU and chrF with their intervals, BLEU by greedy decoding, and BLEU as multi-bleu.perl computes it, over text that
sacremoses tokenised, cased and in small letters (`pip install sacremoses` into the environment that runs this). Of Multi30k in
German it has the test set of 2017 too, and BLEU by the number of words of the source; of French two sentences that differ in a word.

`spans` pretrains by span corruption before it trains on 1,000 pairs, and compares with 1,000 pairs alone (translate_spans.py).

`alignments` prints five sentences with the word that each word comes from. `speed` trains our Transformer and torch's own
nn.Transformer of the same sizes, loss and tokens a step, in turns; theirs has padded batches of pairs of like length. `decode`
translates with transformers' Marian class, its cache on, and with Firth from the same folder: the same weights, the same tokens.

`--quick` tries a part with small models on a few pairs, and writes nothing down.
"""

import argparse
import gzip
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

import firth
from benchmarks.cells import Cell, Cells, commit
from benchmarks.finetune import first_rows
from firth.base.threads import keep_heap, usual
from firth.metrics.bleu import TranslationTally
from firth.pages.chart import chart
from firth.predictor import Predictor

CELLS = Cells("translate")
PACE_MINUTES = 3.0
QUICK_ROWS, QUICK_STEPS, QUICK_TEST = 300, 6, 12
LIMITS = (8, 11, 14, 19)  # words of a source, by which sentences are grouped
TWO_SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
]
ALIGNED = [
    "Two men are walking their dogs in the park.",
    "A little girl in a red dress is eating an ice cream.",
    "The man with the black hat is playing the guitar on the street.",
    "A group of people is standing in front of a building.",
    "A brown dog jumps over a fence.",
]


class Run(NamedTuple):
    """A model that is trained on pairs, for so many minutes of a quiet machine."""

    data: str
    languages: tuple[str, str]
    minutes: int
    options: dict[str, Any]


GERMAN, FRENCH, SWEDISH = "multi30k_en_de", "multi30k_en_fr", "tatoeba_en_sv"
TRANSFORMER = {"model": "transformer", "size": "mini", "dropout": 0.3}
RUNS = {
    "seq2seq": Run(GERMAN, ("en", "de"), 30, {"model": "seq2seq", "size": "mini"}),
    "attention": Run(GERMAN, ("en", "de"), 30, {"model": "attention", "size": "mini"}),
    "transformer": Run(GERMAN, ("en", "de"), 90, TRANSFORMER),
    "transformer-60": Run(GERMAN, ("en", "de"), 60, TRANSFORMER),
    "french": Run(FRENCH, ("en", "fr"), 45, TRANSFORMER),
    "swedish": Run(SWEDISH, ("en", "sv"), 20, TRANSFORMER),
}
# The steps that a run's minutes hold on two quiet cores; `pace` says how many those are.
STEPS = {
    "seq2seq": 1_500,
    "attention": 1_200,
    "transformer": 4_500,
    "transformer-60": 3_000,
    "french": 2_250,
    "swedish": 1_000,
}
COMPARED = ("seq2seq", "attention", "transformer")  # by sentence length


class Shelf(NamedTuple):
    """Where pairs are and models go; a quick trial reads the first pairs and makes small models."""

    data: Path
    models: Path
    quick: bool = False

    def file(self, name: str, part: str) -> Path:
        """The pairs of a run to learn from, to choose by or to measure on."""
        run = RUNS[name]
        rows = QUICK_ROWS if part == "train" else QUICK_TEST
        copy = self.models / f"{run.data}-{part}.jsonl"
        path = self.data / run.data / f"{part}.jsonl.gz"
        return first_rows(path, rows if self.quick else None, copy)

    def folder(self, name: str) -> Path:
        """The folder of a run's model."""
        return self.models / f"translate-{name}"

    def train(self, name: str, out: Path, end: dict[str, Any]) -> firth.FinetuneResult:
        """Train, or go on with, one model."""
        options = {**RUNS[name].options, **end}
        if self.quick:
            options["size"] = "tiny"
        model = options.pop("model")
        train, dev = self.file(name, "train"), self.file(name, "dev")
        begun = out.exists() or out.with_name(f"{out.name}.run").exists()
        return firth.finetune("translate", model, train, out, dev=dev, resume=begun, **options)

    def model(self, name: str) -> Path:
        """The folder of a run's model, which is trained if it isn't there."""
        folder = self.folder(name)
        if not (folder / "firth.json").exists():
            self.train(name, folder, {"steps": QUICK_STEPS if self.quick else STEPS[name]})
        return folder


def pace(name: str, shelf: Shelf) -> int:
    """How many steps of a run its minutes hold, by the median step of three."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / name
        end = {"steps": QUICK_STEPS} if shelf.quick else {"minutes": PACE_MINUTES}
        shelf.train(name, out, end)
        journal = (out / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in journal]
    times = [record["seconds"] for record in records if "rate" in record]
    step = statistics.median(later - sooner for sooner, later in pairwise(times))
    return int(RUNS[name].minutes * 60 / step)


def pairs(path: Path) -> list[dict[str, str]]:
    """The pairs of a file."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def make(name: str, shelf: Shelf) -> Cell:
    """Train a model and measure its translations."""
    begun = time.time()
    folder = shelf.model(name)
    made = json.loads((folder / "firth.json").read_text())["made"]
    settings = {key: made["settings"][key] for key in ("size", "batch", "rate", "dropout")}
    predictor = firth.load(folder)
    rows = pairs(shelf.file(name, "test"))
    said = [one.translation for one in predictor.translate([row["src"] for row in rows])]
    cell: Cell = {
        "name": name,
        "steps": made["steps"],
        "best_step": made["best_step"],
        "settings": settings,
        "perplexity": made["metrics"]["perplexity"],
        **measured(rows, said, RUNS[name].languages[1]),
        "greedy": bleu(rows, [one.translation for one in greedy(predictor, rows)]),
        "commit": commit(),
    }
    if RUNS[name].data == GERMAN:
        cell["by_length"] = by_length(rows, said)
        later = pairs(shelf.file(name, "test2017"))
        translated = predictor.translate([row["src"] for row in later])
        cell["test2017"] = bleu(later, [one.translation for one in translated])
    if RUNS[name].data == FRENCH:
        found = predictor.translate(TWO_SENTENCES, top=3)
        cell["sentences"] = {
            source: [candidate.translation for candidate in one.candidates]
            for source, one in zip(TWO_SENTENCES, found, strict=True)
        }
    return cell | {"seconds": round(time.time() - begun, 1)}


def greedy(predictor: Predictor, rows: Sequence[dict[str, str]]) -> list[firth.Translation]:
    """Translations by the likeliest token each time."""
    return predictor.translate([row["src"] for row in rows], beam=1)


def tally(rows: Sequence[dict[str, str]], said: Sequence[str]) -> TranslationTally:
    """Translations added up beside their references."""
    found = TranslationTally()
    for row, translation in zip(rows, said, strict=True):
        found.add(row["tgt"], translation)
    return found


def bleu(rows: Sequence[dict[str, str]], said: Sequence[str]) -> float:
    """sacreBLEU of translations."""
    return tally(rows, said).scores()["bleu"].value


def measured(rows: Sequence[dict[str, str]], said: Sequence[str], language: str) -> Cell:
    """Every figure of the translations of a test set."""
    found = tally(rows, said)
    references = [row["tgt"] for row in rows]
    return {
        "scores": {name: one._asdict() for name, one in found.scores().items()},
        "signatures": found.signatures,
        "multi_bleu": multi_bleu(references, said, language, lower=False),
        "multi_bleu_lower": multi_bleu(references, said, language, lower=True),
    }


def multi_bleu(
    references: Sequence[str], said: Sequence[str], language: str, lower: bool
) -> float | None:
    """BLEU of text that sacremoses tokenised, without smoothing; None where the library is missing."""
    from sacrebleu.metrics.bleu import BLEU

    try:
        from sacremoses import MosesTokenizer
    except ImportError:
        print("multi-bleu needs: pip install sacremoses", flush=True)
        return None
    tokenizer = MosesTokenizer(lang=language)

    def tokenised(texts: Sequence[str]) -> list[str]:
        return [tokenizer.tokenize(text, return_str=True, escape=False) for text in texts]

    metric = BLEU(tokenize="none", smooth_method="none", lowercase=lower, force=True)
    return metric.corpus_score(tokenised(said), [tokenised(references)]).score


def by_length(rows: Sequence[dict[str, str]], said: Sequence[str]) -> list[Cell]:
    """sacreBLEU of sentences whose sources have so many words."""
    groups: list[list[int]] = [[] for _ in range(len(LIMITS) + 1)]
    sizes = [len(row["src"].split()) for row in rows]
    for number, size in enumerate(sizes):
        group = sum(size > limit for limit in LIMITS)
        groups[group].append(number)
    found = []
    for members in filter(None, groups):
        score = bleu([rows[i] for i in members], [said[i] for i in members])
        words = statistics.mean(sizes[i] for i in members)
        found.append({"words": round(words, 2), "sentences": len(members), "bleu": score})
    return found


def alignments(shelf: Shelf) -> None:
    """Print which word of the source each word of five translations comes from."""
    for name in ("attention", "transformer"):
        predictor = firth.load(shelf.model(name))
        for source, one in zip(ALIGNED, predictor.translate(ALIGNED, align=True), strict=True):
            words = [f"{pair.target} <- {pair.source}" for pair in one.alignment]
            print(f"{name}: {source}\n  {one.translation}\n  {', '.join(words)}", flush=True)


def table() -> None:
    """Print the finished cells."""
    print("| run | minutes | steps | sacreBLEU | greedy | chrF | multi-bleu | in small letters |")
    print("|---|---|---|---|---|---|---|---|")
    for cell in CELLS():
        value, low, high = (cell["scores"]["bleu"][key] for key in ("value", "low", "high"))
        figures = (
            f"{value:.1f} ({low:.1f} to {high:.1f})",
            f"{cell['greedy']:.1f}",
            f"{cell['scores']['chrf']['value']:.1f}",
            *(f"{cell[name] or 0:.1f}" for name in ("multi_bleu", "multi_bleu_lower")),
        )
        minutes = RUNS[cell["name"]].minutes
        print(f"| {cell['name']} | {minutes} | {cell['steps']:,} | {' | '.join(figures)} |")
    for cell in CELLS():
        for group in cell.get("by_length", []):
            words, count = group["words"], group["sentences"]
            print(f"{cell['name']}: {words} words, {count} sentences: {group['bleu']:.1f}")
        for source, translations in cell.get("sentences", {}).items():
            print(f"{source}\n  " + "\n  ".join(translations))


def plot(folder: Path) -> None:
    """Draw BLEU by the length of the source for the three models."""
    found = CELLS.by_name()
    lines = {
        name: [(group["words"], group["bleu"]) for group in found[name]["by_length"]]
        for name in COMPARED
        if name in found
    }
    drawn = chart("sacreBLEU by words of the source, English to German", lines, "words")
    (folder / "translate.svg").write_text(drawn, encoding="utf-8")


def main() -> None:
    """Do the part that was asked for."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ("pace", "runs", "alignments", "spans", "speed", "decode", "table", "plot")
    arguments.add_argument("part", nargs="?", choices=parts, default="table")
    arguments.add_argument("names", nargs="*", metavar="NAME", help="runs, all without it")
    arguments.add_argument("--quick", action="store_true", help="a trial; nothing is written down")
    arguments.add_argument("--steps", type=int, default=100, help="that speed is measured over")
    arguments.add_argument("--rounds", type=int, default=7, help="of decode, the best counts")
    arguments.add_argument("--threads", type=int, default=usual())
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    if options.part == "table":
        table()
        return
    if options.part == "plot":
        plot(Path(*options.names))
        return
    if options.part in ("speed", "decode"):
        from benchmarks import translate_speed

        work = getattr(translate_speed, options.part)
        work(options)
        return
    strange = [name for name in options.names if name not in RUNS]
    if strange and options.part != "spans":
        arguments.error(f"{strange[0]!r} is none of {', '.join(RUNS)}")

    keep_heap()
    torch.set_num_threads(options.threads)
    names = options.names or list(RUNS)
    with tempfile.TemporaryDirectory() as place:
        models = Path(place) if options.quick else Path(os.environ["FIRTH_MODELS"])
        shelf = Shelf(Path(os.environ["FIRTH_DATA"]), models, options.quick)
        if options.part == "alignments":
            alignments(shelf)
            return
        if options.part == "spans":
            from benchmarks import translate_spans

            translate_spans.spans(options, shelf)
            return
        for name in names:
            if options.part == "pace":
                minutes = RUNS[name].minutes
                print(f"{name}: {pace(name, shelf):,} steps in {minutes} minutes", flush=True)
            elif options.quick:
                print(json.dumps(make(name, shelf)), flush=True)
            elif name not in CELLS.by_name():
                CELLS.add(make(name, shelf))


if __name__ == "__main__":
    main()
