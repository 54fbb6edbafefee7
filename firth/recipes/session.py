"""The life of a run: asked for, locked, begun or resumed, planned, saved and finished."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from firth.base.clock import Clock
from firth.base.errors import InputError
from firth.base.files import new_file, read_json, refuse_folder
from firth.base.journal import Journal
from firth.base.notes import progress_line
from firth.base.settings import Settings
from firth.base.signals import stoppable
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.pages.curves import RunCurves, RunRecords, curves_page, described
from firth.recipes.host import removable
from firth.train.processes import Processes
from firth.train.run import Run, refuse_other


class Session:
    """One call of `pretrain` or `finetune`: the folder it writes, and the run beside it.

    `settings` is the class of what was `asked`, which reads what earlier versions stored.
    """

    def __init__(
        self,
        out: str | Path,
        settings: type[Settings],
        asked: Mapping[str, Any],
        *,
        resume: bool = False,
        force: bool = False,
        processes: Processes | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.target, self.run = Run.beside(out)
        self.settings = settings
        self.asked = dict(asked)
        self.resume = resume
        self.processes = processes or Processes()
        self.clock = clock or Clock()
        # A run that was told to replace the folder goes on doing so when it is resumed.
        self.force = force or (resume and self.run.replaces)

    def say(self, text: str) -> None:
        """Tell the person who watches, once however many processes there are."""
        if self.processes.leads:
            progress_line(text)

    def finished(self) -> dict[str, Any] | None:
        """Return what firth.json says of a run that is at its end, where one is to be resumed."""
        record = self.target / "firth.json"
        if not self.resume or self.run.replaces or not record.exists():
            return None
        made: dict[str, Any] = read_json(record).get("made", {})
        return made

    def refuse_other(self, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        """Refuse a finished run that was asked for otherwise."""
        refuse_other(self.target, self.settings.stored(stored, wanted), wanted)

    def refuse_folder(self) -> None:
        """Refuse to write where something stands that may not be replaced."""
        refuse_folder(self.target, self.force)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep other runs out, and begin or resume this one."""
        alone = self.processes.count == 1
        with ExitStack() as stack:
            if alone:
                # Several processes are stopped by the loop alone: it knows a request from the end
                # that one of them brings to all.
                said = "stopped as asked, outside of training; --resume goes on"
                stack.enter_context(stoppable(said))
            if self.processes.leads:
                stack.enter_context(self.run.locked(alone))
            self.processes.alone("begin", self._begin)
            yield

    def _begin(self) -> None:
        self.run.begin(self.settings, self.asked, self.resume, self.force)

    def plan(
        self, decide: Callable[[], Mapping[str, Any]], inputs: Mapping[str, Any], other: str
    ) -> dict[str, Any]:
        """Return what was decided when the run began, or decide it now and put it down.

        A run is refused that had other `inputs`; `other` says which, as "another text".
        """
        plan = self.run.plan()
        if plan is None:
            plan = {"asked": self.asked, **decide(), **inputs}
            self.run.write_plan(plan)
        if any(plan.get(name) != value for name, value in inputs.items()):
            raise InputError(f"{self.run.folder} holds a run with {other}; --force throws it away")
        return plan

    def save(
        self,
        bundle: Bundle,
        made: Mapping[str, Any],
        journal: Journal | None = None,
        beside: Mapping[str, Path] | None = None,
    ) -> None:
        """Write the model's folder, with the curves of a journal; the run is then at its end."""
        copies = dict(beside or {})
        if journal is not None:
            page = self.run.folder / "curves.html"
            what = described(made["settings"])
            records = RunRecords(journal)
            run = RunCurves(self.target.name, records, what, "finished", made["best_step"])
            with new_file(page, force=True) as fresh:
                fresh.write_text(curves_page([run]), encoding="utf-8")
            copies = {"metrics.jsonl": journal.path, "curves.html": page, **copies}
        save(bundle, self.target, self.force, made, copies)
        self.run.settle()

    def say_removable(self) -> None:
        """Say where the finished run's folder is, which nothing needs any more."""
        for line in removable(self.run):
            self.say(line)
