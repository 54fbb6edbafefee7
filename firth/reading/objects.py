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


def listed(lines: Numbered) -> Iterator[Record]:
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
    """What stands between two objects is white space and a comma; anything else is a row that is none."""
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
    """A task of Label Studio as a row: its data, and what its first annotation that stands says of them."""
    if isinstance(found, Fault) or not isinstance(found.get("data"), dict):
        return found
    annotations = found.get("annotations", found.get("completions"))
    if not isinstance(annotations, list) or not all(isinstance(one, dict) for one in annotations):
        return found
    standing = [one.get("result") for one in annotations if not one.get("was_cancelled")]
    if not standing:
        return {**found["data"]}  # a row without a label
    result = standing[0]
    if not isinstance(result, list) or not all(
        isinstance(one, dict) and isinstance(one.get("value", {}), dict) for one in result
    ):
        return Fault("label", "has an annotation whose result is not a list of values")
    values = [one.get("value", {}) for one in result]
    own = {"id": found["id"]} if "id" in found and "id" not in found["data"] else {}
    data = own | found["data"]
    chosen = [choice for value in values for choice in _listed(value.get("choices"))]
    number = next(
        (value[key] for value in values for key in ("number", "rating") if key in value), None
    )
    if chosen:
        return {**data, "label": chosen[0] if len(chosen) == 1 else chosen}
    if number is not None:
        return {**data, "label": number}
    return {**data, "spans": [value for value in values if "labels" in value or "start" in value]}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
