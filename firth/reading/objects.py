"""JSON as records: an object a line, or a list of objects; Label Studio's tasks as plain rows."""

import re
from collections.abc import Iterator
from typing import Any

from firth.base.errors import InputError
from firth.base.files import parse_json
from firth.data.record import LONGEST_RECORD, Fault, Numbered, Record, refuse_nul

# No string of JSON goes over a line's end, so brackets can be counted line by line.
MARK = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]')
OPENING = ("{", "[")
CLOSING = ("}", "]")


def one_a_line(lines: Numbered) -> Iterator[Record]:
    """Every object of a .jsonl file; blank lines are passed over."""
    for line in lines:
        if line.strip():
            yield Record(lines.number, _object(line))


def in_a_list(lines: Numbered) -> Iterator[Record]:
    """Every object of a JSON list, one in memory at a time."""
    depth = 0  # brackets that are open, the list's own first
    begun = 0  # the line on which the open object begins
    size = 0  # characters of its lines so far
    held: list[str] = []  # and their text
    for line in lines:
        at = 0  # what stands before it in this line is done with
        for mark in MARK.finditer(line):
            sign = mark[0]
            opens = sign in OPENING
            closes = sign in CLOSING
            depth += opens - closes
            if depth == 2 and opens and not held:
                yield from _between(line[at : mark.start()], lines.number)
                at = mark.start()
                begun = lines.number
                size = 0
                held = [""]
            elif depth == 1 and held and closes:
                held.append(line[at : mark.end()])
                at = mark.end()
                text = "\n".join(held)
                yield Record(begun, _task(_object(text)))
                held = []
            elif depth == 1 and sign == "[" and not held:
                at = mark.end()
            elif depth <= 0:
                yield from _between(line[at : mark.start()], lines.number)
                yield from _between(line[mark.end() :], lines.number)
                for rest in lines:
                    if rest.strip():
                        yield Record(lines.number, _stray())
                return

        if not held:
            yield from _between(line[at:], lines.number)
            continue
        held.append(line[at:])
        size += len(line)
        if size > LONGEST_RECORD:
            break
    last = begun if held else lines.number
    yield Record(last, Fault("json", "is not valid JSON: the list never ends"))


def _between(text: str, number: int) -> Iterator[Record]:
    """Yield a fault if anything but white space and a comma stands between two objects."""
    if text.strip(" \t\r,\ufeff"):
        yield Record(number, _stray())


def _stray() -> Fault:
    return Fault("json", "is not valid JSON: there is something between the objects of the list")


def _object(text: str) -> dict[str, Any] | Fault:
    try:
        refuse_nul(text)
        found: dict[str, Any] = parse_json(text, "it")
    except Fault as fault:
        return fault
    except InputError as error:
        return Fault(
            "json", str(error).removeprefix("it ").replace("a dict belongs", "an object belongs")
        )
    return found


def _task(found: dict[str, Any] | Fault) -> dict[str, Any] | Fault:
    """Return a task of Label Studio as a row: its data, and its first annotation that stands."""
    if isinstance(found, Fault):
        return found
    data = found.get("data")
    annotations = found.get("annotations", found.get("completions"))
    if not isinstance(data, dict) or not isinstance(annotations, list):
        return found
    if not all(isinstance(one, dict) for one in annotations):
        return found

    standing = [one.get("result") for one in annotations if not one.get("was_cancelled")]
    if not standing:
        return {**data}  # a row without a label
    values = _values(standing[0])
    if values is None:
        return Fault("label", "has an annotation whose result is not a list of values")
    if "id" in found and "id" not in data:
        data = {"id": found["id"]} | data
    return {**data, **_annotation(values)}


def _values(result: Any) -> list[dict[str, Any]] | None:
    """Return the values of an annotation's results; None where it is not a list of objects."""
    if not isinstance(result, list):
        return None
    values = []
    for one in result:
        if not isinstance(one, dict):
            return None
        value = one.get("value", {})
        if not isinstance(value, dict):
            return None
        values.append(value)
    return values


def _annotation(values: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the values of an annotation say: classes, else a number, else spans."""
    chosen = []
    for value in values:
        chosen += _listed(value.get("choices"))
    if len(chosen) == 1:
        return {"label": chosen[0]}
    if chosen:
        return {"label": chosen}

    numbers = []
    for value in values:
        numbers += [value[key] for key in ("number", "rating") if key in value]
    if numbers and numbers[0] is not None:
        return {"label": numbers[0]}
    spans = [value for value in values if "labels" in value or "start" in value]
    return {"spans": spans}


def _listed(value: Any) -> list[Any]:
    """Return one value or a list of them as a list."""
    if value is None:
        return []
    if isinstance(value, list):
        return value
    return [value]
