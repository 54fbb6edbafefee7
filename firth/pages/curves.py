"""The page of training runs: loss, held-out metrics, learning rate and speed, for any browser."""

import json
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from firth.pages.page import Array, PageSection, write_page

Record = Mapping[str, Any]  # of a run's journal, with its step

POINTS = 400  # of a line, at most
DIGITS = 6  # of a number
LARGEST = 1e100
# A step that took longer than this, and so many times as long as is usual, waited for something.
PAUSE = 1.0  # seconds
MANY_TIMES = 10
MOST_NAMES = 3  # in the page's title
LOWER_IS_BETTER = ("loss", "perplexity", "error", "mse", "mae")  # how names of metrics end
MAIN = "runs"  # the module of web/ that draws the page
COLUMNS = ("step", "seconds", "loss", "rate", "tokens", "spent")


class Check(NamedTuple):
    """What was measured on held-out text after a step."""

    step: float
    seconds: float
    metrics: Record


class RunRecords:
    """The records of a journal, with each step once: what is told again was taken again."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.columns = {name: array("d") for name in COLUMNS}
        self.checks: list[Check] = []
        self._latest = math.nan  # seconds of the record before
        self._pace = math.nan  # seconds of a token, lately
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Add a record; others of its step and of later ones are forgotten."""
        step = float(record["step"])
        seconds = _number(record.get("seconds"))
        while self.checks and self.checks[-1].step >= step:
            self.checks.pop()
        if "dev" in record:
            self.checks.append(Check(step, seconds, record["dev"]))
        elif "loss" in record:
            self._add_step(step, seconds, record)
        self._latest = seconds

    def _add_step(self, step: float, seconds: float, record: Record) -> None:
        steps = self.columns["step"]
        while steps and steps[-1] >= step:
            for column in self.columns.values():
                column.pop()
        tokens = _number(record.get("tokens"))
        speed = _number(record.get("speed"))
        if speed > 0:
            spent = tokens / speed
        else:
            spent = self._spent(tokens, seconds - self._latest)
        known = spent >= 0 and tokens >= 0
        values = {
            "step": step,
            "seconds": seconds,
            "loss": _number(record["loss"]),
            "rate": _number(record.get("rate")),
            "tokens": tokens if known else 0.0,
            "spent": spent if known else 0.0,
        }
        for name, value in values.items():
            self.columns[name].append(value)

    def _spent(self, tokens: float, seconds: float) -> float:
        """Return the seconds of a step; none if it waited for a new process or a checkpoint."""
        if not tokens > 0 or not seconds >= 0:
            return math.nan
        pace = seconds / tokens
        waited = seconds > PAUSE and pace > MANY_TIMES * self._pace
        self._pace = pace if math.isnan(self._pace) else 0.9 * self._pace + 0.1 * pace
        return math.nan if waited else seconds

    @property
    def started(self) -> bool:
        """Whether there is anything to draw."""
        return bool(self.columns["step"] or self.checks)

    @property
    def last_step(self) -> int:
        """Return the last step that is noted."""
        return int(self.columns["step"][-1]) if self.columns["step"] else 0

    def data(self) -> dict[str, Any]:
        """Return what the page draws: means over neighbouring steps, so that every run is light."""
        columns = {name: np.array(column) for name, column in self.columns.items()}
        count = len(columns["step"])
        # A power of two, so that points stay where they are while a run grows.
        each = 1
        while count > POINTS * each:
            each *= 2
        begins = np.arange(0, count, each)
        ends = np.minimum(begins + each, count) - 1
        tokens = np.add.reduceat(columns["tokens"], begins)
        spent = np.add.reduceat(columns["spent"], begins)
        return {
            "each": each,
            "steps": [int(step) for step in columns["step"][ends]],
            "seconds": _times(columns["seconds"][ends]),
            "loss": _printed(_means(columns["loss"], begins)),
            "rate": _printed(_means(columns["rate"], begins)),
            "speed": _printed(_shares(tokens, spent)),
            "meanSpeed": _printed(_shares(tokens.sum(keepdims=True), spent.sum(keepdims=True)))[0],
            **self._checked(),
        }

    def _checked(self) -> dict[str, Any]:
        """Return what was measured, by metric; of very many some, with the newest and the best."""
        count = len(self.checks)
        every = -(-count // POINTS) or 1
        shown = {*range(count - 1, -1, -every)}
        names = dict.fromkeys(name for check in self.checks for name in check.metrics)
        columns = {}
        for name in names:
            values = [_number(check.metrics.get(name)) for check in self.checks]
            columns[name] = np.array(values)
            shown |= _best(name, columns[name])

        numbers = sorted(shown)
        kept = [self.checks[number] for number in numbers]
        metrics = []
        for name, column in columns.items():
            printed = _printed(column[numbers])
            metrics.append({"name": name, "values": printed, "lower": _is_lower_better(name)})
        return {
            "every": every,
            "checkSteps": [int(check.step) for check in kept],
            "checkSeconds": _times(np.array([check.seconds for check in kept])),
            "metrics": metrics,
        }


class RunCurves(NamedTuple):
    """A run on a page."""

    name: str
    records: RunRecords
    what: str = ""  # such as "pretrain bert"
    state: str = ""  # finished, going on, stopped
    kept: int | None = None  # the step whose weights are in the model's folder
    remark: str = ""  # what the run lacks

    def data(self) -> dict[str, Any]:
        """Return what the page shows of the run."""
        fields = self._asdict()
        del fields["records"]
        return fields | self.records.data()


def described(settings: Mapping[str, Any]) -> str:
    """Return what a run with these settings does, as its command is typed."""
    if isinstance(settings.get("task"), str):
        return f"finetune {settings['task']}"
    if isinstance(settings.get("model"), str):
        return f"pretrain {settings['model']}"
    return ""


def curves_page(runs: Sequence[RunCurves], follows: bool = False) -> str:
    """Return the page of runs; one that follows them asks the server that it came from for news."""
    names = [run.name for run in runs]
    title = ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} runs"
    data = {"runs": [run.data() for run in runs], "follows": follows}
    section = PageSection("curves", "Training", data)
    return write_page(title, [], [section], MAIN, asks=follows)


def curves_news(runs: Sequence[RunCurves]) -> str:
    """Return what a page asks for that follows runs."""
    return json.dumps({"runs": [run.data() for run in runs]}, allow_nan=False)


def _is_lower_better(name: str) -> bool:
    """Tell losses and the like from metrics of which more is better."""
    return name.endswith(LOWER_IS_BETTER)


def _best(name: str, values: Array) -> set[int]:
    """Return the place of a metric's best value, the first of equal ones; none if it has none."""
    if not np.isfinite(values).any():
        return set()
    return {int(np.nanargmin(values) if _is_lower_better(name) else np.nanargmax(values))}


def _number(value: object) -> float:
    """Return a number of a record; what is none, or too large to draw, is left out."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if abs(value) < LARGEST else math.nan


def _means(values: Array, begins: Array) -> Array:
    """Return the mean of each group of values, of those that are numbers."""
    known = np.isfinite(values)
    sums = np.add.reduceat(np.where(known, values, 0.0), begins)
    counts = np.add.reduceat(known.astype(float), begins)
    return _shares(sums, counts)


def _shares(sums: Array, counts: Array) -> Array:
    """Divide, where there is something to divide by."""
    found: Array = np.full(len(sums), np.nan)
    np.divide(sums, counts, out=found, where=counts > 0)
    return found


def _printed(values: Array) -> list[float | None]:
    """Return numbers with the digits that a page needs; None for what is none."""
    return [None if math.isnan(value) else float(f"{value:.{DIGITS}g}") for value in values]


def _times(seconds: Array) -> list[float | None]:
    """Return seconds as a journal has them; None for what is none."""
    return [None if math.isnan(value) else round(float(value), 3) for value in seconds]
