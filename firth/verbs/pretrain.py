"""Pretrain a BERT on text: from nothing, or from an existing encoder."""

import math
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, ValidationError, model_validator

from firth.base.clock import Clock
from firth.base.errors import InputError
from firth.base.files import new_file, new_folder, refuse_folder
from firth.base.settings import Settings, complaint
from firth.base.threads import available, keep_heap
from firth.bundle import Bundle, find, save
from firth.data.feed import Steps
from firth.data.mask import Masker
from firth.data.pairs import SPECIAL, Pairs, commonest, passages, several, split_dev
from firth.data.shards import Shards, open_shards
from firth.data.task import Learner
from firth.models.bert import SIZES
from firth.tasks.pretrain import Hide
from firth.text.corpus import corpus_files
from firth.text.tokenizer import Tokenizer
from firth.train import checkpoint
from firth.train.evaluate import some
from firth.train.forecast import pace
from firth.train.loop import Loop, Outcome, TrainSettings, load_weights, machine
from firth.train.precision import gains_from_bf16
from firth.train.processes import Processes
from firth.train.run import Run
from firth.verbs.start import Moved, fresh, going_on
from firth.verbs.vocab import Text
from firth.view.curves import curves

DEV_SEED = 0  # held-out text has the same words hidden in every run
RATE_TIMES_WIDTH = 0.25  # wider models need smaller steps
GOING_ON = 0.2  # of that, for weights that have learned already
SIZE, BATCH, VOCAB = "mini", 4096, 30000
# By the clock: the largest size that still sees so many tokens for each weight of its body, in about so many steps.
TOKENS_PER_WEIGHT, STEPS_WANTED = 5, 12000
SMALLEST_BATCH, LARGEST_BATCH = 1024, 8192
DEV_TOKENS, LEAST_DEV, CHECK_SHARE = (
    100_000,
    2_000,
    0.03,
)  # of the tokens trained on: a measurement is a third as dear, and there are ten
FREE = {"save_every", "workers", "threads", "timeout"}  # what a resumed run may change: no bit depends on it


class PretrainSettings(Settings):
    """What to learn from, what to learn, and for how long."""

    corpus: list[str]
    out: str
    minutes: float | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, gt=0)
    epochs: float | None = Field(default=None, gt=0)
    size: Literal["tiny", "mini", "small", "medium", "base", "large"] | None = None
    vocab: str | None = None
    init: str | None = None
    dev: str | None = None
    length: int = Field(default=128, ge=SPECIAL + 2)
    batch: int | None = Field(default=None, gt=0)
    micro: int = Field(default=4096, gt=0)
    rate: float | None = Field(default=None, gt=0, lt=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    nsp: bool = True
    whole_words: bool = False
    causal: bool = False  # a token sees only those before it: to compare with, from Python only
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    save_every: int | None = Field(default=None, gt=0)
    check_every: int | None = Field(default=None, gt=0)
    workers: int = Field(default=1, ge=0, le=64)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: int | None = Field(default=None, gt=0)
    timeout: float = Field(default=110.0, gt=0)
    field: str = "text"
    encoding: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> "PretrainSettings":
        if sum(given is not None for given in (self.minutes, self.steps, self.epochs)) != 1:
            raise ValueError("say how long to train: --minutes, --steps or --epochs, one of them")
        if self.size and self.init:
            raise ValueError("--init takes the size of the model that it begins with; leave --size out")
        return self


def pretrain(
    corpus: Sequence[str | Path],
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    clock: Clock | None = None,
    **options: Any,
) -> Outcome:
    """Write a pretrained model to a folder; what is needed to go on after a stop or a kill stands beside it in `OUT.run`.

    The options are those of `PretrainSettings`, which the command line has too. Minutes count from the call, or as `clock` does.
    """
    clock = clock or Clock()
    try:
        settings = PretrainSettings(corpus=[str(path) for path in corpus], out=str(out), **options)
    except ValidationError as error:
        raise InputError(complaint(error)) from error
    processes = Processes(settings.timeout)
    keep_heap()
    torch.set_num_threads(settings.threads or max(1, available() // processes.local))
    with processes:
        return _Pretraining(settings, processes, clock).go(resume, force)


class _Pretraining:
    """One call of `pretrain`."""

    def __init__(self, settings: PretrainSettings, processes: Processes, clock: Clock) -> None:
        self.s, self.processes, self.clock = settings, processes, clock
        self.target = Path(settings.out)
        self.moved: Moved | None = None
        self.run = Run(self.target.with_name(f"{self.target.name}.run"))
        self.paths = corpus_files(map(Path, settings.corpus))

    def go(self, resume: bool, force: bool) -> Outcome:
        """All of it."""
        leads = self.processes.leads
        if resume and (self.target / "firth.json").exists():
            self.say(f"{self.target} is finished")
            return Outcome(0, 0, {})
        refuse_folder(self.target, force)
        asked = self.s.model_dump(exclude=FREE)
        with self.run.locked() if leads else nullcontext():
            self.processes.alone("begin", lambda: self.run.begin(asked, resume, force))
            self.tokenizer: Tokenizer = self.processes.first("vocab", self._tokenizer)
            self._read()
            plan = self.processes.first("plan", lambda: self.run.plan() or self._decide(asked))
            if plan["data"] != self.text.key:
                raise InputError(f"{self.run.folder} holds a run with another text or vocabulary; --force throws it away")
            bundle = self._model(plan["size"])
            if self.moved:
                self.say(str(self.moved))
            learner = Learner(bundle.encoder, bundle.head, Hide())
            settings = TrainSettings(**plan["training"] | self.s.model_dump(include={"save_every", "workers"}))
            outcome = Loop(learner, self.train, self.dev, settings, self.run, self.processes, self.clock).train()
            outcome = self._best(learner, outcome)
            self.processes.alone("saved", lambda: self._save(bundle, outcome, plan, force))
        self.say(_sentence(self.target, outcome, self.clock()))
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
                text.learn("wordpiece", VOCAB).save(fresh_folder)
        return Tokenizer.open(folder)

    def _read(self) -> None:
        """Encode the text, or find it encoded, and hold a part of it out."""
        s, room = self.s, self.s.length - SPECIAL
        self.text = self._shards("data", self.paths)
        where = passages(self.text, room)
        held = self._shards("dev", corpus_files([Path(s.dev)])) if s.dev else self.text
        where, chosen = (where, passages(held, room)) if s.dev else split_dev(where)
        if s.nsp and not several(where):
            beside = "" if s.dev or not len(chosen.size) else " beside the one held out"
            raise InputError(
                f"{', '.join(s.corpus)} is a single document{beside}, and next-sentence pairs need a second one to draw from: "
                "part documents by a blank line, or say --no-nsp"
            )
        masker = Masker(self.tokenizer, s.whole_words)
        self.train = Pairs(self.text, where, self.tokenizer, room, s.seed, masker, s.nsp)
        self.dev = Pairs(held, chosen, self.tokenizer, room, DEV_SEED, masker, s.nsp and several(chosen))
        self.say(
            f"{self.text.tokens:,} tokens in {self.text.documents:,} documents, {self.tokenizer.size:,} pieces in the vocabulary, "
            f"{self.text.unknown:,} tokens unknown; {int(chosen.size.sum()):,} tokens are held out"
        )

    def _shards(self, name: str, paths: list[Path]) -> Shards:
        work = partial(open_shards, self.run.data, paths, self.tokenizer, self.s.field, self.s.encoding)
        shards: Shards = self.processes.first(name, work)
        return shards

    def _model(self, size: str | None) -> Bundle:
        s = self.s
        if size:
            return fresh(size, self.tokenizer, s.length, s.dropout, s.nsp, s.seed, s.causal)
        bundle, moved = going_on(s.init or "", self.tokenizer if s.vocab else None, s.dropout, s.nsp, s.seed)
        if s.length > bundle.encoder.length:
            raise InputError(f"{s.init} reads {bundle.encoder.length} tokens, not {s.length}")
        self.moved = moved
        return bundle

    def _decide(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What was left open, decided once and put down: the size, the batch, the rate, the number of steps, the precision."""
        s = self.s
        size = s.size or (None if s.init else SIZE)
        batch, dev_tokens = s.batch or BATCH, DEV_TOKENS
        if s.minutes:
            size, tokens = self._forecast([size] if s.size or s.init else list(SIZES), s.minutes * 60 - self.clock())
            near = 2 ** round(math.log2(max(1, tokens / STEPS_WANTED)))
            batch = s.batch or min(max(near, SMALLEST_BATCH), LARGEST_BATCH)
            dev_tokens = int(min(dev_tokens, max(LEAST_DEV, CHECK_SHARE * tokens)))
        width = SIZES[size][0] if size else self._model(None).encoder.width
        steps = s.steps
        if s.epochs:
            steps = max(1, round(s.epochs * Steps(self.train.sizes, s.seed, batch).per_epoch))
        bf16 = s.precision == "bf16" or (s.precision == "auto" and gains_from_bf16())
        training = TrainSettings(
            seed=s.seed,
            steps=steps,
            seconds=s.minutes * 60 if s.minutes else None,
            batch=batch,
            micro=s.micro,
            rate=s.rate or RATE_TIMES_WIDTH / width * (GOING_ON if s.init else 1),
            check_every=s.check_every,
            dev_tokens=dev_tokens,
            precision="bf16" if bf16 else "fp32",
        )
        plan = {"asked": asked, "size": size, "training": training.model_dump(), "data": self.text.key, "machine": machine()}
        self.run.write_plan(plan)
        return plan

    def _forecast(self, sizes: Sequence[str | None], seconds: float) -> tuple[str | None, float]:
        """Try sizes, smallest first, and choose the largest that sees enough text in the time; say what each would see."""
        chosen: tuple[str | None, float] = (sizes[0], 0.0)
        for size in sizes:
            bundle = self._model(size)
            body = sum(p.numel() for p in bundle.encoder.blocks.parameters())
            if chosen[1] and chosen[1] / 4 < TOKENS_PER_WEIGHT * body / 2:  # each size costs some four times the one before
                break
            tokens = pace(Learner(bundle.encoder, bundle.head, Hide()), self.train, BATCH) * seconds
            passes = tokens / int(self.train.sizes.sum())
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
            return Outcome(outcome.steps, outcome.steps, [record["dev"] for record in self.run.journal if "dev" in record][-1])
        return outcome

    def _save(self, bundle: Bundle, outcome: Outcome, plan: dict[str, Any], force: bool) -> None:
        page = self.run.folder / "curves.html"
        with new_file(page, force=True) as fresh_page:
            fresh_page.write_text(curves(list(self.run.journal), self.target.name), encoding="utf-8")
        made = {
            "by": "pretrain",
            "settings": plan["asked"],
            "training": plan["training"],
            "text": {"sha256": self.text.key, "files": self.text.sources, "tokens": self.text.tokens},
            "vocabulary": self.tokenizer.fingerprint,
            "steps": outcome.steps,
            "best_step": outcome.best,
            "dev": outcome.metrics,
            "baseline": self._baseline(plan["training"]["dev_tokens"]),
            "machine": machine(),
        }
        save(bundle, self.target, force, made, {"metrics.jsonl": self.run.journal.path, "curves.html": page})

    def _baseline(self, most: int) -> dict[str, Any]:
        """What always guessing the commonest piece of the training text would name on held-out text."""
        piece = commonest(self.train)
        hidden = self.dev.batch(0, some(self.dev, most)).targets["words"] if len(self.dev.sizes) else None
        right = None if hidden is None else float((hidden == piece).float().mean())
        return {"piece": self.tokenizer.piece(piece), "masked_accuracy": right}


def _sentence(target: Path, outcome: Outcome, seconds: float) -> str:
    found = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in outcome.metrics.items())
    kept = f"; the best, of step {outcome.best}, was kept" if outcome.best != outcome.steps else ""
    return f"{target}: {outcome.steps:,} steps in {seconds:,.0f} s{kept}{f'; on held-out text {found}' if found else ''}"
