"""Steps of an epoch and pieces of a step: every example once, nearly the same number of tokens each."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.base.errors import InputError
from firth.data.feed import Steps, micro_batches
from firth.samples.texts import TEXTS

SIZES = np.array([len(line.split()) for lines in TEXTS.values() for line in lines] * 40)
Sizes = st.lists(st.integers(1, 128), min_size=1, max_size=200).map(np.array)


def numbers(steps: Steps, epoch: int) -> list[np.ndarray]:
    made = [steps.at(epoch * steps.per_epoch + index) for index in range(steps.per_epoch)]
    assert all(step.epoch == epoch for step in made)
    return [step.numbers for step in made]


@pytest.mark.parametrize("budget", [100, 1000, 5000, 10**9])
def test_the_steps_of_an_epoch_are_its_examples(budget: int) -> None:
    steps = Steps(SIZES, 3, budget)
    for epoch in (0, 1, 7):
        found = numbers(steps, epoch)
        assert sorted(np.concatenate(found).tolist()) == list(range(len(SIZES)))
        mean = SIZES.sum() / steps.per_epoch
        for part in found:
            assert abs(SIZES[part].sum() - mean) <= SIZES.max()
    assert budget > SIZES.sum() or abs(mean - budget) < 0.1 * budget


@given(Sizes, st.integers(1, 3000), st.integers(0, 2**40), st.integers(0, 50))
def test_no_step_is_empty_and_none_is_lost(
    sizes: np.ndarray, budget: int, seed: int, epoch: int
) -> None:
    found = numbers(Steps(sizes, seed, budget), epoch)
    assert all(len(part) for part in found)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(sizes)))


def test_a_step_is_a_function_of_seed_and_number(seed: int) -> None:
    asked = np.random.default_rng(seed).integers(0, 500, 60).tolist()
    fresh = {step: Steps(SIZES, 5, 700).at(step).numbers.tolist() for step in asked}
    shared = Steps(SIZES, 5, 700)
    found: list[tuple[int, list[int]]] = []

    def ask(order: list[int]) -> None:
        found.extend((step, shared.at(step).numbers.tolist()) for step in order)

    threads = [threading.Thread(target=ask, args=(asked[::way],)) for way in (1, -1, 1, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 * len(asked)
    assert all(made == fresh[step] for step, made in found)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [
        np.concatenate(numbers(Steps(SIZES, seed, 700), epoch)).tolist()
        for seed in (0, 1)
        for epoch in (0, 1, 2)
    ]
    assert len({tuple(order) for order in orders}) == len(orders)
    common = sum(a == b for a, b in zip(orders[0], orders[1], strict=True))
    assert common < 10  # of 1,440; one is expected by chance


@given(Sizes, st.integers(1, 3000), st.integers(1, 4))
def test_pieces_part_a_step(sizes: np.ndarray, budget: int, processes: int) -> None:
    if len(sizes) < processes:
        with pytest.raises(
            InputError,
            match=rf"^a step has {len(sizes)} examples for {processes} processes; ask for more tokens",
        ):
            micro_batches(sizes, budget, processes)
        return
    found = micro_batches(sizes, budget, processes)
    assert len(found) % processes == 0
    assert all(len(piece) for piece in found)
    order = np.concatenate(found)
    assert sorted(order.tolist()) == list(range(len(sizes)))
    assert (np.diff(sizes[order]) <= 0).all()
    assert len(found) <= processes * -(-int(sizes.sum()) // budget)


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_pieces_are_balanced_and_near_the_budget(processes: int) -> None:
    step = Steps(SIZES, 1, 2000).at(4).numbers
    sizes = SIZES[step]
    for budget in (100, 250, 600, 2000, 10_000):
        totals = [sizes[piece].sum() for piece in micro_batches(sizes, budget, processes)]
        assert max(totals) - min(totals) <= 2 * sizes.max()
        assert max(totals) <= budget + sizes.max()
        assert len(totals) < sizes.sum() / budget + processes


def test_equal_examples_are_shared_equally() -> None:
    assert [len(piece) for piece in micro_batches(np.full(4, 10), 20)] == [2, 2]
    assert [len(piece) for piece in micro_batches(np.full(12, 7), 21, 2)] == [3, 3, 3, 3]
    assert [len(part) for part in numbers(Steps(np.full(60, 9), 0, 27), 0)] == [3] * 20


def test_examples_longer_than_the_budget_stand_alone() -> None:
    steps = Steps(np.full(5, 100), 0, 30)
    assert steps.per_epoch == 5
    assert [len(part) for part in numbers(steps, 2)] == [1] * 5
    assert [piece.tolist() for piece in micro_batches(np.array([40, 100, 60]), 30)] == [
        [1],
        [2],
        [0],
    ]


def test_pieces_depend_on_sizes_alone() -> None:
    sizes = SIZES[:50]
    assert [p.tolist() for p in micro_batches(sizes, 90, 2)] == [
        p.tolist() for p in micro_batches(sizes.copy(), 90, 2)
    ]


WORKER = """
import os, threading
os.sched_setaffinity(0, range(os.cpu_count()))  # a test's process may be held to one core, where no team is ever started
import torch
from firth.folders.find import find
from firth.data.batch import make_batch
from firth.text.tokenizer import Tokenizer

torch.set_num_threads(2)
(torch.ones(512, 512) @ torch.ones(512, 512)).sum()  # starts the team of the main thread
rows = Tokenizer.open(find("minilm")).encode(["A batch of a few thousand tokens, made beside a step. " * 30] * 40)
before = set(os.listdir("/proc/self/task"))
made, counted = threading.Event(), threading.Event()  # a team goes with its thread


def work():
    assert len(make_batch(rows).ids) > 10_000
    made.set()
    counted.wait()


worker = threading.Thread(target=work)
worker.start()
made.wait()
print(len(set(os.listdir("/proc/self/task")) - before))
counted.set()
worker.join()
"""


def test_a_worker_starts_no_team_of_threads() -> None:
    """One that does makes every later step of the main thread half as long again: the teams then wait asleep."""
    done = subprocess.run(
        [sys.executable, "-c", WORKER], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "1\n"  # itself
