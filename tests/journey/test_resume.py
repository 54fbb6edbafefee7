"""A run that is killed at any moment, or asked to stop, ends with the same bits as one that was left alone."""

import json
import random
import re
import signal
import time
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from firth.train import checkpoint
from firth.train.settings import OLD_NAMES
from tests.conftest import SOAK
from tests.journey.command import ROOT, spawn
from tests.journey.small import NARROW
from tests.journey.warm import PROCESSOR_CLOCK, Started, Warm

KILLS = 200 if SOAK else 18  # at least twice as many as there are places
STEPS = 12
SAVES = (2, 3, 5)  # a save at the last step comes before its measurement (2 and 3), or after (5)
WORKERS = (0, 1, 2)
PLACES = {  # and how often each is passed in a run, at least
    "before-write": 3,
    "mid-write": 12,
    "before-sync": 12,
    "before-manifest": 3,
    "before-folder-sync": 3,
    "before-rename": 3,
    "after-rename": 3,
    "while-pruning": 1,
    "before-folder-rename": 1,
}


class Result(NamedTuple):
    """What must not depend on how often a run was killed."""

    weights: str
    optimizer: str
    journal: list[dict[str, Any]]  # without the time of day
    model: str


class Case(NamedTuple):
    """A run's settings, all that draws at random switched on, and how it ends when it is left alone."""

    words: list[object]
    result: Result
    seconds: float


def journal(out: Path) -> list[dict[str, Any]]:
    """What a run has written down so far."""
    path = out.with_name(f"{out.name}.run") / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def untimed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]


def checkpoints(out: Path) -> Path:
    return out.with_name(f"{out.name}.run") / "checkpoints"


def result(out: Path, steps: int = STEPS) -> Result:
    last = checkpoints(out) / f"step-{steps:09}"
    paths = (
        last / "weights.safetensors",
        last / "optimizer.safetensors",
        out / "model.safetensors",
    )
    weights, optimizer, model = (sha256(path.read_bytes()).hexdigest() for path in paths)
    return Result(weights, optimizer, untimed(journal(out)), model)


@pytest.fixture(scope="module")
def case(corpus: Path, vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The run that nobody disturbs, in a fresh interpreter."""
    words: list[object] = ["pretrain", corpus, "--vocab", vocab, *NARROW]
    words += ["--steps", STEPS, "--length", 48, "--batch", 400, "--micro", 150]
    words += ["--dropout", 0.1, "--whole-words", "--check-every", 5]
    words += ["--dtype", "fp32", "--threads", 1]
    out = tmp_path_factory.mktemp("alone") / "out"
    begun = time.monotonic()
    ended = spawn(*words, "-o", out, "--save-every", 5, "--workers", 1, OMP_NUM_THREADS="1")
    assert ended.code == 0, ended.err
    records = journal(out)
    assert [record["step"] for record in records if "loss" in record] == list(range(1, STEPS + 1))
    assert all("next" in record for record in records if "loss" in record)
    return Case(words, result(out), time.monotonic() - begun)


def start(warm: Warm, case: Case, out: Path, draw: random.Random, **options: str) -> Started:
    """Begin or go on; what a run may change when it goes on, it changes."""
    changed = ("--save-every", draw.choice(SAVES), "--workers", draw.choice(WORKERS))
    return warm.start(*case.words, *changed, "-o", out, "--resume", **options)


def finish(warm: Warm, case: Case, out: Path, draw: random.Random) -> None:
    """Go on, unaided, to the end that the undisturbed run had."""
    ended = start(warm, case, out, draw).wait()
    assert ended.code == 0, ended
    assert "WARNING" not in ended.err
    assert result(out) == case.result


def test_every_failpoint_is_tried() -> None:
    found = {
        name
        for path in (ROOT / "firth").rglob("*.py")
        for name in re.findall(r'failpoint\("(.+?)"\)', path.read_text())
    }
    assert found == set(PLACES)


def test_killed_anywhere(warm: Warm, case: Case, tmp_path: Path, seed: int) -> None:
    """Half of the kills are inside a save, at places with names, and half at any moment; up to three for each run."""
    draw = random.Random(seed)
    undisturbed = tmp_path / "undisturbed"
    begun = time.monotonic()
    finish(warm, case, undisturbed, draw)
    whole = time.monotonic() - begun
    aimed = ([*PLACES] * KILLS)[: KILLS // 2]
    waiting: list[str | None] = [*aimed, *[None] * (KILLS - len(aimed))]
    draw.shuffle(waiting)
    killed = runs = 0
    while waiting:
        out = tmp_path / f"out{runs}"
        runs += 1
        assert runs < 3 * KILLS, "runs end before they can be killed"
        for _ in range(min(3, len(waiting))):
            place = waiting.pop()
            if place:
                process = start(
                    warm,
                    case,
                    out,
                    draw,
                    FIRTH_FAILPOINT=f"{place}:{draw.randint(1, PLACES[place])}",
                )
            else:
                process = start(warm, case, out, draw)
                time.sleep(draw.uniform(0, whole))
                process.signal(signal.SIGKILL)
            ended = process.wait()
            if ended.code == -signal.SIGKILL:
                killed += 1
                continue
            assert ended.code == 0, ended
            waiting.insert(
                0, place
            )  # it was faster than the kill, which is tried again with another run
            break
        finish(warm, case, out, draw)
    print(f"{killed} of {KILLS} kills in {runs} runs, all with the bits of the undisturbed run")
    assert killed == KILLS


def test_killed_before_the_first_checkpoint(
    warm: Warm, case: Case, tmp_path: Path, seed: int
) -> None:
    draw, out = random.Random(seed), tmp_path / "out"
    for place in ("before-write", "before-rename"):
        assert start(warm, case, out, draw, FIRTH_FAILPOINT=place).wait().code == -signal.SIGKILL
        assert journal(out)
        assert checkpoint.saved_steps(checkpoints(out)) == []
    finish(warm, case, out, draw)
    again = start(warm, case, out, draw).wait()
    assert again == (0, "", f"{out} is finished\n")


@pytest.mark.parametrize("every", [5, STEPS // 3])
def test_killed_before_the_folder_is_there(
    every: int, warm: Warm, case: Case, tmp_path: Path, seed: int
) -> None:
    out = tmp_path / "out"
    words = [*case.words, "--save-every", every, "-o", out, "--resume"]
    for times in (
        2,
        1,
    ):  # the first folder that the first process writes is that of the encoded text
        ended = warm.run(*words, FIRTH_FAILPOINT=f"before-folder-rename:{times}")
        assert ended.code == -signal.SIGKILL
        assert checkpoint.saved_steps(checkpoints(out))[0] == STEPS
        assert not out.exists()
    finish(warm, case, out, random.Random(seed))


def test_a_damaged_checkpoint_is_passed_over(
    warm: Warm, case: Case, tmp_path: Path, seed: int
) -> None:
    """Loudly, and the run ends with the same bits."""
    draw, out = random.Random(seed), tmp_path / "out"
    assert (
        warm.run(*case.words, "--save-every", 4, "-o", out, FIRTH_FAILPOINT="before-write:4").code
        == -signal.SIGKILL
    )
    newest, older = checkpoint.saved_steps(checkpoints(out))
    path = (
        checkpoints(out)
        / f"step-{newest:09}"
        / draw.choice(["weights.safetensors", "optimizer.safetensors", "state.json"])
    )
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    ended = start(warm, case, out, draw).wait()
    assert ended.code == 0, ended
    warned = f"WARNING: {path} was damaged after it was written: its sha256 differs from the manifest's; trying the checkpoint before"
    assert warned in ended.err
    assert f"going on from step {older}" in ended.err
    assert result(out) == case.result


def test_a_run_of_an_earlier_version_goes_on(warm: Warm, case: Case, tmp_path: Path) -> None:
    """Its plan calls settings by their former names and lacks those that came later."""
    at = case.words.index("--set")  # which sizes could not be before
    words = [*case.words[:at], *case.words[at + NARROW.count("--set") * 2 :]]
    words += ["--steps", 4, "--save-every", 2, "--resume", "-o"]
    alone, out = tmp_path / "alone", tmp_path / "out"
    assert warm.run(*words, alone).code == 0
    killed = warm.run(*words, out, FIRTH_FAILPOINT="before-write:2")
    assert killed.code == -signal.SIGKILL

    path = tmp_path / "out.run" / "plan.json"
    plan = json.loads(path.read_text())
    former = {now: before for before, now in OLD_NAMES.items()}
    assert former.keys() < plan["training"].keys()
    plan["training"] = {former.get(name, name): value for name, value in plan["training"].items()}
    del plan["training"]["schedule"]
    plan["asked"]["precision"] = plan["asked"].pop("dtype")
    for name in ("schedule", "weight_decay", "clip", "model_settings"):
        del plan["asked"][name]
    path.write_text(json.dumps(plan))

    ended = warm.run(*words, out)
    assert ended.code == 0, ended.err
    assert "WARNING" not in ended.err
    assert result(out, 4) == result(alone, 4)
    made = json.loads((out / "firth.json").read_text())["made"]
    assert former.keys() < made["training"].keys()
    assert (made["settings"]["dtype"], "precision" in made["settings"]) == ("fp32", False)


def until(steps: int, process: Started, out: Path) -> None:
    """Wait until a run has taken so many steps."""
    while max((record["step"] for record in journal(out)), default=0) < steps:
        assert process.running, process.err
        time.sleep(0.005)


# Steps that last, so that a signal arrives before the end.
SLOW_STEPS = """
import time
from firth.train.loop import Loop
true = Loop._gradients
Loop._gradients = lambda self, *rest: (time.sleep(0.1), true(self, *rest))[1]
"""


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop(
    kind: signal.Signals, warm: Warm, case: Case, tmp_path: Path, seed: int
) -> None:
    draw, out = random.Random(seed), tmp_path / "out"
    for steps in (2, 5):
        process = start(warm, case, out, draw, before=SLOW_STEPS)
        until(steps, process, out)
        process.signal(kind)
        begun = time.monotonic()
        ended = process.wait()
        assert time.monotonic() - begun < 10
        at = journal(out)[-1]["step"]
        said = f"firth: stopped at step {at} as asked; --resume goes on from there"
        assert (ended.code, ended.err.splitlines()[-1]) == (3, said)
        assert checkpoint.saved_steps(checkpoints(out))[0] == at < STEPS
        assert not out.exists()
    finish(warm, case, out, draw)


READING = """
import time
from firth.corpus import shards
true = shards._batches
shards._batches = lambda lines: (time.sleep(0.2) or batch for batch in true(lines))
shards.LINES_AT_ONCE = 5
"""


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_while_reading(
    kind: signal.Signals, warm: Warm, case: Case, tmp_path: Path, seed: int
) -> None:
    draw, out = random.Random(seed), tmp_path / "out"
    process = start(warm, case, out, draw, before=READING)
    while not list((tmp_path / "out.run/data").glob(".*")):
        assert process.running, process.err
        time.sleep(0.005)
    process.signal(kind)
    assert process.wait() == (
        3,
        "",
        "firth: stopped as asked, outside of training; --resume goes on\n",
    )
    assert not list((tmp_path / "out.run").rglob("*.ids"))
    finish(warm, case, out, draw)


SLOW = """
import time
from firth.train.loop import Loop
true = Loop._gradients
Loop._gradients = lambda self, *rest: (time.sleep(60 if self.step == 7 else 0), true(self, *rest))[1]
"""


def test_asked_twice_to_stop(warm: Warm, case: Case, tmp_path: Path, seed: int) -> None:
    draw, out = random.Random(seed), tmp_path / "out"
    process = start(warm, case, out, draw, before=SLOW)
    until(7, process, out)
    time.sleep(0.3)
    process.signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.running  # the step isn't done
    process.signal(signal.SIGTERM)
    begun = time.monotonic()
    assert process.wait().code == 3
    assert time.monotonic() - begun < 1
    finish(warm, case, out, draw)


def test_by_the_clock(warm: Warm, case: Case, tmp_path: Path) -> None:
    """What was journalled is replayed with the same rates, and the time before the kill counts."""
    out, seconds = tmp_path / "out", 2.0
    words = [word if word != "--steps" else "--minutes" for word in case.words]
    words[words.index(STEPS)] = seconds / 60
    words += ["--save-every", 4, "-o", out, "--resume"]
    killed = warm.run(*words, before=PROCESSOR_CLOCK, FIRTH_FAILPOINT="before-write:4")
    assert killed.code == -signal.SIGKILL
    before = journal(out)[-1]["seconds"]
    early = {record["step"]: record for record in untimed(journal(out)) if "rate" in record}
    assert len(early) > checkpoint.saved_steps(checkpoints(out))[0] > 7
    ended = warm.run(*words, before=PROCESSOR_CLOCK)
    assert ended.code == 0, ended.err
    took = float(ended.out)
    late = {record["step"]: record for record in untimed(journal(out)) if "rate" in record}
    assert len(late) > len(early)
    assert {step: late[step] for step in early} == early
    assert abs(journal(out)[-1]["seconds"] - seconds) < 0.7
    assert took < seconds - before + 0.7, "the time before the kill was not counted"
    rates = [late[step]["rate"] for step in sorted(late)]
    peak = rates.index(max(rates))
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[0] < 0.5 * max(rates)  # what reading the text took is not taken off the rise
