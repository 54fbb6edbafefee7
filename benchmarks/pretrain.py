"""A step of pretraining: Firth against transformers' BertForPreTraining with AdamW, in one run.

Both begin with the same weights (4 layers, width 256, 30,522 pieces) and learn from the same rows with the same hidden words, in
processes of their own with two threads; rounds are interleaved and the best of each counts. Rows of 128 tokens without and with
dropout; then sentences of their own lengths, which the rival pads to the longest of each batch of 32 as they come.
    python -m benchmarks.pretrain [--quick] [--json] [--growth FILE.svg]
"""

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.contender import Contender, answering, peak_memory, timed
from benchmarks.table import Row, show
from benchmarks.texts import paragraphs
from firth.base.threads import keep_heap
from firth.corpus.mask import Masker
from firth.corpus.pairs import PretrainRow as Example
from firth.corpus.pairs import stack
from firth.families.bert import BertSettings
from firth.folders.find import find
from firth.folders.read import load
from firth.folders.write import save
from firth.models.bert import Bert
from firth.nn.linear import product
from firth.pages.chart import chart, stacked
from firth.recipes.objectives import MaskedObjective
from firth.recipes.start import fresh
from firth.tasks.head import make_head
from firth.text.sentences import sentence_spans
from firth.text.tokenizer import Tokenizer
from firth.train import optim
from firth.train.learner import Learner

os.environ["HF_HUB_OFFLINE"] = "1"
THREADS, ROWS, STEPS, RATE = 2, 32, 3, 1e-4
OURS, THEIRS = "ours", "transformers"
LENGTH = 128
SENTENCE_ROWS = 128  # sentences in a step


def rows(kind: str, length: int, count: int) -> list[Example]:
    """Examples from real text: full rows, or sentences as they are; 15 % of the words hidden."""
    tokenizer = Tokenizer.open(find("minilm"))
    assert tokenizer.cls is not None
    assert tokenizer.sep is not None
    masker, draw = Masker(tokenizer), np.random.default_rng(1)
    texts = paragraphs()
    if kind == "sentences":
        texts = [text[a:b] for text in texts for a, b in sentence_spans(text)]
        bodies = [
            row.ids[: LENGTH - 2]
            for row in tokenizer.encode(texts[: 2 * count], special=False)
            if len(row) > 1
        ][:count]
    else:
        need = (length - 2) * count
        stream: list[int] = []
        for start in range(0, len(texts), 256):
            for row in tokenizer.encode(texts[start : start + 256], special=False):
                stream += row.ids
            if len(stream) >= need:
                break
        bodies = [stream[i : i + length - 2] for i in range(0, need, length - 2)]
    found = []
    for body in bodies:
        ids = np.array([tokenizer.cls, *body, tokenizer.sep])
        hidden = masker.hide(ids, np.ones(len(ids), bool), draw)
        found.append(
            Example(
                hidden.ids,
                np.zeros(len(ids), np.int64),
                hidden.places,
                hidden.words,
                int(draw.integers(2)),
            )
        )
    return found


def their_batch(examples: list[Example]) -> dict[str, torch.Tensor]:
    """A rectangle with padding, a mask and a label everywhere."""
    longest = max(len(row) for row in examples)
    table = {
        name: np.zeros((len(examples), longest), np.int64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    table["labels"] = np.full((len(examples), longest), -100, np.int64)
    for number, row in enumerate(examples):
        table["input_ids"][number, : len(row)] = row.ids
        table["attention_mask"][number, : len(row)] = 1
        table["labels"][number, row.places] = row.words
    table["next_sentence_label"] = np.array([row.random_next for row in examples])
    return {name: torch.from_numpy(values) for name, values in table.items()}


class Trial(NamedTuple):
    """A contender with its data: one training step at a time."""

    losses: Callable[[int], torch.Tensor]
    clip: Callable[[], object]
    optimizer: torch.optim.Optimizer
    batches: int

    def step(self, number: int) -> float:
        """Learn from one batch."""
        loss = self.losses(number % self.batches)
        loss.backward()
        self.clip()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())


def ours(folder: Path, groups: list[list[Example]], dropout: float) -> Trial:
    """Firth's own parts, as its loop calls them; batches are made as they are used."""
    keep_heap()
    bundle = load(folder)
    bundle.encoder.requires_grad_(True)
    assert bundle.head is not None
    bundle.head.requires_grad_(True)
    bundle.encoder.set_dropout(dropout)
    learner = Learner(bundle.encoder, bundle.head, MaskedObjective()).train()
    optimizer = optim.make_optimizer(learner, 0.01)
    optim.set_lr(optimizer, RATE)

    def losses(number: int) -> torch.Tensor:
        batch = stack(groups[number], follow=True)
        counts = learner.objective.counts(batch)
        return torch.stack([loss / counts[name] for name, loss in learner(batch).items()]).sum()

    return Trial(losses, lambda: optim.clip_gradients(learner, 1.0), optimizer, len(groups))


def theirs(folder: Path, groups: list[list[Example]], dropout: float) -> Trial:
    """What its users write."""
    from transformers import BertForPreTraining

    model = BertForPreTraining.from_pretrained(
        folder, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    ).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=RATE, weight_decay=0.01, betas=(0.9, 0.98), eps=1e-6
    )
    clip = partial(nn.utils.clip_grad_norm_, list(model.parameters()), 1.0)
    return Trial(
        lambda number: model(**their_batch(groups[number])).loss, clip, optimizer, len(groups)
    )


def settings(folder: Path) -> BertSettings:
    """The sizes of the compared model."""
    return load(folder).encoder.settings


def shapes(s: BertSettings, tokens: int, hidden: int) -> list[tuple[int, int, int, int]]:
    """Rows, inputs, outputs and how often, of every matrix product of a forward pass."""
    body = [(s.width, 3 * s.width), (s.width, s.width), (s.width, s.inner), (s.inner, s.width)]
    return [(tokens, i, o, s.depth) for i, o in body] + [
        (hidden, s.width, s.width, 1),
        (hidden, s.width, s.vocab, 1),
    ]


def flops(s: BertSettings, examples: list[Example]) -> float:
    """Six for each linear weight and token, twelve for each pair of tokens and width of attention, and the hidden words."""
    tokens, hidden = sum(map(len, examples)), sum(len(row.places) for row in examples)
    linear = sum(6.0 * n * i * o * times for n, i, o, times in shapes(s, tokens, hidden))
    return linear + sum(12.0 * len(row) ** 2 * s.width * s.depth for row in examples)


def gemm_rate(s: BertSettings, tokens: int, hidden: int, tries: int = 10) -> float:
    """The best of ten linear layers at each of the model's own shapes, weighted by their work, in FLOP/s."""
    seconds = work = 0.0
    for n, i, o, times in shapes(s, tokens, hidden):
        x, w, b = torch.randn(n, i), torch.randn(o, i), torch.randn(o)
        seconds += times * min(timed(lambda x=x, w=w, b=b: product(x, w, b)) for _ in range(tries))
        work += 2.0 * n * i * o * times
    return work / seconds


def products(s: BertSettings, tokens: int, hidden: int) -> float:
    """Seconds for the matrix products of a step alone, one after another as it needs them: forward, and both of the way back."""
    layers = [
        (torch.randn(n, i), torch.randn(o, i), torch.randn(o))
        for n, i, o, times in shapes(s, tokens, hidden)
        for _ in range(times)
    ]

    def run() -> None:
        found = [product(*layer) for layer in layers]
        for (x, w, _), y in zip(reversed(layers), reversed(found), strict=True):
            _ = product(y, w.t()), product(y.t(), x.t())

    return timed(run)


def serve(name: str, folder: Path, kind: str, dropout: float) -> None:
    """Answer the questions of the comparing process, one a line."""
    answers = answering()
    torch.set_num_threads(THREADS)
    per_step = SENTENCE_ROWS if kind == "sentences" else ROWS
    examples = rows(kind, LENGTH, per_step * STEPS)
    # The rival gets its usual batches of 32, as many as make one of our steps' rows; both learn from all of them in a round.
    size = per_step if name == OURS else ROWS
    groups = [examples[i : i + size] for i in range(0, len(examples), size)]
    trial = (ours if name == OURS else theirs)(folder, groups, dropout)
    s = settings(folder)
    step = examples[:per_step]
    questions: dict[str, Callable[[], float]] = {
        "loss": lambda: float(trial.losses(0).detach()),
        "round": lambda: timed(lambda: [trial.step(number) for number in range(len(groups))]),
        "tokens": lambda: float(sum(map(len, examples))),
        "flops": lambda: flops(s, examples),
        "gemm": lambda: gemm_rate(s, sum(map(len, step)), sum(len(row.places) for row in step)),
        "products": lambda: (
            STEPS * products(s, sum(map(len, step)), sum(len(row.places) for row in step))
        ),
        "memory": peak_memory,
    }
    for line in sys.stdin:
        print(questions[line.strip()](), file=answers, flush=True)


class Case(NamedTuple):
    """One comparison."""

    name: str
    kind: str
    dropout: float
    goal: float


CASES = (
    Case("128 tokens, no dropout", "rows", 0.0, 2.8),
    Case("128 tokens, dropout 0.1", "rows", 0.1, 2.4),
    Case("sentences of their own lengths", "sentences", 0.0, 4.0),
)


def compare(case: Case, folder: Path, rounds: int) -> list[Row]:
    """Run both in turn, round after round, and keep the best of each."""
    options = ("--folder", str(folder), "--kind", case.kind, "--dropout", str(case.dropout))
    both = {name: Contender("benchmarks.pretrain", name, *options) for name in (OURS, THEIRS)}
    if case.kind == "rows" and not case.dropout:
        losses = [contender.ask("loss") for contender in both.values()]
        assert abs(losses[0] - losses[1]) < 1e-4, f"the two lose differently: {losses}"
    tokens, work = both[OURS].ask("tokens"), both[OURS].ask("flops")
    for contender in both.values():
        contender.ask("round")  # which warms up
    times: dict[str, list[float]] = {name: [] for name in both}
    rates, bare = [], []
    for _ in range(rounds):
        for name, contender in both.items():
            times[name].append(contender.ask("round"))
        rates.append(both[OURS].ask("gemm"))
        bare.append(both[OURS].ask("products"))
    best = {name: min(seconds) for name, seconds in times.items()}
    own, top = work / best[OURS] / 1e9, max(rates) / 1e9
    memory = {name: contender.ask("memory") for name, contender in both.items()}
    for contender in both.values():
        contender.process.terminate()
    return [
        Row(
            case.name,
            tokens / best[OURS],
            tokens / best[THEIRS],
            THEIRS,
            best[THEIRS] / best[OURS],
            "tokens/s",
            case.goal,
        ),
        Row(
            "  arithmetic",
            own,
            top,
            "best of 10 matrix products",
            own / top,
            "GFLOP/s",
            None if case.dropout else 0.75,
        ),
        Row(
            "  time for a round",
            best[OURS],
            min(bare),
            "its matrix products alone",
            min(bare) / best[OURS],
            "s",
        ),
        Row(
            "  peak memory",
            memory[OURS],
            memory[THEIRS],
            THEIRS,
            memory[THEIRS] / memory[OURS],
            "MB",
        ),
    ]


def growth(path: Path, rounds: int) -> list[Row]:
    """Seconds for 4,096 tokens as length, width and depth grow, ours; printed and drawn."""
    torch.set_num_threads(THREADS)
    found, drawings = [], []
    for what, values in (
        ("length", (32, 64, 128, 256, 512)),
        ("width", (128, 256, 384, 512, 768)),
        ("depth", (1, 2, 4, 8, 12)),
    ):
        line = []
        for value in values:
            seconds = _seconds(what, value, rounds)
            line.append((float(value), seconds))
            first = line[0]
            found.append(
                Row(
                    f"{what} {value}",
                    seconds,
                    first[1],
                    f"{what} {first[0]:.0f}",
                    seconds / first[1],
                    "s a step",
                )
            )
        drawings.append(chart(f"Seconds for 4,096 tokens by {what}", {what: line}, what))
    path.write_text(stacked(drawings), encoding="utf-8")
    return found


def _seconds(what: str, value: int, rounds: int) -> float:
    length = value if what == "length" else LENGTH
    bundle = fresh("mini", Tokenizer.open(find("minilm")), 512, 0.0, True, 1)
    sizes: dict[str, Any] = {"depth": value} if what == "depth" else {}
    if what == "width":
        sizes = {"width": value, "heads": value // 64, "inner": 4 * value}
    if sizes:
        bundle.model = Bert(bundle.encoder.settings.model_copy(update=sizes))
        bundle.head = make_head("pretrain", bundle.encoder)
    with tempfile.TemporaryDirectory() as place:
        folder = save(bundle, Path(place) / "model")
        trial = ours(folder, [rows("rows", length, 4096 // length)], 0.0)
        trial.step(0)
        return min(timed(lambda: trial.step(0)) for _ in range(rounds))


def main() -> None:
    """Run the comparison."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer rounds")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument(
        "--growth", type=Path, help="measure how cost grows instead, and draw it"
    )
    for hidden in ("contender", "folder", "kind", "dropout"):
        arguments.add_argument(f"--{hidden}", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    if options.contender:
        serve(options.contender, Path(options.folder), options.kind, float(options.dropout))
        return
    rounds = 3 if options.quick else 8
    if not options.json:
        cpu = torch.backends.cpu.get_cpu_capability()
        print(
            f"{THREADS} threads, {cpu}; the best of {rounds} interleaved rounds of {STEPS} steps, a process each"
        )
    if options.growth:
        show(growth(options.growth, rounds), options.json)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = save(
            fresh("mini", Tokenizer.open(find("minilm")), 512, 0.0, True, 1), Path(place) / "model"
        )
        show([row for case in CASES for row in compare(case, folder, rounds)], options.json)


if __name__ == "__main__":
    main()
