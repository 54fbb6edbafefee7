"""Who remembers? A country is named, words that say nothing about it follow, and then its language is asked for.

    python -m benchmarks.gap [NAME ...] [--list] [--table] [--plot FOLDER]

"i grew up in france . it rained . my uncle sold the red boat . i speak fluent french ." A feed-forward network, a tanh network, an
LSTM and a GPT of about as many weights learn from the same sentences, each of them once, with 0 to 50 words between the country's
sentence and the question; the loss counts every word. Then each names the language in sentences drawn anew, by the number of
words between: the likeliest of the twelve language words is its answer, and guessing is right one time in twelve. Sentences with
few words between are few, so that they were also in training; nothing but the country tells the answer in any.

A cell that is in benchmarks/results/gap.jsonl is not made again. One thread, because more gain nothing at these sizes.
"""

import math
import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.cells import Cells, command_line, commit
from firth.families.ffnn import FfnnSettings
from firth.families.gpt import GptSettings
from firth.families.rnn import RnnSettings
from firth.models.ffnn import Ffnn
from firth.models.gpt import Gpt
from firth.models.rnn import Rnn
from firth.pages.chart import chart, stacked
from firth.probes.gradient import gradient

CELLS = Cells("gap")
LANGUAGES = {
    "france": "french", "germany": "german", "italy": "italian", "spain": "spanish", "russia": "russian", "japan": "japanese",
    "china": "chinese", "sweden": "swedish", "poland": "polish", "turkey": "turkish", "greece": "greek", "finland": "finnish",
}  # fmt: skip
WHO = [
    "my mother",
    "my father",
    "my sister",
    "my uncle",
    "our neighbour",
    "the teacher",
    "a friend",
    "the baker",
    "an old man",
]
WHO += ["the children", "nobody"]
DID = "sold bought found painted cleaned lost liked kept wanted repaired".split()
WHAT = "house garden car boat table book lamp piano bicycle clock door window".split()
KIND = "old small red green quiet heavy cheap yellow broken famous".split()
WHERE = "near the river|behind the station|in the kitchen|by the sea|at the market|under the bridge|in town".split(
    "|"
)
WHEN = "today|every summer|in the morning|last week|years ago|at night|after lunch|once".split("|")
SHORT = "it rained|it snowed|time went by|nothing changed|we had dinner|the days were long|the bus was late".split(
    "|"
)
BINS = (0, *range(5, 55, 5))  # words between, up to and with these
LONGEST = BINS[-1]

SEED, SENTENCES, ROWS, ASKED = 1, 128_000, 32, 200
RATE, BETAS, CLIP, WARM = 2e-3, (0.9, 0.99), 0.5, 0.05
MODELS = {"ffnn": "feed-forward, order 6", "tanh": "tanh network", "lstm": "LSTM", "gpt": "GPT"}
TRACED = ("tanh", "lstm")
Sentence = tuple[list[str], int]  # its words, and how many stand between


def clause(draw: random.Random) -> list[str]:
    """A sentence that says nothing about countries or languages."""
    if draw.random() < 0.3:
        return [*draw.choice(SHORT).split(), "."]
    kind, where, when = (
        draw.choice(words) if draw.random() < 0.5 else "" for words in (KIND, WHERE, WHEN)
    )
    return [
        *f"{draw.choice(WHO)} {draw.choice(DID)} the {kind} {draw.choice(WHAT)} {where} {when}".split(),
        ".",
    ]


def sentence(draw: random.Random, most: int) -> Sentence:
    """The question with at most so many words between."""
    country = draw.choice(list(LANGUAGES))
    between: list[str] = []
    while len(between) + len(more := clause(draw)) <= most:
        between += more
    return [
        *f"i grew up in {country} .".split(),
        *between,
        *f"i speak fluent {LANGUAGES[country]} .".split(),
    ], len(between)


def lesson() -> list[Sentence]:
    """What all models learn from."""
    draw = random.Random(SEED)
    return [sentence(draw, draw.randint(0, LONGEST)) for _ in range(SENTENCES)]


def questions() -> dict[int, list[Sentence]]:
    """Equally many sentences for each range of words between."""
    draw = random.Random(f"questions {SEED}")
    found: dict[int, list[Sentence]] = {top: [] for top in BINS}
    while any(len(some) < ASKED for some in found.values()):
        one = sentence(draw, draw.randint(0, LONGEST))
        some = found[next(top for top in BINS if one[1] <= top)]
        if len(some) < ASKED:
            some.append(one)
    return found


def vocabulary() -> dict[str, int]:
    """The start mark and every word."""
    everything = [
        *WHO,
        *DID,
        *WHAT,
        *KIND,
        *WHERE,
        *WHEN,
        *SHORT,
        *LANGUAGES,
        *LANGUAGES.values(),
        "i grew up in speak fluent the .",
    ]
    return {
        word: number
        for number, word in enumerate(
            ["<s>", *sorted({word for words in everything for word in words.split()})]
        )
    }


def model(name: str, vocab: int) -> Ffnn | Rnn | Gpt:
    """A network of some 180,000 weights."""
    marks: dict[str, Any] = {"vocab": vocab, "start": 0}
    match name:
        case "ffnn":
            return Ffnn(FfnnSettings(**marks, order=6, width=96, inner=256))
        case "gpt":
            sizes = {"width": 64, "depth": 3, "heads": 4, "inner": 256, "length": 80}
            return Gpt(
                GptSettings(
                    **marks, **sizes, dropout=0.0, embedding_dropout=0.0, attention_dropout=0.0
                )
            )
        case "tanh":
            return Rnn(RnnSettings(**marks, cell="tanh", width=240, depth=1))
        case _:
            return Rnn(RnnSettings(**marks, cell="lstm", width=128, depth=1))


def rows(ids: dict[str, int], sentences: list[Sentence]) -> tuple[Tensor, Tensor]:
    """A stream of sentences and their lengths."""
    return torch.tensor([ids[word] for words, _ in sentences for word in words]), torch.tensor(
        [len(words) for words, _ in sentences]
    )


def learn(model: nn.Module, ids: dict[str, int], sentences: list[Sentence]) -> Iterator[float]:
    """Descend once over the sentences, and give the loss of each step."""
    descent = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, weight_decay=0.0)
    steps = len(sentences) // ROWS
    for step in range(steps):
        warm, done = min(1.0, (step + 1) / (WARM * steps)), step / steps
        descent.param_groups[0]["lr"] = RATE * warm * (0.5 + 0.5 * math.cos(math.pi * done))
        scores, _ = model.score(*rows(ids, sentences[step * ROWS : (step + 1) * ROWS]))
        loss = -scores.mean()
        descent.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        descent.step()
        yield loss.item()


@torch.no_grad()
def accuracy(model: Any, ids: dict[str, int], sentences: list[Sentence]) -> float:
    """How often the right language is the likeliest of all languages."""
    asked = [(words[:-3], between) for words, between in sentences]  # up to "i speak"
    _, state = model.score(*rows(ids, asked))
    scores, _ = model.step(torch.full((len(asked),), ids["fluent"]), state)
    choices = torch.tensor([ids[word] for word in LANGUAGES.values()])
    answers = choices[scores[:, choices].argmax(1)]
    return (
        (answers == torch.tensor([ids[words[-2]] for words, _ in sentences])).float().mean().item()
    )


def make(name: str) -> dict[str, Any]:
    """Teach one model and ask it."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    ids, begun = vocabulary(), time.time()
    network = model(name, len(ids))
    sentences = lesson()
    losses = []
    for loss in learn(network, ids, sentences):
        losses.append(loss)
        if len(losses) % 500 == 0:
            print(
                f"  {name}: step {len(losses):,}, loss {sum(losses[-500:]) / 500:.3f}, {time.time() - begun:.0f} s",
                flush=True,
            )
    network.eval()
    seconds = time.time() - begun
    asked = questions()
    cell = {
        "name": name,
        "seed": SEED,
        "weights": sum(weight.numel() for weight in network.parameters()),
        "tokens": sum(len(words) for words, _ in sentences),
        "loss": round(sum(losses[-100:]) / 100, 4),
        "accuracy": {top: round(accuracy(network, ids, some), 4) for top, some in asked.items()},
        "chance": round(1 / len(LANGUAGES), 4),
        "seconds": round(seconds, 1),
        "commit": commit(),
    }
    return cell | ({"gradient": traced(network, ids, asked[LONGEST])} if name in TRACED else {})


def traced(network: Any, ids: dict[str, int], sentences: list[Sentence]) -> list[float]:
    """What of the gradient is left at each distance, where the language is asked for after the most words between."""
    asked = [torch.tensor([ids[word] for word in words[:-1]]) for words, _ in sentences]
    return [float(f"{share:.4g}") for share in gradient(network, asked).relative.geometric]


def table() -> None:
    """Print how often each model is right."""
    found = CELLS.by_name()
    ranges = ["0", *(f"{below + 1}-{top}" for below, top in pairwise(BINS))]
    print(f"| words between | weights | {' | '.join(ranges)} |\n|---|{'---|' * (len(BINS) + 1)}")
    for name, words in MODELS.items():
        if cell := found.get(name):
            shares = " | ".join(f"{cell['accuracy'][str(top)]:.0%}" for top in BINS)
            print(f"| {words} | {cell['weights']:,} | {shares} |")


def plot(folder: Path) -> None:
    """Draw the accuracies and the gradients."""
    found = CELLS.by_name()
    shares = {
        words: [(float(top), cell["accuracy"][str(top)]) for top in BINS]
        for name, words in MODELS.items()
        if (cell := found.get(name))
    }
    slopes = {
        MODELS[name]: [
            (float(distance), value) for distance, value in enumerate(cell["gradient"], 1)
        ]
        for name in TRACED
        if (cell := found.get(name))
    }
    charts = [
        chart(
            "The language is named, by the words between (chance: 1 in 12)", shares, "words between"
        ),
        chart(
            "Gradient of the answer, by distance, relative to the word before",
            slopes,
            "words before",
            log=True,
        ),
    ]
    (folder / "gap.svg").write_text(stacked(charts), encoding="utf-8")


if __name__ == "__main__":
    command_line(__doc__, CELLS, list(MODELS), make, table, plot, needs=())
