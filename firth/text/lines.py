"""Reading text: the lines of files, plain or compressed, in any encoding that can be told, as a stream."""

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

LONGEST_LINE = 100_000_000  # bytes
CHUNK = 1 << 20
SIP = 512
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
# Latin-1 has no printed signs at 0x80 to 0x9f: such bytes are quotes and dashes of Windows-1252, as in every browser.
UNPRINTED = re.compile("[\x80-\x9f]")
WINDOWS = {
    code: sign for code in range(0x80, 0xA0) if (sign := bytes([code]).decode("cp1252", "ignore"))
}
PACKED = {".gz", ".zst"}


@dataclass
class Report:
    """What reading had to change, so that it can be said."""

    characters: int = 0
    replaced: int = 0

    def __str__(self) -> str:
        return f"{self.replaced:,} of {self.characters:,} characters could not be read and were replaced by {REPLACEMENT}"

    def clear(self) -> None:
        """Begin anew."""
        self.characters = self.replaced = 0


def is_jsonl(path: Path) -> bool:
    """Tell by its name whether a file holds a JSON object a line."""
    return ".jsonl" in [suffix.lower() for suffix in path.suffixes[-2:]]


def lines(
    path: Path | BinaryIO, encoding: str | None = None, report: Report | None = None
) -> Iterator[str]:
    """Every line of a file or an open stream, in order; an empty line is an empty text."""
    for number, line in enumerate(raw_lines(path, encoding, report), 1):
        if "\0" in line:
            where = path if isinstance(path, Path) else "standard input"
            raise InputError(f"{where}:{number} has NUL bytes, which no text has")
        yield line.removesuffix("\r")


def raw_lines(
    path: Path | BinaryIO, encoding: str | None = None, report: Report | None = None
) -> Iterator[str]:
    """The same lines with all that stands in them, a carriage return at the end and NUL included."""
    report = report or Report()
    if isinstance(path, Path):
        with open_regular(path) as stream:
            yield from _decoded(stream, str(path), encoding, report)
    else:
        yield from _decoded(path, "standard input", encoding, report)


def records(
    path: Path, encoding: str | None = None, report: Report | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a .jsonl file with their line numbers."""
    return objects(lines(path, encoding, report), str(path))


def objects(given: Iterable[str], where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of lines, with their numbers; blank lines are passed over."""
    for number, line in enumerate(given, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise InputError(f"{where}:{number} is not valid JSON: {reason}") from error
        if not isinstance(record, dict):
            raise InputError(
                f"{where}:{number} holds a JSON {type(record).__name__} where an object belongs"
            )
        yield number, record


def texts(
    path: Path, fields: str = "text", encoding: str | None = None, report: Report | None = None
) -> Iterator[str]:
    """One text a line of a .txt file, or the named fields of each object of a .jsonl file, joined by a line break."""
    report = report or Report()
    if not is_jsonl(path):
        yield from lines(path, encoding, report)
        return
    for number, record in records(path, encoding, report):
        yield joined(record, fields, f"{path}:{number}", report)


def joined(record: dict[str, Any], fields: str, where: str, report: Report) -> str:
    """The named fields of an object, joined by a line break."""
    return "\n".join(_text(record, name.strip(), where, report) for name in fields.split(","))


def _text(record: dict[str, Any], name: str, where: str, report: Report) -> str:
    if name not in record:
        raise InputError(
            f"{where} has no field {name!r}; it has {', '.join(map(str, record)) or 'none'} (--text names the fields)"
        )
    if not isinstance(record[name], str):
        raise InputError(
            f"{where}: the field {name!r} holds {type(record[name]).__name__}, not a text"
        )
    text, replaced = repair(record[name])
    report.replaced += replaced
    return text


def open_regular(path: Path) -> BinaryIO:
    """Open a file for its bytes; a folder, a pipe or a device is refused."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise InputError(
                f"{path} is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}"
            )
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} can't be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def _chunks(stream: BinaryIO, where: str) -> Iterator[bytes]:
    """The bytes of a stream, unpacked if the first of them say that it is packed."""
    try:
        first = stream.read(CHUNK)
        rest = iter(partial(stream.read, CHUNK), b"")
        unpacker = next((new for magic, new in UNPACKERS.items() if first.startswith(magic)), None)
        yield from _even(
            chain([first], rest) if unpacker is None else _unpacked(unpacker, chain([first], rest))
        )
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(f"{where} is damaged or cut short: {error}") from error


def _unpacked(unpacker: Callable[[], Any], chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Unpack in sips: what one of them grows to is bounded, and a frame without an end is noticed."""
    frame = unpacker()
    for chunk in chunks:
        for start in range(0, len(chunk), SIP):
            sip = chunk[start : start + SIP]
            while sip:
                frame = unpacker() if frame.eof else frame
                yield frame.decompress(sip)
                sip = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise EOFError("the end is missing")


def _even(portions: Iterable[bytes]) -> Iterator[bytes]:
    """Make equal chunks, so that neither a long line's cost nor the verdict on a file depends on how it was packed."""
    held = bytearray()
    for portion in portions:
        held += portion
        while len(held) >= CHUNK:
            yield bytes(held[:CHUNK])
            del held[:CHUNK]
    yield bytes(held)


def _decoded(stream: BinaryIO, where: str, encoding: str | None, report: Report) -> Iterator[str]:
    chunks = _chunks(stream, where)
    first = next(chunks, b"")
    if kind := signature(first, where.rpartition("/")[2]):
        raise InputError(f"{where} {kind}")
    chosen = encoding or next((name for bom, name in BOMS if first.startswith(bom)), "utf-8")
    try:
        b"\xff".decode(chosen, "replace")  # refuses codecs that aren't for text or can't replace
        decoder = codecs.getincrementaldecoder(chosen)(errors="replace")
    except (LookupError, UnicodeError):
        raise InputError(
            f"there is no encoding {encoding!r}; try utf-8, cp1252 or utf-16"
        ) from None
    if (
        encoding is None
        and b"\0" in first
        and chosen == "utf-8"
        and (likely := likely_encoding(first, chosen))
    ):
        raise InputError(
            f"{where}:1 has NUL bytes: it is {likely} without a byte order mark (--encoding {likely})"
        )
    by_latin = codecs.lookup(chosen).name == "iso8859-1"
    here = Report()
    number, size = 0, 0
    held: list[str] = []  # the parts of a line that has not ended: joined once, however long it is
    for chunk, last in _with_last(first, chunks):
        text = decoder.decode(chunk, last)
        if by_latin and UNPRINTED.search(text):
            text = text.translate(WINDOWS)
        text = text if number or held else text.removeprefix(MARK)
        _count(text, chunk, here, where, chosen)
        *whole, rest = text.split("\n")
        for line in whole:
            number += 1
            yield "".join([*held, line])
            held, size = [], 0
        held.append(rest)
        size += len(rest)
        if size > LONGEST_LINE:
            raise InputError(f"{where}:{number + 1} is longer than {LONGEST_LINE:,} characters")
    if size:
        yield "".join(held)
    report.characters += here.characters
    report.replaced += here.replaced


def _with_last(first: bytes, chunks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    held = first
    for chunk in chunks:
        yield held, False
        held = chunk
    yield held, True


def _count(text: str, chunk: bytes, here: Report, where: str, encoding: str) -> None:
    here.characters += len(text)
    here.replaced += text.count(REPLACEMENT) - (
        chunk.count(REPLACEMENT.encode()) if encoding.startswith("utf-8") else 0
    )
    if here.replaced > max(1, MOST_REPLACED * here.characters) and here.characters >= min(
        CHUNK, len(text)
    ):
        likely = likely_encoding(chunk, encoding)
        advice = (
            f"it may be {likely} (--encoding {likely})"
            if likely
            else "name its encoding with --encoding, if it is text"
        )
        raise InputError(
            f"{where} isn't {encoding}: {here.replaced:,} of its first {here.characters:,} characters can't be read; {advice}"
        )
