"""Learn a vocabulary from a corpus."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from firth.base.errors import InputError
from firth.base.files import new_folder
from firth.base.output import reported
from firth.base.progress import Progress
from firth.data.corpus import corpus_files, paragraphs
from firth.text.lines import Report
from firth.text.tokenizer import Tokenizer

# Text that is learned from; of more, every n-th line is taken. What bounds the memory of the words that are counted.
MOST_CHARACTERS = 256 << 20
SAMPLED_LINES = 20_000  # that the report is made from

Kind = Literal["wordpiece", "bytes", "words"]


def learn_vocab(
    corpus: Sequence[str | Path],
    out: str | Path,
    *,
    size: int = 30000,
    kind: Kind = "wordpiece",
    case: Literal["lower", "keep"] | None = None,
    accents: Literal["keep", "strip"] | None = None,
    field: str = "text",
    encoding: str | None = None,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Write a vocabulary to a folder and print how well it covers the text."""
    text = Text(corpus, field, encoding)
    with new_folder(Path(out), force) as folder:
        tokenizer = text.learn(kind, size, case, accents)
        tokenizer.save(folder)
    report = text.report(tokenizer)
    if text.read.replaced:
        print(f"note: {text.read}", file=sys.stderr)
    with reported():
        print(json.dumps(report) if as_json else _say(report, out))


class Text:
    """A corpus that is read as often as needed, in bounded memory."""

    def __init__(self, corpus: Sequence[str | Path], field: str = "text", encoding: str | None = None) -> None:
        self.paths = corpus_files(Path(path) for path in corpus)
        self.field, self.encoding = field, encoding
        self.read = Report()  # of the last time

    def __iter__(self) -> Iterator[str]:
        self.read = Report()
        return (line.text for line in paragraphs(self.paths, self.field, self.encoding, self.read))

    def learn(
        self, kind: Kind, size: int, case: Literal["lower", "keep"] | None = None, accents: Literal["keep", "strip"] | None = None
    ) -> Tokenizer:
        """Learn a vocabulary from every line, or from every n-th of a corpus that is larger than is held in memory."""
        self.characters = sum(len(line) for line in self)
        if not self.characters:
            raise InputError(f"there is no text to learn a vocabulary from in {', '.join(map(str, self.paths))}")
        self.stride = -(-self.characters // MOST_CHARACTERS)
        with Progress("learning the vocabulary", "lines") as progress:
            return Tokenizer.train(_counted(islice(self, 0, None, self.stride), progress), kind, size, case, accents)

    def report(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """Coverage and pieces per word over evenly spaced lines."""
        total = sum(1 for _ in self)
        words = pieces = unknown = whole = 0
        for line in islice(self, 0, None, max(1, total // SAMPLED_LINES)):
            (encoding,) = tokenizer.encode([line], special=False)
            seen: dict[int | None, list[int]] = {}
            for word, piece in zip(encoding.words, encoding.ids, strict=True):
                seen.setdefault(word, []).append(piece)
            words += len(seen)
            pieces += len(encoding)
            unknown += sum(tokenizer.unk is not None and tokenizer.unk in found for found in seen.values())
            whole += sum(len(found) == 1 and found[0] != tokenizer.unk for found in seen.values())
        return {
            "kind": tokenizer.kind,
            "size": tokenizer.size,
            "characters": self.characters,
            "lines": total,
            "replaced": self.read.replaced,
            "learned_from_every": self.stride,
            "words": words,
            "pieces_per_word": pieces / max(1, words),
            "whole_words": whole / max(1, words),
            "unknown_words": unknown / max(1, words),
        }


def _counted(lines: Iterator[str], progress: Progress) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        yield line
        if number % 1000 == 0:
            progress(number)


def _say(report: dict[str, Any], out: str | Path) -> str:
    stride = report["learned_from_every"]
    part = "" if stride == 1 else f", learned from one line of {stride}"
    read = f"{report['lines']:,} lines, {report['characters']:,} characters"
    return (
        f"{out}: {report['size']:,} pieces ({report['kind']}) from {read}{part}\n"
        f"  {report['pieces_per_word']:.3f} pieces a word; {report['whole_words']:.1%} of {report['words']:,} words are one piece, "
        f"{report['unknown_words']:.3%} are unknown"
    )
