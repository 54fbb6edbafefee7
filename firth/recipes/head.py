"""Decide whether fine-tuning keeps the head of the model that it begins with."""

from typing import NamedTuple

from firth.data.record import listed
from firth.folders.heads import Head, Reads, head_of
from firth.recipes.settings import FinetuneSettings
from firth.tasks.embed import parse_layers
from firth.tasks.registry import find_trained, gives, is_trained_kind


class HeadChoice(NamedTuple):
    """Whether the head is kept, which head the model has, and what to tell the user."""

    kept: bool
    head: Head
    said: str | None


def choose_head(s: FinetuneSettings, kind: str, labels: tuple[str, ...]) -> HeadChoice:
    """Keep a head of the same task, labels and layers, unless told otherwise."""
    if s.new_family is not None or find_trained(s.task).contract != "encoder":
        return HeadChoice(False, Head(None, (), (), 0, None), None)
    head = head_of(s.model)
    if not is_trained_kind(head.kind):  # no head for a task, so that nothing is lost
        return HeadChoice(False, head, None)
    reason = _reason(s, head, kind, labels)
    if reason is not None:
        return HeadChoice(False, head, f"a new head is initialised: {reason}")
    same = "same task and labels" if labels else "same task"
    said = f"the head of {s.model} is kept: {same} (--new-head initialises one)"
    return HeadChoice(True, head, said)


def _reason(s: FinetuneSettings, head: Head, kind: str, labels: tuple[str, ...]) -> str | None:
    """Return why the head of the model is not kept; None where it is."""
    if s.new_head:
        return "--new-head"
    if head.kind != kind:
        return f"that of {s.model} gives {gives(head.kind)}, and this task {gives(kind)}"
    if set(head.labels) != set(labels):
        difference = _difference(s, head.labels, labels)
        return f"the labels differ from those of {s.model} ({difference})"
    reads = _reads(s, head)
    if reads != head.reads:
        return f"that of {s.model} reads {_told(head.reads)}, and this one {_told(reads)}"
    if s.folds:
        return f"that of {s.model} may have seen the rows that --folds holds out"
    return None


def _difference(s: FinetuneSettings, before: tuple[str, ...], now: tuple[str, ...]) -> str:
    task = find_trained(s.task)
    old = task.label_names(before)
    new = task.label_names(now)
    if set(old) == set(new):  # of a tagger only the scheme differs
        old = list(before)
        new = list(now)
    parts = []
    added = sorted(set(new) - set(old))
    if added:
        parts.append(f"added {listed(added)}")
    missing = sorted(set(old) - set(new))
    if missing:
        parts.append(f"missing {listed(missing)}")
    return "; ".join(parts)


def _reads(s: FinetuneSettings, head: Head) -> Reads | None:
    """How the head that is asked for reads the encoder, as `Head.reads` has it."""
    if s.features is None:
        return None
    how = s.combine or "weights"
    bilstm = s.head == "bilstm"
    layers = parse_layers(s.features)
    most = head.depth + 1
    if not all(-most <= layer < most for layer in layers):
        # No layers of this encoder, which is refused where they are read.
        return Reads(how, tuple(layers), bilstm)
    return Reads(how, tuple(layer % most for layer in layers), bilstm)


def _told(reads: Reads | None) -> str:
    if reads is None:
        return "the whole encoder"
    layers = ",".join(map(str, reads.layers))
    told = f"--features {layers} --combine {reads.how}"
    return f"{told} --head bilstm" if reads.bilstm else told
