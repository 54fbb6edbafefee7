"""What a page of runs shows: the records of their journals, light however long, and what their folders say."""

import json
import math
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.base.errors import InputError
from firth.base.journal import Journal
from firth.pages.curves import POINTS, RunCurves, RunRecords, curves_page
from tests.conftest import count

EARLIER = Path(__file__).parents[1] / "earlier"
KINDS = ("bert", "gpt", "rnn", "ffnn", "classify", "several", "regress", "tag", "features")


def journal(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def shown(page: str) -> list[dict[str, Any]]:
    """The runs in a page's data."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    runs = json.loads(found[1])["sections"][0]["data"]["runs"]
    assert isinstance(runs, list)
    return runs


def step(
    number: int, loss: float = 1.0, seconds: float | None = None, **more: Any
) -> dict[str, Any]:
    seconds = float(number) if seconds is None else seconds
    return {"step": number, "loss": loss, "rate": 0.1, "tokens": 10, "seconds": seconds, **more}


def check(number: int, **metrics: Any) -> dict[str, Any]:
    return {"step": number, "dev": metrics, "seconds": float(number)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_the_numbers_of_the_journal(kind: str) -> None:
    found = firth.curves(EARLIER / kind)
    (run,) = shown(found.page)
    records = journal(EARLIER / kind)
    steps = [record for record in records if "loss" in record]
    checks = [record for record in records if "dev" in record]
    assert found.runs == (kind,)
    assert found.steps == (steps[-1]["step"],)
    assert (run["name"], run["state"]) == (kind, "finished")
    made = json.loads((EARLIER / kind / "firth.json").read_text())["made"]
    assert run["kept"] == made["best_step"]
    assert run["what"].startswith(made["by"])
    assert run["steps"] == [record["step"] for record in steps]
    assert run["seconds"] == [record["seconds"] for record in steps]
    assert run["loss"] == pytest.approx([record["loss"] for record in steps], rel=1e-5)
    assert run["rate"] == pytest.approx([record["rate"] for record in steps], rel=1e-5)
    speeds = []
    for before, record in pairwise(records):
        if "loss" in record:
            spent = record["seconds"] - before["seconds"]
            speeds.append(record["tokens"] / spent if spent else None)
    assert run["speed"] == pytest.approx(speeds, rel=1e-5)
    assert run["checkSteps"] == [record["step"] for record in checks]
    for metric in run["metrics"]:
        values = [record["dev"][metric["name"]] for record in checks]
        assert metric["values"] == pytest.approx(values, rel=1e-5)
    assert {metric["name"] for metric in run["metrics"]} == set(checks[-1]["dev"])


@pytest.mark.parametrize("length", [1, 399, 400, 401, 6401, count(100_000)])
def test_a_long_run_is_as_light_as_a_short(length: int) -> None:
    draw = random.Random(length)
    losses = [draw.gauss(3, 1) for _ in range(length)]
    records = RunRecords(step(number, loss) for number, loss in enumerate(losses, 1))
    data = records.data()
    each = data["each"]
    assert len(data["loss"]) == math.ceil(length / each) <= POINTS
    assert length <= POINTS or len(data["loss"]) > POINTS // 2
    for at, loss in enumerate(data["loss"]):
        group = losses[at * each : (at + 1) * each]
        assert loss == pytest.approx(sum(group) / len(group), rel=1e-5, abs=1e-5)
        assert data["steps"][at] == min(length, (at + 1) * each)
    # The time before the first step is of getting ready.
    first = [None] if each == 1 else []
    assert data["speed"] == first + [pytest.approx(10.0)] * (len(data["speed"]) - len(first))
    assert len(curves_page([RunCurves("run", records)])) < 100_000


def test_points_stay_where_they_are_while_a_run_grows() -> None:
    records = RunRecords(step(number) for number in range(1, 1001))
    before = records.data()["steps"]
    for number in range(1001, 1500):
        records.add(step(number))
    assert records.data()["steps"][: len(before) - 1] == before[:-1]


def test_steps_that_were_taken_again_are_there_once() -> None:
    """A run that was killed at step 6 and goes on from its checkpoint of step 3."""
    first = [
        check(0, loss=9),
        step(1),
        step(2),
        step(3),
        check(3, loss=8),
        step(4),
        step(5),
        step(6),
        check(6, loss=7),
    ]
    again = [
        step(4, 5.0, 14),
        step(5, 5.0, 15),
        step(6, 5.0, 16),
        check(6, loss=4),
        step(7, 5.0, 17),
    ]
    data = RunRecords(first + again).data()
    assert data["steps"] == [1, 2, 3, 4, 5, 6, 7]
    assert data["loss"] == [1, 1, 1, 5, 5, 5, 5]
    assert data["checkSteps"] == [0, 3, 6]
    assert data["metrics"][0]["values"] == [9, 8, 4]
    # One that begins again from nothing.
    data = RunRecords([*first, check(0, loss=3), step(1, 2.0)]).data()
    assert (data["steps"], data["checkSteps"]) == ([1], [0])


def test_a_resumed_run_has_no_seam() -> None:
    """What a new process took to begin is nobody's speed; a machine that stays slow is."""
    times = [1.0, 2, 3, 4, 5, 6, 60, 61, 62, 63, 64, 65, 66, 67, 100, 130, 160]
    records = RunRecords(step(number, seconds=at) for number, at in enumerate(times, 1))
    speeds = records.data()["speed"]
    assert speeds[1:6] + speeds[7:14] == [10.0] * 12
    assert speeds[6] is None
    assert speeds[-2:] == pytest.approx([1 / 3, 1 / 3])


def test_of_very_many_measurements_the_newest_and_the_best_are_kept() -> None:
    records = RunRecords(
        check(number, loss=abs(number - 500), accuracy=-abs(number - 501), f1=0)
        for number in range(1, 1001)
    )
    data = records.data()
    assert data["every"] == 3
    assert len(data["checkSteps"]) <= POINTS
    assert data["checkSteps"][-1] == 1000
    assert {1, 500, 501} < set(data["checkSteps"])  # the first of equal ones
    for metric in data["metrics"][:2]:
        assert 0 in metric["values"]


def test_what_is_no_number_is_not_drawn() -> None:
    records = RunRecords(
        [
            step(1, math.nan),
            step(2, "high"),  # type: ignore[arg-type]
            step(3, 1e300),
            step(4, True),
            {"step": 5, "loss": 2.0},
            {"step": 6},
            check(6, loss=math.inf, f1=None, accuracy="good", exact=0.5),
        ]
    )
    data = records.data()
    assert data["loss"] == [None, None, None, None, 2.0]
    assert data["seconds"][-1] is data["rate"][-1] is data["speed"][-1] is None
    values = {metric["name"]: metric["values"] for metric in data["metrics"]}
    assert values == {"loss": [None], "f1": [None], "accuracy": [None], "exact": [0.5]}
    shown(curves_page([RunCurves("run", records)]))


def test_which_way_a_metric_is_better() -> None:
    names = ("loss", "masked_perplexity", "perplexity", "mean_absolute_error", "mse")
    higher = ("accuracy", "macro_f1", "pearson", "matthews", "bleu", "lossless")
    records = RunRecords([check(1, **dict.fromkeys((*names, *higher), 1.0))])
    found = {metric["name"]: metric["lower"] for metric in records.data()["metrics"]}
    assert found == dict.fromkeys(names, True) | dict.fromkeys(higher, False)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begin(folder: Path, plan: dict[str, Any] | None = None, *records: dict[str, Any]) -> Path:
    """A run's folder, with a lock that nobody holds."""
    folder.mkdir(parents=True)
    (folder / "lock").write_text("1")
    if plan is not None:
        (folder / "plan.json").write_text(json.dumps(plan))
    for record in records:
        Journal(folder / "metrics.jsonl").add(**record)
    return folder


def test_seeds_and_folds_are_runs_of_their_own(place: Path) -> None:
    run = begin(place / "out.run", {"asked": {"task": "tag"}}, step(1))
    for name in ("fold-10", "fold-2", "model", "fold-x"):
        (run / name).mkdir()
        Journal(run / name / "metrics.jsonl").add(**step(2))
    found = firth.curves("out.run")
    assert found.runs == ("out.run", "out.run fold-2", "out.run fold-10")
    assert [one["what"] for one in shown(found.page)] == ["finetune tag"] * 3
    assert firth.curves("out.run/fold-2").runs == ("fold-2",)


def test_a_run_is_its_folder_its_journal_or_its_model(place: Path) -> None:
    begin(
        place / "a.run",
        {"asked": {"corpus": ["x"], "model": "gpt"}, "training": {}},
        step(1),
        step(2),
    )
    for name in ("a.run", "a.run/", "a.run/metrics.jsonl", place / "a.run"):
        found = firth.curves(name)
        assert (found.runs, found.steps) == (("a.run",), (2,))
        assert shown(found.page)[0]["state"] == "stopped"
    (place / "copy.jsonl").write_bytes((place / "a.run/metrics.jsonl").read_bytes())
    assert firth.curves("copy.jsonl").runs == ("copy.jsonl",)
    (place / "a.run/curves.html").touch()
    assert shown(firth.curves("a.run").page)[0]["state"] == "finished"


def test_names_that_are_alike_have_their_folders(place: Path) -> None:
    for folder in ("one", "two"):
        begin(place / folder / "a.run", None, step(1))
    found = firth.curves(["one/a.run", "two/a.run"])
    assert found.runs == ("one/a.run", "two/a.run")
    # A page may be sent to others.
    assert str(place) not in found.page


def test_an_n_gram_has_no_curves(place: Path) -> None:
    with pytest.raises(InputError, match=r"counted in one pass.*no steps.*looks inside it"):
        firth.curves(EARLIER / "ngram")
    begin(place / "counts.run", {"asked": {"corpus": ["x"], "model": "ngram"}})
    with pytest.raises(InputError, match="counted in one pass"):
        firth.curves("counts.run")
    begin(place / "a.run", None, step(1))
    runs = shown(firth.curves(["a.run", EARLIER / "ngram"]).page)
    assert runs[0]["remark"] == ""
    assert "counted in one pass" in runs[1]["remark"]


def wrong(place: Path) -> None:
    """Paths that are no runs, or runs with nothing to show."""
    begin(place / "new.run")
    begin(place / "planned.run", {"asked": {"corpus": ["x"]}, "training": {}})
    (begin(place / "empty.run") / "metrics.jsonl").touch()
    (begin(place / "half.run") / "metrics.jsonl").write_text('{"step": 1, "lo')
    (begin(place / "damaged.run", None, step(1)) / "metrics.jsonl").write_text('{"step": 1}\n???\n')
    (place / "folder").mkdir()
    (place / "text.txt").write_text("a text\n")
    (place / "binary").write_bytes(bytes(range(256)) * 1000)
    begin(place / "base.run", None, step(1))


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ("new.run", "nothing is noted yet; firth view new.run --follow"),
        ("planned.run", "nothing is noted yet"),
        ("empty.run", "nothing is noted yet"),
        ("half.run", "nothing is noted yet"),
        ("damaged.run", "metrics.jsonl:2 is no record of a run"),
        (["base.run", "damaged.run"], "metrics.jsonl:2"),
        ("folder", r"has no journal of a run \(metrics.jsonl\)"),
        (".", "has no journal of a run"),
        ("text.txt", "is no journal of a run"),
        ("binary", "is no journal of a run"),
        ("nowhere", "there is no run 'nowhere'"),
        ("base", "there is no run 'base' yet, but 'base.run'"),
        ("a" * 5000, "there is no run"),
        ("minilm", "there is no run 'minilm'"),
        (["base.run", "base.run/"], "is named twice"),
        (["base.run", "base.run/metrics.jsonl"], "is named twice"),
        ([], "there is no run to look at"),
        (None, "runs is a path"),
        (b"base.run", "runs is a path"),
    ],
)
def test_what_is_no_run_is_refused(place: Path, paths: Any, said: str) -> None:
    wrong(place)
    with pytest.raises(InputError, match=said):
        firth.curves(paths, "page.html")
    assert not (place / "page.html").exists()


def test_more_runs_than_can_be_told_apart_are_refused(place: Path) -> None:
    runs = [begin(place / f"{number}.run", None, step(1)) for number in range(25)]
    with pytest.raises(InputError, match="there are 25 runs, and a page shows 24 at most"):
        firth.curves(runs)
    found = firth.curves(runs[:24], "page.html")
    assert found.path == Path("page.html")
    assert len(shown(found.page)) == 24
    assert 'srcdoc="' in found._repr_html_()
