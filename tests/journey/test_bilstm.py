"""`firth finetune --head bilstm`: two layers that read the frozen layers both ways, for every task, to the bit and to the folder."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import firth
from firth.data.examples import Line
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.samples.tickets import MARKED, tickets
from tests.journey.command import run
from tests.journey.place import TEXTS, Place
from tests.journey.test_answer import published
from tests.journey.test_choice import rows as choices
from tests.journey.warm import Warm

pytestmark = pytest.mark.usefixtures("one_thread")
BILSTM = ("--features", "-1", "--head", "bilstm", "--threads", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Files for every task, and an encoder with random weights."""
    place = Place(tmp_path_factory.mktemp("bilstm"))
    asked: list[dict[str, Any]] = choices(24, 1)
    place.file("choice", asked)
    place.file("tag", [city_named(row) for row in asked])
    (place.folder / "answer.json").write_text(json.dumps(published(["Lund", "Ystad", "Kivik"])))
    torch.manual_seed(1)
    sizes = {"width": 32, "depth": 1, "heads": 2, "inner": 64, "length": 32}
    encoder = Bert(BertSettings(vocab=place.tokenizer.size, spread=0.3, **sizes)).eval()
    save(Bundle(encoder, place.tokenizer), place.folder / "base")
    return place


def city_named(row: dict[str, Any]) -> dict[str, Any]:
    """A context with a span at the city that is the right answer."""
    city = row["choices"][row["label"]].removeprefix("It was ").removesuffix(".")
    start = row["context"].index(city)
    span = {"start": start, "end": start + len(city), "label": "city"}
    return {"text": row["context"], "spans": [span]}


def data(place: Place, kind: str) -> Path:
    return place.folder / f"{kind}.{'json' if kind == 'answer' else 'jsonl'}"


def tune(place: Place, kind: str, out: str, *options: object) -> Any:
    """Fine-tune on the file of a kind, which is held out too; return the record of the run."""
    base, train = place.folder / "base", data(place, kind)
    task = kind.replace("several", "classify")
    given = ("--model", base, "--train", train, "--dev", train, "-o", place.folder / out)
    ended = run("finetune", task, *given, *BILSTM, *options)
    assert ended.code == 0, ended.err
    assert not (place.folder / f"{out}.run" / "features.npy").exists()
    return made(place.folder / out)


def made(folder: Path) -> Any:
    return json.loads((folder / "firth.json").read_text())["made"]


@pytest.mark.parametrize(
    ("kind", "metric", "least"), [("classify", "accuracy", 0.5), ("tag", "f1", 0.8)]
)
def test_it_learns_from_what_minilm_says_of_tickets(
    kind: str, metric: str, least: float, place: Place, tmp_path: Path
) -> None:
    rows = []
    for ticket in tickets():
        spans = [name._asdict() for name in ticket.names]
        label = {"label": ticket.about} if kind == "classify" else {"spans": spans}
        rows.append({"text": ticket.text, **label})
    dev = place.file(f"{kind}-dev", rows[::5])
    train = place.file(f"{kind}-train", [row for number, row in enumerate(rows) if number % 5])
    folder = tmp_path / "out"
    given = ("--model", "minilm", "--train", train, "--dev", dev, "-o", folder, "--seed", "3")
    ended = run("finetune", kind, *given, *BILSTM)
    assert ended.code == 0, ended.err
    record = made(folder)
    assert record["scores"][metric]["value"] >= least
    assert (record["settings"]["rate"], record["settings"]["epochs"]) == (1e-3, 10.0)

    bundle, given = firth.load(folder).bundle, firth.load("minilm").bundle
    assert bundle.features.bilstm.shape == (2, 384)
    for name, weight in bundle.encoder.named_parameters():
        assert torch.equal(weight, given.encoder.get_parameter(name))
    assert "a biLSTM with a head reads its layers -1" in (folder / "README.md").read_text()

    answer = json.loads(run("predict", folder, TEXTS[0], "--json").out)
    if kind == "classify":
        assert answer["label"] in MARKED
    else:
        assert all(TEXTS[0][one["start"] : one["end"]] == one["text"] for one in answer["spans"])


@pytest.mark.parametrize(
    ("kind", "metric", "least"),
    [
        ("classify", "accuracy", 0.9),
        ("several", "micro_f1", 0.9),
        ("regress", "pearson", 0.9),
        ("tag", "f1", 0.9),
        ("choice", "accuracy", 0.9),
        ("answer", "f1", 0.9),
    ],
)
def test_every_task_learns_and_is_measured_alike(
    kind: str, metric: str, least: float, place: Place
) -> None:
    """Windows of 16 tokens with --long slide, so that most texts have several."""
    options = ("--steps", "150", "--batch", "8", "--rate", "1e-2", "--seed", "4", "--dropout", "0")
    long = ("--length", "32" if kind == "answer" else "16", "--long", "slide")
    record = tune(place, kind, f"all-{kind}", *options, *long)
    assert record["scores"][metric]["value"] >= least

    ended = run("evaluate", place.folder / f"all-{kind}", data(place, kind), "--json")
    assert ended.code == 0, ended.err
    (measured,) = json.loads(ended.out)["models"]
    for name, interval in record["scores"].items():
        assert measured["metrics"][name]["value"] == pytest.approx(interval["value"], abs=1e-6)


@pytest.mark.parametrize("kind", ["classify", "tag"])
def test_a_killed_run_ends_with_the_same_bits(
    kind: str, warm: Warm, place: Place, tmp_path: Path
) -> None:
    train = place.folder / f"{kind}.jsonl"
    words = ["finetune", kind, "--model", place.folder / "base", "--train", train, *BILSTM]
    words += ["--dev", train, "--epochs", "3", "--batch", "16", "--micro", "128"]
    words += ["--save-every", "2", "--seed", "5"]

    alone = warm.run(*words, "-o", tmp_path / "peace")
    assert alone.code == 0, alone.err
    killed = warm.run(*words, "-o", tmp_path / "killed", FIRTH_FAILPOINT="before-rename:2")
    assert killed.code == -signal.SIGKILL
    ended = warm.run(*words, "-o", tmp_path / "killed", "--resume")
    assert ended.code == 0, ended.err
    mine, theirs = ((tmp_path / name / "model.safetensors") for name in ("killed", "peace"))
    assert mine.read_bytes() == theirs.read_bytes()


def test_the_head_is_kept_where_a_bilstm_is_asked_for_again(place: Place) -> None:
    place.tune("classify", place.folder / "base", "before", *BILSTM, "--rate", "1e-2")
    before = place.folder / "before"
    ended = place.tune("classify", before, "kept", *BILSTM)
    assert f"the head of {before} is kept: same task and labels" in ended.err
    asked = [Line(text) for text in TEXTS[:5]]
    ours, theirs = (
        [one for (one,) in firth.load(place.folder / name, threads=1).raw(asked)]
        for name in ("before", "kept")
    )
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-3)

    # What is kept is also trained on.
    place.tune("classify", before, "further", *BILSTM, "--rate", "1e-3")
    weights = [
        load_file(place.folder / name / "model.safetensors") for name in ("before", "further")
    ]
    layers = [name for name in weights[0] if name.startswith("firth.bilstm.")]
    assert len(layers) == 12
    assert not any(torch.equal(weights[0][name], weights[1][name]) for name in layers)


def test_another_head_over_the_same_layers_is_new(place: Place) -> None:
    layers = ("--features", "-1")
    reads = "--features 1 --combine weights"
    for kind, first, then in (("bilstm", BILSTM, layers), ("linear", layers, BILSTM)):
        place.tune("classify", place.folder / "base", f"was-{kind}", *first)
        was = place.folder / f"was-{kind}"
        told = [f"{reads} --head bilstm" if "bilstm" in words else reads for words in (first, then)]
        said = f"a new head is initialised: that of {was} reads {told[0]}, and this one {told[1]}"
        assert f"{said}\n" in place.tune("classify", was, f"is-not-{kind}", *then).err


def test_seeds_and_folds_have_it_too(place: Place) -> None:
    for name, options in (("seeds", ("--seeds", "2")), ("folds", ("--folds", "2"))):
        place.tune("classify", place.folder / "base", name, *BILSTM, *options)
        assert firth.load(place.folder / name).bundle.features.bilstm is not None
