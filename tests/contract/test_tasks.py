"""What every task of the registry promises; a new one brings eight rows of a file, or some texts.

Mates in a batch change nothing, long texts are read in windows, a folder gives the same answers, a
run that is broken off ends with the same bits, eight examples can be learned, answers are JSON.
"""

import inspect
import json
import math
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firth.base.errors import InputError
from firth.base.progress import Progress
from firth.data.examples import (
    Candidates,
    Example,
    Labelled,
    Line,
    Question,
    ScoredCandidates,
)
from firth.data.feed import micro_batches
from firth.data.options import Options
from firth.data.rows import EncodedExample, ExampleFeed
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.models.transformer import Transformer, TransformerSettings
from firth.predictor import Coverage, Predictor
from firth.reading.readers import Reading
from firth.reading.survey import Findings, survey
from firth.recipes.finetune import train_task
from firth.recipes.settings import FinetuneSettings
from firth.recipes.texttotext import train_pairs
from firth.tasks import registry
from firth.tasks.choice import Choose
from firth.tasks.encoded import EncodedTask, encode_examples
from firth.tasks.task import Answer, Task
from firth.tasks.trained import TrainedTask, TrainingData
from firth.text.tokenizer import Tokenizer
from firth.train.learner import Learner
from firth.train.loop import Outcome
from firth.train.run import Run
from tests.unit import speakers

TEXTS = [
    "The parcel came on Monday.",
    "I was charged twice for a pan.",
    "Where is my kettle?",
    "Åsa in Lund thanks you!",
    "The lid of the pan broke.",
    "Nobody answers the telephone.",
    "A refund for the kettle, please.",
    "Lund has had no parcel.",
]
# Eight rows of a file for each task that is learned from examples.
ROWS: dict[str, list[dict[str, Any]]] = {
    "answer": [
        {
            "question": f"Which {what} is it?",
            "context": text,
            "answers": [{"text": text[at:end], "start": at}] if end else [],
        }
        for text, what, at, end in [
            (TEXTS[0], "day", 19, 25),
            (TEXTS[1], "thing", 26, 29),
            (TEXTS[2], "thing", 12, 18),
            (TEXTS[3], "place", 7, 11),
            (TEXTS[4], "thing", 0, 7),
            (TEXTS[5], "place", 0, 0),
            (TEXTS[6], "place", 0, 0),
            (TEXTS[7], "place", 0, 4),
        ]
    ],
    "classify": [
        {"text": text, "label": label}
        for text, label in zip(TEXTS, ["post", "bill", "ware", "thanks"] * 2, strict=True)
    ],
    "regress": [{"text": text, "label": 10.5 * place} for place, text in enumerate(TEXTS)],
    "tag": [
        {"text": text, "spans": [[at, at + len(word), label]] if at >= 0 else []}
        for text in TEXTS
        for word, label, at in [
            ("Lund", "PLACE", text.find("Lund"))
            if "Lund" in text
            else ("pan", "WARE", text.find("pan"))
        ]
    ],
    "translate": [{"src": text, "tgt": " ".join(reversed(text.lower().split()))} for text in TEXTS],
    "choice": [
        {"context": text, "choices": ["Yes.", "Perhaps not.", f"No, {text}"], "label": place % 3}
        for place, text in enumerate(TEXTS)
    ],
}
# What the others are asked, and the model that is asked.
ASKED: dict[str, tuple[str, list[Example]]] = {
    "fill": ("fill", [Line(text.replace("the", "[MASK]") + " [MASK]") for text in TEXTS]),
    "generate": ("gpt", [Line(text) for text in TEXTS]),
    "complete": ("gpt", [Line(text) for text in TEXTS[:4]]),
    "likelihood": (
        "gpt",
        [
            *(Line(text) for text in TEXTS[:4]),
            Labelled("Where is", None, "my kettle?"),
            Candidates("The lid", ("broke.", "of the pan broke.", "")),
            ScoredCandidates("", ("The lid broke.", "The lit broke.", ""), (-4.5, -4, -30.25)),
        ],
    ),
    "bidirectional": ("elmo", [Line(text) for text in TEXTS]),
    "embed": ("", [*(Line(text) for text in TEXTS), Labelled(TEXTS[0], None, TEXTS[1])]),
}
TRAINED = [*registry.TRAINED]
HEADED = [name for name, task in registry.trained_tasks().items() if task.contract == "encoder"]
HIGHEST = {"translate": 100.0}  # of the metrics of a task, where it isn't 1
NAMES = [*registry.BUILT_IN]
LENGTH = 32  # tokens that the models read
HOSTILE = ["", " ", "\0", "🙂" * 40, "x\u200b\u0301y", "word " * 400, "[MASK]", "\ud800", "\r\n"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.train(TEXTS * 3 + ["Yes. Perhaps not. No,"] * 3, size=200)


def encoder(words: Tokenizer, pooler: bool) -> Bert:
    torch.manual_seed(3)
    sizes = {"vocab": words.size, "width": 32, "depth": 2, "heads": 2, "inner": 64}
    settings = BertSettings(**sizes, length=LENGTH, spread=0.2, dropout=0.0, pooler=pooler)
    return Bert(settings).eval()


def translator(words: Tokenizer) -> Bundle:
    """Return a small encoder-decoder that has learned nothing."""
    torch.manual_seed(3)
    assert words.cls is not None
    assert words.sep is not None
    sizes = {"vocab": words.size, "width": 32, "depth": 2, "heads": 2, "inner": 64}
    marks = {"start": words.cls, "end": words.sep}
    model = Transformer(TransformerSettings(**sizes, **marks, length=LENGTH)).eval()
    return Bundle(model, words, "firth-transformer", "translate")


def examples(name: str, folder: Path) -> list[Example]:
    """Return a task's eight rows as it reads them."""
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]))
    reading = Reading(path, readers=registry.readers(name))
    found = [row.example for row in reading if row.example is not None]
    assert reading.counts.kept == len(found) == 8
    return found


def planned(name: str, found: list[Example]) -> tuple[str, tuple[str, ...]]:
    data = TrainingData(found, found, "train", "dev", {})
    return registry.find_trained(name).plan(data)


class Asked:
    """A task, a model for it and what it is asked."""

    def __init__(self, name: str, words: Tokenizer, folder: Path) -> None:
        self.name = name
        if name in ROWS and name not in HEADED:
            self.examples = examples(name, folder)
            self.bundle = translator(words)
        elif name in ROWS:
            self.examples = examples(name, folder)
            kind, labels = planned(name, self.examples)
            task = registry.find_trained(name)
            model = encoder(words, task.pooled)
            head = task.make_head(model, kind, labels)
            assert head is not None
            torch.nn.init.normal_(head.linear.weight, std=1.0)
            self.bundle = Bundle(model, words, kind=kind, head=head.eval(), labels=labels)
        else:
            source, self.examples = ASKED[name]
            if source in ("gpt", "elmo"):
                self.bundle = speakers.bundle(source)
            else:
                model = encoder(words, pooler=False)
                head = registry.find_task(source).make_head(model, source, ()) if source else None
                self.bundle = Bundle(model, words, kind=source or None, head=head)
                if head is not None:
                    head.eval()
        self.predictor = Predictor(self.bundle, 1)

    @property
    def task(self) -> Task[Any]:
        options = {"lists": True} if self.name == "likelihood" else {}
        return registry.find_task(self.name).of_bundle(self.bundle, **options)

    def answers(self, asked: list[Example], long: str = "cut", **more: Any) -> list[Any]:
        return list(self.predictor.stream(self.task, asked, long, **more))

    def json(self, asked: list[Example], long: str = "cut") -> list[dict[str, Any]]:
        task = self.task
        answers = self.answers(asked, long)
        return [task.record(one, answer) for one, answer in zip(asked, answers, strict=True)]

    def with_text(self, text: str) -> Example:
        """Return the first thing that is asked, with another text."""
        first = self.examples[0]
        if isinstance(first, Question):
            return Question(first.text, text, ())
        if isinstance(first, Options):
            return Options(text, first.candidates, 0)
        if isinstance(first, Candidates):
            return Candidates(text, first.candidates)
        return Line(f"{text} [MASK]" if self.name == "fill" else text)


@pytest.fixture(scope="module")
def asked(
    request: pytest.FixtureRequest, words: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Asked:
    return Asked(request.param, words, tmp_path_factory.mktemp(request.param))


def same(one: Any, other: Any, within: float = 2e-5) -> bool:
    """Return whether two pages of JSON are the same but for the last digits of numbers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key], within) for key in one)
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=True)
        return len(one) == len(other) and all(same(a, b, within) for a, b in pairs)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=within, abs_tol=within)
    return bool(one == other)


def test_every_task_is_tried() -> None:
    assert set(ROWS) | set(ASKED) == set(registry.all_names())
    assert set(ROWS) == set(registry.trained_names())


@pytest.mark.parametrize("name", NAMES)
def test_a_record_is_complete(name: str) -> None:
    task = registry.find_task(name)
    assert task.name == name
    assert 10 < len(task.help) < 100
    assert task.help.endswith(".")
    assert "\n" not in task.help
    assert all(registry.find_kind(kind) is task for kind in task.kinds)
    assert not inspect.isabstract(task)
    if name in registry.BUILT_IN:
        assert import_module(registry.BUILT_IN[name]).TASK is task


@pytest.mark.parametrize("asked", NAMES, indirect=True)
def test_answers_are_json(asked: Asked) -> None:
    task = asked.task
    for example, answer in zip(asked.examples, asked.answers(asked.examples), strict=True):
        page = json.loads(json.dumps(task.record(example, answer), allow_nan=False))
        assert isinstance(page, dict)
        if isinstance(answer, Answer):
            assert page["truncated_tokens"] == answer.truncated_tokens
            assert json.loads(json.dumps(answer.as_json())).items() <= page.items()
            assert answer == asked.answers([example])[0] or same(
                task.record(example, answer), asked.json([example])[0]
            )
        assert isinstance(task.line(example, answer), str)
        if asked.name != "embed":
            assert set(task.cells(example, answer)) == set(task.columns)


@pytest.mark.parametrize("asked", NAMES, indirect=True)
def test_batch_mates_change_nothing(asked: Asked) -> None:
    together = asked.json(asked.examples)
    backward = asked.json(asked.examples[::-1])[::-1]
    for example, page, other in zip(asked.examples, together, backward, strict=True):
        assert same(page, other)
        assert same(page, asked.json([example])[0])


@pytest.mark.parametrize("asked", NAMES, indirect=True)
def test_long_texts_are_cut_or_read_in_windows(asked: Asked) -> None:
    long = asked.with_text("The lid of the pan broke. " * 20)
    coverage = Coverage()
    asked.answers([asked.with_text("Lund"), long], coverage=coverage)
    assert coverage.texts == 2
    if asked.bundle.length is None:
        assert coverage.cut == 0  # it is read whole
        return
    if asked.name == "likelihood":
        assert coverage.cut == 0  # nothing of it is lost
    else:
        assert coverage.cut == 1
        assert coverage.unseen > 20
    if asked.name not in HEADED and asked.name in ROWS:
        with pytest.raises(InputError, match=r"slide.* is not for translating"):
            asked.task.check_long("slide")
        with pytest.raises(InputError, match="text 1: "):
            asked.answers([long], "error")
    elif not asked.task.takes_prompts:
        whole = Coverage()
        (page,) = asked.answers([long], "slide", coverage=whole)
        assert page is not None
        assert whole.unseen <= coverage.unseen // 4
        with pytest.raises(InputError, match="text 1: "):
            asked.answers([long], "error")


@pytest.mark.parametrize("asked", NAMES, indirect=True)
def test_hostile_texts_are_answered_or_refused(asked: Asked) -> None:
    for text in HOSTILE:
        example = asked.with_text(text)
        try:
            (page,) = asked.json([example])
        except InputError:
            continue
        json.dumps(page, allow_nan=False)


@pytest.mark.parametrize("asked", NAMES, indirect=True)
def test_a_folder_gives_the_same_answers(asked: Asked, tmp_path: Path) -> None:
    again = load(save(asked.bundle, tmp_path / "model"))
    assert (again.kind, again.labels) == (asked.bundle.kind, asked.bundle.labels)
    task = registry.find_task(asked.name).of_bundle(again)
    found = list(Predictor(again, 1).stream(task, asked.examples))
    for example, ours, theirs in zip(
        asked.examples, asked.answers(asked.examples), found, strict=True
    ):
        assert task.record(example, ours) == task.record(example, theirs)


@pytest.mark.parametrize("name", TRAINED)
def test_a_file_is_known_by_its_columns(name: str, tmp_path: Path) -> None:
    examples(name, tmp_path)
    path = tmp_path / f"{name}.jsonl"
    assert Reading(path, readers=registry.readers()).task == name
    findings = Findings()
    found = survey(Reading(path, readers=registry.readers(name)), findings)
    assert findings.total("error") == 0
    json.dumps(found.labels.facts())
    assert name in registry.trained_names()


@pytest.mark.parametrize("asked", HEADED, indirect=True)
def test_windows_and_encodings_stay_together(asked: Asked) -> None:
    """However small a micro-batch is, all rows of an example are in it, and count as one."""
    task = asked.task
    assert isinstance(task, EncodedTask)
    long = [asked.with_text(f"{text} " * 12) for text in TEXTS[:3]]
    feed = make_feed(
        registry.find_trained(asked.name), asked, [*asked.examples, *labelled(asked, long)]
    )
    owners: list[int] = []
    for numbers in micro_batches(feed.sizes, 16):
        batch = feed.batch(0, numbers)
        assert set(batch.owner) == set(numbers.tolist())
        for number in numbers:
            rows = [row for row, owner in enumerate(batch.owner) if owner == number]
            assert len(rows) == len(feed.examples[number].rows)
            weights = {}
            for row in rows:
                encoding = batch.encodings[row]
                weights[encoding] = weights.get(encoding, 0.0) + float(batch.targets["weight"][row])
            assert list(weights.values()) == pytest.approx([1.0] * len(weights))
        owners += numbers.tolist()
    assert sorted(owners) == list(range(len(feed.sizes)))
    # A loss is a sum: it is the same however examples are split.
    learner = Learner(asked.bundle.encoder, asked.bundle.head, learning(asked))
    with torch.inference_mode():
        whole = sum(learner(feed.batch(0, np.arange(len(feed.sizes)))).values())
        parts = sum(
            sum(learner(feed.batch(0, one)).values()) for one in micro_batches(feed.sizes, 16)
        )
    assert float(whole) == pytest.approx(float(parts), rel=1e-4)


def labelled(asked: Asked, texts: list[Example]) -> list[Example]:
    """Return texts with the annotation of the first example."""
    first = asked.examples[0]
    if isinstance(first, Labelled):
        return [Labelled(one.text, first.label) for one in texts]
    if asked.name == "tag":
        return [type(first)(one.text, ()) for one in texts]
    return texts


def learning(asked: Asked) -> TrainedTask[Any, Any]:
    kind, labels = planned(asked.name, asked.examples)
    return registry.find_trained(asked.name).of_examples(kind, labels, asked.examples)


def make_feed(task: type[TrainedTask[Any, Any]], asked: Asked, found: list[Example]) -> ExampleFeed:
    learner = learning(asked)
    encoded = []
    for example, one in zip(
        found, encode_examples(learner, found, asked.bundle, "slide"), strict=True
    ):
        targets = [
            [learner.targets(example, one.encodings, number, window) for window in rows]
            for number, rows in enumerate(one.windows)
        ]
        encoded.append(EncodedExample.of(one.windows, targets))
    return ExampleFeed(encoded, [example.text for example in found])


def finetune_settings(name: str, folder: Path, **more: Any) -> FinetuneSettings:
    paths = {"model": str(folder / "base"), "train": "t", "out": str(folder / "out")}
    batch = 4 if name in HEADED else 40  # tokens of a target
    return FinetuneSettings(
        task=name, **paths, batch=batch, dropout=0.1, threads=1, workers=0, **more
    )


def base(words: Tokenizer, folder: Path, name: str) -> None:
    """Save the model that the training of a task begins with."""
    bundle = Bundle(encoder(words, pooler=False), words) if name in HEADED else translator(words)
    save(bundle, folder / "base")


def trained(name: str, *given: Any) -> tuple[Bundle, Outcome]:
    """Train as `finetune` does."""
    return (train_task if name in HEADED else train_pairs)(*given)


@pytest.mark.parametrize("name", TRAINED)
def test_eight_examples_can_be_learned(name: str, words: Tokenizer, tmp_path: Path) -> None:
    base(words, tmp_path, name)
    found = examples(name, tmp_path)
    kind, labels = planned(name, found)
    settings = finetune_settings(name, tmp_path, steps=150, rate=5e-3)
    run = Run(tmp_path / "run")
    run.folder.mkdir()
    bundle, outcome = trained(name, settings, run, kind, labels, found, found)
    assert outcome.steps == 150
    task = registry.find_trained(name).of_examples(kind, labels)
    scoring = task.scoring()
    Predictor(bundle, 1).grade(scoring, found)
    assert scoring.count == 8
    scores = scoring.scores()
    best = scores.get(task.select, next(iter(scores.values())))
    assert best.value > 0.9 * HIGHEST.get(name, 1.0), scores
    # What is the same for all models is not compared.
    compared = scoring.against(scoring).keys()
    assert scores.keys() - {"chance"} == compared


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_that_is_broken_off_ends_with_the_same_bits(
    name: str, words: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base(words, tmp_path, name)
    found = examples(name, tmp_path)
    kind, labels = planned(name, found)
    settings = finetune_settings(name, tmp_path, steps=6, save_every=2, rate=1e-3)

    def train(place: str) -> dict[str, torch.Tensor]:
        run = Run(tmp_path / place)
        run.folder.mkdir(exist_ok=True)
        bundle, _ = trained(name, settings, run, kind, labels, found, found[:4])
        head = bundle.head.state_dict() if bundle.head else {}
        return {**bundle.network.state_dict(), **head}

    whole = train("whole")

    class PowerCut(Exception):
        pass

    with monkeypatch.context() as patch:
        calls = []

        def cut(*_: Any) -> dict[str, float]:
            calls.append(1)
            if len(calls) == 5:  # in the fifth step, with a checkpoint after the fourth
                raise PowerCut
            return real(*_)

        task = registry.find_trained(name)
        real = task.counts
        patch.setattr(task, "counts", cut)
        with pytest.raises(PowerCut):
            train("broken")
    again = train("broken")
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[key], again[key]) for key in whole)


def test_an_unknown_task_is_refused_by_name(words: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no task 'clasify'.*classify"):
        registry.find_task("clasify")
    with pytest.raises(
        InputError, match="there is no task 'embed' to train; there are: answer, choice, classify"
    ):
        registry.find_trained("embed")
    again = type("Again", (Choose,), {"name": "again", "kinds": {"again": "the right option"}})
    with pytest.raises(InputError, match="there is a task 'choice' already"):
        registry.register_task(type("Other", (Choose,), {"name": "choice"}))
    with pytest.raises(InputError, match="models of the task 'classify' are already called"):
        registry.register_task(type("Other", (Choose,), {"name": "o", "kinds": {"several": "x"}}))
    with pytest.raises(InputError, match="a task is a subclass of"):
        registry.register_task(Progress)  # type: ignore[arg-type]
    # A folder whose task isn't known names it, and nothing of it is run.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._registered, "again", again)
        model = encoder(words, pooler=True)
        head = again.make_head(model, "again", ())
        folder = save(Bundle(model, words, kind="again", head=head), tmp_path / "model")
        assert load(folder).kind == "again"
    with pytest.raises(InputError, match="the task 'again' is none that Firth knows"):
        load(folder)
