"""A head for hidden words on the frozen `minilm`, learned from Wikipedia, and what it can name.

    FIRTH_DATA=... FIRTH_MODELS=... python -m benchmarks.fill [--minutes 20] [--ship]

The head is a dense layer, a norm and a bias over the encoder's own table. It is shipped in the package only if it has the right
word among its first five for at least 8 of 20 words that a fixed seed hides in text which it never saw.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch

from firth.base.clock import Clock
from firth.base.files import write_arrays
from firth.base.threads import keep_heap, usual
from firth.corpus.cloze import Cloze
from firth.corpus.mask import Masker
from firth.corpus.pairs import SPECIAL, Pairs, passages
from firth.corpus.shards import open_shards
from firth.folders.find import find
from firth.recipes.objectives import MaskedObjective
from firth.recipes.start import going_on
from firth.text.tokenizer import Tokenizer
from firth.train import checkpoint
from firth.train.learner import Learner
from firth.train.loop import Loop, load_weights
from firth.train.processes import Processes
from firth.train.run import Run
from firth.train.settings import TrainSettings

LENGTH, SEED, BLANKS, LETTERS, TOP, NEEDED = 128, 1, 20, 4, 5, 8
SHIPPED = Path(__file__).parents[1] / "firth" / "samples" / "minilm-fill.safetensors"


def learn(data: Path, place: Path, minutes: float) -> Learner:
    """Train the head alone."""
    tokenizer = Tokenizer.open(find("minilm"))
    bundle, _ = going_on("minilm", None, 0.0, False, SEED)
    bundle.encoder.requires_grad_(False)
    learner = Learner(bundle.encoder, bundle.head, MaskedObjective())
    feeds = []
    for name in ("wikipedia_en", "wikipedia_en.dev"):
        shards = open_shards(place / "data", [data / "corpus" / f"{name}.txt.gz"], tokenizer)
        feeds.append(
            Pairs(
                shards,
                passages(shards, LENGTH - SPECIAL),
                tokenizer,
                LENGTH - SPECIAL,
                SEED,
                Masker(tokenizer),
                False,
            )
        )
    run = Run(place)
    settings = TrainSettings(seed=SEED, seconds=minutes * 60, batch=4096, lr=2e-3)
    with run.locked():
        outcome = Loop(learner, feeds[0], feeds[1], settings, run, Processes(), Clock()).train()
        if outcome.best != outcome.steps:
            load_weights(learner, checkpoint.load_checkpoint(run.checkpoints, outcome.best))
    print(json.dumps({"steps": outcome.steps, **outcome.metrics}))
    return learner


def named(learner: Learner, data: Path, place: Path) -> int:
    """How many of the hidden words stand among the first five."""
    tokenizer = Tokenizer.open(find("minilm"))
    shards = open_shards(place / "data", [data / "corpus" / "wikipedia_en.dev.txt.gz"], tokenizer)
    feed = Cloze(shards, passages(shards, LENGTH - SPECIAL), tokenizer, SEED, BLANKS, LETTERS)
    right = 0
    with torch.inference_mode():
        for number in range(BLANKS):
            batch = feed.batch(0, np.array([number]))
            hidden = learner.encoder(*batch.stream)
            best = (
                learner.head.masked(hidden.tokens[batch.targets["places"]])[0]
                .topk(TOP)
                .indices.tolist()
            )
            word = int(batch.targets["words"][0])
            right += word in best
            print(
                f"{tokenizer.piece(word):16} {'yes' if word in best else 'no ':4} {', '.join(tokenizer.piece(i) for i in best)}"
            )
    return right


def main() -> None:
    """Learn, ask, and ship if it is good enough."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--minutes", type=float, default=20.0)
    arguments.add_argument(
        "--ship", action="store_true", help="write the head into the package if it is good enough"
    )
    options = arguments.parse_args()
    keep_heap()
    torch.set_num_threads(usual())
    data, place = Path(os.environ["FIRTH_DATA"]), Path(os.environ["FIRTH_MODELS"]) / "minilm-fill"
    learner = learn(data, place, options.minutes).eval()
    right = named(learner, data, place)
    print(f"{right} of {BLANKS} words are among the first {TOP}; {NEEDED} are needed")
    if options.ship and right >= NEEDED:
        own = {
            name: tensor
            for name, tensor in learner.head.state_dict().items()
            if name != "masked.table"
        }
        written = write_arrays(SHIPPED, {name: tensor.numpy() for name, tensor in own.items()})
        print(f"{SHIPPED.name}: {written.size:,} bytes, sha256 {written.sha256}")


if __name__ == "__main__":
    main()
