"""The folder that a run lives in while it goes on: its plan, its journal, its checkpoints, and a lock."""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from firth.base import files
from firth.base.errors import FirthError, InputError
from firth.base.journal import Journal
from firth.train import checkpoint

MADE = r"vocab|plan\.json|metrics\.jsonl|curves\.html"  # what is written under another name first
SPARE = 1.1  # what is asked of the disk beyond the checkpoints themselves


def refuse_other(folder: Path, asked: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse to go on with what was asked for otherwise."""
    for key in sorted({*asked, *wanted}):
        if asked.get(key) != wanted.get(key):
            raise InputError(
                f"{folder} holds a run with {key} {asked.get(key)!r}, not {wanted.get(key)!r}: "
                "say the same to go on with it, or --force to throw it away"
            )


class TooLate(InputError):
    """The time was over before the first step; the text is encoded, which serves the next run."""


class Run:
    """A run's folder, held by one process at a time (and by the other processes of the same run, which only read)."""

    @classmethod
    def beside(cls, out: str | Path) -> tuple[Path, "Run"]:
        """The folder that a run is to give, and the run's own beside it."""
        target = Path(out) if Path(out).name not in ("", "..") else Path(out).resolve()
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

        A refusal leaves no folder that wasn't there before, unless steps were taken; where the run isn't `alone`, its other
        processes may still read from it, and it stays.
        """
        made = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        try:
            if (
                self.folder.is_dir()
                and any(self.folder.iterdir())
                and not (self.folder / "lock").exists()
            ):
                raise InputError(
                    f"{self.folder} is no folder of a run: choose another name for the model, or move it away"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{self.folder} can't be written: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                raise InputError(
                    f"{self.folder} is in use by another run (process {lock.read().strip() or 'unknown'})"
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            try:
                yield
            except InputError as error:
                if made and alone and not self._has_work():
                    self._clear(data=not isinstance(error, TooLate))
                    for folder in made:
                        with suppress(OSError):  # it holds something
                            folder.rmdir()
                raise

    def begin(self, wanted: Mapping[str, Any], resume: bool, force: bool) -> None:
        """Make sure that a run of these settings may begin or go on here; another is never mixed into it."""
        files.sweep(self.folder.parent, re.escape(self.folder.name.removesuffix(".run")))
        files.sweep(self.folder, MADE)
        files.sweep(self.data, r"[0-9a-f]{16}")
        if force and not resume:
            self._over.touch()
            for old in self.folder.iterdir():
                if old not in (
                    self.folder / "lock",
                    self._over,
                    self.data,
                ):  # encoded text is as good for another run
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
        plan = self.plan()
        if plan is None:
            return
        if not resume and not any(
            self.folder.rglob(self.journal.path.name)
        ):  # it was refused before its first step
            self._plan.unlink()
            return
        if not resume:
            raise InputError(
                f"{self.folder} holds another run: --resume goes on with it, --force throws it away"
            )
        refuse_other(self.folder, plan.get("asked", {}), wanted)

    def _has_work(self) -> bool:
        """Whether a step was taken, or something is saved or counted."""
        taken = (
            record["step"]
            for path in self.folder.rglob(self.journal.path.name)
            for record in Journal(path)
        )
        return any(self.folder.rglob("*.safetensors")) or any(taken)

    def _clear(self, data: bool) -> None:
        """Remove all of it, or all but the encoded text and the lock that says whose folder it is."""
        for old in self.folder.iterdir():
            if data or old not in (self.folder / "lock", self.data):
                shutil.rmtree(old) if old.is_dir() else old.unlink()

    def removable(self) -> str:
        """Say how large the folder is, which nothing needs when the model is in place."""
        size = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        return f"{self.folder} ({max(1, round(size / 1e6)):,} MB) may be removed: the model doesn't need it"

    @property
    def replaces(self) -> bool:
        """Whether the run was told to replace what stands in its target's place, and hasn't done so yet."""
        return self._over.exists()

    def settle(self) -> None:
        """Its model is in place: what stands there now is the run's own."""
        self._over.unlink(missing_ok=True)

    def plan(self) -> dict[str, Any] | None:
        """What was decided when the run began, if it has."""
        return files.read_json(self._plan) if self._plan.exists() else None

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Put down what was decided, so that a resumed run decides nothing again."""
        with files.new_file(self._plan, force=True) as fresh:
            fresh.write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")

    def check_space(self, checkpoint_bytes: int, kept: int) -> None:
        """Stop at the start of a run that would fill the disk."""
        needed = int(checkpoint_bytes * (kept + 1) * SPARE)
        held = sum(path.stat().st_size for path in self.checkpoints.rglob("*") if path.is_file())
        free = shutil.disk_usage(self.folder).free
        if free + held < needed:
            raise FirthError(
                f"{self.folder}: checkpoints need {needed / 1e6:,.0f} MB and the disk has {(free + held) / 1e6:,.0f} MB left"
            )

    def newest(self) -> checkpoint.Checkpoint | None:
        """The checkpoint to go on from."""
        checkpoint.sweep(self.checkpoints)
        return checkpoint.newest(self.checkpoints)
