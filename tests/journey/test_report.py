"""`firth view MODEL --data FILE`: the page's figures are those of `firth evaluate`, and nothing is lost silently."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import sklearn.metrics

import firth
from firth.data.examples import Labelled
from firth.data.record import figure
from firth.evaluation.figures import named
from firth.folders.write import save
from firth.reading.trained import write_trained
from firth.samples.tickets import tickets
from tests.journey.command import run
from tests.journey.measured import QUEUES, TASKS, Place, make_place, row, write_rows
from tests.unit.speakers import HELD_OUT, bundle

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return make_place(tmp_path_factory.mktemp("report"))


def sections(page: str) -> dict[str, Any]:
    """The data of a page's sections by their headings."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return {one["title"]: one["data"] for one in json.loads(found[1])["sections"]}


@pytest.mark.parametrize("task", TASKS)
def test_metrics_are_those_of_evaluate(place: Place, task: str, tmp_path: Path) -> None:
    model, data = place.model(task), place.data(task)
    ended = run("view", model, "--data", data, "-o", tmp_path / "page.html")
    assert ended.code == 0, ended.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    shown = sections(page)
    headings = ", ".join(title.lower() for title in shown)
    assert ended.out == (
        f"{tmp_path / 'page.html'}: {headings} (83 examples, 83 of them in the page); "
        "open it in a browser\n"
    )
    measured = firth.evaluate(model, data).models[0]
    rows = {name: (value, interval) for name, value, interval in shown["Metrics"]["rows"]}
    for name, (value, low, high) in measured.metrics.items():
        own = named(name, measured.positive)
        assert rows.pop(own) == (figure(value), f"{figure(low)} to {figure(high)}")
    sure = measured.confidence
    if sure is not None:
        assert rows.pop("confidence")[0] == figure(sure.mean)
        assert rows.pop("calibration error")[0] == figure(sure.calibration_error)
        for name, one in (("answered", sure.answered), ("right of these", sure.right)):
            assert (name in rows) == (one is not None)
            assert one is None or rows.pop(name)[0] == figure(one.value)
    assert rows == {}
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


def test_counts_are_those_of_the_answers(place: Place) -> None:
    found = firth.report(place.model("classify"), place.data("classify"))
    shown = sections(found.page)
    said = firth.load(place.model("classify")).predict([ticket.text for ticket in tickets()])
    truth = [ticket.about for ticket in tickets()]
    best = [max(one.probabilities, key=one.probabilities.get) for one in said]  # type: ignore[attr-defined]
    table = shown["Confusion matrix and texts"]["table"]
    assert table["rows"] == list(QUEUES)
    expected = sklearn.metrics.confusion_matrix(truth, best, labels=QUEUES)
    assert table["counts"] == expected.tolist()
    assert shown["Confusion matrix and texts"]["wrong"] == sum(map(str.__ne__, truth, best))
    precision, recall, f1, support = sklearn.metrics.precision_recall_fscore_support(
        truth, best, labels=QUEUES, zero_division=0.0
    )
    for number, one in enumerate(shown["Each class"]["rows"]):
        share = one["precision"]
        assert (share[0] if share else 0) == pytest.approx(precision[number])
        assert one["recall"][0] == pytest.approx(recall[number])
        assert one["f1"] == pytest.approx(f1[number])
        assert one["counts"][0] == support[number]
    sure = found.evaluation.models[0].confidence
    assert sure is not None
    assert shown["Calibration"]["error"] == sure.calibration_error
    own = shown["Coverage against precision"]["thresholds"][-1]
    assert own["here"] == [list(sure.answered or ()), list(sure.right or ())]


def test_thresholds_are_those_of_predict(place: Place) -> None:
    found = firth.report(place.model("classify"), place.data("classify"))
    rows = sections(found.page)["Coverage against precision"]["thresholds"]
    assert [one["name"] for one in rows] == [
        "--target-precision 0.9",
        "--target-precision 0.99",
        "without --target-precision",
    ]
    for one, precision in zip(rows, (0.9, 0.99), strict=False):
        answers = firth.predict(
            place.model("classify"), place.data("classify"), target_precision=precision
        )
        answered = [answer.answer.label is not None for answer in answers]  # type: ignore[union-attr,attr-defined]
        assert 0 < sum(answered) < len(answered)
        assert one["here"][0][0] == pytest.approx(sum(answered) / len(answered))


def test_what_evaluate_says_stands_on_the_page(place: Place, tmp_path: Path) -> None:
    rows = [row("classify", ticket) for _ in range(13) for ticket in tickets()]
    rows[7]["label"] = ""
    rows[8]["text"] = "day and night " * 40
    rows[9]["label"] = "nan"
    rows[20]["label"] = "weather"
    data = write_rows(tmp_path / "later \u202e<b>.csv", rows)
    model = place.model("classify")
    ended = run("view", model, "--data", data, "-o", tmp_path / "page.html")
    evaluated = run("evaluate", model, data)
    assert ended.code == evaluated.code == 0
    assert ended.err == evaluated.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    said = sections(page)["Metrics"]["said"]
    for sentence, printed in zip(said, ended.err.splitlines(), strict=True):
        whole = sentence.replace(data.name, str(data)).replace("that classify", f"that {model}")
        assert printed.split(": ", 1)[1] == whole
    assert str(tmp_path) not in page
    text = " ".join(said)
    for part in (
        "1 of 1,079 rows have no label in column 'label' and were skipped (first: line 9)",
        "1 of 1,078 texts were longer than the model reads",
        "labels that classify doesn't know, which count as wrong: 'nan' 1, 'weather' 1",
        "--missing nan leaves them out",
    ):
        assert part in text
    again = run(
        "view",
        model,
        "--data",
        data,
        "--missing",
        "nan",
        "--long",
        "slide",
        "-o",
        tmp_path / "two.html",
    )
    assert again.code == 0
    said = sections((tmp_path / "two.html").read_text(encoding="utf-8"))["Metrics"]["said"]
    assert "2 of 1,079 rows have no label" in said[0]
    assert not any("longer than the model reads" in one for one in said)


def test_rows_that_were_trained_on_are_said(place: Place, tmp_path: Path) -> None:
    model = tmp_path / "trained"
    save(firth.load(place.model("classify")).bundle, model)
    write_trained(model / "trained.safetensors", [Labelled(tickets()[0].text, "billing")])
    said = sections(firth.report(model, place.data("classify")).page)["Metrics"]["said"]
    assert said == [
        "1 of 83 rows (1 %) are texts that the model was trained on; its metrics on them say little"
    ]


def test_large_files_are_small_pages(place: Place, tmp_path: Path) -> None:
    """Every row is counted, the worst are shown, and each names its line."""
    rows = [
        {"text": f"{ticket.text} {number}", "label": ticket.about}
        for number in range(40)
        for ticket in tickets()
    ]
    data = write_rows(tmp_path / "many.csv", rows)
    found = firth.report(place.model("classify"), data)
    shown = sections(found.page)["Confusion matrix and texts"]
    assert (found.evaluation.examples, found.examples, len(shown["cases"])) == (3320, 400, 400)
    assert sum(map(sum, shown["table"]["counts"])) == 3320
    assert len(found.page) < 1_000_000
    met = {tuple(cell) for case in shown["cases"] for cell in case["cells"]}
    counts = shown["table"]["counts"]
    assert met == {
        (down, across)
        for down in range(len(counts))
        for across in range(len(counts))
        if counts[down][across]
    }
    for case in shown["cases"]:
        given = rows[case["line"] - 2]
        assert case["passages"][0][1][0][0] == given["text"]
        assert case["truth"] == given["label"]
    wrong = [case for case in shown["cases"] if not case["right"]]
    answers = firth.predict(place.model("classify"), data)
    sure = sorted(
        (
            (answer.answer.confidence, number)  # type: ignore[union-attr,attr-defined]
            for number, (answer, given) in enumerate(zip(answers, rows, strict=True), 2)
            if max(answer.answer.probabilities, key=answer.answer.probabilities.get)
            != given["label"]  # type: ignore[union-attr,attr-defined]
        ),
        reverse=True,
    )
    shown_worst = [case["line"] for case in wrong[:50]]
    assert sorted(shown_worst) == sorted(number for _, number in sure[:50])


def test_spans_and_answers_are_marked(place: Place) -> None:
    shown = sections(firth.report(place.model("tag"), place.data("tag")).page)
    answers = firth.load(place.model("tag")).predict([ticket.text for ticket in tickets()])
    for case in shown["Types and sentences"]["cases"]:
        ticket = tickets()[case["line"] - 1]
        said = {(one.start, one.end, one.label) for one in answers[case["line"] - 1].spans}  # type: ignore[attr-defined]
        true = {tuple(name) for name in ticket.names}
        assert case["right"] == (said == true)
        (passage,) = case["passages"]
        assert "".join(text for text, *_ in passage[1]) == ticket.text
        for kind, spans in (
            ("right", said & true),
            ("true", true - said),
            ("predicted", said - true),
        ):
            inside = "".join(text for text, kinds, _ in passage[1] if kind in kinds)
            characters = {at for start, end, _ in spans for at in range(start, end)}
            assert inside == "".join(ticket.text[at] for at in sorted(characters))
            chips = [label for *_, ending in passage[1] for own, label in ending if own == kind]
            assert sorted(chips) == sorted(label for *_, label in spans)


def test_models_without_single_answers_have_metrics(place: Place, tmp_path: Path) -> None:
    save(bundle("gpt"), tmp_path / "gpt")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(HELD_OUT[:20]) + "\n", encoding="utf-8")
    found = firth.report(tmp_path / "gpt", text)
    shown = sections(found.page)
    assert shown["Examples"]["text"] == (
        "For models that give the text that comes next, metrics are all that a page shows."
    )
    perplexity = found.evaluation.models[0].metrics["perplexity"].value
    assert shown["Metrics"]["rows"][0][:2] == ["perplexity", figure(perplexity)]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("# people rated these\nthe\tof\t8.5\nand\tor\t9\nin\ton\t7\nto\tis\t1\n")
    shown = sections(firth.report(place.model("classify"), pairs).page)
    assert shown["Examples"]["text"] == "For word vectors, metrics are all that a page shows."
    assert shown["Metrics"]["rows"][0][0] == "spearman"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "classify.csv"), "--data takes one model, and there are 0"),
        (("classify", "tag", "--data", "classify.csv"), "--data takes one model, and there are 2"),
        (("classify", "--data", "nowhere.csv"), "there is no file 'nowhere.csv'"),
        (("nowhere", "--data", "classify.csv"), "there is no model folder 'nowhere'"),
        (("classify", "--data", "classify.csv", "-o", "page.pdf"), ".html"),
        (("classify", "--data", "classify.csv", "-o", "there.html"), "there.html exists"),
        (("classify", "--data", "classify.csv", "--json"), "firth evaluate --json"),
        (
            ("classify", "--data", "classify.csv", "--pair", "b"),
            "--pair is for one model and a text",
        ),
        (("--data", "classify.csv", "--example", "bank"), "--example is for a picture"),
        (("classify", "a text", "--label", "queue"), "--label is for a file of examples"),
        (("classify", "a text", "--long", "cut"), "--long is for a file of examples"),
        (("classify", "--data", "tag.jsonl"), "label"),
        (("minilm", "--data", "classify.csv"), "minilm has no head"),
        (("classify", "--data", "classify.csv", "--format", "lines"), "plain text"),
    ],
)
def test_a_sentence_says_what_is_wrong(
    words: tuple[str, ...], said: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)
    Path("there.html").touch()
    ended = run("view", *words)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert not ended.out
    assert not Path("view.html").exists()


def test_the_advice_is_followed(place: Place, tmp_path: Path) -> None:
    """What is refused says what to type, and that works."""
    refused = run("view", place.model("classify"), place.data("classify"))
    assert "--data FILE to see how good they are" in refused.err
    page = tmp_path / "page.html"
    assert (
        run("view", place.model("classify"), "--data", place.data("classify"), "-o", page).code == 0
    )
    figures = run("evaluate", place.model("classify"), place.data("classify"), "--json")
    assert json.loads(figures.out)["examples"] == 83


def test_columns_and_files_are_read_as_evaluate_reads_them(place: Place, tmp_path: Path) -> None:
    """Semicolons and a mark at the beginning, as Excel writes; other names of columns; another encoding; no ending."""
    lines = [f'"{ticket.text}";{ticket.about}' for ticket in tickets()]
    excel = tmp_path / "excel.csv"
    excel.write_bytes("\ufeffAnliegen;Warteschlange\r\n".encode() + "\r\n".join(lines).encode())
    options = ("--text", "Anliegen", "--label", "Warteschlange")
    page = tmp_path / "page.html"
    ended = run("view", place.model("classify"), "--data", excel, *options, "-o", page)
    assert ended.code == 0, ended.err
    whole = firth.report(place.model("classify"), place.data("classify"))
    read = sections(page.read_text(encoding="utf-8"))
    assert read["Metrics"]["rows"] == sections(whole.page)["Metrics"]["rows"]
    old = tmp_path / "old.csv"
    old.write_text("text,label\nÄr locket tätt?,defect\n", encoding="cp1252")
    found = firth.report(place.model("classify"), old, encoding="cp1252")
    assert "tätt" in json.dumps(sections(found.page), ensure_ascii=False)
    table = tmp_path / "table"
    table.write_text("text\tlabel\nthe lid leaks\tdefect\nwhere is it\tdelivery\n")
    assert firth.report(place.model("classify"), table, form="tsv").evaluation.examples == 2


def test_a_notebook_shows_the_page(place: Place) -> None:
    found = firth.report(place.model("choice"), place.data("choice"))
    assert found.path is None
    shown = re.search(r'srcdoc="([^"]*)"', found._repr_html_())
    assert shown is not None
    assert unescape(shown[1]) == found.page
    assert found.sections == ("Metrics", "Options and contexts", "Calibration")
