"""Named spans of a text as people's tools write them, and what can be wrong with them."""

from itertools import pairwise
from typing import Any

from firth.data.examples import Span
from firth.data.record import Fault, shortened
from firth.text.repair import repair


def read_spans(text: str, given: Any) -> tuple[Span, ...]:
    """Return spans in order, given as [start, end, label] or as objects with these names.

    Doccano calls them start_offset and end_offset.
    """
    if not isinstance(given, list):
        raise Fault("span", f"has {shortened(given)} where a list of spans belongs")
    spans = sorted(_span(text, one) for one in given)
    for before, after in pairwise(spans):
        if after.start < before.end:
            raise Fault("overlap", f"has spans that overlap: {_said(before)} and {_said(after)}")
    return tuple(spans)


def _span(text: str, given: Any) -> Span:
    """Return one span of a text, or raise what is wrong with it."""
    start, end, label, quote = _parts(given)
    # The type itself is asked for, since True and False are instances of int.
    if type(start) is not int or type(end) is not int:
        said = "has a span whose start and end are not whole numbers"
        raise Fault("span", f"{said}: {shortened(given)}")
    if not isinstance(label, str) or not label.strip():
        raise Fault("span", f"has a span without a label: {shortened(given)}")

    label, _ = repair(label)
    span = Span(start, end, label)
    shown = _said(span)
    if start == end:
        raise Fault("span", f"has an empty span: {shown}")
    if start > end:
        raise Fault("span", f"has a span that ends before it starts: {shown}")
    if start < 0 or end > len(text):
        said = f"has a span outside the text, which has {len(text)} characters"
        raise Fault("span", f"{said}: {shown}")

    there = text[start:end]
    if isinstance(quote, str) and repair(quote)[0] != there:
        said = f"has the span {shown} for {shortened(quote)}"
        raise Fault("span", f"{said}, but the text has {shortened(there)} there")
    return span


def _parts(given: Any) -> tuple[Any, Any, Any, Any]:
    """Return start, end, label and the text that a span is said to hold, each if given."""
    if isinstance(given, list) and len(given) == 3:
        return (*given, None)
    if not isinstance(given, dict):
        raise Fault("span", f"has {shortened(given)} where a span belongs")
    label = given.get("label")
    labels = given.get("labels")  # Label Studio's
    if isinstance(labels, list) and labels:
        if len(labels) > 1:
            raise Fault("span", f"has a span with several labels: {shortened(labels)}")
        label = labels[0]
    start = given.get("start", given.get("start_offset"))
    end = given.get("end", given.get("end_offset"))
    return start, end, label, given.get("text")


def _said(span: Span) -> str:
    return f"{span.start}-{span.end} {shortened(span.label)}"
