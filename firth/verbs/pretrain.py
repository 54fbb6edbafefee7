"""Pretrain a model on text: from nothing, or from an existing one."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from firth.base.arguments import as_path, as_paths, check_flags
from firth.base.clock import Clock
from firth.base.errors import InputError
from firth.base.files import new_folder
from firth.corpus.files import corpus_files, passed_over
from firth.corpus.shards import Shards, open_shards
from firth.folders.find import family_of, find
from firth.recipes.host import training
from firth.recipes.options import PretrainOptions
from firth.recipes.recipe import Recipe, Trained
from firth.recipes.session import Session
from firth.recipes.settings import PretrainSettings
from firth.text.repair import REPLACEMENT
from firth.text.tokenizer import Tokenizer
from firth.train.loop import Outcome, machine
from firth.train.processes import Processes
from firth.train.settings import training_of
from firth.verbs.vocab import Text

VOCAB = 30000
# What a resumed run may change: no bit depends on it.
FREE = {"save_every", "workers", "threads", "timeout"}


def pretrain(
    corpus: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    clock: Clock | None = None,
    **options: Unpack[PretrainOptions],
) -> Outcome:
    """Write a pretrained model to a folder; what a killed run needs to go on is in `OUT.run`.

    `corpus` is one file or folder, or several. The options are those of `PretrainSettings`, which
    the command line has too; `text` is another name of `field`. Minutes count from the call, or as
    `clock` does.
    """
    clock = clock or Clock()
    check_flags(resume=resume, force=force)
    given: dict[str, Any] = {**options}
    given["corpus"] = as_paths("corpus", corpus)
    given["out"] = as_path("out", out)
    for name in ("vocab", "init", "dev"):
        given[name] = as_path(name, given.get(name), optional=True)
    text = given.pop("text", None)
    if text is not None:
        given["field"] = text
    settings = PretrainSettings.given(given)
    processes = Processes(settings.timeout)
    with training(settings.threads), processes:
        return _Pretraining(settings, processes, clock, resume, force).go()


class _Pretraining:
    """One call of `pretrain`."""

    def __init__(
        self,
        settings: PretrainSettings,
        processes: Processes,
        clock: Clock,
        resume: bool,
        force: bool,
    ) -> None:
        self.s = settings
        self.processes = processes
        asked = settings.model_dump(exclude=FREE)
        if settings.split == "auto":
            asked["split"] = None  # the default, however it is given
        self.session = Session(
            settings.out,
            PretrainSettings,
            asked,
            resume=resume,
            force=force,
            processes=processes,
            clock=clock,
        )
        self.paths = corpus_files(map(Path, settings.corpus))
        _refuse_other_family(settings)

    def go(self) -> Outcome:
        """Pretrain the model, or find that it is finished."""
        session = self.session
        made = session.finished()
        if made is not None:
            session.refuse_other(made["settings"], session.asked)
            session.say(f"{session.target} is finished")
            return Outcome(made["steps"], made["best_step"], made["dev"])
        session.refuse_folder()
        with session.running():
            outcome = self._run()
        session.say(_sentence(session.target, outcome, session.clock()))
        session.say_removable()
        return outcome

    def _run(self) -> Outcome:
        """Read the text, plan, train and save."""
        session = self.session
        given = [*self.s.corpus]
        if self.s.dev:
            given.append(self.s.dev)
        left_out = passed_over(map(Path, given))
        if left_out:
            session.say(f"note: {left_out}")

        self.tokenizer: Tokenizer = self.processes.first("vocab", self._tokenizer)
        self.text = self._shards("data", self.paths)
        self.held = None
        if self.s.dev:
            dev_paths = corpus_files([Path(self.s.dev)])
            self.held = self._shards("dev", dev_paths)

        make_recipe = self.s.family.recipe
        assert make_recipe is not None
        recipe: Recipe = make_recipe(self.s, self.tokenizer)
        recipe.check(session)
        held_out = recipe.read(self.text, self.held, session.run.plan())
        self._say_text(held_out)
        plan: dict[str, Any] = self.processes.first("plan", lambda: self._plan(recipe))
        trained = recipe.run(session, plan)
        self.processes.alone("saved", lambda: self._save(trained, plan))
        return trained.outcome

    def _tokenizer(self) -> Tokenizer:
        """Return the vocabulary given, or the model's own, or one learned from the text."""
        sentinels = self.s.family.sentinels
        if self.s.vocab:
            return self._given_vocabulary(self.s.vocab, sentinels)
        if self.s.init:
            return Tokenizer.open(find(self.s.init))
        run = self.session.run
        folder = run.folder / "vocab"
        if self.processes.leads and not run.plan():  # what is there may be of another text
            text = Text(self.s.corpus, self.s.field, self.s.encoding)
            kind = self.s.family.vocabulary
            with new_folder(folder, force=True) as fresh_folder:
                tokenizer = text.learn(kind, VOCAB, split=self.s.split, sentinels=sentinels)
                tokenizer.save(fresh_folder)
            if text.parted:
                self.session.say(text.parted)
        return Tokenizer.open(folder)

    def _given_vocabulary(self, folder: str, sentinels: int) -> Tokenizer:
        """Return the vocabulary of a folder, with the sentinels that the model needs."""
        given = Tokenizer.open(Path(folder))
        if not sentinels:
            return given
        whole = given.with_sentinels(sentinels)
        if added := len(whole.sentinels) - len(given.sentinels):
            self.session.say(f"{added} sentinels are added to the vocabulary of {folder}")
        return whole

    def _shards(self, name: str, paths: list[Path]) -> Shards:
        """Return files as tokens, encoded once."""
        s = self.s
        data = self.session.run.data
        work = partial(open_shards, data, paths, self.tokenizer, s.field, s.encoding)
        shards: Shards = self.processes.first(name, work)
        return shards

    def _say_text(self, held_out: int) -> None:
        """Say how large the text is, and what of it could not be read as it stands."""
        say = self.session.say
        text = self.text
        say(
            f"{text.tokens:,} tokens in {text.documents:,} documents, "
            f"{self.tokenizer.size:,} pieces in the vocabulary, "
            f"{text.unknown:,} tokens unknown; {held_out:,} tokens are held out"
        )
        if text.replaced:
            say(
                f"note: {text.replaced:,} characters could not be read "
                f"and were replaced by {REPLACEMENT}"
            )
        for shards in (text, self.held):
            if shards is not None and shards.garbled:
                say(f"note: {shards.garbled}")

    def _plan(self, recipe: Recipe) -> dict[str, Any]:
        """Return what was decided when the run began, or is now; another text is refused."""
        dev = self.held.key if self.held else None
        inputs = {"data": self.text.key, "dev": dev}
        known = {"splits_document": True, "machine": machine()}

        def decide() -> dict[str, Any]:
            """Return what the recipe decides, and what is the same for all."""
            return recipe.decide(self.session) | known

        return self.session.plan(decide, inputs, "another text or vocabulary")

    def _save(self, trained: Trained, plan: Mapping[str, Any]) -> None:
        """Write the model's folder, with the story of how it was made."""
        outcome = trained.outcome
        asked = PretrainSettings.stored(plan["asked"], ())
        made: dict[str, Any] = {"by": "pretrain", "settings": asked}
        if "training" in plan:
            made["training"] = training_of(plan)
        if "updates" in plan:
            made["training"] = plan["updates"]
        made["text"] = {
            "sha256": self.text.key,
            "files": self.text.sources,
            "tokens": self.text.tokens,
        }
        made["vocabulary"] = self.tokenizer.fingerprint
        if self.tokenizer.split:
            made["split"] = self.tokenizer.split
        made |= {
            "steps": outcome.steps,
            "best_step": outcome.best,
            "dev": outcome.metrics,
            "baseline": trained.baseline,
            "machine": machine(),
        }
        journal = self.session.run.journal if outcome.steps else None
        self.session.save(trained.bundle, made, journal)


def _refuse_other_family(settings: PretrainSettings) -> None:
    """Refuse to go on with a model of another family than the one that is asked for."""
    if settings.init is None:
        return
    family = family_of(settings.init)
    if family.name != settings.family.name:
        cure = f": say --model {family.name}" if family.recipe is not None else ""
        raise InputError(
            f"{settings.init} is a {family.model_type}, "
            f"which is not pretrained as {settings.model}{cure}"
        )


def _sentence(target: Path, outcome: Outcome, seconds: float) -> str:
    """Say what came of a run."""
    taken = f"{outcome.steps:,} steps" if outcome.steps else "counted"
    sentence = f"{target}: {taken} in {seconds:,.0f} s"
    if outcome.best != outcome.steps:
        sentence += f"; the best, of step {outcome.best}, was kept"
    if outcome.metrics:
        figures = []
        for name, value in outcome.metrics.items():
            metric = name.replace("_", " ")
            figures.append(f"{metric} {value:.4g}")
        sentence += f"; on held-out text {', '.join(figures)}"
    return sentence
