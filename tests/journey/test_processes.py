"""Several processes split every step and change nothing but the last bits; a dead or stuck one is named and none is left over."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from safetensors.numpy import load_file

from firth.data.feed import Steps, micro_batches
from tests.journey.command import ROOT, Ended
from tests.journey.small import NARROW
from tests.journey.warm import Started, Warm

STEPS = 8
NEAR = 1e-5
TIMEOUT = 3.0
LATE = 2.0  # seconds in which a lost process is named
FAR = 100_000  # steps of a run that is to be interrupted


@pytest.fixture(scope="module")
def words(corpus: Path, vocab: Path) -> list[object]:
    text = ("pretrain", corpus, "--vocab", vocab)
    sizes = (*NARROW, "--length", 48, "--batch", 400, "--micro", 150, "--dtype", "fp32")
    return [*text, *sizes, "--threads", 1, "--check-every", 4, "--save-every", 3]


class Job(NamedTuple):
    """Processes that a test started itself, by rank."""

    ranks: list[Started]

    def wait(self, *seconds: float) -> list[Ended]:
        return [rank.wait(*seconds) for rank in self.ranks]


@contextmanager
def job(warm: Warm, *words: object, count: int = 2, before: str = "") -> Iterator[Job]:
    """Start a run of several processes as torchrun would, without its agent; none outlives the test."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    started = Job(
        [warm.start(*words, before=before, RANK=str(rank), **common) for rank in range(count)]
    )
    try:
        yield started
    finally:
        for process in started.ranks:
            if process.running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


class Torchrun:
    """A run that torch's own starter starts; its processes are known by a mark in their environment."""

    def __init__(self, *words: object) -> None:
        self.mark = f"FIRTH_TEST_JOB={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        program = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            "-m",
            "firth",
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), name: value}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(
            [sys.executable, *program, *map(str, words)], env=environment, **pipes
        )

    def __enter__(self) -> "Torchrun":
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def alive(self) -> list[int]:
        """The processes of this job that live, the starter's too."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self.mark.encode() in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    @property
    def running(self) -> bool:
        """Whether the starter hasn't ended."""
        return self.process.poll() is None

    @property
    def err(self) -> str:
        """What a starter that has ended wrote to standard error."""
        return self.wait().err

    def wait(self) -> Ended:
        out, err = self.process.communicate(timeout=100)
        return Ended(self.process.returncode, out, err)


def weights(out: Path, steps: int = STEPS) -> dict[str, "np.ndarray"]:
    return load_file(
        out.with_name(f"{out.name}.run") / f"checkpoints/step-{steps:09}/weights.safetensors"
    )


def difference(one: Path, other: Path) -> float:
    """The largest between two runs' weights, as a share of max(1, the tensor's largest)."""
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    return max(
        float(np.abs(a[name] - b[name]).max()) / max(1.0, float(np.abs(a[name]).max()))
        for name in a
    )


@pytest.fixture(scope="module")
def alone(warm: Warm, words: list[object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process."""
    out = tmp_path_factory.mktemp("alone") / "out"
    ended = warm.run(*words, "-o", out, "--steps", STEPS)
    assert ended.code == 0, ended.err
    return out


# The same work


def test_processes_see_the_same_examples(seed: int) -> None:
    """For any corpus and step, the pieces of two or three processes are the step's examples, each once."""
    draw = np.random.default_rng(seed)
    for _ in range(50):
        sizes = draw.integers(5, 130, int(draw.integers(60, 600)))
        order = Steps(sizes, int(draw.integers(1 << 30)), 1000)
        for step in range(order.per_epoch + 2):
            numbers = order.at(step).numbers
            hashes = set()
            for count in (1, 2, 3):
                cut = micro_batches(sizes[numbers], 300, count)
                assert len(cut) % count == 0
                shares = [
                    np.concatenate([numbers[piece] for piece in cut[rank::count]])
                    for rank in range(count)
                ]
                assert all(len(share) for share in shares)
                hashes.add(sha256(np.sort(np.concatenate(shares)).tobytes()).hexdigest())
            assert hashes == {sha256(np.sort(numbers).tobytes()).hexdigest()}


SEEN = """
import hashlib, os
from firth.corpus.pairs import Pairs
true = Pairs.batch
def batch(self, epoch, numbers):
    with open(f"{os.environ['SEEN']}.{os.environ.get('RANK', '0')}", "a") as file:
        for number in numbers:
            row = self.row(epoch, int(number))
            file.write(f"{self.seed} {epoch} {number} {hashlib.sha256(row.ids.tobytes() + row.words.tobytes()).hexdigest()}\\n")
    return true(self, epoch, numbers)
Pairs.batch = batch
"""


def test_one_process_and_two(warm: Warm, words: list[object], tmp_path: Path) -> None:
    """The same rows, to the piece that is hidden, and weights that differ by the order of a sum."""
    seen = tmp_path / "seen"
    note = f"import os; os.environ['SEEN'] = {str(seen)!r}\n{SEEN}"
    steps = ("--steps", STEPS)
    ended = warm.run(*words, *steps, "-o", tmp_path / "one", before=note)
    assert ended.code == 0, ended.err
    rows = sorted(Path(f"{seen}.0").read_text().splitlines())
    Path(f"{seen}.0").unlink()
    with job(warm, *words, *steps, "-o", tmp_path / "two", before=note) as two:
        assert [process.code for process in two.wait()] == [0, 0]
    shares = [Path(f"{seen}.{rank}").read_text().splitlines() for rank in range(2)]
    assert all(shares)
    assert sorted([*shares[0], *shares[1]]) == rows
    worst = difference(tmp_path / "one", tmp_path / "two")
    print(f"1 process and 2 differ by {worst:.1e}")
    assert worst <= NEAR
    assert (tmp_path / "two/model.safetensors").exists()


def test_two_jobs_in_one_folder(warm: Warm, words: list[object], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with job(warm, *words, "--steps", FAR, "-o", out) as first:
        until(3, first.ranks[0], out)
        with job(warm, *words, "--steps", FAR, "-o", out, "--resume") as second:
            begun = time.monotonic()
            leader, other = second.wait(20)
            assert time.monotonic() - begun < 10
        assert leader.code == 2
        assert f"out.run is in use by another run (process {first.ranks[0].pid})" in leader.err
        assert other.code == 1
        assert (
            last(other)
            == "firth: process 0 of 2 was lost: it ended or gave no sign of life (the first process doesn't answer)"
        )
        assert all(process.running for process in first.ranks)
        first.ranks[0].signal(signal.SIGTERM)
        for ended in first.wait(20):
            assert ended.code == 3
            assert "as asked; --resume goes on from there" in last(ended)


def last(ended: Ended) -> str:
    """The one sentence with which a process ended."""
    assert "Traceback" not in ended.err
    assert "defect" not in ended.err
    return next(line for line in reversed(ended.err.splitlines()) if line.startswith("firth:"))


def until(steps: int, process: Started | Torchrun, out: Path) -> None:
    """Wait until a run has journalled so many lines."""
    path = out.with_name(f"{out.name}.run") / "metrics.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") < steps:
        assert process.running, process.err
        time.sleep(0.01)


def test_resumed_by_another_number_of_processes(
    warm: Warm, words: list[object], alone: Path, tmp_path: Path
) -> None:
    """Two processes, then one, then two; each but the last is killed."""
    out = tmp_path / "out"
    call = (*words, "--steps", STEPS, "-o", out, "--resume")
    with job(
        warm, *call, before="import os; os.environ['FIRTH_FAILPOINT'] = 'after-rename:1'"
    ) as two:
        assert two.ranks[0].wait().code == -signal.SIGKILL
        assert two.ranks[1].wait().code == 1
    assert warm.run(*call, FIRTH_FAILPOINT="before-manifest:2").code == -signal.SIGKILL
    with job(warm, *call) as two:
        ended = two.wait()
    assert [process.code for process in ended] == [0, 0]
    assert "going on from step" in ended[0].err
    worst = difference(alone, out)
    print(f"2 processes, 1 and 2 differ from 1 by {worst:.1e}")
    assert worst <= NEAR


# Lost processes


@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_killed_is_named(
    victim: int, warm: Warm, words: list[object], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with job(warm, *words, "--steps", FAR, "-o", out) as two:
        until(4, two.ranks[0], out)
        two.ranks[victim].signal(signal.SIGKILL)
        begun = time.monotonic()
        ended = two.ranks[1 - victim].wait(20)
        took = time.monotonic() - begun
    print(f"process {victim} killed: named after {took:.2f} s")
    assert ended.code == 1
    assert last(ended).startswith(f"firth: process {victim} of 2 was lost")
    assert took < LATE


@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_stuck_is_named(
    victim: int, warm: Warm, words: list[object], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with job(warm, *words, "--steps", FAR, "-o", out, "--timeout", TIMEOUT) as two:
        until(4, two.ranks[0], out)
        two.ranks[victim].signal(signal.SIGSTOP)
        begun = time.monotonic()
        ended = two.ranks[1 - victim].wait(30)
        took = time.monotonic() - begun
    print(f"process {victim} stopped: named after {took:.2f} s, timeout {TIMEOUT:.0f} s")
    assert ended.code == 1
    assert last(ended).startswith(f"firth: process {victim} of 2 was lost")
    assert TIMEOUT - 1 < took < TIMEOUT + LATE


ASLEEP = """
import os, time
from firth.recipes.objectives import MaskedObjective
true, calls = MaskedObjective.{where}, []
def slow(self, *rest):
    calls.append(1)
    if os.environ["RANK"] == "{victim}" and len(calls) == 4:
        time.sleep(20)
    return true(self, *rest)
MaskedObjective.{where} = slow
"""


@pytest.mark.parametrize(("victim", "where"), [(0, "counts"), (1, "losses")])
def test_a_process_that_lives_but_does_not_come_is_named(
    victim: int, where: str, warm: Warm, words: list[object], tmp_path: Path
) -> None:
    """Its sign of life goes on, because a thread of its own gives it."""
    before = ASLEEP.format(victim=victim, where=where)
    with job(
        warm, *words, "--steps", FAR, "-o", tmp_path / "out", "--timeout", 3, before=before
    ) as two:
        ended = two.ranks[1 - victim].wait(30)
    assert ended.code == 1
    assert last(ended).startswith(f"firth: process {victim} of 2 is stuck")


NOT_FINITE = """
import os
from firth.recipes.objectives import MaskedObjective
true, calls = MaskedObjective.losses, []
def losses(self, encoder, head, batch):
    calls.append(1)
    bad = os.environ["RANK"] == "1" and len(calls) == 6
    return {name: loss * float("nan") if bad else loss for name, loss in true(self, encoder, head, batch).items()}
MaskedObjective.losses = losses
"""


def test_the_process_with_a_bad_loss_names_its_examples(
    warm: Warm, words: list[object], tmp_path: Path
) -> None:
    """All stop before the step, and nobody blames examples of its own that were sound."""
    with job(warm, *words, "--steps", FAR, "-o", tmp_path / "out", before=NOT_FINITE) as two:
        sound, bad = two.wait(30)
    assert (sound.code, bad.code) == (1, 1)
    assert re.fullmatch(
        r"firth: step (\d) was not taken: another process names examples whose loss is not finite",
        last(sound),
    )
    assert re.match(
        r"firth: step (\d) gave masked nan, next nan, gradient nan, so it was not taken; it came from \d+ examples",
        last(bad),
    )


def test_started_by_torchrun(words: list[object], alone: Path, tmp_path: Path) -> None:
    """Two jobs at once find ports of their own; of one a process is killed.

    The other ends where one process does. The one fails, says who was lost, and leaves nothing.
    """
    whole, out = tmp_path / "whole", tmp_path / "out"
    with (
        Torchrun(*words, "--steps", FAR, "-o", out) as failing,
        Torchrun(*words, "--steps", STEPS, "-o", whole) as other,
    ):
        until(5, failing, out)
        leader = int(out.with_name("out.run").joinpath("lock").read_text())
        assert leader in failing.alive()
        os.kill(leader, signal.SIGKILL)
        begun = time.monotonic()
        ended = failing.wait()
        took = time.monotonic() - begun
        print(f"torchrun ended {took:.2f} s after a process of its was killed")
        assert ended.code != 0
        assert "firth: process 0 of 2 was lost" in ended.err
        assert failing.alive() == []
        assert took < 15

        ended = other.wait()
        assert ended.code == 0, ended.err
        assert ended.err.count(f"{whole}: {STEPS} steps") == 1  # only the first process speaks
        assert other.alive() == []
        assert difference(alone, whole) <= NEAR
