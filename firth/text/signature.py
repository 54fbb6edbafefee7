"""Files that hold no plain text, told by their first bytes, and the likely encoding of others."""

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

ZIP_ENTRY = re.compile(rb"PK\x03\x04.{22}(..)..", re.DOTALL)
TAR_MARK = slice(257, 262)
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# The stream format of Arrow, which datasets libraries cache: a continuation mark, then a small
# length.
ARROW_STREAM = re.compile(rb"\xff{4}[^\0].?.?\0.{4}", re.DOTALL)
CONTROL = re.compile("[\0-\x08\x0b\x0e-\x1f\x7f]")
LEAST_ZEROS = 0.05  # share of the bytes of a text in UTF-16
SHEET = "save it as CSV UTF-8 and use that"
PLAIN = "save it as plain text (UTF-8) and use that"
EXPORT = "export it as CSV or plain text"
OPEN_IT = "open it, then save it as CSV UTF-8 or plain text"
UNPACK = "unpack it first"
UNPACK_OR = "unpack it first, or pack it as .gz or .zst"
OPEN_DOCUMENT = b"mimetypeapplication/vnd.oasis.opendocument."


class Signature(NamedTuple):
    """The kind of a file, and what its owner can do to have text."""

    what: str
    cure: str

    def __str__(self) -> str:
        return f"is {self.what}, not text: {self.cure}"


SIGNATURES: tuple[tuple[bytes, Signature], ...] = (
    (b"SQLite format 3\0", Signature("an SQLite database", "export the table as CSV")),
    (b"{\\rtf", Signature("a rich-text document (.rtf)", PLAIN)),
    (b"7z\xbc\xaf\x27\x1c", Signature("a 7z archive", UNPACK)),
    (b"Rar!\x1a\x07", Signature("a RAR archive", UNPACK)),
    (b"\xfd7zXZ\0", Signature("packed with xz", UNPACK_OR)),
    (b"\x89HDF\r\n", Signature("an HDF5 file", "export its table as CSV or parquet")),
    (b"Obj\x01", Signature("an Avro file", "export it as CSV or parquet")),
    (b"\x93NUMPY", Signature("a NumPy array", "write its texts to a .txt or .jsonl file")),
    (b"\x89PNG\r\n", Signature("a picture (PNG)", "name a file of text")),
    (b"\xff\xd8\xff", Signature("a picture (JPEG)", "name a file of text")),
    (b"\x7fELF", Signature("a program", "name a file of text")),
)
# Of a zip archive: the beginning of a name inside, and what the archive then is.
ZIPPED: tuple[tuple[bytes, Signature], ...] = (
    (b"xl/", Signature("an Excel workbook (.xlsx)", SHEET)),
    (b"word/", Signature("a Word document (.docx)", PLAIN)),
    (b"ppt/", Signature("a PowerPoint file (.pptx)", PLAIN)),
    (OPEN_DOCUMENT + b"spreadsheet", Signature("a spreadsheet (.ods)", SHEET)),
    (OPEN_DOCUMENT + b"text", Signature("a text document (.odt)", PLAIN)),
    (b"mimetypeapplication/epub", Signature("an e-book (.epub)", PLAIN)),
    (b"Index/", Signature("a document of Apple's Numbers or Pages", EXPORT)),
)
# Of an OLE file, in which the names of its streams are UTF-16.
STREAMS: tuple[tuple[str, Signature], ...] = (
    ("WordDocument", Signature("a Word document (.doc)", PLAIN)),
    ("EncryptedPackage", Signature("an Office file with a password", OPEN_IT)),
    ("Workbook", Signature("an Excel workbook (.xls)", SHEET)),
    ("Book", Signature("an Excel workbook (.xls)", SHEET)),
)


def signature(head: bytes, name: str) -> Signature | None:
    """Return what a file is by its first bytes, or None where nothing says that it isn't text.

    `name` is put into the cure.
    """
    if head.startswith(b"PK\x03\x04"):
        return _zip_archive(head)
    if head.startswith(OLE):
        return _office_file(head)
    if head.startswith(b"ARROW1\0\0"):
        return _arrow("open_file", name)
    if ARROW_STREAM.match(head):
        return _arrow("open_stream", name)
    if head.startswith(b"PAR1\x15"):
        return Signature("a parquet file", "unpack it, or name the file itself")
    if re.match(rb"%PDF-\d\.\d", head):
        return Signature("a PDF", f"write its text to a file: pdftotext {name}")
    if re.match(rb"BZh\d1AY&SY", head):
        return Signature("packed with bzip2", UNPACK_OR)
    if head[TAR_MARK] == b"ustar" and b"\0" in head[: TAR_MARK.start]:
        return Signature("a tar archive", UNPACK)
    for magic, kind in SIGNATURES:
        if head.startswith(magic):
            return kind
    return None


def _zip_archive(head: bytes) -> Signature:
    """Return what a zip archive is by the names inside: many documents are archives."""
    names = list(_zip_names(head))
    for begin, kind in ZIPPED:
        if any(name.startswith(begin) for name in names):
            return kind
    return Signature("a zip archive", UNPACK)


def _zip_names(head: bytes) -> Iterator[bytes]:
    """Yield the names of the first entries of a zip archive with the beginning of their content.

    OpenDocument files are told by the content of their first entry.
    """
    for entry in ZIP_ENTRY.finditer(head):
        size = int.from_bytes(entry[1], "little")
        begin = entry.end()
        yield head[begin : begin + size + 64]


def _office_file(head: bytes) -> Signature:
    """Return what an Office file of the old kind is by the names of its streams."""
    for stream, kind in STREAMS:
        if stream.encode("utf-16-le") in head:
            return kind
    return Signature("an Office file of the old kind", SHEET)


def _arrow(reader: str, name: str) -> Signature:
    """Return the signature of an Arrow file, with the command that makes parquet of it."""
    stem = name.rpartition(".")[0] or name
    convert = f"ipc.{reader}(open('{name}', 'rb')).read_all()"
    script = f"from pyarrow import ipc, parquet; parquet.write_table({convert}, '{stem}.parquet')"
    return Signature("an Arrow file", f'make parquet of it: python -c "{script}"')


def likely_encoding(data: bytes, given: str) -> str | None:
    """Return another encoding than the given one that some bytes read well in, or None."""
    known = codecs.lookup(given).name.removesuffix("-sig")
    for name in _candidates(data):
        if codecs.lookup(name).name != known and _reads(data, name):
            return name
    return None


def _candidates(data: bytes) -> list[str]:
    """Return the encodings that some bytes may be in, the likeliest first."""
    if b"\0" not in data:
        return ["utf-8", "cp1252"]
    # In UTF-16 most letters have a zero byte: the second of the two where the low byte comes
    # first. A stray NUL is damage.
    low_first = data[1::2].count(0)
    high_first = data[::2].count(0)
    if max(low_first, high_first) < LEAST_ZEROS * len(data):
        return []
    return ["utf-16-le"] if low_first >= high_first else ["utf-16-be"]


def _reads(data: bytes, encoding: str) -> bool:
    """Return whether some bytes are text in an encoding."""
    # Incremental, since a character may be cut at the end.
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    try:
        text = decoder.decode(data)
    except UnicodeError:
        return False
    return bool(text) and CONTROL.search(text) is None
