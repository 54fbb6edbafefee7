"""What is held out: about a tenth, of every class where that is possible, and never a text that is also learned from."""

from collections import Counter

import pytest

from firth.base.errors import InputError
from firth.data.examples import Example, Labelled, Span, Tagged
from firth.reading.split import parts, split


def classes(**counts: int) -> list[Example]:
    """So many different texts of each class."""
    return [
        Labelled(f"{name} ticket {number}", name)
        for name, count in counts.items()
        for number in range(count)
    ]


def labels(examples: list[Example], numbers: list[int]) -> Counter[object]:
    return Counter(
        examples[number].label for number in numbers if isinstance(examples[number], Labelled)
    )


def test_a_tenth_of_each_class_is_held_out() -> None:
    examples = classes(billing=200, delivery=50, praise=7)
    kept, held = split(examples, seed=1)
    assert sorted(kept + held) == list(range(len(examples)))
    assert labels(examples, held) == {"billing": 20, "delivery": 5, "praise": 1}
    assert (kept, held) == split(examples, seed=1)
    assert held != split(examples, seed=2)[1]


def test_the_only_text_of_a_class_is_learned_from() -> None:
    examples = classes(billing=20, delivery=20, praise=1)
    for seed in range(10):
        assert "praise" not in labels(examples, split(examples, seed)[1])
    few = classes(billing=2, praise=1)
    assert all(labels(few, split(few, seed)[1]) == {"billing": 1} for seed in range(10))


def test_many_small_classes_give_a_tenth_in_all() -> None:
    examples = classes(**{f"intent{number}": 3 for number in range(77)})
    _, held = split(examples, seed=1)
    assert len(held) == 23
    assert set(labels(examples, held).values()) == {1}


def test_one_of_each_class_may_come_to_a_fifth() -> None:
    examples = classes(**{f"intent{number}": 5 for number in range(10)})
    assert set(labels(examples, split(examples, seed=1)[1]).values()) == {1}
    assert len(split(examples, seed=1)[1]) == 10
    examples = classes(**{f"intent{number}": 4 for number in range(10)})
    assert len(split(examples, seed=1)[1]) == 4


def test_several_labels_at_once_are_held_out_too() -> None:
    topics = [f"topic{number}" for number in range(30)]
    examples: list[Example] = [
        Labelled(
            f"text {number}",
            (topics[number % 30], topics[number // 30 % 30], topics[number // 900]),
        )
        for number in range(1000)
    ]
    assert len(split(examples, seed=1)[1]) == 100
    assert [len(part) for part in parts(examples, 1, 4)] == [250] * 4


def test_numbers_and_spans_have_no_classes() -> None:
    numbers: list[Example] = [Labelled(f"text {number}", number / 7) for number in range(50)]
    spans: list[Example] = [Tagged(f"text {number}", (Span(0, 4, "word"),)) for number in range(50)]
    assert len(split(numbers, seed=1)[1]) == len(split(spans, seed=1)[1]) == 5


@pytest.mark.parametrize("second", [None, "the  second\ttext"])
def test_texts_that_differ_only_by_white_space_stay_together(second: str | None) -> None:
    plain = second and " ".join(second.split())
    examples: list[Example] = []
    for number in range(100):
        examples += [
            Labelled(f"ticket {number}", "yes", second),
            Labelled(f" ticket\n{number} ", "yes", plain),
        ]
    held = split(examples, seed=1)[1]
    assert len(held) == 20
    assert {number ^ 1 for number in held} == set(held)
    for part in parts(examples, 1, 3):
        assert {number ^ 1 for number in part} == set(part)


def test_parts_hold_every_example_once_and_every_class() -> None:
    examples = classes(billing=40, delivery=21)
    dealt = parts(examples, 1, 4)
    assert sorted(number for part in dealt for number in part) == list(range(61))
    assert {labels(examples, part)["billing"] for part in dealt} == {10}
    assert {labels(examples, part)["delivery"] for part in dealt} == {5, 6}


def repeated() -> list[Example]:
    """Fifty times the same text among others of its class, and another class."""
    return [*[Labelled("thank you", "praise")] * 50, *classes(praise=50, billing=100)]


def test_a_text_that_is_written_often_does_not_fill_what_is_held_out() -> None:
    examples = repeated()
    for seed in range(20):
        assert labels(examples, split(examples, seed)[1]) == {"praise": 10, "billing": 10}
    only: list[Example] = [
        Labelled(f"{name} {number}", name)
        for name in "ab"
        for number in range(2)
        for _ in range(50)
    ]
    assert [len(split(only, seed)[1]) for seed in range(5)] == [
        50
    ] * 5  # a text of each class would be half of all
    twice: list[Example] = [
        Labelled(f"{name} {number}", name)
        for name in "abcdefghijk"
        for number in range(2)
        for _ in range(10)
    ]
    assert all(20 <= len(split(twice, seed)[1]) <= 30 for seed in range(5))  # of 220


def test_a_text_that_is_written_often_keeps_no_class_out_of_its_part() -> None:
    examples = repeated()
    for part in parts(examples, 1, 5):
        found = labels(examples, part)
        assert found["billing"] == 20
        assert found["praise"] >= 10


def test_parts_share_a_class_alike_where_another_class_fills_one_of_them() -> None:
    often = [Labelled("thank you", "applause")] * 50
    examples: list[Example] = [*often, *classes(applause=50, billing=100)]
    for part in parts(examples, 1, 5):
        assert labels(examples, part)["billing"] == 20


def test_too_few_texts_are_refused() -> None:
    twice: list[Example] = [Labelled("the same", "a"), Labelled("the  same", "b")]
    with pytest.raises(
        InputError, match="1 different texts are too few to hold one out; give others with dev="
    ):
        split(twice, seed=1)
    with pytest.raises(InputError, match="3 different texts are too few for 4 folds"):
        parts(classes(a=2, b=1), 1, 4)
