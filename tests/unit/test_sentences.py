"""Sentence ends in English and Swedish."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.text.sentences import sentence_spans


@pytest.mark.parametrize(
    "parts",
    [
        ["Dr. Smith went to Washington.", "He saw J. R. Firth there!", "Was it 3.14 p.m.?", "Yes."],
        [
            "Det kostar ca. 5 kr.",
            "Vi köper t.ex. Äpplen.",
            "Åsa kom kl. 8.",
            "Ösregnet föll…",
            "Sedan gick hon.",
        ],
        ['"Is it?" she said.', '"Yes!"', "He left."],
        ["He lives in the U.S. and works.", "It is No. 5 of the list.", "(Really?)", "Next one"],
    ],
)
def test_sentences_end_where_a_reader_ends_them(parts: list[str]) -> None:
    text = "  ".join(parts)
    assert [text[start:end] for start, end in sentence_spans(text)] == parts


def test_i_is_a_word_and_no_initial() -> None:
    text = "It was I. Then J. Smith came."
    assert [text[start:end] for start, end in sentence_spans(text)] == [
        "It was I.",
        "Then J. Smith came.",
    ]


def test_a_line_break_ends_a_sentence() -> None:
    text = "1. A heading\nThen text"
    assert [text[start:end] for start, end in sentence_spans(text)] == ["1. A heading", "Then text"]


@given(st.text())
def test_nothing_but_white_space_is_left_out(text: str) -> None:
    found = sentence_spans(text)
    covered = {i for start, end in found for i in range(start, end)}
    assert all(text[i].isspace() for i in range(len(text)) if i not in covered)
    assert all(a[1] <= b[0] for a, b in pairwise(found))


@pytest.mark.parametrize("unit", [".", "a. B ", '"', " \t", "(", "A."])
def test_time_grows_with_the_text(unit: str) -> None:
    def seconds(characters: int) -> float:
        begun = time.perf_counter()
        sentence_spans(unit * (characters // len(unit)))
        return time.perf_counter() - begun

    short, long = (min(seconds(size) for _ in range(3)) for size in (20_000, 200_000))
    assert long <= 25 * short + 0.02
