"""How fast a Transformer learns beside torch's own, and translates beside transformers' Marian: parts of benchmarks.translate."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock
from zlib import crc32

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import firth as toolkit
from benchmarks.contender import Contender, answering, peak_memory, timed
from benchmarks.finetune import Turns, first_rows
from benchmarks.table import Row, show
from firth.base.threads import keep_heap
from firth.data.batch import Batch
from firth.data.sides import PairFeed
from firth.folders.read import load
from firth.models.search import Beam, Greedy
from firth.models.translate import translate
from firth.nn.position import sinusoids
from firth.recipes.newpair import plan_pair_model
from firth.recipes.settings import FinetuneSettings
from firth.tasks.registry import readers
from firth.tasks.translate import Translate

MODULE = "benchmarks.translate_speed"
OURS, THEIRS = "firth", "torch"
DATA = "multi30k_en_de"
PIECES = 8_000
BATCH, DROPOUT, SMOOTHING, RATE, LENGTH = 4096, 0.3, 0.1, 1e-3, 256
TURN, WARM_UP = 10, 3  # steps
AHEAD = 1000  # epochs, so that a run is stopped long before it ends
QUICK_ROWS, QUICK_BATCH = 1_000, 256
GOAL_TRAINING, GOAL_DECODING = 1.5, 1.2


def speed(options: argparse.Namespace) -> None:
    """Let both train in turn, and show tokens a second."""
    steps = 2 * TURN if options.quick else options.steps
    given = ["--threads", str(options.threads), "--steps", str(steps)]
    given += ["--quick"] if options.quick else []
    both = {}
    for who in (OURS, THEIRS):
        both[who] = Contender(MODULE, who, *given)
        both[who].ask(str(WARM_UP))  # the other is started when this one waits
        both[who].ask("tokens")
    turns = [min(TURN, steps - begun) for begun in range(0, steps, TURN)]
    seconds: dict[str, list[float]] = {who: [] for who in both}
    tokens: dict[str, list[float]] = {who: [] for who in both}
    for turn in turns:
        for who, contender in both.items():
            seconds[who].append(contender.ask(str(turn)))
            tokens[who].append(contender.ask("tokens"))
    memory = {who: contender.ask("memory") for who, contender in both.items()}
    for contender in both.values():
        contender.process.communicate()  # at the end of its input it ends too

    pace = {who: sum(tokens[who]) / sum(seconds[who]) for who in both}
    middle = {
        who: statistics.median(t / s for t, s in zip(tokens[who], seconds[who], strict=True))
        for who in both
    }
    against = "torch's nn.Transformer, padded"
    ours, theirs = pace[OURS], pace[THEIRS]
    rows = [
        Row("training", ours, theirs, against, ours / theirs, "tokens/s", GOAL_TRAINING),
        Row(
            "median turn",
            middle[OURS],
            middle[THEIRS],
            against,
            middle[OURS] / middle[THEIRS],
            "tokens/s",
        ),
        Row(
            "peak memory",
            memory[OURS],
            memory[THEIRS],
            against,
            memory[THEIRS] / memory[OURS],
            "MB",
        ),
    ]
    show(rows, options.json)


class Tokens:
    """Counts the real tokens that were read since it was asked last."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> float:
        """Give the count, and begin anew."""
        count, self.count = self.count, 0
        return float(count)


def corpus(place: Path, quick: bool) -> Path:
    """The pairs that both learn from."""
    path = Path(os.environ["FIRTH_DATA"]) / DATA / "train.jsonl.gz"
    return first_rows(path, QUICK_ROWS if quick else None, place / "train.jsonl")


def settings(train: Path, place: Path, threads: int, batch: int) -> dict[str, Any]:
    """What `finetune` is told, and what torch's model is made of."""
    return {
        "model": "transformer",
        "size": "mini",
        "train": str(train),
        "dev": str(train),
        "out": str(place / "model"),
        "batch": batch,
        "rate": RATE,
        "dropout": DROPOUT,
        "smoothing": SMOOTHING,
        "average": 0.0,
        "threads": threads,
        "workers": 0,
        "save_every": 1 << 40,
        "epochs": float(AHEAD),
    }


def train_ours(train: Path, place: Path, threads: int, batch: int, tokens: Tokens) -> None:
    """`firth finetune`, without measuring before its first turn."""
    real = PairFeed.batch

    def counted(feed: PairFeed, *given: Any) -> Batch:
        made = real(feed, *given)
        tokens.count += made.tokens
        return made

    given = settings(train, place, threads, batch)
    few = first_rows(train, 8, place / "few.jsonl") if train.suffix == ".gz" else train
    with mock.patch.object(PairFeed, "batch", counted):
        toolkit.finetune("translate", **{**given, "dev": str(few)})


class Padded(NamedTuple):
    """Pairs of like length as rectangles."""

    source: Tensor  # (B, S)
    read: Tensor  # (B, U) what the decoder reads
    target: Tensor  # (B, U), -100 where there is none


class Plain(nn.Module):
    """nn.Transformer with embeddings, positions and an output layer that shares the table."""

    def __init__(self, sizes: Any) -> None:
        super().__init__()
        s = sizes
        self.table = nn.Embedding(s.vocab, s.width)
        self.body = nn.Transformer(
            s.width, s.heads, s.depth, s.depth, s.inner, DROPOUT, batch_first=True
        )
        # Ours has the layers as published, normalised after each part, and no norms above them.
        self.body.encoder.norm = None
        self.body.decoder.norm = None
        self.scale = s.width**0.5
        self.waves = sinusoids(LENGTH + 1, s.width, True)
        self.drop = nn.Dropout(DROPOUT)
        nn.init.normal_(self.table.weight, std=s.width**-0.5)

    def embed(self, ids: Tensor) -> Tensor:
        """Vectors with positions."""
        return self.drop(self.table(ids) * self.scale + self.waves[: ids.shape[1]])

    def forward(self, batch: Padded) -> Tensor:
        """The summed loss of a batch, smoothed."""
        padding = batch.source == 0
        ahead = nn.Transformer.generate_square_subsequent_mask(batch.read.shape[1]) < 0
        x = self.body(
            self.embed(batch.source),
            self.embed(batch.read),
            tgt_mask=ahead,
            src_key_padding_mask=padding,
            tgt_key_padding_mask=batch.target == -100,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        # Rows of padding need no logits.
        said = batch.target != -100
        logits = F.linear(x[said], self.table.weight)
        return F.cross_entropy(
            logits, batch.target[said], label_smoothing=SMOOTHING, reduction="sum"
        )


def train_theirs(train: Path, place: Path, threads: int, batch: int, tokens: Tokens) -> None:
    """The same model of torch's own layers: batches of pairs of like length, padded."""
    from firth.reading.readers import Reading

    s = FinetuneSettings.given({**settings(train, place, threads, batch), "task": "translate"})
    rows = Reading(train, readers=readers("translate"))
    examples = [row.example for row in rows if row.example is not None]
    planned = plan_pair_model(s, examples, quiet=True)
    task = Translate()
    sources = [one.ids for (one,) in task.encode(examples, planned.tokenizer)]
    targets = task.encode_targets(examples, planned.tokenizer, planned.settings.end)
    torch.manual_seed(1)
    model = Plain(planned.settings)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.01, fused=True
    )
    batches = list(sorted_batches(sources, targets, batch))
    order = np.random.default_rng(1)
    while True:
        for number in order.permutation(len(batches)):
            chosen = batches[number]
            rectangles = padded(
                [sources[i] for i in chosen], [targets[i] for i in chosen], planned.settings.start
            )
            count = sum(len(targets[i]) for i in chosen)
            tokens.count += count + sum(len(sources[i]) for i in chosen)
            (model(rectangles) / count).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def sorted_batches(
    sources: list[list[int]], targets: list[list[int]], batch: int
) -> Iterator[list[int]]:
    """Pairs in the order of their lengths, so many target tokens together."""
    chosen: list[int] = []
    count = 0
    for number in sorted(range(len(sources)), key=lambda i: (len(sources[i]), len(targets[i]))):
        chosen.append(number)
        count += len(targets[number])
        if count >= batch:
            yield chosen
            chosen, count = [], 0
    if chosen:
        yield chosen


def padded(sources: list[list[int]], targets: list[list[int]], start: int) -> Padded:
    """Rectangles of some pairs; 0 is the padding."""

    def rectangle(rows: list[list[int]], fill: int) -> Tensor:
        tensors = [torch.tensor(row) for row in rows]
        return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=fill)

    read = [[start, *target[:-1]] for target in targets]
    return Padded(rectangle(sources, 0), rectangle(read, 0), rectangle(targets, -100))


# Translating beside transformers' Marian


MARIAN = {
    "vocab_size": PIECES,
    "d_model": 256,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 1024,
    "decoder_ffn_dim": 1024,
    "max_position_embeddings": 256,
    "activation_function": "swish",
    "scale_embedding": False,  # so that a token isn't written again and again
    "decoder_start_token_id": PIECES - 1,
    "pad_token_id": PIECES - 1,
    "eos_token_id": 0,
    "forced_eos_token_id": None,
    "init_std": 0.1,
}
NEW = 40  # tokens of each translation: random weights hardly ever end one


class Job(NamedTuple):
    """What is translated."""

    name: str
    lengths: tuple[int, ...]  # of the sources
    beams: int


JOBS = {
    "one": Job("greedy, 1 source of 15", (15,), 1),
    "many": Job("greedy, 32 sources of 5 to 36", tuple(range(5, 37)), 1),
    "one-beam": Job("4 beams, 1 source of 15", (15,), 4),
    "beams": Job("4 beams, 32 sources of 5 to 36", tuple(range(5, 37)), 4),
}
Translating = Callable[[Job], list[list[int]]]  # the new tokens of each source


def decode(options: argparse.Namespace) -> None:
    """Run both in turn, round after round; the best of each counts."""
    with tempfile.TemporaryDirectory() as folder:
        make_marian(Path(folder))
        given = ("--threads", str(options.threads), "--place", folder)
        both = {who: Contender(MODULE, who, *given) for who in ("marian-firth", "marian")}
        ours, theirs = both.values()
        for key, job in JOBS.items():  # which also warms up
            same = [contender.ask(f"hash {key}") for contender in both.values()]
            assert same[0] == same[1], f"{job.name}: other tokens"
        rows = []
        for key, job in JOBS.items():
            rounds = range(1 if options.quick else options.rounds)
            seconds = [(ours.ask(key), theirs.ask(key)) for _ in rounds]
            mine, their = (min(column) for column in zip(*seconds, strict=True))
            count = NEW * len(job.lengths)
            against = "transformers' Marian"
            rows.append(
                Row(
                    job.name,
                    count / mine,
                    count / their,
                    against,
                    their / mine,
                    "tokens/s",
                    GOAL_DECODING,
                )
            )
    show(rows, options.json)


def make_marian(folder: Path) -> None:
    """Write a Marian with random weights, by the library that will open it."""
    code = (
        "import sys, torch\n"
        f"from {MODULE} import MARIAN\n"
        "from transformers import MarianConfig, MarianMTModel\n"
        "torch.manual_seed(0)\n"
        "MarianMTModel(MarianConfig(**MARIAN)).save_pretrained(sys.argv[1])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True)
    from firth.text.tokenizer import Tokenizer

    words = [f"w{number}" for number in range(100)]
    Tokenizer.train([" ".join(words)], "words", 200).save(folder)


def sources_of(job: Job) -> list[list[int]]:
    """Random sources, each with the end mark."""
    draw = np.random.default_rng(len(job.lengths))
    return [[*draw.integers(1, PIECES - 1, length - 1).tolist(), 0] for length in job.lengths]


def marian_ours(folder: Path) -> Translating:
    """Firth's decoding."""
    model = load(folder).translator

    def work(job: Job) -> list[list[int]]:
        rows = sources_of(job)
        ids = torch.tensor([number for row in rows for number in row])
        lengths = torch.tensor([len(row) for row in rows])
        how = Greedy() if job.beams == 1 else Beam(job.beams)
        return [found[0].ids for found in translate(model, ids, lengths, how, most=NEW)]

    return work


def marian_theirs(folder: Path) -> Translating:
    """Their `generate` with its cache."""
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(folder).eval()
    pad = PIECES - 1

    def work(job: Job) -> list[list[int]]:
        rows = [torch.tensor(row) for row in sources_of(job)]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
        found = model.generate(
            ids,
            attention_mask=(ids != pad).long(),
            max_new_tokens=NEW,
            num_beams=job.beams,
            do_sample=False,
            use_cache=True,
            length_penalty=1.0,
            early_stopping=False,
            bad_words_ids=[[pad]],
        )
        texts = []
        for row in found[:, 1:].tolist():
            end = row.index(0) + 1 if 0 in row else len(row)
            texts.append([token for token in row[:end] if token != pad])
        return texts

    return work


def serve(work: Translating) -> None:
    """Answer the questions of the comparing process, one a line."""
    answers = answering()
    for line in sys.stdin:
        what, _, rest = line.strip().partition(" ")
        if what == "hash":
            answer = float(crc32(json.dumps(work(JOBS[rest])).encode()))
        elif what == "memory":
            answer = peak_memory()
        else:
            answer = timed(partial(work, JOBS[what]))
        print(answer, file=answers, flush=True)


def main() -> None:
    """Be one of the compared."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--contender", required=True)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--steps", type=int, default=0)
    arguments.add_argument("--place", type=Path)
    arguments.add_argument("--quick", action="store_true")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    if options.contender == "marian":
        serve(marian_theirs(options.place))
        return
    keep_heap()
    if options.contender == "marian-firth":
        serve(marian_ours(options.place))
        return
    tokens = Tokens()
    Turns(tokens=tokens)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        train = corpus(place, options.quick)
        work = train_ours if options.contender == OURS else train_theirs
        batch = QUICK_BATCH if options.quick else BATCH
        work(train, place, options.threads, batch, tokens)


if __name__ == "__main__":
    main()
