"""`firth evaluate`: its figures are those of the published scorers on what `firth predict` says, in memory that doesn't grow."""

import csv
import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch

import firth
from firth.folders.bundle import Bundle
from firth.folders.find import find
from firth.folders.write import save
from firth.metrics.decisions import share
from firth.models.bert import Bert, BertSettings
from firth.recipes.start import fresh
from firth.samples.tickets import MARKED, tickets
from firth.tasks.head import make_head
from firth.tasks.tag import tags_of
from firth.text.tokenizer import Tokenizer
from tests.journey.command import Ended, run, spawn

pytestmark = pytest.mark.usefixtures("one_thread")
QUEUES = tuple(sorted(MARKED))
LENGTH = 32


class Shop:
    """Files and models of the sample tickets; the models have random weights, so that they are right now and then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokenizer = Tokenizer.open(find("minilm"))

    def model(
        self,
        kind: str,
        labels: tuple[str, ...] = (),
        seed: int = 1,
        like: Bundle | None = None,
        **settings: float,
    ) -> Path:
        """A folder for a kind of task; `like` is a model whose weights it has."""
        folder = self.folder / f"{kind}-{len(list(self.folder.iterdir()))}"
        save(self.bundle(kind, labels, seed, settings) if like is None else like, folder)
        return folder

    def bundle(
        self,
        kind: str,
        labels: tuple[str, ...],
        seed: int = 1,
        settings: dict[str, Any] | None = None,
    ) -> Bundle:
        torch.manual_seed(seed)
        sizes = {
            "vocab": self.tokenizer.size,
            "width": 32,
            "depth": 1,
            "heads": 2,
            "inner": 64,
            "length": LENGTH,
            "spread": 0.3,
        }
        encoder = Bert(BertSettings(**sizes, pooler=kind != "tag"))
        head = make_head(kind, encoder, labels)
        assert head is not None
        torch.nn.init.normal_(head.linear.weight, std=0.5)
        return Bundle(
            encoder.eval(),
            self.tokenizer,
            kind=kind,
            head=head.eval(),
            labels=labels,
            settings=dict(settings or {}),
        )

    def table(self, name: str, rows: list[dict[str, Any]]) -> Path:
        path = self.folder / name
        if path.suffix == ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def queues(shop: Shop) -> Path:
    return shop.table(
        "queues.csv", [{"message": ticket.text, "queue": ticket.about} for ticket in tickets()]
    )


COLUMNS = ("--text", "message", "--label", "queue")


def page(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert isinstance(found, dict)
    return found


def answers(model: Path, file: Path, *options: object) -> list[dict[str, Any]]:
    """What `firth predict` says of a file."""
    ended = run("predict", model, file, "--json", *options)
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def test_classes_are_scored_as_scikit_learn_does(shop: Shop, queues: Path) -> None:
    model = shop.model("classify", QUEUES, temperature=2.0, threshold=0.3)
    ended = run("evaluate", model, "--data", queues, *COLUMNS, "--json")
    found = page(ended)
    assert ended.err == ""
    assert run("evaluate", model, queues, *COLUMNS, "--json").out == ended.out
    assert run("evaluate", model, "--set", f"data={queues}", *COLUMNS, "--json").out == ended.out

    texts = shop.table("texts.jsonl", [{"text": ticket.text} for ticket in tickets()])
    said = answers(model, texts)
    truth, best = (
        [ticket.about for ticket in tickets()],
        [max(a["shares"], key=a["shares"].get) for a in said],
    )
    assert len({*best}) > 2  # else the figures would be those of a model that always says the same
    assert found["examples"] == len(truth)
    assert found["metrics"] == pytest.approx(
        {
            "accuracy": sklearn.metrics.accuracy_score(truth, best),
            "macro_f1": sklearn.metrics.f1_score(truth, best, average="macro"),
            "matthews": sklearn.metrics.matthews_corrcoef(truth, best),
        },
        abs=1e-12,
    )
    (one,) = found["models"]
    assert {name: figure["value"] for name, figure in one["metrics"].items()} == found["metrics"]
    assert all(
        figure["low"] < figure["value"] < figure["high"] for figure in one["metrics"].values()
    )

    sure, right = np.array([a["confidence"] for a in said]), np.array(truth) == np.array(best)
    place = np.minimum((sure * 10).astype(int), 9)
    gaps = [
        abs(sure[place == b].mean() - right[place == b].mean()) * (place == b).mean()
        for b in set(place.tolist())
    ]
    given = np.array([a["label"] != "unsure" for a in said])
    assert 0 < given.sum() < len(given)
    assert one["confidence"]["mean"] == pytest.approx(sure.mean(), abs=1e-6)
    assert one["confidence"]["calibration_error"] == pytest.approx(sum(gaps), abs=1e-6)
    assert one["confidence"]["answered"] == share(int(given.sum()), len(given))._asdict()
    assert one["confidence"]["right"] == share(int(right[given].sum()), int(given.sum()))._asdict()

    table = run("evaluate", model, queues, *COLUMNS).out
    for name, value in found["metrics"].items():
        assert f"  {name.replace('_', ' '):14} {value:8.4f}   " in table
    again = firth.evaluate(model, queues, text="message", label="queue")
    assert {name: interval.value for name, interval in again.models[0].metrics.items()} == found[
        "metrics"
    ]
    assert again.differences == ()


def test_numbers_of_pairs_are_scored_as_scipy_does(shop: Shop) -> None:
    first, second = shop.model("regress", seed=1), shop.model("regress", seed=2)
    rows = [
        {
            "left": a.text,
            "right": b.text,
            "closeness": round(5 * float(a.about == b.about) + len(a.text) % 3 / 10, 1),
        }
        for a, b in zip(tickets(), reversed(tickets()), strict=True)
    ]
    file = shop.table("pairs.csv", rows)
    found = page(
        run(
            "evaluate",
            first,
            second,
            file,
            "--text",
            "left",
            "--second",
            "right",
            "--label",
            "closeness",
            "--json",
        )
    )
    truth = [row["closeness"] for row in rows]
    values = []
    for model, one in zip((first, second), found["models"], strict=True):
        said = [
            answer["value"]
            for answer in answers(model, file, "--text", "left", "--second", "right")
        ]
        values.append(scipy.stats.spearmanr(truth, said)[0])
        got = {name: figure["value"] for name, figure in one["metrics"].items()}
        assert got["pearson"] == pytest.approx(scipy.stats.pearsonr(truth, said)[0], abs=1e-5)
        assert got["spearman"] == pytest.approx(values[-1], abs=1e-5)
        assert got["mse"] == pytest.approx(
            sklearn.metrics.mean_squared_error(truth, said), rel=1e-5
        )
    gap = found["differences"][0]["metrics"]["spearman"]
    assert gap["value"] == pytest.approx(values[1] - values[0], abs=1e-5)
    assert gap["low"] < gap["value"] < gap["high"]
    assert set(found["differences"][0]["metrics"]) == {"pearson", "spearman", "mse"}


def test_every_pair_is_answered_whether_it_has_a_label_or_not(shop: Shop, tmp_path: Path) -> None:
    model, file = shop.model("regress", seed=1), tmp_path / "pairs.csv"
    file.write_text("sentence1,sentence2,label\na cup,a mug,1.5\na boat,a ship,\na cat,a hat,far\n")
    assert [(answer["text"], answer["second"]) for answer in answers(model, file)] == [
        ("a cup", "a mug"),
        ("a boat", "a ship"),
        ("a cat", "a hat"),
    ]
    assert answers(model, file, "--text", "sentence1", "--second", "sentence2") == answers(
        model, file
    )
    file.write_text(file.read_text() + "a dog\n")
    ended = run("predict", model, file)
    assert (ended.code, ended.out) == (2, "")
    assert f"{file}:5 has 1 field where there should be 3" in ended.err


def test_several_labels_are_scored_as_scikit_learn_does(shop: Shop) -> None:
    model = shop.model("several", ("billing", "delivery", "long"))
    rows = [
        {
            "text": t.text,
            "label": [t.about] * (t.about in ("billing", "delivery"))
            + ["long"] * (len(t.text) > 60),
        }
        for t in tickets()
    ]
    file = shop.table("several.jsonl", rows)
    found = page(run("evaluate", model, file, "--json"))["metrics"]
    names = ("billing", "delivery", "long")
    true = np.array([[name in row["label"] for name in names] for row in rows])
    said = np.array(
        [[name in answer["label"] for name in names] for answer in answers(model, file)]
    )
    assert found["micro_f1"] == pytest.approx(
        sklearn.metrics.f1_score(true, said, average="micro"), abs=1e-12
    )
    assert found["macro_f1"] == pytest.approx(
        sklearn.metrics.f1_score(true, said, average="macro"), abs=1e-12
    )
    assert found["exact"] == pytest.approx(sklearn.metrics.accuracy_score(true, said), abs=1e-12)


def test_entities_of_a_conll_file(shop: Shop) -> None:
    model = shop.model("tag", tuple(tags_of(["LOC", "PER"])))
    sentences = [
        "Ada O met O Bo B-PER Ek I-PER in O Lund B-LOC",
        "Lund B-LOC sleeps O",
        "She O saw O Ada B-PER",
        "It O rained O",
    ]
    pairs = [list(zip(s.split()[::2], s.split()[1::2], strict=True)) for s in sentences]
    file = shop.folder / "names.conll"
    file.write_text(
        "\n\n".join("\n".join(f"{word} {tag}" for word, tag in rows) for rows in pairs) + "\n"
    )
    found = page(run("evaluate", model, file, "--json"))["metrics"]

    texts = shop.table(
        "words.jsonl", [{"text": " ".join(word for word, _ in rows)} for rows in pairs]
    )
    said = {
        (n, s["text"], s["label"])
        for n, answer in enumerate(answers(model, texts))
        for s in answer["spans"]
    }
    true = {(0, "Bo Ek", "PER"), (0, "Lund", "LOC"), (1, "Lund", "LOC"), (2, "Ada", "PER")}
    both = len(said & true)
    assert len(said) > 2
    assert found["precision"] == pytest.approx(both / len(said))
    assert found["recall"] == pytest.approx(both / len(true))
    assert found["f1"] == pytest.approx(2 * both / (len(said) + len(true)))
    assert {"f1 LOC", "f1 PER", "accuracy"} <= set(found)


def test_scores_of_tags_are_those_of_the_answers(shop: Shop) -> None:
    """Whole tokens are answered where tokens were given, and entities without a word of their own are missed."""
    model = shop.model("tag", tuple(tags_of(["LOC", "PER"])))
    tokens = [["A", "26-year-old", "met", "Bo-Ek"], ["U.S.", "envoys", "in", "Saint-Denis"]]
    rows = [
        {"tokens": row, "tags": ["B-LOC" if "-" in token else "O" for token in row]}
        for row in tokens
    ]
    file = shop.table("tokens.jsonl", rows)
    found = page(run("evaluate", model, file, "--json"))["metrics"]
    said = [
        {(span["text"], span["label"]) for span in answer["spans"]}
        for answer in answers(model, file)
    ]
    assert answers(
        model, shop.table("untagged.jsonl", [{"tokens": row} for row in tokens])
    ) == answers(model, file)
    true = [{(token, "LOC") for token in row if "-" in token} for row in tokens]
    both, all_said = sum(len(a & b) for a, b in zip(said, true, strict=True)), sum(map(len, said))
    assert all_said > 1
    assert all(
        token in row
        for row, spans in zip(tokens, said, strict=True)
        for text, _ in spans
        for token in text.split(" ")
    )
    assert (found["precision"], found["recall"]) == pytest.approx((both / all_said, both / 3))
    lost = shop.table(
        "lost.jsonl", [{"text": "Lund \u200b", "spans": [[0, 4, "LOC"], [5, 6, "PER"]]}]
    )
    assert page(run("evaluate", model, lost, "--json"))["metrics"]["recall"] in (0.0, 0.5)


def test_a_pair_of_long_texts_is_read_in_windows(shop: Shop) -> None:
    model = shop.model("regress", seed=1)
    long, short = "a cup of tea and a spoon " * 30, "a kettle"
    file = shop.table(
        "long.csv",
        [{"sentence1": short, "sentence2": long}, {"sentence1": long, "sentence2": long}],
    )
    ended = run("predict", model, file, "--json", "--long", "slide")
    assert ended.code == 0, ended.err
    assert [json.loads(line)["second"] for line in ended.out.splitlines()] == [long, long]
    assert "1 of 2 texts were longer" in ended.err
    assert "(of a pair of long texts the shorter has at most half of each window)" in ended.err
    assert run("predict", model, file, "--json").out != ended.out


@pytest.mark.parametrize("name", ["a.ndjson", "A.JSONL", "a.txt", "a", "-"])
def test_a_file_is_known_by_what_stands_in_it(name: str, shop: Shop, tmp_path: Path) -> None:
    model = shop.model("classify", QUEUES)
    rows = "".join(
        json.dumps({"text": ticket.text, "label": ticket.about}) + "\n" for ticket in tickets()[:3]
    )
    expected = answers(
        model, shop.table("three.txt", [{"text": ticket.text} for ticket in tickets()[:3]])
    )
    if name == "-":
        ended = run("predict", model, "-", "--json", stdin=rows.encode())
        assert [json.loads(line) for line in ended.out.splitlines()] == expected
        return
    (tmp_path / name).write_text(rows, encoding="utf-8")
    assert [answer["text"] for answer in expected] == [ticket.text for ticket in tickets()[:3]]
    assert answers(model, tmp_path / name) == expected


def test_a_mark_at_the_beginning_is_no_text(shop: Shop, tmp_path: Path) -> None:
    model = shop.model("classify", QUEUES)
    for encoding, mark in (("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe")):
        for name, content in (("a.txt", "a kettle\n"), ("a.jsonl", '{"text": "a kettle"}\n')):
            (tmp_path / name).write_bytes(mark + content.encode(encoding))
            for options in ((), ("--encoding", encoding)):
                assert [answer["text"] for answer in answers(model, tmp_path / name, *options)] == [
                    "a kettle"
                ]


def test_an_empty_line_of_a_single_column_is_answered(shop: Shop, tmp_path: Path) -> None:
    model = shop.model("classify", QUEUES)
    (tmp_path / "one.csv").write_text("text\na kettle\n\na spoon\n")
    assert [answer["text"] for answer in answers(model, tmp_path / "one.csv")] == [
        "a kettle",
        "",
        "a spoon",
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("",), "the text is empty"),
        (
            ("a kettle", "--second", "body"),
            "--second names a column of a file, and 'a kettle' is a text",
        ),
        (("a kettle", "--text", "body"), "--text names a column of a file"),
        (
            ("a kettle", "--top", "3"),
            "--top is for filling blanks, for questions, for translating and for --complete",
        ),
    ],
)
def test_what_an_answer_does_not_need_is_refused(
    words: tuple[str, ...], complaint: str, shop: Shop
) -> None:
    ended = run("predict", shop.model("classify", QUEUES), *words)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err


def test_signs_that_the_terminal_lacks_are_escaped(shop: Shop) -> None:
    ended = spawn(
        "predict",
        shop.model("classify", QUEUES),
        "a kettle \u2603",
        "--json",
        PYTHONIOENCODING="latin-1",
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["text"] == "a kettle \u2603"


def test_models_are_compared_on_the_same_examples(shop: Shop, queues: Path) -> None:
    two = shop.table(
        "two.csv",
        [{"text": t.text, "label": "bill" if t.about == "billing" else "other"} for t in tickets()],
    )
    bundle = shop.bundle("classify", ("bill", "other"))
    first = shop.model("classify", like=bundle)
    # The same model with its labels the other way round: the same answers.
    turned = shop.bundle("classify", ("other", "bill"))
    turned.encoder.load_state_dict(bundle.encoder.state_dict())
    turned.head.linear.weight.data = bundle.head.linear.weight.data.flip(0)
    turned.head.linear.bias.data = bundle.head.linear.bias.data.flip(0)
    mirrored = shop.model("classify", like=turned)
    wider = shop.model("classify", ("bill", "more", "other"), seed=3)
    found = page(run("evaluate", first, mirrored, wider, two, "--json"))
    assert "metrics" not in found
    assert [one["model"] for one in found["models"]] == [str(first), str(mirrored), str(wider)]
    assert found["models"][0] == page(run("evaluate", first, two, "--json"))["models"][0]
    assert found["models"][1]["metrics"] == found["models"][0]["metrics"]
    same, other = found["differences"]
    assert same["against"] == str(first)
    assert set(same["metrics"]) == {"accuracy", "f1", "macro_f1", "matthews"}
    assert all(
        gap == {"value": 0.0, "low": 0.0, "high": 0.0, "chance": 1.0}
        for gap in same["metrics"].values()
    )
    assert set(other["metrics"]) == {
        "accuracy",
        "macro_f1",
        "matthews",
    }  # three classes have no F1 of their own
    for name, gap in other["metrics"].items():
        values = [one["metrics"][name]["value"] for one in found["models"]]
        assert gap["value"] == pytest.approx(values[2] - values[0], abs=1e-12)
        assert gap["low"] < gap["value"] < gap["high"]
        assert 0 <= gap["chance"] <= 1
    table = run("evaluate", first, wider, two).out
    assert f"{wider} against {first}, on the same examples\n  accuracy" in table

    ended = run("evaluate", shop.model("regress"), first, two)
    assert ended.code == 2
    assert "gives one class and" in ended.err


def test_labels_that_a_model_does_not_know_are_wrong_and_said(shop: Shop, queues: Path) -> None:
    model = shop.model("classify", (QUEUES[0], "weather"))
    ended = run("evaluate", model, queues, *COLUMNS, "--json")
    assert f"labels that {model} doesn't know, which count as wrong: " in ended.err
    for label in QUEUES[1:]:
        assert f"{label!r} {sum(ticket.about == label for ticket in tickets())}" in ended.err
    texts = shop.table("only.jsonl", [{"text": ticket.text} for ticket in tickets()])
    truth, best = (
        [ticket.about for ticket in tickets()],
        [answer["label"] for answer in answers(model, texts)],
    )
    assert page(ended)["metrics"]["accuracy"] == pytest.approx(
        sklearn.metrics.accuracy_score(truth, best)
    )
    assert page(ended)["metrics"]["macro_f1"] == pytest.approx(
        sklearn.metrics.f1_score(truth, best, average="macro", zero_division=0.0), abs=1e-12
    )
    stranger = run("evaluate", shop.model("classify", ("rain", "snow")), queues, *COLUMNS)
    assert stranger.code == 2
    assert "has none of the labels of" in stranger.err


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("empty.csv", "", "no examples"),
        ("header.csv", "text,label\n", "no examples"),
        ("plain.txt", "just a line\n", "plain text"),
        ("columns.csv", "alpha,beta\nx,y\n", "which column holds the text"),
        (
            "missing.csv",
            "text,label\nfine,billing\nno label\n",
            ":3 has 1 field where there should be 2; 1 of 2 rows can't be used",
        ),
        ("lists.jsonl", '{"text": "a", "label": ["billing"]}\n', "has lists of labels, where"),
        ("names.conll", "Ada B-PER\nran O\n", "which column holds the text"),
        (
            "many.csv",
            "text,label\n" + "".join(f"a,{i}\n" for i in range(1200)),
            "more than 1,000 labels that are unknown",
        ),
    ],
)
def test_bad_files_are_one_sentence(
    name: str, content: str, complaint: str, shop: Shop, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    ended = run("evaluate", shop.model("classify", QUEUES), tmp_path / name)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert complaint in ended.err


def test_bad_calls_are_one_sentence(shop: Shop, queues: Path) -> None:
    model = shop.model("classify", QUEUES)
    for words, complaint in (
        ((model,), "name one with --data"),
        ((model, "nowhere.csv"), "'nowhere.csv' is no file"),
        ((queues,), "there is no model to evaluate"),
        ((model, "--data", "nowhere.csv"), "there is no file 'nowhere.csv'"),
        (("nowhere", queues), "there is no model folder 'nowhere'"),
        (("minilm", queues), "minilm has no head; evaluate takes models that firth finetune made"),
    ):
        ended = run("evaluate", *words)
        assert (ended.code, ended.out) == (2, ""), words
        assert ended.err.count("\n") == 1
        assert complaint in ended.err


def test_a_pretrained_model_is_measured_on_the_texts_of_a_table(shop: Shop, queues: Path) -> None:
    base = save(fresh("tiny", shop.tokenizer, 64, 0.0, True, 1), shop.folder / "base")
    ended = run("evaluate", base, queues, "--json")
    assert ended.code == 0, ended.err
    assert {"masked_accuracy", "masked_perplexity"} <= set(json.loads(ended.out)["metrics"])


def test_what_is_left_out_or_cut_is_said(shop: Shop) -> None:
    model = shop.model("classify", QUEUES)
    rows = [{"text": t.text, "label": t.about} for t in tickets()] * 13
    rows[7] = {"text": "no label", "label": ""}
    rows[8] = {"text": "day and night " * 20, "label": QUEUES[0]}
    file = shop.table("long.csv", rows)
    ended = run("evaluate", model, file, "--json")
    assert (
        page(ended)["examples"],
        page(ended)["unlabelled"],
        page(ended)["models"][0]["cut"],
    ) == (len(rows) - 1, 1, 1)
    said = (
        f"1 of {len(rows):,} rows have no label in column 'label' and were skipped (first: line 9)"
    )
    assert f"note: {file}: {said}\n" in ended.err
    assert f"note: 1 of {len(rows) - 1:,} texts were longer than the model reads" in ended.err
    whole = run("evaluate", model, file, "--long", "slide")
    assert "longer than the model reads" not in whole.err
    assert f"note: {model}: 1 of " in run("evaluate", model, model, file).err


def test_a_file_that_is_cut_short_is_refused(shop: Shop) -> None:
    wide = shop.table(
        "wide.csv", [{"text": t.text + " " * 50_000, "label": t.about} for t in tickets()]
    )
    packed = shop.folder / "wide.csv.gz"
    packed.write_bytes(gzip.compress(wide.read_bytes())[:-10])
    ended = run("evaluate", shop.model("classify", QUEUES), packed)
    assert (ended.code, ended.out) == (2, "")
    assert "and what follows can't be read: is damaged or cut short" in ended.err


def test_the_size_of_a_chunk_changes_no_figure(
    shop: Shop, queues: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = (shop.model("classify", QUEUES, seed=4), shop.model("classify", QUEUES, seed=5))
    whole = page(run("evaluate", *models, queues, *COLUMNS, "--json"))
    monkeypatch.setattr("firth.tasks.task.Task.at_once", 3)
    pieces = page(run("evaluate", *models, queues, *COLUMNS, "--json"))
    for one, other in zip(whole["models"], pieces["models"], strict=True):
        assert one["confidence"] == pytest.approx(other.pop("confidence"), abs=1e-6)
        assert {**one, "confidence": None} == {**other, "confidence": None}
    assert whole["differences"] == pieces["differences"]


def test_memory_does_not_grow_with_the_data(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is held at once is made small, so that a small file is many times as large.
    limits = {
        "tasks.task.Task.at_once": 64,
        "text.lines.CHUNK": 1 << 12,
        "reading.format.HEAD": 1 << 12,
        "reading.readers.MOST_ROWS": 50,
    }
    for name, value in limits.items():
        monkeypatch.setattr(f"firth.{name}", value)
    folder = shop.model("classify", QUEUES)
    predictor = firth.load(folder)
    monkeypatch.setattr("firth.verbs.evaluate.load_predictor", lambda model, threads: predictor)
    rows = [{"text": t.text, "label": t.about} for t in tickets()]
    peaks = []
    for times in (1, 4, 40):  # the first is to warm up
        file = shop.table(f"{times}.csv", rows * times)
        tracemalloc.start()
        assert firth.evaluate(folder, file).examples == len(rows) * times
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 100_000, peaks  # 35 bytes a row
