"""GLUE's published files are read as they are, and figures beside a model's are those of the rules."""

import json
from pathlib import Path
from typing import Any

import pytest

from firth.base.errors import InputError
from firth.evaluation.glue import (
    GLUE,
    SUPERGLUE,
    GlueCell,
    GlueReport,
    GlueResult,
    average,
    glue_scores,
    majority_scores,
)
from firth.evaluation.glue_table import markdown
from firth.metrics.sums import Interval
from firth.output.submission import write_submission
from firth.reading.glue import TASKS, find_glue, known_tasks
from firth.reading.glue_data import GlueData, prepare_glue
from firth.tasks.classify import Classification
from firth.tasks.regress import Number
from tests.glue_files import PAIRS, SENTENCES, objects, table, write_glue, write_superglue


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("glue")
    write_glue(folder)
    return write_superglue(folder)


def data_of(folder: Path, name: str, out: Path) -> GlueData:
    (found,) = find_glue(folder, known_tasks(name)).folders
    return prepare_glue(found, out / name)


def rows(data: GlueData, part: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.file(part).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", [task.name for task in TASKS if task.submissions])
def test_each_task_is_read_as_published(name: str, published: Path, tmp_path: Path) -> None:
    data = data_of(published, name, tmp_path)
    single = name in ("CoLA", "SST-2")
    for part, count in data.rows.items():
        read = rows(data, part)
        if single:
            texts = [row["text"].strip() for row in read]
            assert texts == list(SENTENCES[: len(read)])
        else:
            assert [(row["text_a"], row["text_b"]) for row in read] == list(PAIRS[: len(read)])
        assert count == len(read) == 8
        assert ("label" in read[0]) == ("test" not in part and part != "AX")
    labels = {row["label"] for row in rows(data, "train")}
    assert labels <= set(data.task.labels) if data.task.labels else 4.2 in labels
    if data.task.labels:
        assert sum(data.labels["train"].values()) == 8
        assert set(data.labels["train"]) == set(data.task.labels)
    else:
        assert data.labels == {}


def test_sets_of_mnli_have_their_own_rows(published: Path, tmp_path: Path) -> None:
    data = data_of(published, "mnli", tmp_path)
    assert [*data.rows] == ["train", "dev", "dev-mm", "test", "test-mm", "AX"]
    assert data.task.dev_sets == {"dev": "MNLI-m", "dev-mm": "MNLI-mm"}
    assert [row["index"] for row in rows(data, "test-mm")] == [str(9000 + at) for at in range(8)]
    first = rows(data, "train")[0]
    assert first == {"text_a": PAIRS[0][0], "text_b": PAIRS[0][1], "label": "neutral", "line": 2}


def test_superglue_is_read_as_published(published: Path, tmp_path: Path) -> None:
    boolq = rows(data_of(published, "BoolQ", tmp_path), "dev")
    assert (boolq[0]["text_a"], boolq[0]["text_b"], boolq[0]["label"]) == (*PAIRS[0], "true")
    assert {row["label"] for row in boolq} == {"true", "false"}
    assert data_of(published, "CB", tmp_path).labels["dev"] == {
        "contradiction": 3,
        "entailment": 3,
        "neutral": 2,
    }
    copa = rows(data_of(published, "COPA", tmp_path), "train")
    assert copa[0] == {
        "context": f"{PAIRS[0][0]} What was the cause of this?",
        "choices": [PAIRS[0][1], "Nothing."],
        "label": 0,
        "line": 1,
    }
    assert copa[1]["context"].endswith("What happened as a result?")
    assert copa[1]["label"] == 1


def test_the_first_release_of_mrpc_has_no_dev_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = ("\ufeffQuality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    body = [(at % 2, at, at, f'"{one} {at}', two) for at, (one, two) in enumerate(PAIRS * 5)]
    for part in ("train", "test"):
        table(tmp_path / "MRPC" / f"msr_paraphrase_{part}.txt", [head, *body], end="\r\n")
    with caplog.at_level("INFO", "firth"):
        data = data_of(tmp_path, "mrpc", tmp_path / "out")
    assert data.held_out
    assert data.rows == {"train": 36, "dev": 4}  # its test set has labels
    assert data.labels["dev"] == {"0": 2, "1": 2}
    assert "MRPC has no dev file: 4 rows of its train file are held out" in caplog.text
    assert "test.txt has labels, so that it is no test set of GLUE" in caplog.text
    held = {row["line"] for row in rows(data, "dev")}
    assert held.isdisjoint(row["line"] for row in rows(data, "train"))
    assert rows(data, "train")[0]["text_a"].startswith('"')


def test_rows_are_read_from_json_lines_with_usual_names(tmp_path: Path) -> None:
    for part in ("train", "dev"):
        body: list[dict[str, object]] = [
            {"text_a": one, "text_b": two, "label": at / 2} for at, (one, two) in enumerate(PAIRS)
        ]
        objects(tmp_path / "stsb" / f"{part}.jsonl", body)
    data = data_of(tmp_path, "STS-B", tmp_path / "out")
    assert [row["label"] for row in rows(data, "dev")] == [at / 2 for at in range(8)]
    assert not data.held_out


def test_a_damaged_file_is_named_with_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "rte"
    head = ("index", "sentence1", "sentence2", "label")
    good = [(0, "a", "b", "entailment"), (1, "c", "d", "not_entailment")]
    for body, said in (
        ([*good, (2, "e", "f")], "train.tsv:4 has 3 fields where there should be 4; 1 of 3 rows"),
        ([*good, (2, "e", "f", "maybe")], "train.tsv:4 has the label 'maybe', which is none of"),
        ([(0, "a", "b", "-")], "train.tsv: none of its 1 rows has a label"),
        ([], "train.tsv: none of its 0 rows has a label"),
    ):
        table(folder / "train.tsv", [head, *body])
        with pytest.raises(InputError, match="rte") as raised:
            data_of(tmp_path, "RTE", tmp_path / "out")
        assert said in str(raised.value)
    table(folder / "train.tsv", [("one", "two"), ("a", "b")])
    with pytest.raises(InputError, match=r"train.tsv:1 has no columns of RTE; it has one, two"):
        data_of(tmp_path, "RTE", tmp_path / "out")
    (folder / "train.tsv").write_bytes(b"")
    with pytest.raises(InputError, match=r"train.tsv is empty"):
        data_of(tmp_path, "RTE", tmp_path / "out")
    (folder / "train.tsv").unlink()
    (folder / "train.jsonl").write_text('{"premise": "a", "hypothesis"\n')
    with pytest.raises(InputError, match=r"train.jsonl:1 is not valid JSON"):
        data_of(tmp_path, "RTE", tmp_path / "out")


def test_a_rare_bad_row_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    body: list[tuple[object, ...]] = [(at, 1, 2, f"a {at}", "b", at % 2) for at in range(2000)]
    body[10] = (10, "torn")
    body[20] = (20, 1, 2, "a", "b", "")
    for part in ("train", "dev"):
        table(tmp_path / "QQP" / f"{part}.tsv", [head, *body])
    with caplog.at_level("INFO", "firth"):
        data = data_of(tmp_path, "QQP", tmp_path / "out")
    assert data.rows["train"] == 1998
    path = tmp_path / "QQP" / "train.tsv"
    assert f"{path}:12 has 2 fields where there should be 6; the row is left out" in caplog.text
    assert "1 of 2,000 rows have no label and are left out (first: line 22)" in caplog.text


def test_every_row_of_a_test_set_is_wanted(published: Path, tmp_path: Path) -> None:
    write_glue(tmp_path)
    head = ("index", "sentence1", "sentence2")
    table(tmp_path / "RTE" / "test.tsv", [head, (0, "a", "b"), (1, "c")])
    with pytest.raises(InputError, match=r"test.tsv:3 has 2 fields .*every row is to be answered"):
        data_of(tmp_path, "RTE", tmp_path / "out")


def test_a_changed_file_is_refused_and_the_same_is_read_once(tmp_path: Path) -> None:
    write_glue(tmp_path)
    data = data_of(tmp_path, "RTE", tmp_path / "out")
    written = data.file("train").stat().st_mtime_ns
    assert data_of(tmp_path, "RTE", tmp_path / "out") == data
    assert data.file("train").stat().st_mtime_ns == written
    with (tmp_path / "RTE" / "dev.tsv").open("a") as file:
        file.write("9\ta\tb\tentailment\n")
    with pytest.raises(InputError, match="was made of other files; force=True begins again"):
        data_of(tmp_path, "RTE", tmp_path / "out")


def test_tasks_are_found_by_the_names_of_their_folders(published: Path, tmp_path: Path) -> None:
    found = find_glue(published)
    assert [one.task.name for one in found.folders] == [task.name for task in TASKS]
    assert found.left_out == {"WiC": "firth has no task for it"}
    assert known_tasks("sst2, STS_B,cola") == ["SST-2", "STS-B", "CoLA"]
    with pytest.raises(
        InputError, match="there is no task 'imdb' to measure; there are: BoolQ, CB, C"
    ):
        known_tasks(["imdb"])
    with pytest.raises(InputError, match="nowhere is no folder"):
        find_glue(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"looked for folders with a train\.tsv .* MNLI, QQP"):
        find_glue(tmp_path)
    with pytest.raises(InputError, match="has no folder for RTE"):
        find_glue(tmp_path, ["RTE"])
    (tmp_path / "qnli").mkdir()
    (tmp_path / "imdb").mkdir()
    with pytest.raises(InputError, match=r"QNLI: .*qnli has no train file"):
        find_glue(tmp_path)


def test_a_second_folder_of_a_task_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = ("index", "sentence1", "sentence2", "label")
    for name in ("STS-B", "RTE", "rte"):
        table(tmp_path / name / "train.tsv", [head, (0, "a", "b", "entailment")])
    with caplog.at_level("INFO", "firth"):
        found = find_glue(tmp_path, ["RTE"])
    assert [one.files["train"].parent.name for one in found.folders] == ["RTE"]
    assert f"{tmp_path / 'rte'} is passed over: {tmp_path / 'RTE'} has the same name" in caplog.text


def test_diagnostic_sentences_may_stand_beside_mnli(published: Path, tmp_path: Path) -> None:
    write_glue(tmp_path)
    (tmp_path / "AX" / "AX.tsv").rename(tmp_path / "MNLI" / "diagnostic.tsv")
    (found,) = find_glue(tmp_path, ["MNLI"]).folders
    assert found.files["AX"] == tmp_path / "MNLI" / "diagnostic.tsv"


def test_the_majority_class_by_hand() -> None:
    """Figures of the published sets: 3,668 and 408 rows of MRPC, 8,551 and 1,043 of CoLA."""
    mrpc = majority_scores({"0": 1194, "1": 2474}, {"0": 129, "1": 279})
    assert mrpc["f1"] == pytest.approx(2 * 279 / (2 * 279 + 129))  # 81.2
    assert mrpc["accuracy"] == pytest.approx(279 / 408)
    cola = majority_scores({"0": 2528, "1": 6023}, {"0": 322, "1": 721})
    assert cola["matthews"] == 0.0
    # The commonest class of train is not that of dev, which nobody who trains has seen.
    other = majority_scores({"0": 5, "1": 3}, {"0": 1, "1": 3})
    assert (other["accuracy"], other["f1"]) == (0.25, 0.0)
    three = majority_scores({"a": 3, "b": 2, "c": 1}, {"a": 2, "b": 1, "c": 1})
    assert three["accuracy"] == 0.5
    assert three["macro_f1"] == pytest.approx((2 * 2 / (2 + 4)) / 3)
    assert majority_scores({}, {}) == {}


@pytest.mark.parametrize("table", [GLUE], ids=["glue"])
def test_published_averages_are_those_of_the_columns(table: Any) -> None:
    for name, values in table.published.items():
        every = range(len(table.columns))
        # One row of the paper differs by what was rounded.
        assert average(table, values, every) == pytest.approx(table.averages[name], abs=0.1)
    values = (90.0, 80.0, 100.0, 70.0, 60.0)
    assert average(SUPERGLUE, values, [0, 1, 2, 3, 4]) == pytest.approx((90 + 90 + 70 + 60) / 4)


def result(name: str, metrics: dict[str, list[float]]) -> GlueResult:
    """A result whose cells have these scores, one a seed, and a balanced dev set."""
    cells = []
    for number, values in enumerate(zip(*metrics.values(), strict=True)):
        scores = {
            metric: Interval(value, value - 0.1, value + 0.1)
            for metric, value in zip(metrics, values, strict=True)
        }
        cells.append(GlueCell(number, "m", 10, 90.0, scores))
    counts = {"0": 10, "1": 30}
    scores_of = glue_scores([*metrics], cells, counts, {"0": 20, "1": 20})
    return GlueResult(name, 40, 40, False, scores_of, tuple(cells))


def cells_of(page: str, first: str) -> list[str]:
    line, *_ = [line for line in page.splitlines() if line.startswith(f"| {first} ")]
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_a_table_of_some_tasks_compares_over_these() -> None:
    results = (
        result("MRPC", {"f1": [0.8], "accuracy": [0.7]}),
        result("RTE", {"accuracy": [0.6, 0.7]}),
        result("WNLI", {"accuracy": [0.5]}),
    )
    report = GlueReport("out", "mine", results, {"CoLA": "why"}, {"WiC": "none"}, ("a.tsv",))
    page = markdown(report)
    assert page.count("| BERT-base ") == 1
    assert "T5" not in page  # RTE alone is not SuperGLUE
    assert cells_of(page, "BERT-base")[-4:] == ["88.9", "66.4", "79.6", f"{(88.9 + 66.4) / 2:.1f}"]
    assert "average of 2" in page
    assert cells_of(page, "mine") == ["mine", *"-------", "80.0", "65.0", "-", "72.5"]
    assert cells_of(page, "majority class")[-4:] == ["66.7", "50.0", "-", "58.3"]
    assert cells_of(page, "RTE") == (
        ["RTE", "40", "40", "accuracy", "65.0", "sd 7.1", "50.0", "2", "3 min"]
    )
    assert cells_of(page, "MRPC")[3:7] == ["F1", "80.0", "70.0 to 90.0", "66.7"]
    assert "accuracy |  70.0" in page  # beside F1
    for said in (
        "CoLA failed: why",
        "WiC is left out: none",
        "a.tsv",
        "WNLI stands apart",
        "6 min",
    ):
        assert said in page


def test_a_table_of_all_tasks_has_the_papers_average() -> None:
    results = [result(name, {metric: [0.5]}) for name, metric in GLUE.columns]
    results.append(result("BoolQ", {"accuracy": [0.25]}))
    page = markdown(GlueReport("out", "mine", tuple(results), {}, {}, ()))
    assert "average of 9" not in page
    assert cells_of(page, "mine") == ["mine", *["50.0"] * 10]
    superglue = page[page.index("BoolQ") :]
    assert cells_of(superglue, "mine") == ["mine", "25.0", "-", "-", "-", "50.0", "-", "37.5"]
    assert cells_of(page, "people")[-2:] == ["89.8", f"{(89.0 + 93.6) / 2:.1f}"]


def test_submissions_have_an_index_and_a_prediction(tmp_path: Path) -> None:
    answers = [("0", Number(5.7)), ("1", Number(-0.2)), ("2", Number(2.71828))]
    write_submission(tmp_path / "STS-B.tsv", answers)
    text = (tmp_path / "STS-B.tsv").read_text()
    assert text == "index\tprediction\n0\t5.000\n1\t0.000\n2\t2.718\n"
    write_submission(tmp_path / "a.tsv", [("7", Classification("entailment", 0.5, {}))])
    assert (tmp_path / "a.tsv").read_text() == "index\tprediction\n7\tentailment\n"
