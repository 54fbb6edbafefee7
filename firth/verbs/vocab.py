"""Learn a vocabulary from a corpus."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, get_args

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
from firth.base.notes import note
from firth.base.progress import Progress
from firth.corpus.files import Mojibake, corpus_files, paragraphs, passed_over
from firth.text.lines import Report
from firth.text.tokenizer import Tokenizer
from firth.text.vocabulary import MOST_COMMAS, Split, comma_share

# Text that is learned from; of more, every n-th line is taken. It bounds the memory of the words
# that are counted.
MOST_CHARACTERS = 256 << 20
LARGEST = 1 << 24  # pieces
SAMPLED_LINES = 20_000  # that the report is made from

Kind = Literal["wordpiece", "bytes", "words"]
Splitting = Literal["auto", "punctuation", "spaces"]


class VocabReport(NamedTuple):
    """A vocabulary that was learned, and how well it covers its text."""

    out: str
    kind: str
    split: str | None  # of whole words: what parts them
    size: int
    characters: int
    lines: int
    replaced: int  # characters that could not be read
    garbled: int  # lines with mojibake
    learned_from_every: int  # 1 where all lines were used, n where every n-th was
    words: int  # that the following figures are taken from
    pieces_per_word: float
    whole_words: float  # share of words that are one piece
    unknown_words: float  # share of words that have an unknown piece
    split_reason: str  # of whole words: a sentence on what parts them, and why

    def as_json(self) -> dict[str, object]:
        """Return the figures as a JSON object."""
        figures = self._asdict()
        del figures["out"], figures["split_reason"]
        if self.split is None:
            del figures["split"]
        return figures


def vocab(
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
) -> VocabReport:
    """Write a vocabulary to a folder and return how well it covers the text.

    `corpus` is one file or folder, or several; `text` names the field or column of the text, as
    `field` does. `split` is what parts whole words, by default auto.
    """
    out = as_path("out", out)
    size = as_whole("size", size, 1, LARGEST)
    check_choice("kind", kind, get_args(Kind))
    check_choice("case", case, ("lower", "keep"), optional=True)
    check_choice("accents", accents, ("keep", "strip"), optional=True)
    check_choice("split", split, get_args(Splitting), optional=True)
    check_string("field", field, empty=False)
    check_names(text=text, encoding=encoding)
    check_flags(force=force)
    if split is not None and kind != "words":
        raise InputError(f"--split is for --kind words, not for {kind}")

    paths = as_paths("corpus", corpus)
    read = Text(paths, text or field, encoding)
    with new_folder(Path(out), force) as folder:
        tokenizer = read.learn(kind, size, case, accents, split)
        tokenizer.save(folder)
    report = read.report(tokenizer, out)
    if left_out := passed_over(map(Path, paths)):
        note(left_out)
    if read.read.replaced:
        note(str(read.read))
    if read.mojibake.lines:
        note(str(read.mojibake))
    return report


class Text:
    """A corpus that is read as often as needed, in bounded memory."""

    def __init__(
        self, corpus: Sequence[str | Path], field: str = "text", encoding: str | None = None
    ) -> None:
        self.paths = corpus_files(Path(path) for path in corpus)
        self.field = field
        self.encoding = encoding
        self.parted = ""  # a sentence on what parts the words of the vocabulary
        # What the last reading met.
        self.read = Report()
        self.mojibake = Mojibake(encoding)

    def __iter__(self) -> Iterator[str]:
        self.read = Report()
        self.mojibake = Mojibake(self.encoding)
        lines = paragraphs(self.paths, self.field, self.encoding, self.read, self.mojibake)
        return (line.text for line in lines)

    def learn(
        self,
        kind: Kind,
        size: int,
        case: Literal["lower", "keep"] | None = None,
        accents: Literal["keep", "strip"] | None = None,
        split: Splitting | None = None,
        sentinels: int = 0,
    ) -> Tokenizer:
        """Learn a vocabulary from every line, or every n-th of more than is held in memory.

        One with sentinels is for targets: its end mark comes after the other special tokens.
        """
        self.characters = sum(len(line) for line in self)
        if not self.characters:
            raise InputError(
                f"there is no text to learn a vocabulary from in {', '.join(map(str, self.paths))}"
            )
        self.stride = -(-self.characters // MOST_CHARACTERS)
        chosen = self._split(split) if kind == "words" else "spaces"
        with Progress("learning the vocabulary", "lines") as progress:
            lines = _counted(islice(self, 0, None, self.stride), progress)
            return Tokenizer.train(
                lines, kind, size, case, accents, chosen, sentinels > 0, sentinels
            )

    def _split(self, asked: Splitting | None) -> Split:
        """Return what parts words: as asked, else by whether the text's commas stand on words."""
        chosen: Split = "spaces" if asked == "spaces" else "punctuation"
        why = ""
        if asked in (None, "auto"):
            share = comma_share(self)
            chosen = "spaces" if share < MOST_COMMAS else "punctuation"
            other = "punctuation" if chosen == "spaces" else "spaces"
            why = f": {share:.2%} of words end in a comma (--split {other} overrides)"
        marks = "spaces" if chosen == "spaces" else "spaces and punctuation"
        self.parted = f"words are split at {marks}{why}"
        return chosen

    def report(self, tokenizer: Tokenizer, out: str) -> VocabReport:
        """Return coverage and pieces per word over evenly spaced lines."""
        total = sum(1 for _ in self)
        words = pieces = unknown = whole = 0
        for line in islice(self, 0, None, max(1, total // SAMPLED_LINES)):
            (encoding,) = tokenizer.encode([line], special=False)
            seen: dict[int | None, list[int]] = {}
            for word, piece in zip(encoding.words, encoding.ids, strict=True):
                seen.setdefault(word, []).append(piece)
            words += len(seen)
            pieces += len(encoding)
            for found in seen.values():
                if tokenizer.unk is not None and tokenizer.unk in found:
                    unknown += 1
                elif len(found) == 1:
                    whole += 1
        return VocabReport(
            out=out,
            kind=tokenizer.kind,
            split=tokenizer.split or None,
            size=tokenizer.size,
            characters=self.characters,
            lines=total,
            replaced=self.read.replaced,
            garbled=self.mojibake.lines,
            learned_from_every=self.stride,
            words=words,
            pieces_per_word=pieces / max(1, words),
            whole_words=whole / max(1, words),
            unknown_words=unknown / max(1, words),
            split_reason=self.parted,
        )


def _counted(lines: Iterator[str], progress: Progress) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        yield line
        if number % 1000 == 0:
            progress(number)
