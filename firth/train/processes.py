"""One process or many: `torchrun` starts them, they split every step, and a lost one is named."""

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
from firth.base.signals import ignore_sigterm

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
        if self.count == 1:
            return self
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
        # The first may end at once, and the store with it: no one may still be knocking at it.
        dist.barrier()
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
                ignore_sigterm()
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
        """Count an exchange that is about to begin.

        So one who never comes to it can be told from those who wait.
        """
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

    def unexchanged(self, model: nn.Module, keep: bool) -> AbstractContextManager[None]:
        """Keep gradients to this process for now, if `keep`."""
        if keep and isinstance(model, DistributedDataParallel):
            return model.no_sync()
        return nullcontext()

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
        if self.leads:
            self.first(name, work)
        else:
            self._wait(name)

    def _wait(self, name: str) -> None:
        """Wait for as long as the first process works and lives."""
        heard = self._beats(WAITING)[0]
        since = time.monotonic()
        while not self._answer(lambda: self.store.check([f"done/{name}"]), WAITING):
            time.sleep(BEAT)
            beat = self._beats(WAITING)[0]
            if beat != heard:
                heard = beat
                since = time.monotonic()
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
        """Return the last sign of life of every process, empty where there was none."""

        def beat(rank: int) -> bytes:
            name = f"beat/{rank}"
            if not self.store.check([name]):
                return b""
            found: bytes = self.store.get(name)
            return found

        return self._answer(lambda: [beat(rank) for rank in range(self.count)], seconds)

    def _blame(self) -> str | None:
        """Say who is lost or, if all live, who didn't come to the exchange that failed."""
        lost: list[int] = []
        stuck: list[int] = []
        try:
            before = self._beats(SILENT)
            time.sleep(SILENT)
            after = self._beats(SILENT)
            for rank in range(self.count):
                if rank == self.rank:
                    continue
                if before[rank] == after[rank]:
                    lost.append(rank)
                elif int(after[rank].split()[1]) < self.arrivals:
                    stuck.append(rank)
        except RuntimeError:
            lost = [0]  # whose store it was
        if lost:
            return f"{self._named(lost)} was lost: it ended or gave no sign of life"
        if stuck:
            return f"{self._named(stuck)} is stuck: the others waited for it in vain"
        return None

    def _named(self, ranks: Sequence[int]) -> str:
        return f"process {', '.join(map(str, ranks))} of {self.count}"


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().splitlines()[0][:200]
