"""Show on built-in samples what models do: nearest texts, senses, training, a look inside."""

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from firth.base.errors import FirthError
from firth.base.files import read_json
from firth.base.journal import Journal
from firth.predictor import Predictor, load_predictor
from firth.probes.senses import (
    Senses,
    compare_senses,
    contextual_vectors,
    nearest_texts,
    static_vectors,
)
from firth.recipes.host import temporary_runs
from firth.samples import library
from firth.samples.texts import MONEY, QUERIES, RIVER, TEXTS, WORD
from firth.samples.tickets import Ticket, tickets
from firth.tasks.classify import Classification
from firth.tasks.tag import NamedSpans
from firth.verbs.finetune import FinetuneResult, finetune
from firth.verbs.pretrain import pretrain
from firth.verbs.view import view
from firth.verbs.vocab import VocabReport, vocab

NEIGHBOURS = 2  # texts for each query
PIECES = 4000  # of the vocabulary
HELD_OUT = 4  # every so-many-th ticket
ASKED = (
    "The lid of my copper kettle does not close any more.",
    "Why did you charge my card again for the floor lamp?",
    "My parcel has been in Rotterdam for nine days.",
)
SHOWN = 6  # moments of the run
KILLS = 3
STEPS = 40
SAVED_EVERY = 5  # steps
SLOWEST_STEP = 60.0  # seconds
NEXT = """\
To go on with texts of your own, one a line:
  firth embed minilm texts.txt -o vectors.npy                 a vector for each text
  firth embed minilm texts.txt --pool words -o words.jsonl    a vector for each word, with its place
  firth pretrain letters/ -o my-bert/ --minutes 60            \
a BERT of your own, from a folder of text
  firth finetune classify --model minilm --train t.csv -o x/  a task of your own, from examples
  firth view minilm "She sat by the bank of the river."       \
a page of every head's attention, and more
  firth predict my-bert/ "Paris is the [MASK] of France."     fills in what is hidden
  firth env                                                   what this machine has"""

Part = str | VocabReport | FinetuneResult  # of the demo: a line, or what a function returned


def demo(minutes: float = 1.0, threads: int | None = None) -> Iterator[Part]:
    """Yield lines on nearest texts, a word with two senses, and models that are trained.

    Among them are the results of the functions that train.
    """
    begun = time.perf_counter()
    predictor = load_predictor("minilm", threads)
    opened = time.perf_counter() - begun
    encoder = predictor.bundle.encoder
    layers = f"{encoder.depth} layers of width {encoder.width}"
    yield f"minilm: {layers}, opened in {opened:.2f} s"

    yield from _show_neighbours(predictor)
    yield from _show_senses(predictor)
    yield from _show_pretraining(minutes, threads)
    yield from _show_finetuning(threads)

    seconds = time.perf_counter() - begun
    yield f"\nThe demo took {seconds:.1f} s.\n\n{NEXT}"


# Nearest texts


def _show_neighbours(predictor: Predictor) -> Iterator[str]:
    """Yield the texts nearest to each query."""
    begun = time.perf_counter()
    topics = {}
    for topic, texts in TEXTS.items():
        topics.update(dict.fromkeys(texts, topic))
    queries = list(QUERIES)
    found = nearest_texts(predictor, queries, list(topics), NEIGHBOURS)
    seconds = time.perf_counter() - begun

    count = len(topics) + len(queries)
    yield f"\n1. Nearest texts: {count} texts became vectors in {seconds:.2f} s"
    for query, nearest in zip(queries, found, strict=True):
        yield f"\n  {query}"
        for similarity, text in nearest:
            topic = topics[text]
            yield f"    {similarity:.2f}  {topic:8} {text}"


# The senses of a word


def _show_senses(predictor: Predictor) -> Iterator[str]:
    """Yield how far the two senses of a word are apart, without context and after each layer."""
    begun = time.perf_counter()
    sentences = [*RIVER, *MONEY]
    layers = contextual_vectors(predictor, WORD, sentences)
    seconds = time.perf_counter() - begun

    count = f"{len(sentences)} sentences with *{WORD}*"
    yield f"\n2. One word, two senses: {count}, each layer, in {seconds:.2f} s\n"
    yield f"  {'by a river':14} {RIVER[0]}"
    yield f"  {'with deposits':14} {MONEY[0]}"
    yield f"\n  cosine of two vectors of *{WORD}*    same sense   different sense"

    vectors_of_table = static_vectors(predictor, WORD, sentences)
    static = compare_senses(vectors_of_table, len(RIVER))
    yield _senses_row("static: the row of its table", static)
    for number, vectors in enumerate(layers, 1):
        senses = compare_senses(vectors, len(RIVER))
        yield _senses_row(f"in context: layer {number}", senses)

    yield (
        "\n  A static vector is the same everywhere. "
        f"In context, the nearest other *{WORD}* has the same sense"
    )
    yield f"  for {senses.right} of {len(sentences)} sentences."


def _senses_row(name: str, senses: Senses) -> str:
    return f"  {name:35} {senses.same:10.2f} {senses.different:17.2f}"


# Pretraining


def _show_pretraining(minutes: float, threads: int | None) -> Iterator[str | VocabReport]:
    """Pretrain a model; yield how the loss fell and what the model can guess."""
    text = "the documentation that came with this Python"
    yield f"\n3. A BERT of its own: {minutes:g} minutes on {text}\n"

    with tempfile.TemporaryDirectory() as place, temporary_runs():
        corpus = Path(place) / "python.txt"
        words = Path(place) / "words"
        model = Path(place) / "model"
        library.write(corpus)
        yield vocab([corpus], words, size=PIECES)
        pretrain([corpus], model, minutes=minutes, size="tiny", vocab=str(words), threads=threads)
        records = list(Journal(model / "metrics.jsonl"))
        made = read_json(model / "firth.json")["made"]

    yield from _loss_rows(records)
    accuracy = made["dev"]["masked_accuracy"]
    yield f"\n  hidden words of held-out text that it names: {accuracy:.1%}"
    baseline = made["baseline"]
    piece = baseline["piece"]
    guessed = baseline["masked_accuracy"]
    yield f"  that always guessing {piece!r} names:     {guessed:.1%}"


def _loss_rows(records: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the mean loss at some moments of a run."""
    losses = [(record["step"], record["loss"]) for record in records if "loss" in record]
    count = min(SHOWN, len(losses))
    yield "\n  up to step   mean loss"
    for part in np.array_split(np.array(losses), count):
        last_step = part[-1, 0]
        mean_loss = part[:, 1].mean()
        yield f"  {last_step:10,.0f}   {mean_loss:9.3f}"


# Fine-tuning


def _show_finetuning(threads: int | None) -> Iterator[str | FinetuneResult]:
    """Fine-tune the default encoder for two tasks; yield metrics and what the models answer."""
    begun = time.perf_counter()
    written = tickets()
    count = f"{len(written)} tickets of a shop, every {HELD_OUT}th held out"
    yield f"\n4. A task of its own: {count}\n"

    train = [ticket for number, ticket in enumerate(written) if number % HELD_OUT]
    dev = written[::HELD_OUT]
    with tempfile.TemporaryDirectory() as place, temporary_runs():
        folder = Path(place)
        _write_examples(folder, "train", train)
        _write_examples(folder, "dev", dev)

        about = _finetune(folder, "classify", "about", "triage", threads)
        yield about._replace(out="triage")
        names = _finetune(folder, "tag", "names", "names", threads)
        f1 = names.scores["f1"]
        interval = f"{f1.value:.3f} ({f1.low:.3f} to {f1.high:.3f})"
        yield f"names: F1 of named products, places and people {interval}\n"

        decisions = load_predictor(folder / "triage", threads).predict(ASKED)
        found = load_predictor(folder / "names", threads).predict(ASKED)
        page = Path(tempfile.mkdtemp(prefix="firth-demo-")) / "view.html"
        view(folder / "triage", ASKED[0], page, threads=threads)

    for text, decision, names_found in zip(ASKED, decisions, found, strict=True):
        assert isinstance(decision, Classification)
        assert isinstance(names_found, NamedSpans)
        spans = [f"{span.text} ({span.label})" for span in names_found.spans]
        said = ", ".join(spans) or "no names"
        yield f"  {text}"
        yield f"    {decision.label}, {decision.confidence:.0%} sure; {said}"
    seconds = time.perf_counter() - begun
    yield f"\n  ({seconds:.0f} s)"
    yield (
        "\n5. Look inside: where the model of these classes looks in the first ticket, and what "
        f"each head\n  does for its answer, as a page for a browser:\n\n  {page}"
    )


def _finetune(
    folder: Path, task: str, examples: str, out: str, threads: int | None
) -> FinetuneResult:
    """Fine-tune the default encoder on files of a folder."""
    return finetune(
        task,
        "minilm",
        folder / f"train.{examples}.jsonl",
        folder / out,
        dev=str(folder / f"dev.{examples}.jsonl"),
        epochs=8.0,
        batch=8,
        rate=3e-4,
        threads=threads,
    )


def _write_examples(folder: Path, name: str, rows: list[Ticket]) -> None:
    """Write what tickets are about, and the names in them, as examples."""
    about = [{"text": ticket.text, "label": ticket.about} for ticket in rows]
    _write_lines(folder / f"{name}.about.jsonl", about)
    names = []
    for ticket in rows:
        spans = [span._asdict() for span in ticket.names]
        names.append({"text": ticket.text, "spans": spans})
    _write_lines(folder / f"{name}.names.jsonl", names)


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = [json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# Killed runs


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
