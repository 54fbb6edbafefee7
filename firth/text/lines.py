"""Lines of text files as a stream: plain or compressed, in any encoding that can be told."""

import codecs
import json
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from firth.base.errors import InputError
from firth.text.repair import REPLACEMENT, repair
from firth.text.signature import likely_encoding, signature

NumberedRecord = tuple[int, dict[str, Any]]  # a JSON object with the number of its line

LONGEST_LINE = 100_000_000  # characters
CHUNK = 1 << 20  # bytes
SIP = 512  # bytes that are unpacked at once
UNPACKERS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    zstandard.FRAME_HEADER: lambda: zstandard.ZstdDecompressor().decompressobj(),
}
MOST_REPLACED = 0.001  # share of characters
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MARK = "\ufeff"  # that begins a file, and is none of its text
# Latin-1 has no printed signs at 0x80 to 0x9f: such bytes are quotes and dashes of Windows-1252,
# as in every browser. Five of them have no sign there either.
UNPRINTED = re.compile("[\x80-\x9f]")
WINDOWS = {
    code: bytes([code]).decode("cp1252")
    for code in range(0x80, 0xA0)
    if code not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
PACKED = {".gz", ".zst"}


@dataclass
class Report:
    """Counts of what reading had to change, so that it can be said."""

    characters: int = 0
    replaced: int = 0

    def __str__(self) -> str:
        counts = f"{self.replaced:,} of {self.characters:,} characters"
        return f"{counts} could not be read and were replaced by {REPLACEMENT}"

    def clear(self) -> None:
        """Set all counts to zero."""
        self.characters = 0
        self.replaced = 0


def is_jsonl(path: Path) -> bool:
    """Tell by its name whether a file holds a JSON object a line."""
    last_two = [suffix.lower() for suffix in path.suffixes[-2:]]
    return ".jsonl" in last_two


def lines(
    path: Path | BinaryIO, encoding: str | None = None, report: Report | None = None
) -> Iterator[str]:
    """Yield every line of a file or an open stream, in order; an empty line is an empty text."""
    for number, line in enumerate(raw_lines(path, encoding, report), 1):
        if "\0" in line:
            where = path if isinstance(path, Path) else "standard input"
            raise InputError(f"{where}:{number} has NUL bytes, which no text has")
        yield line.removesuffix("\r")


def raw_lines(
    path: Path | BinaryIO, encoding: str | None = None, report: Report | None = None
) -> Iterator[str]:
    """Yield every line as it stands, with a carriage return at its end and with NUL."""
    report = report or Report()
    if isinstance(path, Path):
        with open_regular(path) as stream:
            yield from _decoded(stream, str(path), encoding, report)
    else:
        yield from _decoded(path, "standard input", encoding, report)


def records(
    path: Path, encoding: str | None = None, report: Report | None = None
) -> Iterator[NumberedRecord]:
    """Yield the objects of a .jsonl file with their line numbers."""
    return objects(lines(path, encoding, report), str(path))


def objects(given: Iterable[str], where: str) -> Iterator[NumberedRecord]:
    """Parse a JSON object a line, with the line's number; blank lines are passed over."""
    for number, line in enumerate(given, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except RecursionError as error:
            reason = "it is nested too deeply"
            raise InputError(f"{where}:{number} is not valid JSON: {reason}") from error
        except ValueError as error:
            raise InputError(f"{where}:{number} is not valid JSON: {error}") from error
        if not isinstance(record, dict):
            kind = type(record).__name__
            raise InputError(f"{where}:{number} holds a JSON {kind} where an object belongs")
        yield number, record


def texts(
    path: Path, fields: str = "text", encoding: str | None = None, report: Report | None = None
) -> Iterator[str]:
    """Yield one text a line of a .txt file, or the named fields of each object of a .jsonl file."""
    report = report or Report()
    if not is_jsonl(path):
        yield from lines(path, encoding, report)
        return
    for number, record in records(path, encoding, report):
        yield joined(record, fields, f"{path}:{number}", report)


def joined(record: dict[str, Any], fields: str, where: str, report: Report) -> str:
    """Join the named fields of an object by a line break."""
    names = [name.strip() for name in fields.split(",")]
    return "\n".join(_field(record, name, where, report) for name in names)


def _field(record: dict[str, Any], name: str, where: str, report: Report) -> str:
    """Return the text of one field."""
    if name not in record:
        known = ", ".join(map(str, record)) or "none"
        raise InputError(f"{where} has no field {name!r}; it has {known} (--text names the fields)")
    value = record[name]
    if not isinstance(value, str):
        kind = type(value).__name__
        raise InputError(f"{where}: the field {name!r} holds {kind}, not a text")
    text, replaced = repair(value)
    report.replaced += replaced
    return text


def open_regular(path: Path) -> BinaryIO:
    """Open a file for its bytes; a folder, a pipe or a device is refused."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{path} is a folder")
        if not stat.S_ISREG(mode):
            raise InputError(f"{path} is not a regular file")
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} can't be read: {reason}") from error


def chunks(stream: BinaryIO, where: str) -> Iterator[bytes]:
    """Yield the bytes of a stream, unpacked if the first of them say that it is packed."""
    try:
        first = stream.read(CHUNK)
        rest = iter(partial(stream.read, CHUNK), b"")
        portions: Iterable[bytes] = chain([first], rest)
        for magic, unpacker in UNPACKERS.items():
            if first.startswith(magic):
                portions = _unpacked(unpacker, portions)
                break
        yield from _even(portions)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(f"{where} is damaged or cut short: {error}") from error


def _unpacked(unpacker: Callable[[], Any], chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Unpack in sips: what one of them grows to is bounded, and a missing end is noticed."""
    frame = unpacker()
    for chunk in chunks:
        for start in range(0, len(chunk), SIP):
            sip = chunk[start : start + SIP]
            while sip:
                if frame.eof:  # another frame follows: packed files may be joined
                    frame = unpacker()
                yield frame.decompress(sip)
                sip = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise EOFError("the end is missing")


def _even(portions: Iterable[bytes]) -> Iterator[bytes]:
    """Make equal chunks of portions of any size.

    So neither the cost of a long line nor the verdict on a file depends on how it was packed.
    """
    held = bytearray()
    for portion in portions:
        held += portion
        while len(held) >= CHUNK:
            yield bytes(held[:CHUNK])
            del held[:CHUNK]
    yield bytes(held)


def _decoded(stream: BinaryIO, where: str, encoding: str | None, report: Report) -> Iterator[str]:
    """Yield the lines of a stream; what is no text, or in another encoding, is refused."""
    data = chunks(stream, where)
    first = next(data, b"")
    kind = signature(first, where.rpartition("/")[2])
    if kind is not None:
        raise InputError(f"{where} {kind}")

    chosen = encoding or _by_mark(first)
    decoder = _decoder(chosen)
    if encoding is None and chosen == "utf-8" and b"\0" in first:
        likely = likely_encoding(first, chosen)
        if likely:
            what = f"it is {likely} without a byte order mark (--encoding {likely})"
            raise InputError(f"{where}:1 has NUL bytes: {what}")

    here = Report()
    whole = chain([first], data)
    portions = _portions(decoder, chosen, whole, where, here)
    yield from _lines(portions, where)
    report.characters += here.characters
    report.replaced += here.replaced


def _by_mark(first: bytes) -> str:
    """Return the encoding that the mark at the beginning of a file tells, else UTF-8."""
    for mark, name in BOMS:
        if first.startswith(mark):
            return name
    return "utf-8"


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    """Make a decoder that replaces what it can't read."""
    try:
        # Refuses codecs that aren't for text or can't replace.
        b"\xff".decode(encoding, "replace")
        return codecs.getincrementaldecoder(encoding)(errors="replace")
    except (LookupError, UnicodeError):
        raise InputError(
            f"there is no encoding {encoding!r}; try utf-8, cp1252 or utf-16"
        ) from None


def _portions(
    decoder: codecs.IncrementalDecoder,
    encoding: str,
    chunks: Iterable[bytes],
    where: str,
    report: Report,
) -> Iterator[str]:
    """Yield the text of each chunk, and count in `report` what could not be read."""
    is_latin = codecs.lookup(encoding).name == "iso8859-1"
    begins = True
    for chunk, is_last in _with_last(chunks):
        text = decoder.decode(chunk, is_last)
        if is_latin and UNPRINTED.search(text):
            text = text.translate(WINDOWS)
        if begins:
            text = text.removeprefix(MARK)
            begins = False
        _count(text, chunk, report, where, encoding)
        yield text


def _lines(portions: Iterable[str], where: str) -> Iterator[str]:
    """Yield the lines of a text that comes in portions; an end without a line break is one too."""
    number = 0
    size = 0
    unfinished: list[str] = []  # parts of a line, joined once: a long line costs its length
    for portion in portions:
        *whole, rest = portion.split("\n")
        for line in whole:
            number += 1
            yield "".join([*unfinished, line])
            unfinished = []
            size = 0
        unfinished.append(rest)
        size += len(rest)
        if size > LONGEST_LINE:
            raise InputError(f"{where}:{number + 1} is longer than {LONGEST_LINE:,} characters")
    if size:
        yield "".join(unfinished)


def _with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each chunk with whether it is the last."""
    rest = iter(chunks)
    held = next(rest)
    for chunk in rest:
        yield held, False
        held = chunk
    yield held, True


def _count(text: str, chunk: bytes, report: Report, where: str, encoding: str) -> None:
    """Count the characters that could not be read, and refuse a file that has too many."""
    report.characters += len(text)
    report.replaced += text.count(REPLACEMENT)
    if encoding.startswith("utf-8"):
        report.replaced -= chunk.count(REPLACEMENT.encode())  # the file's own
    if report.replaced <= max(1, MOST_REPLACED * report.characters):
        return

    likely = likely_encoding(chunk, encoding)
    advice = "name its encoding with --encoding, if it is text"
    if likely:
        advice = f"it may be {likely} (--encoding {likely})"
    unread = f"{report.replaced:,} of its first {report.characters:,} characters can't be read"
    raise InputError(f"{where} isn't {encoding}: {unread}; {advice}")
