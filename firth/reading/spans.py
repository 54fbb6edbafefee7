"""Named spans of a text as people's tools write them, and what can be wrong with them."""

from itertools import pairwise
from typing import Any

from firth.data.examples import Span
from firth.data.record import Fault, shortened
from firth.text.repair import repair


def read_spans(text: str, given: Any) -> tuple[Span, ...]:
    """Spans in order: [start, end, label], or objects with start and end (doccano: start_offset, end_offset) and a label."""
    if not isinstance(given, list):
        raise Fault("span", f"has {shortened(given)} where a list of spans belongs")
    spans = sorted(_span(text, one) for one in given)
    for before, after in pairwise(spans):
        if after.start < before.end:
            raise Fault("overlap", f"has spans that overlap: {_said(before)} and {_said(after)}")
    return tuple(spans)


def _span(text: str, given: Any) -> Span:
    start, end, label, quote = _parts(given)
    if type(start) is not int or type(end) is not int:
        raise Fault(
            "span", f"has a span whose start and end are not whole numbers: {shortened(given)}"
        )
    if not isinstance(label, str) or not label.strip():
        raise Fault("span", f"has a span without a label: {shortened(given)}")
    span = Span(start, end, repair(label)[0])
    if start == end:
        raise Fault("span", f"has an empty span: {_said(span)}")
    if start > end:
        raise Fault("span", f"has a span that ends before it starts: {_said(span)}")
    if start < 0 or end > len(text):
        raise Fault(
            "span", f"has a span outside the text, which has {len(text)} characters: {_said(span)}"
        )
    if isinstance(quote, str) and repair(quote)[0] != text[start:end]:
        there = shortened(text[start:end])
        raise Fault(
            "span",
            f"has the span {_said(span)} for {shortened(quote)}, but the text has {there} there",
        )
    return span


def _parts(given: Any) -> tuple[Any, Any, Any, Any]:
    if isinstance(given, list) and len(given) == 3:
        return (*given, None)
    if not isinstance(given, dict):
        raise Fault("span", f"has {shortened(given)} where a span belongs")
    labels = given.get("labels")
    if isinstance(labels, list) and len(labels) > 1:
        raise Fault("span", f"has a span with several labels: {shortened(labels)}")
    label = labels[0] if isinstance(labels, list) and labels else given.get("label")
    start, end = (given.get(name, given.get(f"{name}_offset")) for name in ("start", "end"))
    return start, end, label, given.get("text")


def _said(span: Span) -> str:
    return f"{span.start}-{span.end} {shortened(span.label)}"
