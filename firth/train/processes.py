"""One process or many: `torchrun` starts them, they split every step, and a dead or stuck one is named."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from firth.base.errors import FirthError
from firth.base.signals import deaf

T = TypeVar("T")
BEAT = 0.2  # seconds between signs of life
SILENT = 5 * BEAT  # how long a process may give none before it counts as lost
WAITING = 10.0  # the same, while the first process works alone


class Processes:
    """The processes of a run; this one is number `rank` of `count`."""

    def __init__(self, timeout: float = 110.0) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.timeout = timedelta(seconds=timeout)
        self.arrivals = 0  # at exchanges

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def __enter__(self) -> "Processes":
        if self.count > 1:
            if self.local == self.count:  # one machine: nothing is said to a network
                os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            self.store, _, _ = next(rendezvous("env://", self.rank, self.count))
            self.store.set_timeout(self.timeout)
            dist.init_process_group(
                "gloo",
                store=self.store,
                rank=self.rank,
                world_size=self.count,
                timeout=self.timeout,
            )
            self.ended = threading.Event()
            threading.Thread(target=self._beat, args=(self.store.clone(),), daemon=True).start()
            dist.barrier()  # the first may end at once, and the store with it: no one may still be knocking at it
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        """Name the process that is to blame if an exchange failed."""
        if self.count == 1:
            return
        said = None
        if isinstance(error, RuntimeError):
            with (
                deaf()
            ):  # when one is lost, torchrun ends the others, and they have something to say
                said = self._blame()
        self.ended.set()
        if kind is None:
            with suppress(RuntimeError):  # the work is done, whoever is lost now
                dist.barrier()  # the first may keep the store that another still asks
            dist.destroy_process_group()
        if said:
            raise FirthError(f"{said} ({_first_line(error)})") from error

    def _beat(self, store: Any) -> None:
        """Tell the others, again and again, that this process lives and how far it has come."""
        beats = 0
        while not self.ended.wait(BEAT):
            beats += 1
            try:
                store.set(f"beat/{self.rank}", f"{beats} {self.arrivals}")
            except RuntimeError:  # the store went with its process; the next exchange says so
                return

    def arrive(self) -> None:
        """Count an exchange that is about to begin, so that one who never comes to it can be told from those who wait."""
        self.arrivals += 1

    def total(self, numbers: Sequence[float]) -> list[float]:
        """Sum numbers over all processes."""
        if self.count == 1:
            return list(numbers)
        self.arrive()
        tensor = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes."""
        if self.count > 1:
            self.arrive()
            tensor = tensor.clone()
            dist.all_reduce(tensor)
        return tensor

    def wrap(self, model: nn.Module) -> nn.Module:
        """Let gradients be exchanged as they are made."""
        if self.count == 1:
            return model
        return DistributedDataParallel(model, gradient_as_bucket_view=True)

    def unexchanged(self, model: nn.Module) -> AbstractContextManager[None]:
        """Keep gradients to this process for now."""
        return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()

    def first(self, name: str, work: Callable[[], T]) -> T:
        """Let the first process do something, and the others do it after, to find it done."""
        if not self.leads:
            self._wait(name)
        result = work()
        if self.leads and self.count > 1:
            self.store.set(f"done/{name}", "1")
        return result

    def alone(self, name: str, work: Callable[[], None]) -> None:
        """Let the first process do something that the others only wait for."""
        self.first(name, work if self.leads else lambda: None)

    def _wait(self, name: str) -> None:
        """Wait for as long as the first process works and lives."""
        heard, since = self._beats(WAITING), time.monotonic()
        while not self._answer(lambda: self.store.check([f"done/{name}"]), WAITING):
            time.sleep(BEAT)
            beats = self._beats(WAITING)
            if beats[0] != heard[0]:
                heard, since = beats, time.monotonic()
            elif time.monotonic() - since > WAITING:
                raise RuntimeError("the others waited for it")

    def _answer(self, question: Callable[[], T], seconds: float) -> T:
        """Ask the store; if it stands in a process that was stopped, it never answers."""
        answers: list[T] = []

        def ask() -> None:
            with suppress(RuntimeError):
                answers.append(question())

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(seconds)
        if not answers:
            raise RuntimeError("the first process doesn't answer")
        return answers[0]

    def _beats(self, seconds: float) -> list[bytes]:
        names = [f"beat/{rank}" for rank in range(self.count)]
        return self._answer(
            lambda: [self.store.get(name) if self.store.check([name]) else b"" for name in names],
            seconds,
        )

    def _blame(self) -> str | None:
        """Who is lost or, if all live, who didn't come to the exchange that failed."""
        others = [rank for rank in range(self.count) if rank != self.rank]
        stuck: list[int] = []
        try:
            before = self._beats(SILENT)
            time.sleep(SILENT)
            after = self._beats(SILENT)
            lost = [rank for rank in others if before[rank] == after[rank]]
            stuck = [
                rank
                for rank in others
                if rank not in lost and int(after[rank].split()[1]) < self.arrivals
            ]
        except RuntimeError:
            lost = [0]  # whose store it was
        if lost:
            return f"process {', '.join(map(str, lost))} of {self.count} was lost: it ended or gave no sign of life"
        if stuck:
            return f"process {', '.join(map(str, stuck))} of {self.count} is stuck: the others waited for it in vain"
        return None


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().splitlines()[0][:200]
