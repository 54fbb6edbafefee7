"""The tasks of GLUE and SuperGLUE as data, and where a folder has their published files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from firth.base.arguments import nearest
from firth.base.errors import InputError
from firth.base.notes import note
from firth.reading.columns import Named

BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
THREE_WAY = ("contradiction", "entailment", "neutral")
NUMBERS = ()  # the labels of a task that has numbers
USUAL_FILES = {"train": ("train",), "dev": ("dev", "val"), "test": ("test",)}
ENDINGS = ("", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz")
DIAGNOSTIC = "AX"  # sentences to try a model of MNLI on, in a folder of their own
DIAGNOSTIC_FOLDERS = ("ax", "diagnostic", "diagnostics", "mnli")
DIAGNOSTIC_FILES = ("diagnostic.tsv", "AX.tsv")


class GlueTask(NamedTuple):
    """One task of the benchmarks: its labels, its metrics, its files."""

    name: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]  # as published, the one of the paper's table first
    select: str | None = None  # the metric that selects the best step, where not the usual one
    columns: Named = Named()  # of the texts, where their names aren't usual for any file
    # The names of the files of each set, with or without their endings.
    files: Mapping[str, tuple[str, ...]] = USUAL_FILES
    submissions: Mapping[str, str] = {}  # what GLUE calls the answers to a set
    has_options: bool = False  # whether a row has two ends to choose from

    @property
    def dev_sets(self) -> dict[str, str]:
        """The sets to measure on, with their names in the table."""
        sets = [name for name in self.files if name.startswith("dev")]
        if len(sets) == 1:
            return {"dev": self.name}
        return {"dev": f"{self.name}-m", "dev-mm": f"{self.name}-mm"}


def _glue(name: str, labels: tuple[str, ...], *metrics: str, select: str | None = None) -> GlueTask:
    """Return a task whose answers GLUE's site takes as one file."""
    return GlueTask(name, labels, metrics, select, submissions={"test": f"{name}.tsv"})


MNLI = GlueTask(
    "MNLI",
    THREE_WAY,
    ("accuracy",),
    files={
        "train": ("train",),
        "dev": ("dev_matched", "dev"),
        "dev-mm": ("dev_mismatched",),
        "test": ("test_matched",),
        "test-mm": ("test_mismatched",),
    },
    submissions={
        "test": "MNLI-m.tsv",
        "test-mm": "MNLI-mm.tsv",
        DIAGNOSTIC: f"{DIAGNOSTIC}.tsv",
    },
)
MRPC = _glue("MRPC", BINARY, "f1", "accuracy", select="f1")._replace(
    files={
        "train": ("train", "msr_paraphrase_train.txt"),
        "dev": ("dev",),
        "test": ("test", "msr_paraphrase_test.txt"),
    }
)
TASKS = (
    MNLI,
    _glue("QQP", BINARY, "f1", "accuracy", select="f1"),
    _glue("QNLI", ENTAILMENT, "accuracy"),
    _glue("SST-2", BINARY, "accuracy"),
    _glue("CoLA", BINARY, "matthews", "accuracy", select="matthews"),
    _glue("STS-B", NUMBERS, "spearman", "pearson"),
    MRPC,
    _glue("RTE", ENTAILMENT, "accuracy"),
    _glue("WNLI", BINARY, "accuracy"),
    GlueTask("BoolQ", ("false", "true"), ("accuracy",), columns=Named(("question",), ("passage",))),
    GlueTask("CB", THREE_WAY, ("macro_f1", "accuracy")),
    GlueTask("COPA", BINARY, ("accuracy",), has_options=True),
)
OTHERS = ("MultiRC", "ReCoRD", "WiC", "WSC", "AX-b", "AX-g")  # of SuperGLUE


class GlueFolder(NamedTuple):
    """A task that was found, and the file of each of its sets."""

    task: GlueTask
    files: dict[str, Path]


class GlueFound(NamedTuple):
    """The tasks of a folder, and those that stand there but can't be measured, with reasons."""

    folders: list[GlueFolder]
    left_out: dict[str, str]


def find_glue(folder: Path, names: Sequence[str] = ()) -> GlueFound:
    """Return the tasks that a folder has; where `names` are given, these alone."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder")
    inside = _folders(folder)
    found: list[GlueFolder] = []
    left_out: dict[str, str] = {}
    for task in TASKS:
        place = inside.get(_plain(task.name))
        if place is None or (names and task.name not in names):
            continue
        files = _files(task, place)
        if task.name == MNLI.name:
            files |= _diagnostic(inside)
        if "train" in files:
            found.append(GlueFolder(task, files))
        else:
            left_out[task.name] = f"{place} has no train file"
    if not names:
        others = [name for name in OTHERS if _plain(name) in inside]
        left_out |= dict.fromkeys(others, "firth has no task for it")

    missing = [name for name in names if _plain(name) not in inside]
    if missing:
        raise InputError(f"{folder} has no folder for {missing[0]}")
    if not found:
        raise InputError(_nothing(folder, left_out))
    return GlueFound(found, left_out)


def known_tasks(names: str | Sequence[str]) -> list[str]:
    """Return the published names of tasks, given as a list or parted by commas, in any letters."""
    given = names.strip(",").split(",") if isinstance(names, str) else names
    published = {_plain(task.name): task.name for task in TASKS}
    for name in given:
        if _plain(name) not in published:
            known = nearest(name.strip(), published.values())
            raise InputError(f"there is no task {name.strip()!r} to measure{known}")
    return [published[_plain(name)] for name in given]


def _nothing(folder: Path, left_out: Mapping[str, str]) -> str:
    """Say that there is nothing to measure, and what was looked for."""
    if left_out:
        reasons = [f"{name}: {reason}" for name, reason in left_out.items()]
        return f"{folder} has no task that can be measured ({'; '.join(reasons)})"
    names = ", ".join(task.name for task in TASKS)
    wanted = "looked for folders with a train.tsv or train.jsonl called"
    return f"{folder} has no task of GLUE or SuperGLUE: {wanted} {names}"


def _plain(name: str) -> str:
    """Return a name as it is compared: SST-2, sst2 and SST_2 are one task."""
    return name.strip().lower().replace("-", "").replace("_", "")


def _folders(folder: Path) -> dict[str, Path]:
    """Return the folders inside by their compared names; of two alike the first, which is said."""
    found: dict[str, Path] = {}
    for place in sorted(folder.iterdir()):
        if not place.is_dir():
            continue
        known = found.setdefault(_plain(place.name), place)
        if known is not place:
            note(f"{place} is passed over: {known} has the same name")
    return found


def _files(task: GlueTask, place: Path) -> dict[str, Path]:
    """Return the file of each set that a task's folder has."""
    found = {}
    for part, stems in task.files.items():
        path = _first_file(place, stems)
        if path is not None:
            found[part] = path
    return found


def _first_file(place: Path, stems: Sequence[str]) -> Path | None:
    """Return the first file of a folder that has one of these names, with any ending."""
    for stem in stems:
        for ending in ENDINGS:
            path = place / f"{stem}{ending}"
            if path.is_file():
                return path
    return None


def _diagnostic(inside: Mapping[str, Path]) -> dict[str, Path]:
    """Return the diagnostic sentences, wherever they stand."""
    places = [inside[name] for name in DIAGNOSTIC_FOLDERS if name in inside]
    for place in places:
        for name in DIAGNOSTIC_FILES:
            path = place / name
            if path.is_file():
                return {DIAGNOSTIC: path}
    return {}
