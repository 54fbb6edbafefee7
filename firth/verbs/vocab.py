"""Learn a vocabulary from a corpus."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from firth.base.arguments import (
    as_path,
    as_paths,
    as_whole,
    check_choice,
    check_flags,
    check_names,
    check_string,
)
from firth.base.errors import InputError
from firth.base.files import new_folder
from firth.base.output import reported
from firth.base.progress import Progress
from firth.corpus.files import Mojibake, corpus_files, paragraphs, passed_over
from firth.text.lines import Report
from firth.text.tokenizer import Tokenizer
from firth.text.vocabulary import MOST_COMMAS, Split, comma_share

# Text that is learned from; of more, every n-th line is taken. What bounds the memory of the words that are counted.
MOST_CHARACTERS = 256 << 20
LARGEST = 1 << 24  # pieces
SAMPLED_LINES = 20_000  # that the report is made from

Kind = Literal["wordpiece", "bytes", "words"]
Splitting = Literal["auto", "punctuation", "spaces"]


def learn_vocab(
    corpus: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    text: str | None = None,
    size: int = 30000,
    kind: Kind = "wordpiece",
    case: Literal["lower", "keep"] | None = None,
    accents: Literal["keep", "strip"] | None = None,
    split: Splitting | None = None,
    field: str = "text",
    encoding: str | None = None,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Write a vocabulary to a folder and print how well it covers the text.

    `corpus` is one file or folder, or several; `text` names the field or column of the text, as `field` does. `split` is what parts
    whole words, by default auto.
    """
    out, size = as_path("out", out), as_whole("size", size, 1, LARGEST)
    check_choice("kind", kind, get_args(Kind))
    check_choice("case", case, ("lower", "keep"), optional=True)
    check_choice("accents", accents, ("keep", "strip"), optional=True)
    check_choice("split", split, get_args(Splitting), optional=True)
    check_string("field", field, empty=False)
    check_names(text=text, encoding=encoding)
    check_flags(force=force, as_json=as_json)
    if split is not None and kind != "words":
        raise InputError(f"--split is for --kind words, not for {kind}")
    paths = as_paths("corpus", corpus)
    read = Text(paths, text or field, encoding)
    with new_folder(Path(out), force) as folder:
        tokenizer = read.learn(kind, size, case, accents, split)
        tokenizer.save(folder)
    report = read.report(tokenizer)
    replaced = str(read.read) if read.read.replaced else ""
    garbled = str(read.mojibake) if read.mojibake.lines else ""
    for said in filter(None, (passed_over(map(Path, paths)), replaced, garbled)):
        print(f"note: {said}", file=sys.stderr)
    with reported():
        print(json.dumps(report) if as_json else _say(report, out, read.parted))


class Text:
    """A corpus that is read as often as needed, in bounded memory."""

    def __init__(
        self, corpus: Sequence[str | Path], field: str = "text", encoding: str | None = None
    ) -> None:
        self.paths = corpus_files(Path(path) for path in corpus)
        self.field, self.encoding = field, encoding
        self.parted = ""  # a sentence on what parts the words of the vocabulary
        self.read, self.mojibake = Report(), Mojibake(encoding)  # of the last time

    def __iter__(self) -> Iterator[str]:
        self.read, self.mojibake = Report(), Mojibake(self.encoding)
        return (
            line.text
            for line in paragraphs(self.paths, self.field, self.encoding, self.read, self.mojibake)
        )

    def learn(
        self,
        kind: Kind,
        size: int,
        case: Literal["lower", "keep"] | None = None,
        accents: Literal["keep", "strip"] | None = None,
        split: Splitting | None = None,
    ) -> Tokenizer:
        """Learn a vocabulary from every line, or from every n-th of a corpus that is larger than is held in memory."""
        self.characters = sum(len(line) for line in self)
        if not self.characters:
            raise InputError(
                f"there is no text to learn a vocabulary from in {', '.join(map(str, self.paths))}"
            )
        self.stride = -(-self.characters // MOST_CHARACTERS)
        chosen = self._split(split) if kind == "words" else "spaces"
        with Progress("learning the vocabulary", "lines") as progress:
            return Tokenizer.train(
                _counted(islice(self, 0, None, self.stride), progress),
                kind,
                size,
                case,
                accents,
                chosen,
            )

    def _split(self, asked: Splitting | None) -> Split:
        """What parts words: as asked, else punctuation too where the text's commas stand on words."""
        chosen: Split
        why = ""
        if asked in (None, "auto"):
            share = comma_share(self)
            chosen = "spaces" if share < MOST_COMMAS else "punctuation"
            why = f": {share:.2%} of words end in a comma (--split {'punctuation' if chosen == 'spaces' else 'spaces'} overrides)"
        else:
            chosen = "spaces" if asked == "spaces" else "punctuation"
        self.parted = f"words are split at {'spaces' if chosen == 'spaces' else 'spaces and punctuation'}{why}"
        return chosen

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
            unknown += sum(
                tokenizer.unk is not None and tokenizer.unk in found for found in seen.values()
            )
            whole += sum(len(found) == 1 and found[0] != tokenizer.unk for found in seen.values())
        return {
            "kind": tokenizer.kind,
            **({"split": tokenizer.split} if tokenizer.split else {}),
            "size": tokenizer.size,
            "characters": self.characters,
            "lines": total,
            "replaced": self.read.replaced,
            "garbled": self.mojibake.lines,
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


def _say(report: dict[str, Any], out: str | Path, parted: str) -> str:
    stride = report["learned_from_every"]
    part = "" if stride == 1 else f", learned from one line of {stride}"
    read = f"{report['lines']:,} lines, {report['characters']:,} characters"
    last = f"\n  {parted}" if parted else ""
    return (
        f"{out}: {report['size']:,} pieces ({report['kind']}) from {read}{part}\n"
        f"  {report['pieces_per_word']:.3f} pieces a word; {report['whole_words']:.1%} of {report['words']:,} words are one piece, "
        f"{report['unknown_words']:.3%} are unknown{last}"
    )
