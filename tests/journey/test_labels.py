"""Labels as the data have them: their types come back in answers, and rows without one are left out and counted."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.base.errors import InputError
from tests.journey.command import Ended, run
from tests.journey.place import CHOSEN, STILL, TEXTS, Place

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("labels"))


@pytest.fixture(scope="module")
def model(place: Place) -> Path:
    return place.model("regress")  # an encoder; its head is for something else


def table(place: Place, name: str, labels: list[Any]) -> Path:
    """A .csv of the tickets with a column of labels."""
    path = place.folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *zip(TEXTS, labels, strict=False)])
    return path


def rows(labels: list[Any]) -> list[dict[str, Any]]:
    return [{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=False)]


def tune(model: Path, train: Path, out: Path, *options: object, task: str = "classify") -> Ended:
    given = () if "--dev" in options else ("--dev", train)
    ended = run(
        "finetune", task, "--model", model, "--train", train, *given, "-o", out, *STILL, *options
    )
    assert ended.code == 0, ended.err
    return ended


def typed(values: list[Any]) -> list[tuple[type, Any]]:
    """Values that are told from equal ones of another type."""
    return [(type(value), value) for value in values]


@pytest.mark.parametrize(
    ("name", "labels", "written"),
    [
        ("whole", [0, 1, 10], ["0", "1", "10"]),
        ("truths", [False, True], ["false", "true"]),
        ("halves", [0.5, 1.0, 2], ["0.5", "1", "2"]),
        ("mixed", [0, "1", "none of both"], ["0", "1", "none of both"]),
    ],
)
def test_answers_have_the_labels_of_the_data(
    name: str, labels: list[Any], written: list[str], place: Place, model: Path
) -> None:
    given = [labels[number % len(labels)] for number in range(len(TEXTS))]
    out = place.folder / name
    tune(model, place.file(f"{name}-train", rows(given)), out)
    assert typed(json.loads((out / "firth.json").read_text())["labels"]) == typed(labels)
    config = json.loads((out / "config.json").read_text())
    assert list(config["id2label"].values()) == written
    answers = firth.load(out).predict(TEXTS)
    assert {type(answer.label) for answer in answers} <= {type(label) for label in labels}
    assert all(typed(list(answer.probabilities)) == typed(labels) for answer in answers)
    assert all(
        answer.probabilities[answer.label] == max(answer.probabilities.values())
        for answer in answers
    )
    (place.folder / "ask.txt").write_text(
        "\n".join(text.replace("\n", " ") for text in TEXTS[:4]) + "\n"
    )
    printed = [
        json.loads(line)
        for line in run("predict", out, place.folder / "ask.txt", "--json").out.splitlines()
    ]
    assert typed([one["label"] for one in printed]) == typed(
        [answer.label for answer in firth.load(out).predict(TEXTS[:4])]
    )
    assert all(list(one["shares"]) == written for one in printed)
    table = run("predict", out, place.folder / "ask.txt").out.split("\n")[:-1]
    assert {line.split("  ")[-1] for line in table} <= set(written)


def test_labels_are_matched_by_their_written_form(place: Place, model: Path) -> None:
    given = [number % 2 for number in range(len(TEXTS))]
    typeless = table(place, "zeros.csv", given)
    lines = place.file("zeros", rows(given))
    tune(model, lines, place.folder / "numbers")
    tune(model, typeless, place.folder / "strings")
    metrics = [
        json.loads(run("evaluate", place.folder / name, data, "--json").out)["metrics"]
        for name in ("numbers", "strings")
        for data in (lines, typeless)
    ]
    assert all(one == metrics[0] for one in metrics)
    assert "labels" not in json.loads((place.folder / "strings" / "firth.json").read_text())
    assert {
        type(answer.label) for answer in firth.load(place.folder / "strings").predict(TEXTS)
    } == {str}
    # A head that is kept has the types of its folder, where the new data has none.
    assert "is kept" in tune(place.folder / "numbers", typeless, place.folder / "numbers-again").err
    assert {
        type(answer.label) for answer in firth.load(place.folder / "numbers-again").predict(TEXTS)
    } == {int}
    assert (
        tune(model, lines, place.folder / "dev-csv", "--dev", typeless).code == 0
    )  # a .csv has no types to disagree


def test_lists_and_frozen_layers_keep_types_too(place: Place, model: Path) -> None:
    given = [[1, 2] if number % 3 else [] for number in range(len(TEXTS))]
    tune(
        model,
        place.file("lists", rows(given)),
        place.folder / "lists",
        "--features",
        "-1",
        "--rate",
        "0.05",
        "--epochs",
        "20",
    )
    answers = firth.load(place.folder / "lists").predict(TEXTS)
    assert {answer.label for answer in answers} <= {(1, 2), (), (1,), (2,)}
    assert {type(label) for answer in answers for label in answer.label} == {int}


def test_a_label_that_is_text_here_and_a_number_there_is_refused(place: Place, model: Path) -> None:
    one = place.file("both", rows([0, 1, "0", 1]))
    other = place.file("text", rows(["0", "1"] * 3))
    numbers = place.file("ints", rows([1, 0] * 3))
    out = place.folder / "refused"
    given = ("finetune", "classify", "--model", model, "-o", out, *STILL)
    alike = "write them alike"
    for words, said in (
        ((*given, "--train", one), f"{one}:3 has the label '0' where line 1 has 0: {alike}\n"),
        (
            (*given, "--train", numbers, "--dev", other),
            f"{other} has the label '0' in line 1, where {numbers}:2 has 0: {alike}\n",
        ),
    ):
        ended = run(*words)
        assert (ended.code, said in ended.err) == (2, True), ended.err
        assert not out.exists()
    assert f"error: {one}:3 has the label '0' where line 1 has 0" in run("check", one).out
    assert (
        f"error: {other} has the label '0' in line 1"
        in run("check", numbers, "--dev", other, "--task", "classify").out
    )
    ended = run(*given, "--train", place.file("equal", rows([True, 1, 0, False])))
    assert "which are equal: write one as text" in ended.err


@pytest.mark.parametrize(
    "labels", [[0], [0, 2], ["0", None], [0, [1]], {"0": 1}, [0, float("nan")], [False, True]]
)
def test_labels_of_a_folder_that_are_not_its_own_are_refused(
    labels: Any, place: Place, tmp_path: Path
) -> None:
    folder = place.model("classify", ("0", "1"))
    (folder / "firth.json").write_text(
        json.dumps({"format": 1, "task": "classify", "labels": labels, "sha256": {}})
    )
    with pytest.raises(InputError, match=r"firth\.json: labels must be those of the model"):
        firth.load(folder)


def test_rows_without_a_label_are_left_out_and_counted(place: Place, model: Path) -> None:
    labels = [ticket.about for ticket in CHOSEN]
    holes = {0: "", 3: "  ", 7: ""}
    train = table(place, "export.csv", [holes.get(at, label) for at, label in enumerate(labels)])
    nulls = {1: None, 4: float("nan"), 5: " "}
    dev = place.file("holes", rows([nulls.get(at, label) for at, label in enumerate(labels)]))
    skipped = f"3 of {len(labels)} rows have no label in column 'label' and were skipped"
    ended = tune(model, train, place.folder / "holes", "--dev", dev)
    assert f"note: {train}: {skipped} (first: line 2)\n" in ended.err
    assert f"note: {dev}: {skipped} (first: line 2)\n" in ended.err
    made = json.loads((place.folder / "holes" / "firth.json").read_text())["made"]
    assert made["examples"] == {"trained": len(labels) - 3, "held_out": len(labels) - 3}
    ended = run("evaluate", place.folder / "holes", dev, "--json")
    assert f"note: {dev}: {skipped} (first: line 2)\n" in ended.err
    assert (json.loads(ended.out)["examples"], json.loads(ended.out)["unlabelled"]) == (
        len(labels) - 3,
        3,
    )
    checked = json.loads(run("check", train, "--dev", dev, "--json").out)
    assert [(file["kept"], file["unlabelled"]) for file in checked["files"]] == [
        (len(labels) - 3, 3)
    ] * 2
    assert (checked["errors"], checked["counts"]["warning"]["unlabelled"]) == (0, 6)
    none = table(place, "none.csv", [""] * 4)
    for words in (
        ("finetune", "classify", "--model", model, "--train", none, "-o", place.folder / "x"),
        ("evaluate", place.folder / "holes", none),
    ):
        ended = run(*words)
        assert (ended.code, ended.err) == (
            2,
            f"firth: {none}: all of its 4 rows have no label in column 'label'\n",
        )
    assert run("check", none).code == 2


def test_words_that_look_missing_are_classes_unless_told(place: Place, model: Path) -> None:
    labels = [("nan", "defect", "praise")[at % 3] for at in range(len(TEXTS))]
    train = table(place, "words.csv", labels)
    count = labels.count("nan")
    ended = tune(model, train, place.folder / "classes")
    assert (
        f"WARNING: {train}: {count} rows have the label 'nan', which counts as a class; --missing nan leaves them out\n"
        in ended.err
    )
    assert "nan" in firth.load(place.folder / "classes").bundle.labels
    checked = run("check", train).out
    assert (
        f"has the first of {count} rows with the label 'nan', which counts as a class; --missing nan leaves them out"
        in checked
    )
    for options in (("--missing", "nan"), ("--missing", "NaN"), ("--set", "missing=nan")):
        assert (
            f"{len(labels)} rows, {count} unlabelled; classify, 2 labels"
            in run("check", train, *options).out
        )
    ended = tune(model, train, place.folder / "without", "--missing", "nan", "--missing", "unknown")
    skipped = f"note: {train}: {count} of {len(labels)} rows have no label in column 'label' and were skipped (first: line 2)\n"
    assert skipped in ended.err
    assert "WARNING" not in ended.err
    assert firth.load(place.folder / "without").bundle.labels == ("defect", "praise")
    assert (
        skipped in run("evaluate", place.folder / "without", train).err
    )  # as the folder remembers
    ended = run("evaluate", place.folder / "classes", train, "--missing", "nan", "--json")
    assert json.loads(ended.out)["unlabelled"] == count
    firth.finetune(
        "classify",
        model,
        train,
        place.folder / "python",
        dev=train,
        missing="nan",
        rate=1e-9,
        epochs=1.0,
        threads=1,
    )
    assert json.loads((place.folder / "python" / "firth.json").read_text())["settings"][
        "missing"
    ] == ["nan"]


def test_numbers_and_spans_may_be_missing_too(place: Place, model: Path) -> None:
    train = table(place, "numbers.csv", ["", "nan", "NULL", *map(float, range(len(TEXTS) - 3))])
    ended = tune(model, train, place.folder / "size", "--missing", "NULL", task="regress")
    assert f"3 of {len(TEXTS)} rows have no label" in ended.err
    refused = run(
        "finetune", "regress", "--model", model, "--train", train, "-o", place.folder / "y", *STILL
    )
    assert (
        "has the label 'NULL', which is not a number (--missing NULL leaves such rows out)"
        in refused.err
    )
    spans = place.file(
        "spans",
        [{**row, "spans": None} if at == 2 else row for at, row in enumerate(place.rows["tag"])],
    )
    ended = tune(model, spans, place.folder / "names", task="tag")
    assert (
        f"1 of {len(TEXTS)} rows have no label in column 'spans' and were skipped (first: line 3)"
        in ended.err
    )
