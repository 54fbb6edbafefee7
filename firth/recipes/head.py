"""Decide whether fine-tuning keeps the head of the model that it begins with."""

from typing import NamedTuple

from firth.data.record import listed
from firth.evaluation.scorer import names_of
from firth.folders.bundle import Head, head_of
from firth.recipes.finetune import FinetuneSettings
from firth.tasks.embed import parse_layers

GIVES = {
    "classify": "one class",
    "several": "several labels",
    "regress": "a number",
    "tag": "named spans",
}
PRETRAINED = (
    None,
    "pretrain",
    "fill",
    "continue",
)  # what is no head for a task, so that nothing is lost


class Choice(NamedTuple):
    """Whether the head is kept, which head the model has, and what to tell the user."""

    kept: bool
    head: Head
    said: str | None


def choose_head(s: FinetuneSettings, kind: str, labels: tuple[str, ...]) -> Choice:
    """Keep a head of the same task, labels and layers, unless told otherwise."""
    head = head_of(s.model)
    if head.kind in PRETRAINED:
        return Choice(False, head, None)
    reason = _reason(s, head, kind, labels)
    if reason is not None:
        return Choice(False, head, f"a new head is initialised: {reason}")
    same = "same task" if kind == "regress" else "same task and labels"
    return Choice(True, head, f"the head of {s.model} is kept: {same} (--new-head initialises one)")


def _reason(s: FinetuneSettings, head: Head, kind: str, labels: tuple[str, ...]) -> str | None:
    """Why the head of the model is not kept; None where it is."""
    if s.new_head:
        return "--new-head"
    if head.kind != kind:
        gives = GIVES.get(str(head.kind), repr(head.kind))
        return f"that of {s.model} gives {gives}, and this task {GIVES[kind]}"
    if set(head.labels) != set(labels):
        difference = _difference(kind, head.labels, labels)
        return f"the labels differ from those of {s.model} ({difference})"
    if (layers := _layers(s, head)) != head.reads:
        return f"that of {s.model} reads {_told(head.reads)}, and this one {_told(layers)}"
    if s.folds:
        return f"that of {s.model} may have seen the rows that --folds holds out"
    return None


def _difference(kind: str, before: tuple[str, ...], now: tuple[str, ...]) -> str:
    old, new = (names_of(kind, labels) for labels in (before, now))
    if set(old) == set(new):  # of a tagger only the scheme differs
        old, new = list(before), list(now)
    added, missing = sorted(set(new) - set(old)), sorted(set(old) - set(new))
    changes = (("added", added), ("missing", missing))
    parts = [f"{what} {listed(names)}" for what, names in changes if names]
    return "; ".join(parts)


def _layers(s: FinetuneSettings, head: Head) -> tuple[str, tuple[int, ...]] | None:
    """How the head that is asked for reads the encoder, as `Head.reads` has it."""
    if s.features is None:
        return None
    how, layers, most = s.combine or "weights", parse_layers(s.features), head.depth + 1
    if not all(-most <= layer < most for layer in layers):
        return how, tuple(layers)  # no layers of this encoder, which is refused where they are read
    return how, tuple(layer % most for layer in layers)


def _told(reads: tuple[str, tuple[int, ...]] | None) -> str:
    if reads is None:
        return "the whole encoder"
    how, layers = reads
    return f"--features {','.join(map(str, layers))} --combine {how}"
