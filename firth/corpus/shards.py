"""A corpus as encoded shards on disk: memory-mapped, checksummed, used again if nothing changed.

A token takes its id (two bytes for up to 65,536 pieces, else four) and a byte of marks. What an
example is, is decided later: shards only know where words, sentences, lines and documents begin.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base import files
from firth.base.errors import InputError
from firth.base.notes import note
from firth.base.progress import Progress
from firth.corpus.files import Mojibake, Paragraph, paragraphs
from firth.reading.format import is_table_file
from firth.text.lines import Report, is_jsonl
from firth.text.sentences import sentence_spans
from firth.text.tokenizer import Encoding, Tokenizer

FORMAT = 2
# Marks on the token that begins one.
WORD = 1
SENTENCE = 2
DOCUMENT = 4
LINE = 8
SHARD_TOKENS = 1 << 24
LINES_AT_ONCE = 512
CHARACTERS_AT_ONCE = 1 << 18
MOST_UNKNOWN = 0.05  # share of pieces
MOST_UNKNOWN_WORDS = 0.5  # a vocabulary of whole words knows only the common ones

Ids = NDArray[np.unsignedinteger[Any]]
Marks = NDArray[np.uint8]


class Shard(NamedTuple):
    """One file of ids and one of marks, mapped into memory."""

    ids: Ids
    marks: Marks


class Shards:
    """An encoded corpus."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.key: str = manifest["key"]
        self.documents: int = manifest["documents"]
        self.unknown: int = manifest["unknown"]
        self.replaced: int = manifest["replaced"]
        self.garbled: str = manifest.get("garbled", "")  # a sentence, where some lines are
        self.sources: list[str] = manifest["sources"]
        self.shards = []
        for number in range(manifest["shards"]):
            ids = _map(folder / f"{number:05}.ids", manifest["dtype"])
            marks = _map(folder / f"{number:05}.marks", "uint8")
            self.shards.append(Shard(ids, marks))

    @property
    def tokens(self) -> int:
        """The number of tokens in all shards."""
        return sum(len(shard.ids) for shard in self.shards)


def _map(path: Path, dtype: str) -> Any:
    mapped = np.memmap(path, dtype=_little_endian(dtype), mode="r")
    return np.asarray(mapped)  # still mapped; plain arrays slice faster


def _little_endian(dtype: str) -> np.dtype[Any]:
    return np.dtype(dtype).newbyteorder("<")


def open_shards(
    parent: Path,
    paths: list[Path],
    tokenizer: Tokenizer,
    fields: str = "text",
    encoding: str | None = None,
) -> Shards:
    """Return the shards of a corpus below `parent`.

    Those made before from the same bytes with the same vocabulary are used again.
    """
    key = _key(paths, tokenizer, fields, encoding)
    folder = parent / key[:16]
    if folder.exists():
        try:
            manifest = _checked(folder, key)
            return Shards(folder, manifest)
        except InputError as error:
            note(f"{error}; the text is encoded again")
            shutil.rmtree(folder)

    with files.new_folder(folder) as fresh:
        manifest = _write(fresh, paths, tokenizer, fields, encoding)
        manifest["key"] = key
        names = sorted(path.name for path in fresh.iterdir())
        manifest["sha256"] = {name: files.sha256(fresh / name) for name in names}
        manifest["sum"] = _sum(manifest)
        page = json.dumps(manifest, indent=1) + "\n"
        (fresh / "manifest.json").write_text(page, encoding="utf-8")
    return Shards(folder, manifest)


def _key(paths: list[Path], tokenizer: Tokenizer, fields: str, encoding: str | None) -> str:
    """Hash what the shards depend on: the files, how they are read, and the vocabulary."""
    read = [f"{files.sha256(path)}{_way(path)}" for path in paths]
    parts = [str(FORMAT), tokenizer.fingerprint, fields, encoding or "", *read]
    page = "\n".join(parts)
    return hashlib.sha256(page.encode()).hexdigest()


def _way(path: Path) -> str:
    """Return how a file is read, which its name says."""
    if is_jsonl(path):
        return " as objects"
    if is_table_file(path):
        return f" as rows of {''.join(path.suffixes)}"
    return ""


def _checked(folder: Path, key: str) -> dict[str, Any]:
    """Read a manifest, and refuse it if it or a shard is not as it was written."""
    path = folder / "manifest.json"
    manifest: dict[str, Any] = files.read_json(path)
    if manifest.get("sum") != _sum(manifest):
        raise InputError(f"{path} was changed or damaged: its sum differs")
    if manifest["key"] != key:
        raise InputError(f"{folder} belongs to another text or vocabulary")
    for name, expected in manifest["sha256"].items():
        shard = folder / name
        if files.sha256(shard) != expected:
            raise InputError(f"{shard} was changed or damaged: its sha256 differs")
    return manifest


def _sum(manifest: dict[str, Any]) -> str:
    """Return the sha256 of all that a manifest says but its own sum."""
    said = {name: value for name, value in manifest.items() if name != "sum"}
    page = json.dumps(said, sort_keys=True)
    return hashlib.sha256(page.encode()).hexdigest()


class _Writer:
    """Writes encoded lines to one shard after another, and counts what they hold."""

    def __init__(self, folder: Path, unknown: int | None, dtype: str) -> None:
        self.folder = folder
        self.unknown_id = unknown
        self.dtype = dtype
        self.shards = 0
        self.documents = 0
        self.tokens = 0
        self.unknown = 0
        self._used = SHARD_TOKENS  # of the shard that is open: none is
        self._stack = ExitStack()

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, ids: Ids, marks: Marks) -> None:
        """Write one line, which is never parted between shards."""
        if self._used >= SHARD_TOKENS:
            self._open()
        stored = np.asarray(ids, _little_endian(self.dtype))
        self._ids.write(stored.tobytes())
        self._marks.write(marks.tobytes())

        count = len(ids)
        self._used += count
        self.tokens += count
        if marks[0] & DOCUMENT:
            self.documents += 1
        if self.unknown_id is not None:
            is_unknown = ids == self.unknown_id
            self.unknown += int(is_unknown.sum())

    def _open(self) -> None:
        self._stack.close()
        ids = self.folder / f"{self.shards:05}.ids"
        marks = self.folder / f"{self.shards:05}.marks"
        self._ids = self._stack.enter_context(ids.open("wb"))
        self._marks = self._stack.enter_context(marks.open("wb"))
        self.shards += 1
        self._used = 0


def _write(
    folder: Path, paths: list[Path], tokenizer: Tokenizer, fields: str, encoding: str | None
) -> dict[str, Any]:
    """Encode a corpus into a folder, and return its manifest."""
    report = Report()
    mojibake = Mojibake(encoding)
    dtype = "uint16" if tokenizer.size <= 1 << 16 else "uint32"
    lines = paragraphs(paths, fields, encoding, report, mojibake)
    with (
        _Writer(folder, tokenizer.unk, dtype) as writer,
        Progress("encoding", "tokens") as progress,
    ):
        for ids, marks in _encoded(lines, tokenizer):
            writer.add(ids, marks)
            progress(writer.tokens)

    if not writer.tokens:
        raise InputError(f"there is no text in {', '.join(map(str, paths))}")
    most_unknown = MOST_UNKNOWN_WORDS if tokenizer.kind == "words" else MOST_UNKNOWN
    if writer.unknown > writer.tokens * most_unknown:
        share = writer.unknown / writer.tokens
        raise InputError(
            f"the vocabulary doesn't know {share:.0%} of this text's pieces: "
            "it was learned from other text; firth vocab learns one from this text"
        )
    return {
        "format": FORMAT,
        "shards": writer.shards,
        "dtype": dtype,
        "documents": writer.documents,
        "unknown": writer.unknown,
        "replaced": report.replaced,
        "garbled": str(mojibake) if mojibake.lines else "",
        "sources": [path.name for path in paths],
    }


def _encoded(lines: Iterator[Paragraph], tokenizer: Tokenizer) -> Iterator[tuple[Ids, Marks]]:
    """Encode each line with its marks; a line without pieces is passed over."""
    begins = False  # whether a document begins with the next line that has pieces
    for batch in _batches(lines):
        texts = [line.text for line in batch]
        encodings = tokenizer.encode(texts, special=False)
        for (line, first), encoding in zip(batch, encodings, strict=True):
            begins = begins or first
            if len(encoding):
                marks = _marks(line, encoding, begins)
                yield np.array(encoding.ids), marks
                begins = False


def _marks(line: str, encoding: Encoding, begins_document: bool) -> Marks:
    """Mark where the words and sentences of a line begin."""
    words = np.array([-1 if word is None else word for word in encoding.words])
    marks = np.empty(len(words), np.uint8)
    marks[0] = WORD | SENTENCE | LINE
    if begins_document:
        marks[0] |= DOCUMENT
    marks[1:] = words[1:] != words[:-1]

    token_starts = np.array([start for start, _ in encoding.offsets])
    sentence_starts = [start for start, _ in sentence_spans(line)]
    opened = np.searchsorted(token_starts, sentence_starts)
    opened = opened[opened < len(marks)]
    # A sentence begins with a word; where a word runs on over the mark, with the next one.
    begins_word = marks[opened] & WORD > 0
    marks[opened[begins_word]] |= SENTENCE
    return marks


def _batches(lines: Iterator[Paragraph]) -> Iterator[list[Paragraph]]:
    """Group lines, few where they are long.

    An encoded line takes a hundred times the memory of its text.
    """
    batch: list[Paragraph] = []
    characters = 0
    for line in lines:
        batch.append(line)
        characters += len(line.text)
        if len(batch) >= LINES_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield batch
            batch = []
            characters = 0
    if batch:
        yield batch
