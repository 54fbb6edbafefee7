"""The folder that a run lives in while it goes on: plan, journal, checkpoints, and a lock."""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from firth.base import files
from firth.base.errors import FirthError, InputError
from firth.base.journal import Journal
from firth.base.settings import Settings
from firth.train import checkpoint

MADE = r"vocab|plan\.json|metrics\.jsonl|curves\.html"  # what is written under another name first
SPARE = 1.1  # what is asked of the disk beyond the checkpoints themselves


def refuse_other(folder: Path, asked: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse to go on with a run that was asked for otherwise."""
    for key in sorted({*asked, *wanted}):
        before = asked.get(key)
        now = wanted.get(key)
        if before != now:
            raise InputError(
                f"{folder} holds a run with {key} {before!r}, not {now!r}: "
                "say the same to go on with it, or --force to throw it away"
            )


class TooLate(InputError):
    """The time was over before the first step; the text is encoded, which serves the next run."""


class Run:
    """A run's folder, held by one process at a time; other processes of the run only read."""

    @classmethod
    def beside(cls, out: str | Path) -> tuple[Path, "Run"]:
        """Return the folder that a run is to give, and the run's own beside it."""
        target = Path(out)
        if target.name in ("", ".."):
            target = target.resolve()
        if not target.name:
            raise InputError(f"{target} can't be written: name a folder for the model")
        return target, cls(target.with_name(f"{target.name}.run"))

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal(folder / "metrics.jsonl")
        self.checkpoints = folder / "checkpoints"
        self.data = folder / "data"
        self._plan = folder / "plan.json"
        self._over = folder / "over"

    @contextmanager
    def locked(self, alone: bool = True) -> Iterator[None]:
        """Keep every other run out; the lock goes with the process, however it ends.

        A refusal leaves no folder that wasn't there before, unless steps were taken; where the run
        isn't `alone`, its other processes may still read from it, and it stays.
        """
        made = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        with self._lock():
            try:
                yield
            except InputError as error:
                if made and alone and not self._has_work():
                    self._clear(data=not isinstance(error, TooLate))
                    for folder in made:
                        with suppress(OSError):  # it holds something
                            folder.rmdir()
                raise

    def _lock(self) -> TextIO:
        """Return the lock's file, which holds the lock until it is closed."""
        path = self.folder / "lock"
        try:
            if self.folder.is_dir() and any(self.folder.iterdir()) and not path.exists():
                raise InputError(
                    f"{self.folder} is no folder of a run: "
                    "choose another name for the model, or move it away"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{self.folder} can't be written: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise InputError(f"{self.folder} is in use by another run (process {holder})") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        return lock

    def begin(
        self, known: type[Settings], wanted: Mapping[str, Any], resume: bool, force: bool
    ) -> None:
        """Make sure that a run of these settings may begin or go on here, and no other.

        `known` reads what an earlier version stored.
        """
        files.remove_leftovers(self.folder.parent, re.escape(self.folder.name.removesuffix(".run")))
        files.remove_leftovers(self.folder, MADE)
        files.remove_leftovers(self.data, r"[0-9a-f]{16}")
        if force and not resume:
            self._over.touch()
            self._remove_but(self._over, self.data)  # encoded text is as good for another run
        plan = self.plan()
        if plan is None:
            return
        if not resume:
            if any(self.folder.rglob(self.journal.path.name)):
                raise InputError(
                    f"{self.folder} holds another run: "
                    "--resume goes on with it, --force throws it away"
                )
            self._plan.unlink()  # that run was refused before its first step
            return
        asked = known.stored(plan.get("asked", {}), wanted)
        refuse_other(self.folder, asked, wanted)

    def _has_work(self) -> bool:
        """Say whether a step was taken, or something is saved or counted."""
        if any(self.folder.rglob("*.safetensors")):
            return True
        for path in self.folder.rglob(self.journal.path.name):
            if any(record["step"] for record in Journal(path)):
                return True
        return False

    def _clear(self, data: bool) -> None:
        """Remove all, or all but the encoded text and the lock that says whose folder it is."""
        if not data:
            self._remove_but(self.data)
            return
        self._remove_but()
        (self.folder / "lock").unlink()

    def _remove_but(self, *kept: Path) -> None:
        """Remove what is in the folder, but for the lock and what is to be kept."""
        for old in self.folder.iterdir():
            if old in (self.folder / "lock", *kept):
                continue
            if old.is_dir():
                shutil.rmtree(old)
            else:
                old.unlink()

    def removable(self) -> str:
        """Say how large the folder is, which nothing needs when the model is in place."""
        megabytes = max(1, round(folder_size(self.folder) / 1e6))
        return f"{self.folder} ({megabytes:,} MB) may be removed: the model doesn't need it"

    @property
    def replaces(self) -> bool:
        """Whether the run was told to replace what stands in its target's place, and hasn't yet."""
        return self._over.exists()

    def settle(self) -> None:
        """Note that the model is in place: what stands there now is the run's own."""
        self._over.unlink(missing_ok=True)

    def plan(self) -> dict[str, Any] | None:
        """Return what was decided when the run began, if it has."""
        if not self._plan.exists():
            return None
        plan: dict[str, Any] = files.read_json(self._plan)
        return plan

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Put down what was decided, so that a resumed run decides nothing again."""
        with files.new_file(self._plan, force=True) as fresh:
            fresh.write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")

    def check_space(self, checkpoint_bytes: int, kept: int) -> None:
        """Stop at the start of a run that would fill the disk."""
        needed = int(checkpoint_bytes * (kept + 1) * SPARE)
        left = shutil.disk_usage(self.folder).free + folder_size(self.checkpoints)
        if left < needed:
            raise FirthError(
                f"{self.folder}: checkpoints need {needed / 1e6:,.0f} MB "
                f"and the disk has {left / 1e6:,.0f} MB left"
            )

    def newest(self) -> checkpoint.Checkpoint | None:
        """Return the checkpoint to go on from."""
        checkpoint.sweep(self.checkpoints)
        return checkpoint.newest(self.checkpoints)


def folder_size(folder: Path) -> int:
    """Return how many bytes the files below a folder have."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
