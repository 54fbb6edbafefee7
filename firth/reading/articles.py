"""SQuAD's files as records: a row for each question, with the context of its paragraph."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from firth.base.errors import InputError
from firth.base.files import parse_json
from firth.data.record import LONGEST_RECORD, Fault, Numbered, Record, refuse_nul
from firth.reading.objects import MARK
from firth.reading.squad import ANSWERS, CONTEXT, QUESTION

# The file begins with an object of few fields, of which one is the list of articles.
BEGINS = re.compile(r'\s*\{\s*(?:"\w+"\s*:\s*(?:"[^"]*"|[\d.]+|null)\s*,\s*)*"data"\s*:\s*\[')
PARAGRAPHS = re.compile(r'"paragraphs"\s*:\s*\[')
DEPTH = 5  # brackets around what a paragraph holds: file, articles, article, paragraphs, paragraph


def looks_like_squad(head: Sequence[str]) -> bool:
    """Return whether the first lines of a file are SQuAD's: articles with paragraphs."""
    start = "\n".join(head)
    return BEGINS.match(start) is not None and PARAGRAPHS.search(start) is not None


def squad_rows(lines: Numbered) -> Iterator[Record]:
    """Yield each question of a file of SQuAD's, one paragraph in memory at a time.

    The line is that on which its paragraph begins.
    """
    depth = 0
    begun = 0  # the line on which the paragraph begins that is open
    size = 0
    held: list[str] = []
    name = ""  # the last string outside of paragraphs: the name of a list that follows
    listed = ""  # the name of the list that is open
    for line in lines:
        start = 0
        for mark in MARK.finditer(line):
            sign = mark[0]
            if sign[0] == '"':
                if depth < DEPTH:
                    name = sign
                continue
            if sign in "{[":
                depth += 1
                if depth == DEPTH - 1:
                    listed = name
                in_paragraphs = depth == DEPTH and listed == '"paragraphs"'
                if in_paragraphs and sign == "{":
                    begun = lines.number
                    start = mark.start()
                    held = [""]
                continue
            if depth == DEPTH and held:
                end = mark.end()
                held.append(line[start:end])
                paragraph = "\n".join(held)
                yield from _questions(paragraph, begun)
                held = []
                size = 0
            depth -= 1
        if held:
            held.append(line[start:])
            size += len(line)
            if size > LONGEST_RECORD:
                break
    if depth:
        said = "is not valid JSON: the file ends before its lists do"
        yield Record(begun if held else lines.number, Fault("json", said))


def _questions(text: str, line: int) -> Iterator[Record]:
    """Yield the questions of a paragraph as rows."""
    try:
        refuse_nul(text)
        paragraph: dict[str, Any] = parse_json(text, "it")
    except Fault as fault:
        yield Record(line, fault)
        return
    except InputError as error:
        said = str(error).removeprefix("it ")
        yield Record(line, Fault("json", said))
        return

    questions = paragraph.get("qas")
    if not isinstance(questions, list) or not all(isinstance(one, dict) for one in questions):
        said = "has a paragraph whose questions (qas) are not a list of objects"
        yield Record(line, Fault("json", said))
        return
    for one in questions:
        row = {name: one[name] for name in ("id", QUESTION) if name in one}
        row[CONTEXT] = paragraph.get(CONTEXT)
        if ANSWERS in one:
            row[ANSWERS] = one[ANSWERS]
        yield Record(line, row)
