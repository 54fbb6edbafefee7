"""From Python, a library leaves its host alone: signals, threads, memory, random numbers, forks, and what stands on the disk."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.base.errors import FirthError, InputError
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.gpt import Gpt, GptSettings
from firth.predictor import Predictor
from firth.recipes.start import fresh
from firth.text.tokenizer import Tokenizer
from firth.train.run import Run, TooLate
from tests.journey.command import listing, run
from tests.journey.warm import Warm

ROWS = [
    *[
        (f"the {part} of my {thing} broke", "defect")
        for part in ("lid", "handle")
        for thing in ("pan", "pot", "kettle")
    ],
    *[
        (f"thank you for the {what} {thing}", "praise")
        for what in ("lovely", "new")
        for thing in ("pan", "pot", "kettle")
    ],
]
TRAINING: dict[str, Any] = {"epochs": 12, "batch": 4, "save_every": 4, "threads": 1}
HOST = 3  # threads, as the host has set them


@pytest.fixture(scope="module")
def model(vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder that is quick to train."""
    return save(
        fresh("tiny", Tokenizer.open(vocab), 32, 0.0, True, 1),
        tmp_path_factory.mktemp("models") / "small",
    )


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "train.jsonl"
    path.write_text(
        "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS)
    )
    return path


@pytest.fixture(autouse=True)
def host() -> Iterator[None]:
    """A process with a number of threads that isn't the machine's."""
    before = torch.get_num_threads()
    torch.set_num_threads(HOST)
    yield
    torch.set_num_threads(before)


def steps(out: Path) -> int:
    """How many steps a run has journalled."""
    path = out.with_name(f"{out.name}.run") / "metrics.jsonl"
    return path.read_text().count('"rate"') if path.exists() else 0


def once(reached: Callable[[], bool], do: Callable[[], None]) -> threading.Thread:
    """Do something in another thread as soon as something is so."""

    def wait() -> None:
        end = time.monotonic() + 60
        while not reached() and time.monotonic() < end:
            time.sleep(0.002)
        if reached():
            do()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


# Signals


def test_an_interrupt_stays_an_interrupt(
    request: pytest.FixtureRequest, model: Path, train: Path, tmp_path: Path
) -> None:
    """No handler is installed, and the run goes on to the bits of one that was left in peace."""
    peace, out = tmp_path / "peace", tmp_path / "out"
    firth.finetune("classify", model, train, peace, **TRAINING)
    # A process that was started in the background ignores the signal.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, usual))
    handlers = [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)]
    during: list[object] = []

    def interrupt() -> None:
        during.extend(signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM))
        os.kill(os.getpid(), signal.SIGINT)

    waiting = once(lambda: steps(out) >= 5, interrupt)
    with pytest.raises(KeyboardInterrupt):
        firth.finetune("classify", model, train, out, **TRAINING)
    waiting.join()
    assert (
        during == handlers == [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)]
    )
    assert not out.exists()
    assert 5 <= steps(out) < steps(peace)

    before = listing(tmp_path / "out.run")
    with pytest.raises(InputError, match=r"out\.run holds a run with seed 1, not 2"):
        firth.finetune("classify", model, train, out, seed=2, resume=True, **TRAINING)
    after = listing(tmp_path / "out.run")
    assert before == after | {"lock": before["lock"]}  # a refusal takes nothing away from a run

    firth.finetune("classify", model, train, out, resume=True, **TRAINING)
    assert (out / "model.safetensors").read_bytes() == (peace / "model.safetensors").read_bytes()


# Threads and random numbers


def threads_of(part: torch.nn.Module) -> list[int]:
    """Where the number of threads is put down with which a part computes."""
    seen: list[int] = []
    part.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    return seen


@pytest.mark.parametrize(("threads", "used"), [(None, HOST), (1, 1), (2, 2)])
def test_a_model_uses_its_threads_and_leaves_those_of_the_host(
    threads: int | None, used: int, model: Path
) -> None:
    predictor = firth.load(model, threads=threads)
    assert torch.get_num_threads() == HOST
    seen = threads_of(predictor.bundle.encoder.blocks[0])
    for _ in predictor.stream(predictor.embedder(), ["it broke", "thank you"]):
        assert torch.get_num_threads() == HOST
    with pytest.raises(InputError):
        predictor.embed(["it broke " * 40], long="error")
    assert seen
    assert {*seen} == {used}

    sizes = GptSettings(
        vocab=predictor.bundle.tokenizer.size,
        width=16,
        depth=1,
        heads=2,
        inner=16,
        length=16,
        start=0,
        end=0,
    )
    speaker = Predictor(
        Bundle(Gpt(sizes).eval(), predictor.bundle.tokenizer, "gpt2", "continue"), threads
    )
    seen = threads_of(speaker.bundle.language.norm)
    speaker.write(["the lid"], tokens=2)
    speaker.score(["the lid broke"])
    assert {*seen} == {used}
    assert torch.get_num_threads() == HOST


def test_a_training_gives_back_threads_and_random_numbers(
    model: Path, train: Path, tmp_path: Path
) -> None:
    torch.manual_seed(7)
    state, drawn = torch.get_rng_state(), np.random.get_state()[1].tolist()
    firth.finetune("classify", model, train, tmp_path / "out", threads=1, epochs=1)
    with pytest.raises(InputError):
        firth.finetune("classify", model, train, tmp_path / "top", threads=1, top=99)
    firth.pretrain(
        [train],
        tmp_path / "lm",
        steps=1,
        model="gpt",
        size="tiny",
        batch=64,
        vocab=model,
        dtype="fp32",
    )
    assert torch.get_num_threads() == HOST
    assert torch.equal(torch.get_rng_state(), state)
    assert np.random.get_state()[1].tolist() == drawn
    for name, threads in (("out", 1), ("lm", HOST)):
        assert (
            json.loads((tmp_path / name / "firth.json").read_text())["made"]["machine"]["threads"]
            == threads
        )


# Dropout draws in every step, several micro-batches a step, another seed for each: nothing is alike.
THREADED: dict[str, Any] = {"epochs": 6, "batch": 4, "micro": 16, "threads": 1, "dropout": 0.3}


def test_trainings_in_threads_give_the_bits_of_each_alone(
    model: Path, train: Path, tmp_path: Path
) -> None:
    """Each in a thread of its own, at once; torch's generator is never touched meanwhile."""
    torch.manual_seed(7)
    state = torch.get_rng_state()
    seeds = (1, 2, 3)
    failed: list[BaseException] = []
    both = threading.Barrier(len(seeds))

    def tune(seed: int, out: Path) -> None:
        firth.finetune("classify", model, train, out, seed=seed, **THREADED)

    def tune_at_once(seed: int) -> None:
        try:
            both.wait()
            tune(seed, tmp_path / f"threaded-{seed}")
        except BaseException as error:  # noqa: BLE001 - a thread's own would be lost
            failed.append(error)

    workers = [threading.Thread(target=tune_at_once, args=(seed,)) for seed in seeds]
    for worker in workers:
        worker.start()
    untouched = True
    while any(worker.is_alive() for worker in workers):
        untouched = untouched and torch.equal(torch.get_rng_state(), state)
        time.sleep(0.001)
    assert not failed
    assert untouched

    weights = set()
    for seed in seeds:
        tune(seed, tmp_path / f"alone-{seed}")
        alone = (tmp_path / f"alone-{seed}" / "model.safetensors").read_bytes()
        assert (tmp_path / f"threaded-{seed}" / "model.safetensors").read_bytes() == alone
        weights.add(alone)
    assert len(weights) == len(seeds)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == HOST


def test_pretraining_in_threads_gives_the_bits_of_each_alone(
    model: Path, train: Path, tmp_path: Path
) -> None:
    """Also where words are drawn for the loss, and a state is carried."""
    torch.manual_seed(7)
    state = torch.get_rng_state()
    options: dict[str, Any] = {"steps": 6, "size": "tiny", "batch": 64, "vocab": model}
    kinds: dict[str, dict[str, Any]] = {
        "bert": {"dropout": 0.2},
        "gpt": {"model": "gpt", "carry": True},
        "rnn": {"model": "rnn", "output": "sampled"},
        "elmo": {"model": "elmo", "output": "sampled"},
    }

    def learn(kind: str, out: Path) -> None:
        more = kinds[kind]
        firth.pretrain([train], out, dtype="fp32", threads=1, **options, **more)

    workers = [
        threading.Thread(target=learn, args=(kind, tmp_path / f"threaded-{kind}")) for kind in kinds
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for kind in kinds:
        learn(kind, tmp_path / f"alone-{kind}")
        alone = (tmp_path / f"alone-{kind}" / "model.safetensors").read_bytes()
        assert (tmp_path / f"threaded-{kind}" / "model.safetensors").read_bytes() == alone
    assert torch.equal(torch.get_rng_state(), state)


def test_a_thread_that_begins_while_a_training_runs_has_the_hosts_number(
    model: Path, train: Path, tmp_path: Path
) -> None:
    """Torch gives the number that was set last; a loaded model answers meanwhile, as before."""
    out = tmp_path / "out"
    predictor = firth.load(model)
    texts = [text for text, _ in ROWS]
    vectors = predictor.embed(texts)
    seen: list[int] = []

    def beside() -> None:
        seen.append(torch.get_num_threads())
        assert np.array_equal(firth.load(model, threads=HOST).embed(texts), vectors)
        seen.append(torch.get_num_threads())

    waiting = once(lambda: steps(out) >= 2, beside)
    firth.finetune("classify", model, train, out, **TRAINING)
    waiting.join()
    assert seen == [HOST, HOST]
    assert torch.get_num_threads() == HOST


# Memory and forks

FRESH = """
import ctypes, os, signal, sys, time
import torch
torch.set_num_threads(2)
import firth

class Info(ctypes.Structure):
    _fields_ = [(f"field{n}", ctypes.c_size_t) for n in range(10)]  # the fifth: bytes in regions of their own

def mapped():
    about = ctypes.CDLL(None).mallinfo2
    about.restype = Info
    return about().field4

def child(work):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if work() else 9)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return f"exit {os.waitstatus_to_exitcode(status)}"
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"

texts = ["the lid of my kettle broke"] * 40
embed = lambda model: len(model.embed(texts)) == len(texts)
both, one = firth.load(FOLDER), firth.load(FOLDER, threads=1)
before = mapped()
large = torch.empty(48 << 20, dtype=torch.uint8)
print("mapped", mapped() - before >= 48 << 20)  # a large tensor is given back to the system when it is freed
print("forked after loading:", child(lambda: embed(both)))
embed(one)
print("forked after use with one thread:", child(lambda: embed(both)))
embed(both)
print("one thread, forked after use with two:", child(lambda: embed(one)))
sys.stdout.flush()
os._exit(0)
"""


def test_a_fresh_process_keeps_its_memory_and_may_fork(warm: Warm, model: Path) -> None:
    ended = warm.run("env", before=FRESH.replace("FOLDER", repr(str(model))))
    assert ended.out.splitlines() == [
        "mapped True",
        "forked after loading: exit 0",
        "forked after use with one thread: exit 0",
        "one thread, forked after use with two: exit 0",
    ], ended


def test_the_command_line_uses_every_core_and_keeps_its_memory(
    warm: Warm, model: Path, tmp_path: Path
) -> None:
    """The process is its own."""
    (tmp_path / "texts.txt").write_text("the lid broke\n")
    look = """
import atexit, firth.base.threads as t, firth.cli.options as o, torch, firth.tasks.encoded as p
true, kept = p.run, []
keep = o.keep_heap
o.keep_heap = lambda: kept.append(keep())
p.run = lambda *rest: print("threads", torch.get_num_threads() - t.available(), len(kept)) or true(*rest)
"""
    cores = len(os.sched_getaffinity(0))
    for given, limit, said in (
        ((), "", "threads 0 1"),
        ((), "1", f"threads {1 - cores} 1"),
        (("--threads", 3), "1", f"threads {3 - cores} 1"),
    ):
        ended = warm.run(
            "embed",
            model,
            tmp_path / "texts.txt",
            "-o",
            tmp_path / "x.npy",
            "--force",
            *given,
            before=look,
            OMP_NUM_THREADS=limit,
        )
        assert (ended.code, ended.out) == (0, f"{said}\n"), ended


# What stands on the disk


@pytest.mark.parametrize(
    ("task", "rows", "options", "complaint"),
    [
        ("classify", ROWS[:6], (), "only one class"),
        ("classify", ROWS, ("--label", "queue"), "queue"),
        ("classify", ROWS, ("--length", 999), "reads 32 tokens, not 999"),
        ("classify", ROWS, ("--features", "9"), "has layers from 0"),
        ("classify", ROWS, ("--top", 9), "has 2 layers, not 9"),
        ("classify", ROWS, ("--long", "error", "--length", 5), "where the model takes 5"),
        ("classify", ROWS, ("--seeds", 2, "--length", 999), "reads 32 tokens, not 999"),
        ("regress", ROWS, (), "no number|label"),
    ],
)
def test_a_refused_finetune_leaves_nothing(
    task: str,
    rows: list[tuple[str, str]],
    options: tuple[object, ...],
    complaint: str,
    model: Path,
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)
    )
    before = listing(tmp_path)
    ended = run(
        "finetune",
        task,
        "--model",
        model,
        "--train",
        path,
        "-o",
        tmp_path / "new" / "out",
        "--threads",
        1,
        *options,
    )
    assert ended.code == 2
    assert re.search(complaint, ended.err), ended.err
    assert listing(tmp_path) == before


def test_a_refused_pretrain_leaves_nothing(model: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("A single document.\nIt has two lines.\n")
    before = listing(tmp_path)
    common = (
        "pretrain",
        tmp_path / "one.txt",
        "-o",
        tmp_path / "out",
        "--steps",
        1,
        "--threads",
        1,
        "--dtype",
        "fp32",
    )
    for options, complaint in (
        ((), "is a single document"),
        (("--init", model, "--length", 64, "--no-nsp"), "reads 32 tokens, not 64"),
    ):
        ended = run(*common, *options)
        assert (ended.code, complaint in ended.err) == (2, True), ended.err
        assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("error", "work", "left"),
    [
        (InputError, None, []),
        (InputError, "step", ["data", "lock", "metrics.jsonl"]),
        (InputError, "part", ["data", "lock", "metrics.jsonl", "model.safetensors"]),
        (TooLate, None, ["data", "lock"]),
        (FirthError, None, ["data", "lock", "metrics.jsonl"]),
    ],
)
def test_a_refusal_takes_no_work_away(
    error: type[Exception], work: str | None, left: list[str], tmp_path: Path
) -> None:
    """Not that of this call, and nothing of a folder that was there before."""
    made = Run(tmp_path / "out.run")

    def refuse() -> None:
        with made.locked():
            made.data.mkdir()
            made.journal.add(step=int(work == "step"))
            if work == "part":
                (made.folder / "model.safetensors").touch()
            raise error("no")

    with pytest.raises(error):
        refuse()
    assert sorted(path.name for path in made.folder.glob("*")) == left
    if left:
        before = listing(made.folder)
        with pytest.raises(InputError), made.locked():
            raise InputError("no")
        assert listing(made.folder) == before


@pytest.mark.parametrize("options", [("--seeds", 2), ("--folds", 2)])
def test_a_finished_run_keeps_no_copy_of_a_frozen_encoder(
    options: tuple[object, ...], model: Path, train: Path, tmp_path: Path
) -> None:
    words = (
        "finetune",
        "classify",
        "--model",
        model,
        "--train",
        train,
        "-o",
        tmp_path / "out",
        "--features",
        "-1",
        *options,
    )
    words += ("--epochs", 1, "--threads", 1, "--json")
    ended = run(*words)
    assert ended.code == 0, ended.err
    folder = tmp_path / "out.run"
    assert (
        ended.err.splitlines()[-1] == f"{folder} (1 MB) may be removed: the model doesn't need it"
    )
    assert (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        < 1e6
        < (tmp_path / "out/model.safetensors").stat().st_size
    )
    kept = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert kept >= {
        "plan.json",
        "curves.html",
        *(
            {"held.json", "seed-2/metrics.jsonl"}
            if "--seeds" in options
            else {"fold-2/metrics.jsonl"}
        ),
    }
    again = run(*words, "--resume")
    assert (again.code, again.out, again.err) == (0, ended.out, f"{tmp_path / 'out'} is finished\n")
