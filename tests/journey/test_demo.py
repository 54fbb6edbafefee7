"""The demo ends well and what it prints is what the model says."""

import csv
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest

from firth.cli.demo import _command
from firth.pages.demo import is_demo_page
from firth.pages.page import write_page
from firth.predictor import Predictor, load_predictor
from firth.probes.senses import (
    Neighbour,
    compare_senses,
    contextual_vectors,
    nearest_texts,
    static_vectors,
)
from firth.samples.texts import MONEY, QUERIES, RIVER, TEXTS, WORD
from firth.samples.tickets import MARKED, all_tickets, tickets
from firth.verbs.demo import NEIGHBOURS, OWN, SENTENCE, SHOWN
from firth.verbs.demo import demo as run_demo
from firth.verbs.kills import KILLS
from tests.journey.command import run, spawn
from tests.journey.test_docs import PAGES, blocks, same, steps
from tests.journey.warm import PROCESSOR_CLOCK

ROOT = Path(__file__).parents[2]
SENTENCES = [*RIVER, *MONEY]
MINUTES = 0.3  # as on its page
HALF_A_DIGIT = 0.0051  # two decimals are printed, by a process that may have used other kernels
TOPICS = {text: topic for topic, texts in TEXTS.items() for text in texts}


def of_samples(predictor: Predictor) -> dict[str, list[Neighbour]]:
    """The nearest samples of each query."""
    found = nearest_texts(predictor, list(QUERIES), list(TOPICS), NEIGHBOURS)
    return dict(zip(QUERIES, found, strict=True))


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return load_predictor("minilm")


class Demo:
    """A demo that ran on one core in an empty folder, by a clock that stands while others have the core.

    A warning is an error. How long it is waited for is for a busy machine, and says nothing of the demo.
    """

    def __init__(self, folder: Path, minutes: float) -> None:
        self.page = folder / "demo.html"
        begin = f"import atexit, os, time; os.chdir({str(folder)!r})"
        tell = "atexit.register(lambda: print(time.process_time()))"
        before = f"{begin}\n{tell}\n{PROCESSOR_CLOCK}"
        alone = {"PYTHONWARNINGS": "error", "OMP_NUM_THREADS": "1"}
        ended = spawn("demo", "--minutes", minutes, before=before, seconds=900, **alone)
        assert ended.code == 0, ended.err
        printed, _, seconds = ended.out.rstrip("\n").rpartition("\n")
        self.printed = f"{printed}\n"
        self.seconds = float(seconds)  # of the processor
        self.messages = ended.err


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return Demo(tmp_path_factory.mktemp("demo"), MINUTES)


@pytest.fixture(scope="module")
def printed(demo: Demo) -> str:
    """What `firth demo` prints."""
    return demo.printed


def test_it_keeps_its_time_and_says_nothing_odd(demo: Demo) -> None:
    said = re.compile(
        r"\S+ tokens in|forecast: tiny|training: |encoding: |learning |predicting: |\S+: \S+ steps in"
    )
    assert all(said.match(line) for line in demo.messages.splitlines()), demo.messages
    assert demo.seconds < 120 + 60 * MINUTES


def test_it_prints_the_neighbours_that_are_computed(printed: str, predictor: Predictor) -> None:
    for query, nearest in of_samples(predictor).items():
        table = printed.partition(f"  {query}\n")[2].splitlines()[:NEIGHBOURS]
        for line, found in zip(table, nearest, strict=True):
            similarity, topic, text = line.split(maxsplit=2)
            assert (topic, text) == (TOPICS[found.text], found.text)
            assert float(similarity) == pytest.approx(found.similarity, abs=HALF_A_DIGIT)


def test_it_prints_the_senses_that_are_computed(printed: str, predictor: Predictor) -> None:
    vectors = contextual_vectors(predictor, WORD, SENTENCES)
    layers = [compare_senses(layer, len(RIVER)) for layer in vectors]
    rows = re.findall(r"layer (\d+) +([\d.]+) +([\d.]+)$", printed, re.MULTILINE)
    for number, (row, senses) in enumerate(zip(rows, layers, strict=True), 1):
        assert [float(cell) for cell in row] == pytest.approx(
            [number, senses.same, senses.different], abs=HALF_A_DIGIT
        )
    assert re.search(r"^  static.* 1\.00 +1\.00$", printed, re.MULTILINE)
    assert f"for {layers[-1].right} of {len(SENTENCES)} sentences" in printed


def test_it_names_commands_that_exist(printed: str) -> None:
    named = set(re.findall(r"^  firth (\w+)", printed, re.MULTILINE))
    assert named == {"embed", "pretrain", "finetune", "predict", "env", "view"}
    assert named <= {path.stem for path in (ROOT / "firth/cli").glob("*.py")}


def test_its_page_shows_what_it_prints(printed: str) -> None:
    (page,) = blocks(PAGES["demo"])
    (step,) = steps(page.text)
    assert step.command == f"firth demo --minutes {MINUTES}"
    assert same(step.shown, printed), printed


def test_what_it_teaches_is_answered(printed: str) -> None:
    accuracy = re.search(r"^  accuracy +([\d.]+) +([\d.]+) to ([\d.]+)$", printed, re.MULTILINE)
    assert accuracy
    assert float(accuracy[1]) > 0.6
    assert re.search(r"copper kettle \(product\)", printed)
    assert "May decide alone" in printed


def test_it_ends_with_a_page(demo: Demo, predictor: Predictor) -> None:
    page = demo.page.read_text(encoding="utf-8")
    assert "\ndemo.html: pictures of all this; open it in a browser.\n" in demo.printed
    assert demo.printed.endswith(f'\n\n  firth view minilm "{OWN}"\n')
    assert len(page) < 5_000_000
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    sections = {section["title"]: section["data"] for section in data["sections"]}
    assert list(sections)[-2:] == ["Attention", "A sentence of your own"]
    assert sections["A sentence of your own"]["command"] == f'firth view minilm "{OWN}"'

    (nearest,) = sections["Nearest texts"]["tables"]
    of_queries = of_samples(predictor).values()
    texts = [found.text for every in of_queries for found in every]
    assert [row[1] for row in nearest["rows"]] == texts
    learned = sections["A BERT of its own"]
    assert [row[1] for row in learned["rows"]] == re.findall(
        r"^ +[\d,]+ +(\d+\.\d{3})$", demo.printed, re.MULTILINE
    )
    assert float(learned["rows"][0][2]) > float(learned["rows"][-1][2])
    assert len(learned["lines"][0]["points"]) > SHOWN
    _, metrics, _ = sections["A task of its own"]["tables"]
    accuracy = re.search(
        r"^  accuracy +([\d.]+) +([\d.]+) to ([\d.]+)$", demo.printed, re.MULTILINE
    )
    assert accuracy
    assert metrics["rows"][0] == ["accuracy", *accuracy.groups()]

    (found,) = predictor.attention([SENTENCE])
    chosen = sections["Attention"]["chosen"]
    layer, head, query = (chosen[name] for name in ("layer", "head", "query"))
    assert found.tokens[query] == "it"
    assert found.tokens[found.weights[layer, head, query].argmax()] == "animal"
    said = f"*it* looks at animal {found.weights[layer, head, query].max():.2f}"
    assert f"layer {layer + 1}, head {head + 1}: {said}" in demo.printed


def test_its_own_page_is_replaced_and_no_other(demo: Demo, tmp_path: Path) -> None:
    assert is_demo_page(demo.page.read_text(encoding="utf-8"))
    title = json.loads(re.findall(r'\{"title":("[^"]*")', demo.page.read_text())[0])
    others = {
        "my notes": "notes",
        "a page of a text": write_page(title, ["minilm, bert, 3 tokens"], []),
        "a damaged page": '<script type="application/json" id="data">{</script>',
        "a page of nothing": '<script type="application/json" id="data">[]</script>',
        "depths": f'<script type="application/json" id="data">{"[" * 100_000}</script>',
    }
    for text in others.values():
        assert not is_demo_page(text)
    assert next(run_demo(out=demo.page)).startswith("minilm: ")  # it begins
    (tmp_path / "demo.html").write_text("my notes")
    (tmp_path / "folder.html").mkdir()
    for name, said in (
        ("demo.html", "demo.html exists; choose another name or say --force"),
        ("folder.html", "folder.html is a folder; name a file"),
        ("demo.txt", "demo.txt: a page is written to .html"),
    ):
        refused = run("demo", "-o", tmp_path / name)
        assert refused.code == 2
        assert refused.out == ""
        assert said in refused.err
    assert (tmp_path / "demo.html").read_text() == "my notes"
    for option in (("--kill",), ("--files", tmp_path / "samples")):
        refused = run("demo", *option, "-o", tmp_path / "new.html")
        assert refused.code == 2
        assert f"which {option[0]} doesn't write" in refused.err


@pytest.mark.parametrize(
    ("typed", "found", "command"),
    [
        (".venv/bin/firth", None, ".venv/bin/firth"),
        ("my venv/bin/firth", None, "'my venv/bin/firth'"),
        (".venv/bin/firth", "/usr/bin/firth", "firth"),
        ("/usr/bin/firth", None, "firth"),
        ("/x/firth/__main__.py", None, "firth"),
    ],
)
def test_it_names_commands_as_they_are_typed(typed: str, found: str | None, command: str) -> None:
    with (
        mock.patch("sys.argv", [typed, "demo"]),
        mock.patch.object(shutil, "which", return_value=found),
    ):
        assert _command() == command


def test_what_it_trains_learns(printed: str) -> None:
    losses = [
        float(loss) for loss in re.findall(r"^ +[\d,]+ +(\d+\.\d{3})$", printed, re.MULTILINE)
    ]
    assert len(losses) == SHOWN
    assert (
        losses[-1] < losses[0]
    )  # by how much is the machine's to say: the run is as long as the clock allows
    assert len(re.findall(r" names: +([\d.]+)%$", printed, re.MULTILINE)) == 2


@pytest.mark.soak
def test_a_minute_beats_the_commonest_piece(tmp_path: Path) -> None:
    printed = Demo(tmp_path, 1).printed
    named, guessed = (
        float(share) for share in re.findall(r" names: +([\d.]+)%$", printed, re.MULTILINE)
    )
    assert named > guessed + 1


@pytest.mark.soak
def test_kills_leave_no_trace() -> None:
    done = spawn("demo", "--kill", seconds=900)
    assert done.code == 0, done.err
    assert len(re.findall(r"^  killed after step \d+$", done.out, re.MULTILINE)) == KILLS
    for name in ("weights", "optimizer", "losses"):
        assert re.search(rf"^  {name} +(\w{{32}})  \1  equal$", done.out, re.MULTILINE)


def test_the_nearest_texts_are_the_related_ones(predictor: Predictor) -> None:
    for query, nearest in of_samples(predictor).items():
        assert [TOPICS[found.text] for found in nearest] == [QUERIES[query]] * NEIGHBOURS
        assert nearest[0].similarity >= nearest[1].similarity


def test_senses_differ_in_context_only(predictor: Predictor) -> None:
    table = static_vectors(predictor, WORD, SENTENCES)
    assert (table == table[0]).all()
    last = compare_senses(contextual_vectors(predictor, WORD, SENTENCES)[-1], len(RIVER))
    assert last.different < last.same - 0.05
    assert last.right == len(SENTENCES)


def test_the_last_layer_is_the_one_that_embed_gives(predictor: Predictor) -> None:
    vectors, offsets = predictor.embed([MONEY[0]], pool="words")[0]
    place = MONEY[0].index(WORD), MONEY[0].index(WORD) + len(WORD)
    ours = contextual_vectors(predictor, WORD, SENTENCES)[-1][len(RIVER)]
    assert abs(vectors[offsets.index(place)] - ours).max() < 1e-5


def test_the_samples_are_sound() -> None:
    texts = [text for group in TEXTS.values() for text in group]
    assert 30 <= len(texts) == len(set(texts)) <= 40
    assert set(QUERIES.values()) <= set(TEXTS)
    for sentence in SENTENCES:
        assert re.findall(r"\w+", sentence.lower()).count(WORD) == sentence.count(WORD) == 1


def test_the_tickets_are_sound() -> None:
    written = all_tickets()
    assert (
        len(written)
        == len({ticket.id for ticket in written})
        == len({ticket.text.lower() for ticket in written})
        == 400
    )
    assert Counter(ticket.about for ticket in written) == {
        "delivery": 120,
        "billing": 95,
        "defect": 80,
        "return": 70,
        "praise": 35,
    }
    assert list(MARKED) == list(dict.fromkeys(ticket.about for ticket in tickets()))
    lengths = sorted(len(ticket.text) for ticket in written)
    assert lengths[0] < 15
    assert lengths[-1] > 250
    for ticket in written:
        assert not set("{}\n") & set(ticket.text), ticket
        assert {name.label for name in ticket.names} <= {"product", "place", "person"}, ticket


def test_the_samples_are_written_as_files_without_torch(tmp_path: Path) -> None:
    tell = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules))"
    ended = spawn("demo", "--files", tmp_path / "samples", before=tell)
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[-1] == "False"
    rows: dict[str, list[dict[str, str]]] = {}
    for name in ("train", "test"):
        with (tmp_path / "samples" / f"tickets-{name}.csv").open(
            newline="", encoding="utf-8"
        ) as file:
            rows[name] = list(csv.DictReader(file))
        assert [row["id"] for row in rows[name]] == sorted(row["id"] for row in rows[name])
        assert {row["queue"] for row in rows[name]} == set(MARKED)
    assert [len(rows[name]) for name in ("train", "test")] == [300, 100]
    both = [(row["id"], row["message"], row["queue"]) for part in rows.values() for row in part]
    assert sorted(both) == sorted(
        (ticket.id, ticket.text, ticket.about) for ticket in all_tickets()
    )
    pages = (tmp_path / "samples" / "daybook.txt").read_text(encoding="utf-8").split("\n\n")
    assert len(pages) == 800

    for name in ("speech", "translations", "spelling", "readings"):
        lines = (tmp_path / "samples" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        for row in map(json.loads, lines):
            assert row["right"] in row["candidates"]
            assert len(set(row["candidates"])) == len(row["candidates"])
            assert len(row.get("scores", row["candidates"])) == len(row["candidates"])

    before = (tmp_path / "samples" / "tickets-test.csv").read_bytes()
    (tmp_path / "samples" / "daybook.txt").unlink()
    refused = run("demo", "--files", tmp_path / "samples")
    assert refused.code == 2
    assert "tickets-train.csv exists already" in refused.err
    assert not (tmp_path / "samples" / "daybook.txt").exists()
    assert (tmp_path / "samples" / "tickets-test.csv").read_bytes() == before
