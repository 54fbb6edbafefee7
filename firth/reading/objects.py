"""JSON as records: an object a line, or a list of objects; Label Studio's tasks as plain rows."""

import re
from collections.abc import Iterator
from typing import Any

from firth.base.errors import InputError
from firth.base.files import parse_json
from firth.data.record import LONGEST_RECORD, Fault, Numbered, Record, refuse_nul

# No string of JSON goes over a line's end, so brackets can be counted line by line.
MARK = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]')


def one_a_line(lines: Numbered) -> Iterator[Record]:
    """Every object of a .jsonl file; blank lines are passed over."""
    for line in lines:
        if line.strip():
            yield Record(lines.number, _object(line))


def in_a_list(lines: Numbered) -> Iterator[Record]:
    """Every object of a JSON list, one in memory at a time."""
    depth, begun, size = 0, 0, 0
    held: list[str] = []
    for line in lines:
        at = 0
        for mark in MARK.finditer(line):
            sign = mark[0]
            depth += (sign in "{[") - (sign in "}]") if len(sign) == 1 else 0
            if depth == 2 and sign in "{[" and not held:
                yield from _between(line[at : mark.start()], lines.number)
                held, begun, size, at = [""], lines.number, 0, mark.start()
            elif depth == 1 and held and sign in "}]":
                held.append(line[at : mark.end()])
                yield Record(begun, _task(_object("\n".join(held))))
                held, at = [], mark.end()
            elif depth == 1 and sign == "[" and not held:
                at = mark.end()
            elif depth <= 0:
                yield from _between(line[at : mark.start()], lines.number)
                yield from _between(line[mark.end() :], lines.number)
                yield from (Record(lines.number, _stray()) for rest in lines if rest.strip())
                return
        if held:
            held.append(line[at:])
            size += len(line)
            if size > LONGEST_RECORD:
                break
        else:
            yield from _between(line[at:], lines.number)
    yield Record(
        begun if held else lines.number, Fault("json", "is not valid JSON: the list never ends")
    )


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
    if isinstance(found, Fault) or not isinstance(found.get("data"), dict):
        return found
    annotations = found.get("annotations", found.get("completions"))
    if not isinstance(annotations, list) or not all(isinstance(one, dict) for one in annotations):
        return found
    standing = [one.get("result") for one in annotations if not one.get("was_cancelled")]
    if not standing:
        return {**found["data"]}  # a row without a label
    values = _values(standing[0])
    if values is None:
        return Fault("label", "has an annotation whose result is not a list of values")

    data = found["data"]
    if "id" in found and "id" not in data:
        data = {"id": found["id"]} | data
    return {**data, **_annotation(values)}


def _values(result: Any) -> list[dict[str, Any]] | None:
    """Return the values of an annotation's results; None where it is not a list of objects."""
    if not isinstance(result, list):
        return None
    values = []
    for one in result:
        value = one.get("value", {}) if isinstance(one, dict) else None
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

    numbers = [value[key] for value in values for key in ("number", "rating") if key in value]
    if numbers and numbers[0] is not None:
        return {"label": numbers[0]}
    return {"spans": [value for value in values if "labels" in value or "start" in value]}


def _listed(value: Any) -> list[Any]:
    """Return one value or a list of them as a list."""
    if value is None:
        return []
    if isinstance(value, list):
        return value
    return [value]
