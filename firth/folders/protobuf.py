"""Protocol buffers without their descriptions: the numbered fields of a message."""

from collections.abc import Iterator

from firth.folders.sstable import read_varint

VARINT = 0
EIGHT_BYTES = 1
LENGTH = 2
FOUR_BYTES = 5
FIXED = {EIGHT_BYTES: 8, FOUR_BYTES: 4}


class Message:
    """The fields of a message by their numbers; a wrong message is a ValueError."""

    def __init__(self, data: bytes) -> None:
        self.fields: dict[int, list[int | bytes]] = {}
        for number, value in _fields(data):
            self.fields.setdefault(number, []).append(value)

    def has(self, number: int) -> bool:
        """Say whether a field is there."""
        return number in self.fields

    def whole(self, number: int) -> int:
        """Return a field that is a whole number, the last where there are several; 0 if none."""
        value = self.fields.get(number, [0])[-1]
        if not isinstance(value, int):
            raise ValueError(f"field {number} of an entry is no number")
        return value

    def messages(self, number: int) -> "list[Message]":
        """Return a field that is a list of messages."""
        found = []
        for value in self.fields.get(number, []):
            if not isinstance(value, bytes):
                raise ValueError(f"field {number} of an entry is no message")
            found.append(Message(value))
        return found


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = read_varint(data, at)
            yield tag >> 3, value
            continue
        if kind == LENGTH:
            size, at = read_varint(data, at)
        elif kind in FIXED:
            size = FIXED[kind]
        else:
            raise ValueError(f"an entry has a field of the unknown kind {kind}")
        part = data[at : at + size]
        if len(part) < size:
            raise ValueError("an entry is cut off")
        at += size
        yield tag >> 3, part if kind == LENGTH else int.from_bytes(part, "little")
