"""A corpus as encoded shards on disk: memory-mapped, checksummed, and used again while nothing has changed.

A token takes its id (two bytes for up to 65,536 pieces, else four) and a byte of marks. What an example is, is decided later:
shards only know where words, sentences, lines and documents begin.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base import files
from firth.base.errors import InputError
from firth.base.progress import Progress
from firth.corpus.files import Mojibake, Paragraph, paragraphs
from firth.reading.format import is_table
from firth.text.lines import Report, is_jsonl
from firth.text.sentences import sentences
from firth.text.tokenizer import Tokenizer

FORMAT = 2
WORD, SENTENCE, DOCUMENT, LINE = 1, 2, 4, 8  # marks on the token that begins one
SHARD_TOKENS = 1 << 24
LINES_AT_ONCE, CHARACTERS_AT_ONCE = 512, 1 << 18
MOST_UNKNOWN, MOST_UNKNOWN_WORDS = (
    0.05,
    0.5,
)  # share of pieces; a vocabulary of whole words knows only the common ones

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
        self.shards = [
            Shard(
                _map(folder / f"{n:05}.ids", manifest["dtype"]),
                _map(folder / f"{n:05}.marks", "uint8"),
            )
            for n in range(manifest["shards"])
        ]

    @property
    def tokens(self) -> int:
        """Tokens in all shards."""
        return sum(len(shard.ids) for shard in self.shards)


def _map(path: Path, dtype: str) -> Any:
    return np.asarray(
        np.memmap(path, dtype=np.dtype(dtype).newbyteorder("<"), mode="r")
    )  # still mapped; plain arrays slice faster


def open_shards(
    parent: Path,
    paths: list[Path],
    tokenizer: Tokenizer,
    fields: str = "text",
    encoding: str | None = None,
) -> Shards:
    """The shards of a corpus below `parent`: those made before from the same bytes with the same vocabulary, or new ones."""
    key = _key(paths, tokenizer, fields, encoding)
    folder = parent / key[:16]
    if folder.exists():
        try:
            return Shards(folder, _checked(folder, key))
        except InputError as error:
            print(f"note: {error}; the text is encoded again", file=sys.stderr, flush=True)
            shutil.rmtree(folder)
    with files.new_folder(folder) as fresh:
        manifest = _write(fresh, paths, tokenizer, fields, encoding) | {"key": key}
        names = sorted(path.name for path in fresh.iterdir())
        manifest["sha256"] = {name: files.sha256(fresh / name) for name in names}
        manifest["sum"] = _sum(manifest)
        (fresh / "manifest.json").write_text(
            json.dumps(manifest, indent=1) + "\n", encoding="utf-8"
        )
    return Shards(folder, manifest)


def _key(paths: list[Path], tokenizer: Tokenizer, fields: str, encoding: str | None) -> str:
    """What the shards depend on, hashed: the bytes of the files in their order, how they are read, and the vocabulary."""
    read = [f"{files.sha256(path)}{_way(path)}" for path in paths]
    parts = [str(FORMAT), tokenizer.fingerprint, fields, encoding or "", *read]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _way(path: Path) -> str:
    """How a file is read, which its name says."""
    return (
        " as objects"
        if is_jsonl(path)
        else f" as rows of {''.join(path.suffixes)}"
        if is_table(path)
        else ""
    )


def _checked(folder: Path, key: str) -> dict[str, Any]:
    manifest: dict[str, Any] = files.read_json(folder / "manifest.json")
    if manifest.get("sum") != _sum(manifest):
        raise InputError(f"{folder / 'manifest.json'} was changed or damaged: its sum differs")
    if manifest["key"] != key:
        raise InputError(f"{folder} belongs to another text or vocabulary")
    for name, expected in manifest["sha256"].items():
        if files.sha256(folder / name) != expected:
            raise InputError(f"{folder / name} was changed or damaged: its sha256 differs")
    return manifest


def _sum(manifest: dict[str, Any]) -> str:
    """The sum of all that a manifest says but its own sum."""
    page = {name: value for name, value in manifest.items() if name != "sum"}
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()


def _write(
    folder: Path, paths: list[Path], tokenizer: Tokenizer, fields: str, encoding: str | None
) -> dict[str, Any]:
    report, mojibake = Report(), Mojibake(encoding)
    dtype = "uint16" if tokenizer.size <= 1 << 16 else "uint32"
    shards = used = count = unknown = tokens = 0
    with ExitStack() as stack, Progress("encoding", "tokens") as progress:
        out: tuple[BinaryIO, BinaryIO] | None = None
        for ids, marks in _encoded(
            paragraphs(paths, fields, encoding, report, mojibake), tokenizer
        ):
            if out is None or used >= SHARD_TOKENS:
                stack.close()
                out = tuple(
                    stack.enter_context((folder / f"{shards:05}.{kind}").open("wb"))
                    for kind in ("ids", "marks")
                )  # type: ignore[assignment]
                shards, used = shards + 1, 0
            assert out is not None
            out[0].write(np.asarray(ids, np.dtype(dtype).newbyteorder("<")).tobytes())
            out[1].write(marks.tobytes())
            used += len(ids)
            tokens += len(ids)
            count += int((marks[0] & DOCUMENT) > 0)
            unknown += 0 if tokenizer.unk is None else int((ids == tokenizer.unk).sum())
            progress(tokens)
    if not tokens:
        raise InputError(f"there is no text in {', '.join(map(str, paths))}")
    if unknown > tokens * (MOST_UNKNOWN_WORDS if tokenizer.kind == "words" else MOST_UNKNOWN):
        raise InputError(
            f"the vocabulary doesn't know {unknown / tokens:.0%} of this text's pieces: it was learned from other text; "
            "firth vocab learns one from this text"
        )
    return {
        "format": FORMAT,
        "shards": shards,
        "dtype": dtype,
        "documents": count,
        "unknown": unknown,
        "replaced": report.replaced,
        "garbled": str(mojibake) if mojibake.lines else "",
        "sources": [path.name for path in paths],
    }


def _encoded(lines: Iterator[Paragraph], tokenizer: Tokenizer) -> Iterator[tuple[Ids, Marks]]:
    """The pieces of each line with their marks; a line without pieces is passed over."""
    begins = False
    for batch in _batches(lines):
        encodings = tokenizer.encode([line.text for line in batch], special=False)
        for (line, first), encoding in zip(batch, encodings, strict=True):
            begins = begins or first
            if not len(encoding):
                continue
            words = np.array([-1 if word is None else word for word in encoding.words])
            marks = np.empty(len(words), np.uint8)
            marks[0] = WORD | SENTENCE | LINE | (DOCUMENT if begins else 0)
            marks[1:] = words[1:] != words[:-1]
            starts = np.array([start for start, _ in encoding.offsets])
            opened = np.searchsorted(starts, [start for start, _ in sentences(line)])
            opened = opened[opened < len(marks)]
            # A sentence begins with a word; where a word runs on over the mark, it begins with the next one.
            marks[opened[marks[opened] & WORD > 0]] |= SENTENCE
            yield np.array(encoding.ids), marks
            begins = False


def _batches(lines: Iterator[Paragraph]) -> Iterator[list[Paragraph]]:
    """Lines by the batch, few where they are long: an encoded line takes a hundred times the memory of its text."""
    batch: list[Paragraph] = []
    characters = 0
    for line in lines:
        batch.append(line)
        characters += len(line.text)
        if len(batch) >= LINES_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
