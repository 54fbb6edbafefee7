"""What a page shows of training runs: where their journals are, and what their folders say."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from firth.base.errors import InputError
from firth.base.files import read_json
from firth.base.journal import JournalReader, parse_record
from firth.base.locks import is_held
from firth.pages.curves import RunCurves, RunRecords, described

JOURNAL = "metrics.jsonl"
PLAN = "plan.json"
LOCK = "lock"
RECORD = "firth.json"
CONFIG = "config.json"
PAGE = "curves.html"  # a run writes it at its end
ENDING = ".run"
PART = re.compile(r"(?:seed|fold)-(\d+)")  # a run of its own in the folder of several
MOST_RUNS = 24  # that are told apart by colour and dash
FIRST = 1 << 16  # bytes that the first record of a journal has, at most
COUNTED = "an n-gram is counted in one pass: it has no steps and no curves"
NOT_YET = "nothing is noted yet"


def is_run(path: str) -> bool:
    """Tell a run's folder, a model's that a run left its journal in, an n-gram's, and a journal."""
    with suppress(OSError, ValueError):
        place = Path(path)
        if place.is_dir():
            begun = (place / PLAN).exists() or _is_locked(place)
            return begun or bool(_journals(place)) or _is_counted(place)
        if place.is_file():
            return place.name == JOURNAL or _is_journal(place)
    return False


def is_model(path: str) -> bool:
    """Tell the folder of a model."""
    with suppress(OSError, ValueError):
        return (Path(path) / CONFIG).exists()
    return False


def _is_locked(folder: Path) -> bool:
    return folder.name.endswith(ENDING) and (folder / LOCK).exists()


def _is_journal(path: Path) -> bool:
    """Tell a journal by its first record."""
    with path.open("rb") as file, suppress(InputError):
        return "seconds" in parse_record(file.readline(FIRST), str(path))
    return False


def _is_counted(folder: Path) -> bool:
    """Tell whether a model, or the plan of a run, is of an n-gram."""
    made = _object(_read(folder / RECORD).get("made"))
    if made:
        return made.get("by") == "pretrain" and made.get("steps") == 0
    plan = _read(folder / PLAN)
    descends = {"training", "updates"} & plan.keys()
    return "corpus" in _object(plan.get("asked")) and not descends


def _journals(folder: Path) -> dict[str, Path]:
    """Return the journal of a folder, and those of its seeds or folds, by their names."""
    found = {"": folder / JOURNAL} if (folder / JOURNAL).exists() else {}
    parts = {path.parent.name: path for path in folder.glob(f"*/{JOURNAL}")}
    numbers = {name: int(match[1]) for name in parts if (match := PART.fullmatch(name))}
    for name in sorted(numbers, key=lambda name: (name[:4], numbers[name])):
        found[name] = parts[name]
    return found


def _read(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; an empty one where there is none, or it is damaged."""
    with suppress(InputError):
        return _object(read_json(path))
    return {}


def _object(value: Any) -> dict[str, Any]:
    """Return a value that is an object, or an empty one."""
    return value if isinstance(value, dict) else {}


class ReadJournal:
    """A journal and what was read of it so far."""

    def __init__(self, path: Path) -> None:
        self.reader = JournalReader(path)
        self.records = RunRecords()
        self.damage = ""  # what ended the reading

    def update(self) -> None:
        """Read what was added since the last time, or all where a resumed run cut it."""
        try:
            if self.reader.renew():
                self.records = RunRecords()
                self.damage = ""
            if not self.damage:
                for record in self.reader:
                    self.records.add(record)
        except InputError as error:
            self.damage = str(error)


class FoundRun:
    """A run that a path names: its folder, its journal, or the model that came of it."""

    def __init__(self, path: str) -> None:
        place = Path(path)
        if not is_run(path):
            raise InputError(_no_run(place))
        self.path = path
        self.folder = place.parent if place.is_file() else place
        # Of another file the folder may hold several.
        self.named = (self.folder if place.name == JOURNAL else place).resolve()
        self.file = place if place.is_file() else None
        self.journals: dict[str, ReadJournal] = {}

    def update(self) -> None:
        """Read what was added to the journals since the last time."""
        found = {"": self.file} if self.file else _journals(self.folder)
        for gone in self.journals.keys() - found.keys():
            self.journals.pop(gone).reader.close()
        for name, path in found.items():
            if name not in self.journals:
                self.journals[name] = ReadJournal(path)
            self.journals[name].update()

    def close(self) -> None:
        """Close the journals."""
        for journal in self.journals.values():
            journal.reader.close()

    @property
    def damages(self) -> Iterator[str]:
        """Yield what is wrong with the journals."""
        return (journal.damage for journal in self.journals.values() if journal.damage)

    @property
    def is_counted(self) -> bool:
        """Whether the run is of an n-gram, which has no steps."""
        return not self.journals and _is_counted(self.folder)

    @property
    def state(self) -> str:
        """Whether the run goes on, as far as its folder tells."""
        lock = self.folder / LOCK
        if not lock.exists():
            return "finished" if (self.folder / CONFIG).exists() else ""
        held = is_held(lock)
        if held:
            return "going on"
        if (self.folder / PAGE).exists():
            return "finished"
        return "" if held is None or self.is_counted else "stopped"

    def curves(self, name: str) -> list[RunCurves]:
        """Return what a page shows of the run, or of each of its seeds or folds."""
        made = _object(_read(self.folder / RECORD).get("made"))
        plan = _read(self.folder / PLAN)
        what = described(_object(made.get("settings")) or _object(plan.get("asked")))
        kept = made.get("best_step")
        if not isinstance(kept, int):
            kept = None
        state = self.state
        if not self.journals:
            remark = COUNTED if self.is_counted else NOT_YET
            return [RunCurves(name, RunRecords(), what, state, kept, remark)]
        found = []
        for part, journal in self.journals.items():
            remark = journal.damage or ("" if journal.records.started else NOT_YET)
            whole = f"{name} {part}".strip()
            found.append(RunCurves(whole, journal.records, what, state, kept, remark))
        return found


def _no_run(place: Path) -> str:
    """Say why a path names no run."""
    with suppress(OSError, ValueError):
        if place.is_file():
            return f"{place} is no journal of a run, which has a JSON object with a step a line"
        if place.is_dir():
            return (
                f"{place} has no journal of a run ({JOURNAL}): name the folder of a run, "
                f"OUT{ENDING}, or a model that firth pretrain or firth finetune wrote"
            )
        beside = place.with_name(f"{place.name}{ENDING}")
        if beside.is_dir():
            return f"there is no run {str(place)!r} yet, but {str(beside)!r}"
    return f"there is no run {str(place)!r}"


def find_runs(paths: Sequence[str]) -> list[FoundRun]:
    """Return the runs that paths name, each once."""
    runs: dict[Path, FoundRun] = {}
    for path in paths:
        run = FoundRun(path)
        if run.named in runs:
            raise InputError(f"{path} is named twice")
        runs[run.named] = run
    return list(runs.values())


def curves_of(runs: Sequence[FoundRun]) -> list[RunCurves]:
    """Return what a page shows of all runs, by names that tell them apart."""
    found: list[RunCurves] = []
    for name, run in zip(_names([run.named for run in runs]), runs, strict=True):
        found += run.curves(name)
    if len(found) > MOST_RUNS:
        raise InputError(f"there are {len(found)} runs, and a page shows {MOST_RUNS} at most")
    return found


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the names of paths, with as many of the folders above as tell them apart."""
    count = 1
    while True:
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
        count += 1
