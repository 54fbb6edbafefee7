"""Counts of a text made part by part, each kept on disk, so that a killed run loses one.

Piles that stand side by side are merged like sizes with like. A pile's file says by its name which
stretch of the text it counts and what its sha256 is, so that no list of them can be out of step.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from firth.base import files
from firth.base.errors import InputError, Stopped
from firth.base.notes import note
from firth.base.progress import Progress
from firth.base.signals import StopRequest
from firth.corpus.stream import TokenStream
from firth.data.feed import Numbers

NAME = re.compile(r"(\d{12})-(\d{12})\.([0-9a-f]{64})\.safetensors")
Arrays = Mapping[str, NDArray[Any]]


class Countable(Protocol):
    """What is counted: it can be told how large it is, and written to a file."""

    @property
    def size(self) -> int:
        """Return how many different things were counted."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what is kept in a file."""
        ...


C = TypeVar("C", bound=Countable)


class Counter(NamedTuple, Generic[C]):
    """How to count the tokens of a part, to merge counts, and to read them from a file.

    `read` raises an InputError for counts that are of something else.
    """

    of_part: Callable[[Numbers], C]
    merge: Callable[[Sequence[C]], C]
    read: Callable[[Arrays], C]


class Pile(NamedTuple, Generic[C]):
    """The counts of a stretch of the text, and the file that keeps them."""

    first: int  # place in the stream
    stop: int
    counts: C
    path: Path | None


class Piles(Generic[C]):
    """Counts of a stream, in a folder."""

    def __init__(self, stream: TokenStream, counter: Counter[C], folder: Path, tokens: int) -> None:
        self.stream = stream
        self.counter = counter
        self.folder = folder
        # A part ends with the first line that ends no sooner than after so many tokens.
        lines = np.append(stream.lines(), stream.size)
        wanted = np.arange(0, stream.size, tokens)
        starts = lines[np.searchsorted(lines, wanted)]
        cuts = np.unique(np.append(starts, stream.size))
        self.cuts: list[int] = cuts.tolist()

    def total(self) -> C:
        """Count what no file has yet, and return the counts of all of it."""
        self.folder.mkdir(exist_ok=True)
        size = self.stream.size
        kept = {pile.first: pile for pile in self._found()}
        piles: list[Pile[C]] = []
        with StopRequest() as stop, Progress("counting", "tokens", size) as progress:
            done = 0
            while done < size:
                pile = kept.get(done) or self._keep(self._count(done))
                done = pile.stop
                piles.append(pile)
                # Only piles of like size are merged: nothing is moved more often than the
                # logarithm of their number.
                while len(piles) > 1 and piles[-1].counts.size * 2 > piles[-2].counts.size:
                    last = piles.pop()
                    before = piles.pop()
                    piles.append(self._merge(before, last))
                progress(done)
                if stop.asked and done < size:
                    raise Stopped(
                        f"stopped after {done:,} of {size:,} tokens as asked; "
                        "--resume goes on from there"
                    )
        return self.counter.merge([pile.counts for pile in piles])

    def _count(self, first: int) -> Pile[C]:
        """Count the part that begins at a place."""
        part = self.cuts.index(first)
        stop = self.cuts[part + 1]
        ids = self.stream.read(first, stop)
        return Pile(first, stop, self.counter.of_part(ids), None)

    def _merge(self, one: Pile[C], two: Pile[C]) -> Pile[C]:
        """Merge two piles that stand side by side; their files go once that of both is there."""
        counts = self.counter.merge([one.counts, two.counts])
        merged = self._keep(Pile(one.first, two.stop, counts, None))
        for old in (one, two):
            if old.path:
                old.path.unlink(missing_ok=True)
        return merged

    def _keep(self, pile: Pile[C]) -> Pile[C]:
        """Write a pile to a file whose name says what it is of and what its bytes are."""
        fresh = self.folder / ".fresh"
        written = files.write_arrays(fresh, pile.counts.arrays())
        path = self.folder / f"{pile.first:012}-{pile.stop:012}.{written.sha256}.safetensors"
        fresh.replace(path)
        files.sync(self.folder)
        return pile._replace(path=path)

    def _found(self) -> list[Pile[C]]:
        """Return the piles that earlier processes left, of overlapping ones the largest.

        Damaged ones are counted again.
        """
        found: list[Pile[C]] = []
        for path in sorted(self.folder.iterdir()):
            name = NAME.fullmatch(path.name)
            if not name:
                continue
            first = int(name[1])
            stop = int(name[2])
            if first not in self.cuts or stop not in self.cuts:
                continue
            try:
                counts = self._read(path, name[3])
            except InputError as error:
                note(f"{error}; it is counted again")
                path.unlink()
                continue
            found.append(Pile(first, stop, counts, path))

        largest = sorted(found, key=lambda pile: pile.first - pile.stop)
        apart: list[Pile[C]] = []
        for pile in largest:
            if all(pile.stop <= other.first or pile.first >= other.stop for other in apart):
                apart.append(pile)
        return apart

    def _read(self, path: Path, expected: str) -> C:
        """Read the counts of a file, and refuse what is damaged or of other settings."""
        if files.sha256(path) != expected:
            raise InputError(
                f"{path} was damaged after it was written: its sha256 differs from its name"
            )
        try:
            return self.counter.read(load_file(path))
        except (SafetensorError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} is damaged: {reason}") from error
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
