"""`firth neighbours`."""

import json
from typing import TYPE_CHECKING, Any

from firth.data.record import on_a_line

if TYPE_CHECKING:
    from firth.probes.words import AskedWord, NearWord
    from firth.verbs.neighbours import Neighbours, Similarity


def neighbours(
    model: str,
    words: list[str],
    analogy: bool,
    similarity: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the words nearest to each word by the cosine of their vectors.

    A word of several pieces has their mean. With --into and --map they are translations.

    Example: firth neighbours vectors/ stockholm ship --top 5
    """
    from firth.verbs import neighbours as verbs

    page: dict[str, object] = {"model": model}
    threads = options["threads"]
    if similarity:
        first, second = words
        alike = verbs.similarity(model, first, second, threads=threads)
        page |= {"words": _asked_as_json(alike.asked), "similarity": alike.cosine}
        lines = similarity_lines(alike)
    elif analogy:
        a, b, c = words
        found = verbs.analogy(model, a, b, c, top=options["top"], threads=threads)
        nearest = _nearest_as_json(found.nearest)
        page |= {"analogy": _asked_as_json(found.asked), "neighbours": nearest}
        lines = analogy_lines(found)
    else:
        every = verbs.neighbours(model, words, **options)
        if options["into"] is not None:
            page["into"] = options["into"]
        page["words"] = [neighbours_as_json(one) for one in every]
        lines = [line for one in every for line in neighbours_lines(one)]
    print(json.dumps(page, ensure_ascii=False) if as_json else "\n".join(lines))


def neighbours_as_json(found: "Neighbours") -> dict[str, object]:
    """Return the neighbours of one word as a JSON object."""
    (asked,) = found.asked
    return {**asked._asdict(), "neighbours": _nearest_as_json(found.nearest)}


def neighbours_lines(found: "Neighbours") -> list[str]:
    """Describe the neighbours of one word for a person."""
    (asked,) = found.asked
    return [_said(asked), *_nearest_lines(found.nearest)]


def analogy_lines(found: "Neighbours") -> list[str]:
    """Describe an analogy for a person."""
    first, second, third = map(_said, found.asked)
    return [f"{first} : {second} = {third} : ?", *_nearest_lines(found.nearest)]


def similarity_lines(found: "Similarity") -> list[str]:
    """Describe how alike two words are for a person."""
    first, second = map(_said, found.asked)
    return [f"{first} and {second}: {found.cosine:.4f}"]


def _said(asked: "AskedWord") -> str:
    """Name a word, with its pieces where there are several."""
    word = on_a_line(asked.word)
    if len(asked.pieces) == 1:
        return word
    pieces = on_a_line(" ".join(asked.pieces))
    return f"{word} (the mean of {len(asked.pieces)} pieces: {pieces})"


def _nearest_lines(nearest: "tuple[NearWord, ...]") -> list[str]:
    """Return words with their cosines, one a line."""
    return [f"  {one.similarity:8.4f}  {on_a_line(one.word)}" for one in nearest]


def _asked_as_json(asked: "tuple[AskedWord, ...]") -> list[dict[str, object]]:
    """Return words with their pieces as JSON objects."""
    return [one._asdict() for one in asked]


def _nearest_as_json(nearest: "tuple[NearWord, ...]") -> list[dict[str, object]]:
    """Return words with their cosines as JSON objects."""
    return [one._asdict() for one in nearest]
