"""The batches of every step, prepared by threads while the step before it runs."""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from firth.data.batch import Batch
from firth.data.feed import Feed, Numbers, Order, micro_batches
from firth.train.processes import Processes

STEPS_AHEAD = 2  # that workers prepare


class Work(NamedTuple):
    """What this process does in one step."""

    numbers: list[Numbers]  # of the examples of each micro-batch
    batches: list[Batch]
    bad: list[bool]  # micro-batches with a loss that is not finite


def prepare(feed: Feed, order: Order, step: int, budget: int, processes: Processes) -> Work:
    """Make this process's micro-batches of a step, of at most about `budget` tokens each."""
    epoch, numbers = order.at(step)
    every = micro_batches(feed.sizes[numbers], budget, processes.count)
    mine = [numbers[piece] for piece in every[processes.rank :: processes.count]]
    batches = [feed.batch(epoch, piece) for piece in mine]
    return Work(mine, batches, [False] * len(mine))


def work_ahead(
    feed: Feed,
    order: Order,
    steps: Iterable[int],
    budget: int,
    processes: Processes,
    workers: int,
) -> Generator[Work]:
    """Yield the work of each step; the order never depends on the workers."""

    def make(step: int) -> Work:
        return prepare(feed, order, step, budget, processes)

    if not workers:
        yield from map(make, steps)
        return
    pool = ThreadPoolExecutor(workers)
    waiting: deque[Future[Work]] = deque()
    try:
        for step in steps:
            waiting.append(pool.submit(make, step))
            if len(waiting) > STEPS_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
