"""Pretrain a model on text: from nothing, or from an existing one."""

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from firth.base.arguments import as_path, as_paths, check_flags
from firth.base.clock import Clock
from firth.base.errors import InputError
from firth.base.files import new_file, new_folder, read_json, refuse_folder
from firth.base.settings import complaint
from firth.base.signals import stoppable
from firth.corpus.files import corpus_files, passed_over
from firth.corpus.shards import Shards, open_shards
from firth.corpus.stream import line_marks
from firth.data.task import Learner
from firth.folders.bundle import Bundle, family_of, find, save
from firth.pages.curves import curves
from firth.recipes.causal import NextWords
from firth.recipes.counted import counted
from firth.recipes.host import removable, training
from firth.recipes.masked import HiddenWords
from firth.recipes.settings import FAMILIES, KINDS, PretrainSettings, refuse_start
from firth.text.repair import REPLACEMENT
from firth.text.tokenizer import Tokenizer
from firth.train import checkpoint
from firth.train.forecast import pace
from firth.train.loop import Loop, Outcome, TrainSettings, load_weights, machine
from firth.train.precision import gains_from_bf16
from firth.train.processes import Processes
from firth.train.run import Run, TooLate, refuse_other
from firth.verbs.vocab import Text

VOCAB = 30000
# By the clock: the largest size that still sees so many tokens for each weight of its body, in about so many steps.
TOKENS_PER_WEIGHT, STEPS_WANTED = 5, 12000
SMALLEST_BATCH, LARGEST_BATCH = 1024, 8192
DEV_TOKENS, LEAST_DEV, CHECK_SHARE = (
    100_000,
    2_000,
    0.03,
)  # of the tokens trained on: a measurement is a third as dear, and there are ten
FREE = {
    "save_every",
    "workers",
    "threads",
    "timeout",
}  # what a resumed run may change: no bit depends on it


def pretrain(
    corpus: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    clock: Clock | None = None,
    **options: Any,
) -> Outcome:
    """Write a pretrained model to a folder; what is needed to go on after a stop or a kill stands beside it in `OUT.run`.

    `corpus` is one file or folder, or several. The options are those of `PretrainSettings`, which the command line has too; `text`
    is another name of `field`. Minutes count from the call, or as `clock` does.
    """
    clock = clock or Clock()
    check_flags(resume=resume, force=force)
    options |= {
        name: as_path(name, options[name], optional=True)
        for name in ("vocab", "init", "dev")
        if name in options
    }
    if options.get("text") is not None:
        options["field"] = options["text"]
    options.pop("text", None)
    try:
        settings = PretrainSettings(
            corpus=as_paths("corpus", corpus), out=as_path("out", out), **options
        )
    except ValidationError as error:
        raise InputError(complaint(error, PretrainSettings)) from error
    processes = Processes(settings.timeout)
    with training(settings.threads), processes:
        return _Pretraining(settings, processes, clock).go(resume, force)


class _Pretraining:
    """One call of `pretrain`."""

    def __init__(self, settings: PretrainSettings, processes: Processes, clock: Clock) -> None:
        self.s, self.processes, self.clock = settings, processes, clock
        self.target, self.run = Run.beside(settings.out)
        self.paths = corpus_files(map(Path, settings.corpus))
        family = family_of(settings.init) if settings.init else FAMILIES[settings.model]
        if family != FAMILIES[settings.model]:
            meant = next((model for model, known in FAMILIES.items() if known == family), None)
            cure = f": say --model {meant}" if meant else ""
            raise InputError(
                f"{settings.init} is a {family}, which is not pretrained as {settings.model}{cure}"
            )

    def go(self, resume: bool, force: bool) -> Outcome:
        """All of it."""
        leads = self.processes.leads
        asked = self.s.model_dump(exclude=FREE)
        asked["split"] = (
            None if self.s.split == "auto" else self.s.split
        )  # the default, however it is given
        replaces = self.run.replaces
        if resume and not replaces and (self.target / "firth.json").exists():
            made = read_json(self.target / "firth.json")["made"]
            refuse_other(self.target, made["settings"], asked)
            self.say(f"{self.target} is finished")
            return Outcome(made["steps"], made["best_step"], made["dev"])
        force = force or (resume and replaces)
        refuse_folder(self.target, force)
        # Several processes are stopped by the loop alone: it knows a request from the end that one of them brings to all.
        early = (
            stoppable("stopped as asked, outside of training; --resume goes on")
            if self.processes.count == 1
            else nullcontext()
        )
        with early, self.run.locked(self.processes.count == 1) if leads else nullcontext():
            self.processes.alone("begin", lambda: self.run.begin(asked, resume, force))
            if left_out := passed_over(map(Path, [*self.s.corpus, *filter(None, [self.s.dev])])):
                self.say(f"note: {left_out}")
            self.tokenizer: Tokenizer = self.processes.first("vocab", self._tokenizer)
            self.text = self._shards("data", self.paths)
            self.held = (
                self._shards("dev", corpus_files([Path(self.s.dev)])) if self.s.dev else None
            )
            outcome = (
                self._count(asked, force) if self.s.model == "ngram" else self._train(asked, force)
            )
        self.say(_sentence(self.target, outcome, self.clock()))
        for line in removable(self.run):
            self.say(line)
        return outcome

    def say(self, text: str) -> None:
        """Tell the person who watches, once."""
        if self.processes.leads:
            print(text, file=sys.stderr, flush=True)

    def _tokenizer(self) -> Tokenizer:
        """The vocabulary that was given, or the model's own, or one that is learned from the text."""
        if self.s.vocab or self.s.init:
            return Tokenizer.open(Path(self.s.vocab) if self.s.vocab else find(self.s.init or ""))
        folder = self.run.folder / "vocab"
        if self.processes.leads and not self.run.plan():  # what is there may be of another text
            text = Text(self.s.corpus, self.s.field, self.s.encoding)
            with new_folder(folder, force=True) as fresh_folder:
                text.learn(KINDS[self.s.model], VOCAB, split=self.s.split).save(fresh_folder)
            if text.parted:
                self.say(text.parted)
        return Tokenizer.open(folder)

    def _shards(self, name: str, paths: list[Path]) -> Shards:
        work = partial(
            open_shards, self.run.data, paths, self.tokenizer, self.s.field, self.s.encoding
        )
        shards: Shards = self.processes.first(name, work)
        return shards

    def _say_text(self, held_out: int) -> None:
        self.say(
            f"{self.text.tokens:,} tokens in {self.text.documents:,} documents, {self.tokenizer.size:,} pieces in the vocabulary, "
            f"{self.text.unknown:,} tokens unknown; {held_out:,} tokens are held out"
        )
        if self.text.replaced:
            self.say(
                f"note: {self.text.replaced:,} characters could not be read and were replaced by {REPLACEMENT}"
            )
        for shards in filter(None, (self.text, self.held)):
            if shards.garbled:
                self.say(f"note: {shards.garbled}")

    def _count(self, asked: dict[str, Any], force: bool) -> Outcome:
        """Count the text instead of descending."""
        if self.processes.count > 1:
            raise InputError("an n-gram is counted by one process: start it without torchrun")
        refuse_start(self.s, self.tokenizer, line_marks(self.tokenizer)[0], self.text, self.held)
        plan = self._plan(asked, dict)
        found = counted(
            self.s, self.tokenizer, self.text, self.held, self.run.folder / "counts", DEV_TOKENS
        )
        self._say_text(found.held_out)
        outcome = Outcome(0, 0, found.metrics)
        self._save(found.bundle, outcome, plan, found.baseline, force)
        return outcome

    def _train(self, asked: dict[str, Any], force: bool) -> Outcome:
        """Go down the loss, by steps or by the clock."""
        self.recipe = (HiddenWords if self.s.model == "bert" else NextWords)(self.s, self.tokenizer)
        begun = self.run.plan()
        if (
            begun is not None
            and not begun.get("splits_document")
            and isinstance(self.recipe, HiddenWords)
        ):
            self.recipe.splits_document = False  # a resumed run reads what it read before
        self._say_text(self.recipe.read(self.text, self.held))
        plan = self.processes.first("plan", lambda: self._plan(asked, self._decide))
        bundle = self.recipe.bundle(plan["size"])
        if isinstance(self.recipe, HiddenWords) and self.recipe.moved:
            self.say(str(self.recipe.moved))
        learner = self.recipe.learner(bundle)
        settings = TrainSettings(
            **plan["training"] | self.s.model_dump(include={"save_every", "workers"})
        )
        order = self.recipe.order(settings.batch)
        loop = Loop(
            learner,
            self.recipe.train,
            self.recipe.dev,
            settings,
            self.run,
            self.processes,
            self.clock,
            order,
        )
        outcome = self._best(learner, loop.train())
        self.processes.alone(
            "saved",
            lambda: self._save(
                bundle, outcome, plan, self.recipe.baseline(settings.dev_tokens), force
            ),
        )
        return outcome

    def _plan(self, asked: dict[str, Any], decide: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was decided when the run began, or is now; a run with another text is refused."""
        plan = self.run.plan()
        texts = {"data": self.text.key, "dev": self.held.key if self.held else None}
        if plan is None:
            plan = {
                "asked": asked,
                **decide(),
                **texts,
                "splits_document": True,
                "machine": machine(),
            }
            self.run.write_plan(plan)
        if any(plan.get(name) != key for name, key in texts.items()):
            raise InputError(
                f"{self.run.folder} holds a run with another text or vocabulary; --force throws it away"
            )
        return plan

    def _decide(self) -> dict[str, Any]:
        """What was left open, decided once and put down: the size, the batch, the rate, the number of steps, the precision."""
        s, recipe = self.s, self.recipe
        size = s.size or (None if s.init else recipe.size)
        batch, dev_tokens = s.batch or recipe.batch, DEV_TOKENS
        bf16 = s.precision == "bf16" or (s.precision == "auto" and gains_from_bf16())
        if s.minutes:
            size, tokens = self._forecast(
                [size] if s.size or s.init else recipe.sizes, self._time_left(s.minutes * 60), bf16
            )
            batch = self._batch(tokens)
            dev_tokens = int(min(dev_tokens, max(LEAST_DEV, CHECK_SHARE * tokens)))
        steps = max(1, round(s.epochs * recipe.order(batch).per_epoch)) if s.epochs else s.steps
        training = TrainSettings(
            seed=s.seed,
            steps=steps,
            seconds=s.minutes * 60 if s.minutes else None,
            batch=batch,
            micro=s.micro,
            check_every=s.check_every,
            dev_tokens=dev_tokens,
            precision="bf16" if bf16 else "fp32",
            **recipe.training(recipe.bundle(size)),
        )
        return {"size": size, "training": training.model_dump()}

    def _batch(self, tokens: float) -> int:
        """How many tokens a step has, where a run sees so many."""
        if self.s.batch or self.recipe.fixed:
            return self.s.batch or self.recipe.batch
        near: int = 2 ** round(math.log2(max(1, tokens / STEPS_WANTED)))
        return min(max(near, SMALLEST_BATCH), LARGEST_BATCH)

    def _time_left(self, seconds: float) -> float:
        left = seconds - self.clock()
        if left <= 0:
            said = f"reading the text took {self.clock():,.0f} s, and the run was to take {seconds:,.0f}"
            raise TooLate(f"{said}: ask for more; what was encoded is kept in {self.run.data}")
        return left

    def _forecast(
        self, sizes: Sequence[str | None], seconds: float, bf16: bool
    ) -> tuple[str | None, float]:
        """Try sizes, smallest first, and choose the largest that sees enough text in the time; say what each would see."""
        chosen: tuple[str | None, float] = (sizes[0], 0.0)
        for size in sizes:
            bundle = self.recipe.bundle(size)
            body = _body(bundle)
            if (
                chosen[1] and chosen[1] / 4 < TOKENS_PER_WEIGHT * body / 2
            ):  # each size costs some four times the one before
                break
            learner, batch = self.recipe.learner(bundle), self.s.batch or self.recipe.batch
            tokens = pace(learner, self.recipe.train, self.recipe.order(batch), bf16) * seconds
            if self._batch(tokens) != batch:  # smaller steps are slower
                tokens = (
                    pace(learner, self.recipe.train, self.recipe.order(self._batch(tokens)), bf16)
                    * seconds
                )
            passes = tokens / int(self.recipe.train.sizes.sum())
            self.say(
                f"forecast: {size or self.s.init}: {tokens / seconds:,.0f} tokens/s, {tokens / 1e6:,.1f} million tokens in "
                f"{seconds / 60:.1f} minutes, {passes:.2g} passes over the text"
            )
            if chosen[1] and tokens < TOKENS_PER_WEIGHT * body:
                break
            chosen = (size, tokens)
        if len(sizes) > 1:
            self.say(f"size {chosen[0]} fits the time best")
        return chosen

    def _best(self, learner: Learner, outcome: Outcome) -> Outcome:
        """Take the best step's weights; if its checkpoint was damaged, stay with the last."""
        if outcome.best == outcome.steps:
            return outcome
        try:
            load_weights(learner, checkpoint.load(self.run.checkpoints, outcome.best))
        except InputError as error:
            self.say(f"WARNING: {error}; the last weights are kept in place of the best")
            return Outcome(
                outcome.steps,
                outcome.steps,
                [record["dev"] for record in self.run.journal if "dev" in record][-1],
            )
        return outcome

    def _save(
        self,
        bundle: Bundle,
        outcome: Outcome,
        plan: dict[str, Any],
        baseline: dict[str, Any],
        force: bool,
    ) -> None:
        made = {
            "by": "pretrain",
            "settings": plan["asked"],
            **({"training": plan["training"]} if "training" in plan else {}),
            "text": {
                "sha256": self.text.key,
                "files": self.text.sources,
                "tokens": self.text.tokens,
            },
            "vocabulary": self.tokenizer.fingerprint,
            **({"split": self.tokenizer.split} if self.tokenizer.split else {}),
            "steps": outcome.steps,
            "best_step": outcome.best,
            "dev": outcome.metrics,
            "baseline": baseline,
            "machine": machine(),
        }
        beside = {}
        if outcome.steps:
            page = self.run.folder / "curves.html"
            with new_file(page, force=True) as fresh_page:
                fresh_page.write_text(
                    curves(list(self.run.journal), self.target.name), encoding="utf-8"
                )
            beside = {"metrics.jsonl": self.run.journal.path, "curves.html": page}
        save(bundle, self.target, force, made, beside)
        self.run.settle()


def _body(bundle: Bundle) -> int:
    """Weights that every token meets: all but the tables of the vocabulary, of positions and the head."""
    blocks = bundle.encoder.blocks if bundle.family in ("bert", "gpt2") else bundle.model
    assert isinstance(blocks, torch.nn.Module)
    return sum(parameter.numel() for parameter in blocks.parameters())


def _sentence(target: Path, outcome: Outcome, seconds: float) -> str:
    found = ", ".join(
        f"{name.replace('_', ' ')} {value:.4g}" for name, value in outcome.metrics.items()
    )
    taken = f"{outcome.steps:,} steps" if outcome.steps else "counted"
    kept = f"; the best, of step {outcome.best}, was kept" if outcome.best != outcome.steps else ""
    return f"{target}: {taken} in {seconds:,.0f} s{kept}{f'; on held-out text {found}' if found else ''}"
