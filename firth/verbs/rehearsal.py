"""The demo's training: a tiny BERT learns from Python's own documentation, and a run that is killed ends as if it had not been."""

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from firth.base.errors import FirthError
from firth.base.files import read_json
from firth.base.journal import Journal
from firth.predictor import load_predictor
from firth.recipes.host import temporary_runs
from firth.samples.library import write
from firth.samples.tickets import tickets
from firth.verbs.finetune import finetune, show
from firth.verbs.pretrain import pretrain
from firth.verbs.vocab import learn_vocab

PIECES = 4000
HELD_OUT = 4
ASKED = (
    "The lid of my copper kettle does not close any more.",
    "Why did you charge my card again for the floor lamp?",
    "My parcel has been in Rotterdam for nine days.",
)
SHOWN = 6  # moments of the run
KILLS, STEPS, SAVED_EVERY = 3, 40, 5
SLOWEST_STEP = 60.0  # seconds


def show_training(minutes: float, threads: int | None) -> None:
    """Learn a vocabulary and a model, and print how the loss fell and what the model can guess."""
    print(
        f"\n3. A BERT of its own: {minutes:g} minutes on the documentation that came with this Python\n"
    )
    with tempfile.TemporaryDirectory() as place, temporary_runs():
        corpus, words, model = (Path(place) / name for name in ("python.txt", "words", "model"))
        write(corpus)
        learn_vocab([corpus], words, size=PIECES)
        pretrain([corpus], model, minutes=minutes, size="tiny", vocab=str(words), threads=threads)
        losses = [
            (record["step"], record["loss"])
            for record in Journal(model / "metrics.jsonl")
            if "loss" in record
        ]
        made = read_json(model / "firth.json")["made"]
    print("\n  up to step   mean loss")
    for part in np.array_split(np.array(losses), min(SHOWN, len(losses))):
        print(f"  {part[-1][0]:10,.0f}   {part[:, 1].mean():9.3f}")
    print(f"\n  hidden words of held-out text that it names: {made['dev']['masked_accuracy']:.1%}")
    print(
        f"  that always guessing {made['baseline']['piece']!r} names:     {made['baseline']['masked_accuracy']:.1%}"
    )


def show_teaching(threads: int | None) -> None:
    """Teach the default encoder what tickets are about and which names are in them; print its scores and what it answers."""
    begun = time.perf_counter()
    written = tickets()
    print(
        f"\n4. A task of its own: {len(written)} tickets of a shop, every {HELD_OUT}th held out\n"
    )
    with tempfile.TemporaryDirectory() as place, temporary_runs():
        folder = Path(place)
        for name, held in (("train", False), ("dev", True)):
            rows = [t for number, t in enumerate(written) if (number % HELD_OUT == 0) == held]
            _write_lines(
                folder / f"{name}.about.jsonl", [{"text": t.text, "label": t.about} for t in rows]
            )
            _write_lines(
                folder / f"{name}.names.jsonl",
                [{"text": t.text, "spans": [n._asdict() for n in t.names]} for t in rows],
            )
        options: dict[str, Any] = {"batch": 8, "rate": 3e-4, "threads": threads}
        about = finetune(
            "classify",
            "minilm",
            folder / "train.about.jsonl",
            folder / "triage",
            dev=str(folder / "dev.about.jsonl"),
            epochs=8.0,
            **options,
        )
        show(about, "triage", as_json=False)
        names = finetune(
            "tag",
            "minilm",
            folder / "train.names.jsonl",
            folder / "names",
            dev=str(folder / "dev.names.jsonl"),
            epochs=8.0,
            **options,
        )
        f1 = names.scores["f1"]
        print(
            f"names: F1 of named products, places and people {f1.value:.3f} ({f1.low:.3f} to {f1.high:.3f})\n"
        )
        decisions = load_predictor(folder / "triage", threads).predict(ASKED)
        found = load_predictor(folder / "names", threads).predict(ASKED)
    for text, decision, spans in zip(ASKED, decisions, found, strict=True):
        said = (
            ", ".join(f"{text[span.start : span.end]} ({span.label})" for span in spans)
            or "no names"
        )
        print(f"  {text}\n    {decision.label}, {decision.confidence:.0%} sure; {said}")
    print(f"\n  ({time.perf_counter() - begun:.0f} s)")


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def show_kills(threads: int | None) -> None:
    """Train once in peace and once through kills, and compare every bit."""
    print(
        f"One run of {STEPS} steps in peace, and one that is killed {KILLS} times with SIGKILL:\n"
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder / "python.txt")
        learn_vocab([folder / "python.txt"], folder / "words", size=PIECES)
        peaceful = _sums(_trained(folder, "peaceful", [], threads))
        moments = sorted(random.SystemRandom().sample(range(2, STEPS - 1), KILLS))
        killed = _sums(_trained(folder, "killed", moments, threads))
    for name, value in peaceful.items():
        print(
            f"  {name:10} {value[:32]}  {killed[name][:32]}  {'equal' if value == killed[name] else 'DIFFERENT'}"
        )
    if peaceful != killed:
        raise FirthError("the killed run ended with other bits than the peaceful one")


def _trained(place: Path, name: str, moments: list[int], threads: int | None) -> Path:
    """Run to the end, in a process of its own, killing it after each of the given steps; give the run's folder."""
    command = [
        sys.executable,
        "-m",
        "firth",
        "pretrain",
        str(place / "python.txt"),
        "-o",
        str(place / name),
        "--resume",
    ]
    command += ["--vocab", str(place / "words"), "--size", "tiny"]
    command += [
        "--steps",
        str(STEPS),
        "--save-every",
        str(SAVED_EVERY),
        "--batch",
        "1024",
        "--dropout",
        "0.1",
        "--whole-words",
    ]
    command += ["--threads", str(threads)] if threads else []
    journal = Journal(place / f"{name}.run" / "metrics.jsonl")
    for moment in [*moments, None]:
        with subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                if moment is not None:
                    _wait(journal, moment, process)
                    process.kill()
                    print(f"  killed after step {moment}", flush=True)
                _, complaint = process.communicate()
            finally:
                process.kill()
        if moment is None and process.returncode:
            raise FirthError(f"the run failed: {complaint.strip()}")
    return place / f"{name}.run"


def _wait(journal: Journal, step: int, process: "subprocess.Popen[str]") -> None:
    begun = time.monotonic()
    while max((record["step"] for record in journal), default=0) < step:
        if process.poll() is not None or time.monotonic() - begun > SLOWEST_STEP * STEPS:
            raise FirthError(
                f"the run ended before step {step}: {process.communicate()[1].strip()}"
            )
        time.sleep(0.02)


def _sums(run: Path) -> dict[str, str]:
    """The sha256 of the last weights, of the optimizer's memory and of all losses."""
    last = run / "checkpoints" / f"step-{STEPS:09}"
    losses: list[Any] = [
        {key: record[key] for key in record if key != "seconds"}
        for record in Journal(run / "metrics.jsonl")
    ]
    sums = {
        part: hashlib.sha256((last / f"{part}.safetensors").read_bytes()).hexdigest()
        for part in ("weights", "optimizer")
    }
    return sums | {"losses": hashlib.sha256(json.dumps(losses).encode()).hexdigest()}
