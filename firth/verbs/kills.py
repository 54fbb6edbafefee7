"""Train a model twice, once in peace and once killed and resumed, and compare every bit."""

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from firth.base.errors import FirthError
from firth.base.journal import Journal
from firth.samples import library
from firth.verbs.demo import PIECES
from firth.verbs.vocab import VocabReport, vocab

KILLS = 3
STEPS = 40
SAVED_EVERY = 5  # steps
SLOWEST_STEP = 60.0  # seconds


def demo_kills(threads: int | None = None) -> Iterator[str | VocabReport]:
    """Train once in peace and once through kills; yield a comparison of every bit."""
    peace = f"One run of {STEPS} steps in peace"
    yield f"{peace}, and one that is killed {KILLS} times with SIGKILL:\n"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        corpus = folder / "python.txt"
        library.write(corpus)
        yield vocab([corpus], folder / "words", size=PIECES)

        yield from _train_through_kills(folder, "peaceful", [], threads)
        steps = range(2, STEPS - 1)
        moments = sorted(random.SystemRandom().sample(steps, KILLS))
        yield from _train_through_kills(folder, "killed", moments, threads)
        peaceful = _sums(folder / "peaceful.run")
        killed = _sums(folder / "killed.run")

    for name, first in peaceful.items():
        second = killed[name]
        verdict = "equal" if first == second else "DIFFERENT"
        yield f"  {name:10} {first[:32]}  {second[:32]}  {verdict}"
    if peaceful != killed:
        raise FirthError("the killed run ended with other bits than the peaceful one")


def _train_through_kills(
    place: Path, name: str, moments: list[int], threads: int | None
) -> Iterator[str]:
    """Run to the end, in a process of its own that is killed after each of the given steps."""
    command = _pretrain_command(place, name, threads)
    journal = Journal(place / f"{name}.run" / "metrics.jsonl")
    for moment in moments:
        _run(command, journal, killed_after=moment)
        yield f"  killed after step {moment}"
    ended, complaint = _run(command, journal, killed_after=None)
    if ended:
        raise FirthError(f"the run failed: {complaint.strip()}")


def _pretrain_command(place: Path, name: str, threads: int | None) -> list[str]:
    """Return the command that begins or resumes a run."""
    options: dict[str, object] = {
        "-o": place / name,
        "--vocab": place / "words",
        "--size": "tiny",
        "--steps": STEPS,
        "--save-every": SAVED_EVERY,
        "--batch": 1024,
        "--dropout": 0.1,
    }
    if threads:
        options["--threads"] = threads
    command = [sys.executable, "-m", "firth", "pretrain", str(place / "python.txt")]
    command += ["--resume", "--whole-words"]
    for option, value in options.items():
        command += [option, str(value)]
    return command


def _run(command: list[str], journal: Journal, killed_after: int | None) -> tuple[int, str]:
    """Run a command to its end, or kill it after a step; return its exit code and complaint."""
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            if killed_after is not None:
                _wait(journal, killed_after, process)
                process.kill()
            _, complaint = process.communicate()
        finally:
            process.kill()
    return process.returncode, complaint


def _wait(journal: Journal, step: int, process: "subprocess.Popen[str]") -> None:
    """Wait until a run has done a step."""
    latest = time.monotonic() + SLOWEST_STEP * STEPS
    while _steps_done(journal) < step:
        if process.poll() is not None or time.monotonic() > latest:
            complaint = process.communicate()[1].strip()
            raise FirthError(f"the run ended before step {step}: {complaint}")
        time.sleep(0.02)


def _steps_done(journal: Journal) -> int:
    return max((record["step"] for record in journal), default=0)


def _sums(run: Path) -> dict[str, str]:
    """Return the sha256 of the last weights, of the optimizer's state and of all losses."""
    last = run / "checkpoints" / f"step-{STEPS:09}"
    losses = list(Journal(run / "metrics.jsonl"))
    for record in losses:
        record.pop("seconds", None)
    contents = {
        "weights": (last / "weights.safetensors").read_bytes(),
        "optimizer": (last / "optimizer.safetensors").read_bytes(),
        "losses": json.dumps(losses).encode(),
    }
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
