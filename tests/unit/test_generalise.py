"""A network that has words as vectors expects sentences that it never read: the example of Bengio et al., 2003."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from firth.models.counts import NGramSettings, Sentences
from firth.models.ffnn import Ffnn, FfnnSettings
from firth.models.ngram import NGram

GIVEN = ["the cat is walking in the bedroom", "a dog was running in a room"]
FRAMES = product(
    ("the", "a"),
    ("cat", "dog"),
    ("is", "was"),
    ("walking", "running"),
    ("the", "a"),
    ("bedroom", "room"),
)
EVERY = [f"{a} {who} {be} {does} in {b} {where}" for a, who, be, does, b, where in FRAMES]
UNSEEN = "the dog was walking in the room"
SHUFFLED = [
    "room the in walking was dog the",
    "walking the room was in dog the",
    "in the was dog room walking the",
]
IDS = {
    word: number
    for number, word in enumerate(
        ["</s>", *sorted({word for line in EVERY for word in line.split()})]
    )
}
ORDER, STEPS = 6, 60


def stream(lines: Sequence[str]) -> tuple[Tensor, Tensor]:
    words = [[*line.split(), "</s>"] for line in lines]
    return torch.tensor([IDS[word] for line in words for word in line]), torch.tensor(
        [len(line) for line in words]
    )


def lesson(seed: int, count: int) -> list[str]:
    """The two sentences of the example, and others, up to a count, in which a word stands where its like does."""
    others = [line for line in EVERY if line not in (*GIVEN, UNSEEN)]
    chosen = np.random.default_rng(seed).permutation(len(others))[: count - len(GIVEN)]
    return GIVEN + [others[number] for number in chosen]


def counted(lines: Sequence[str]) -> NGram:
    ids, lengths = stream(lines)
    return NGram.fit(
        [Sentences(ids.numpy(), lengths.numpy())],
        NGramSettings(vocab=len(IDS), start=len(IDS), end=0, order=ORDER),
    )


def taught(lines: Sequence[str], seed: int) -> Ffnn:
    torch.manual_seed(seed)
    model = Ffnn(FfnnSettings(vocab=len(IDS), start=len(IDS), end=0, order=ORDER, width=4, inner=8))
    descent = torch.optim.AdamW(model.parameters(), lr=2e-2, weight_decay=0.0)
    for _ in range(STEPS):
        descent.zero_grad()
        scores, _ = model.score(*stream(lines))
        (-scores.mean()).backward()
        descent.step()
    return model.eval()


@torch.no_grad()
def likely(model: NGram | Ffnn, lines: Sequence[str]) -> list[float]:
    """The log-probability of each sentence."""
    ids, lengths = stream(lines)
    scores, _ = model.score(ids, lengths)
    return [part.sum().item() for part in scores.split(lengths.tolist())]


@pytest.mark.parametrize("count", [2, 10])
@pytest.mark.parametrize("seed", range(6))
def test_a_network_expects_what_is_like_what_it_read_and_counts_do_not(
    seed: int, count: int
) -> None:
    lines = lesson(seed, count)
    assert UNSEEN not in lines
    assert all(sorted(line.split()) == sorted(UNSEEN.split()) for line in SHUFFLED)
    found = {}
    for name, model in (("counts", counted(lines)), ("network", taught(lines, seed))):
        unseen, *shuffled = likely(model, [UNSEEN, *SHUFFLED])
        found[name] = unseen, unseen - max(shuffled)
    (counted_score, counted_lead), (network_score, network_lead) = found["counts"], found["network"]
    assert network_score > counted_score + 0.5
    assert network_lead > counted_lead + 3
