"""The page of a model's answers: its figures are those of `firth.evaluate`, and mouse and keyboard choose texts."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import firth
from firth import ReportView
from firth.data.record import figure
from firth.evaluation.figures import named
from firth.samples.tickets import Ticket, tickets
from tests.browser.browser import Browser, numbers
from tests.journey.measured import QUEUES, TASKS, Place, make_place, row, write_rows

Pages = dict[str, ReportView]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A model of every task with its file."""
    return make_place(tmp_path_factory.mktemp("measured"))


@pytest.fixture(scope="module")
def pages(place: Place) -> Pages:
    """The page of each."""
    return {
        task: firth.report(place.model(task), place.data(task), place.folder / f"{task}.html")
        for task in TASKS
    }


def opened(browser: Browser, pages: Pages, task: str) -> None:
    path = pages[task].path
    assert path is not None
    browser.open(path)


def choose(browser: Browser, selector: str, option: int) -> None:
    """Choose from a drop-down list by the keyboard."""
    browser.focus(selector)
    browser.press("HOME", *["ARROW_DOWN"] * option)
    browser.settle()


def lines(browser: Browser) -> list[int]:
    """The lines of the examples that are listed, after all of them were asked for."""
    while browser.run("return !document.querySelector('#more').hidden"):
        browser.run("document.querySelector('#more').click()")
    found = browser.run("return [...document.querySelectorAll('.case')].map(e => e.dataset.line)")
    return [int(one) for one in found]


def classified(place: Place) -> list[tuple[int, Ticket, Any, str]]:
    """Each ticket with its line in the file, its answer and its likeliest class."""
    given = tickets()
    answers: list[Any] = firth.load(place.model("classify")).predict([one.text for one in given])
    likeliest = [max(one.probabilities, key=one.probabilities.get) for one in answers]
    return list(zip(range(2, len(given) + 2), given, answers, likeliest, strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_metrics_are_those_of_evaluate(browser: Browser, pages: Pages, task: str) -> None:
    measured = pages[task].evaluation.models[0]
    opened(browser, pages, task)
    rows = [text.split("|") for text in browser.run(
        "return [...document.querySelectorAll('#metrics tr')]"
        ".map(row => [...row.children].map(cell => cell.textContent).join('|'))"
    )]  # fmt: skip
    for shown, (name, (value, low, high)) in zip(rows, measured.metrics.items(), strict=False):
        interval = f"{figure(low)} to {figure(high)}"
        assert shown == [named(name, measured.positive), figure(value), interval]
    if measured.confidence is not None:
        assert browser.text("#calibration-said") == (
            f"Confidence is {measured.confidence.mean:.4f} on average; the expected calibration "
            f"error is {measured.confidence.calibration_error:.4f}."
        )
    assert browser.texts("h2") == list(pages[task].sections)
    browser.quiet()


def test_a_cell_shows_its_texts(browser: Browser, pages: Pages, place: Place) -> None:
    found = classified(place)
    counts = Counter((ticket.about, best) for _, ticket, _, best in found)
    opened(browser, pages, "classify")
    cells = browser.texts("#counts [data-cell] text")
    expected = [counts[true, said] for true in QUEUES for said in QUEUES]
    assert cells == [str(count) if count else "" for count in expected]
    assert browser.texts("#counts .row-name title") == list(QUEUES)
    (true, said), count = max(
        ((cell, count) for cell, count in counts.items() if cell[0] != cell[1]),
        key=lambda one: one[1],
    )
    number = len(QUEUES) * QUEUES.index(true) + QUEUES.index(said)
    browser.click("#counts [data-cell]", number)
    own = [line for line, ticket, _, best in found if (ticket.about, best) == (true, said)]
    assert sorted(lines(browser)) == own
    assert f"of true class {true}, predicted class {said}" in browser.text("#cases-said")
    whole = sum(ticket.about == true for _, ticket, _, _ in found)
    assert f": {count}, {count / whole:.4f} of the row" in browser.text("#counts-said")
    browser.click("#counts [data-cell]", number)
    assert len(lines(browser)) == sum(ticket.about != best for _, ticket, _, best in found)

    choose(browser, "figure select", 1)
    shares = browser.texts("#counts [data-cell] text")
    assert shares[number] == f"{count / whole:.2f}"
    browser.focus("#counts")
    row_, column = divmod(number, len(QUEUES))
    browser.press("ARROW_DOWN", *["ARROW_DOWN"] * row_, *["ARROW_RIGHT"] * column, "ENTER")
    assert sorted(lines(browser)) == own
    right = next(at for at, count in enumerate(expected) if count and at % 6 == 0)
    browser.click("#counts [data-cell]", right)
    assert len(lines(browser)) == expected[right]  # though only wrong ones were shown
    browser.quiet()


def test_the_worst_stand_first_and_are_searched(
    browser: Browser, pages: Pages, place: Place
) -> None:
    found = classified(place)
    wrong = [one for one in found if one[1].about != one[3]]
    wrong.sort(key=lambda one: (-one[2].confidence, one[0]))
    opened(browser, pages, "classify")
    assert len(browser.all(".case")) == 20
    browser.focus("#more")
    browser.press("ENTER")
    assert browser.run("return document.activeElement.dataset.line") == str(wrong[20][0])
    assert lines(browser) == [line for line, *_ in wrong]
    line, ticket, answer, best = wrong[0]
    heads = browser.texts(".case-head")
    assert heads[0].startswith(
        f"✗ wrongtrue {ticket.about}predicted {best}confidence {answer.confidence:.4f}"
    )
    assert f"line {line}" in heads[0]
    assert browser.text(".case .quoted") == ticket.text
    browser.click(".case summary")
    shown = browser.run(
        "return [...document.querySelectorAll('.case:first-child .bars li')]"
        ".map(e => [e.querySelector('.bar-title').firstChild.textContent, e.querySelector('.number').textContent])"
    )
    assert {name: float(value) for name, value in shown} == {
        name: float(f"{value:.4f}") for name, value in answer.probabilities.items()
    }
    unsure = [one for one in wrong if one[2].label is None]
    assert sum("below the threshold" in head for head in heads) == len(unsure)

    browser.focus(".case")
    browser.press("ARROW_DOWN", "ARROW_DOWN", "ARROW_UP")
    assert browser.run("return document.activeElement.dataset.line") == str(wrong[1][0])
    browser.click("#search")
    browser.press(*"KETTLE")
    kettles = [one for one in wrong if "kettle" in one[1].text.lower()]
    assert lines(browser) == [line for line, *_ in kettles]
    choose(browser, ".chosen-by > div select", 2)
    every = sorted(line for line, ticket, *_ in found if "kettle" in ticket.text.lower())
    assert sorted(lines(browser)) == every
    assert browser.text("#cases-said").startswith(f"{len(every)} of the page's examples")
    browser.quiet()


def test_classes_bins_and_thresholds(browser: Browser, pages: Pages, place: Place) -> None:
    found = classified(place)
    opened(browser, pages, "classify")
    cells = browser.texts("#labels td")
    for number, label in enumerate(QUEUES):
        precision, _, recall, _, f1, *counts = cells[8 * number : 8 * number + 8]
        true = sum(ticket.about == label for _, ticket, _, _ in found)
        said = sum(best == label for *_, best in found)
        both = sum(ticket.about == best == label for _, ticket, _, best in found)
        assert counts == [str(true), str(said), str(both)]
        assert precision == (f"{both / said:.4f}" if said else "–")
        assert (recall, f1) == (f"{both / true:.4f}", f"{2 * both / (true + said):.4f}")

    rows = browser.texts("#bins td")
    answers = numbers(rows[::4])
    gaps = [
        count * abs(float(confidence) - float(right))
        for count, confidence, right in zip(answers, rows[1::4], rows[2::4], strict=True)
    ]
    sure = pages["classify"].evaluation.models[0].confidence
    assert sure is not None
    assert sum(answers) == len(found)
    assert sum(gaps) / len(found) == pytest.approx(sure.calibration_error, abs=1e-4)

    thresholds = browser.texts("#thresholds td")
    assert browser.texts("#thresholds th")[-1] == "without --target-precision"
    threshold, answered, interval, right, *_ = thresholds[-5:]
    assert sure.answered is not None
    assert sure.right is not None
    assert (threshold, answered) == ("0.3000", f"{sure.answered.value:.4f}")
    assert interval == f"{sure.answered.low:.4f} to {sure.answered.high:.4f}"
    assert right == f"{sure.right.value:.4f}"
    path = browser.run("return document.querySelector('polyline').getAttribute('points')")
    assert path.count(",") == len({answer.confidence for _, _, answer, _ in found})
    browser.quiet()


def test_spans_are_marked_in_their_sentences(browser: Browser, pages: Pages, place: Place) -> None:
    given = tickets()
    answers: list[Any] = firth.load(place.model("tag")).predict([one.text for one in given])
    opened(browser, pages, "tag")
    choose(browser, ".chosen-by > div select", 2)
    assert sorted(lines(browser)) == list(range(1, len(given) + 1))
    found = browser.run(
        "return [...document.querySelectorAll('.case')].map(e => [Number(e.dataset.line),"
        "['right', 'true', 'predicted'].map(kind => [...e.querySelectorAll(`mark.${kind}`)].map(m => m.textContent).join(''))])"
    )
    wrong = []
    for line, shown in found:
        text = given[line - 1].text
        true = {tuple(name) for name in given[line - 1].names}
        said = {(one.start, one.end, one.label) for one in answers[line - 1].spans}
        wrong.append(len(true ^ said))
        for words, spans in zip(shown, (true & said, true - said, said - true), strict=True):
            characters = {at for start, end, _ in spans for at in range(start, end)}
            assert words == "".join(text[at] for at in sorted(characters))
    assert wrong == sorted(wrong, reverse=True)
    types = browser.texts("#counts .row-name title")
    assert types == ["person", "place", "product", "no such span"]
    measured = pages["tag"].evaluation.models[0].metrics
    f1 = dict(zip(browser.texts("#labels th"), browser.texts("#labels td")[4::9], strict=True))
    assert f1 == {
        name[3:]: f"{one.value:.4f}" for name, one in measured.items() if name[:3] == "f1 "
    }
    browser.quiet()


def test_answers_are_marked_in_their_contexts(browser: Browser, pages: Pages, place: Place) -> None:
    opened(browser, pages, "answer")
    shown = browser.texts("#counts [data-cell] text")
    exact = pages["answer"].evaluation.models[0].metrics["exact"].value
    assert sum(map(int, filter(None, shown))) == len(tickets())
    choose(browser, ".chosen-by > div select", 1)
    assert len(lines(browser)) == round(exact * len(tickets()))
    choose(browser, ".chosen-by > div select", 0)
    line = lines(browser)[0]
    given = row("answer", tickets()[line - 1])
    found = firth.load(place.model("answer")).answer(given["question"], given["context"])
    marked = browser.run(
        "return [...document.querySelectorAll('.case:first-child mark')].map(e => [e.className, e.textContent])"
    )
    said = "".join(text for kinds, text in marked if "predicted" in kinds)
    true = "".join(text for kinds, text in marked if "true" in kinds)
    assert said == (found.answer or "")
    assert true == "".join(one["text"] for one in given["answers"])
    browser.quiet()


def test_points_and_residuals(browser: Browser, pages: Pages, place: Place) -> None:
    answers: list[Any] = firth.load(place.model("regress")).predict([one.text for one in tickets()])
    off = [
        answer.value - len(ticket.text) / 10
        for answer, ticket in zip(answers, tickets(), strict=True)
    ]
    opened(browser, pages, "regress")
    furthest = sorted(range(len(off)), key=lambda number: -abs(off[number]))
    assert [line - 1 for line in lines(browser)][:20] == furthest[:20]
    assert f"off by {figure(off[furthest[0]])}" in browser.text(".case-head")
    assert len(browser.all("[data-case]")) == len(off)
    browser.click("[data-case]", len(off) - 1)  # drawn last, so that no other lies over it
    assert lines(browser) == [furthest[-1] + 1]
    browser.focus("#scatter")
    browser.press("ARROW_LEFT")
    assert lines(browser) == [furthest[-2] + 1]
    browser.click(".controls button")
    assert len(lines(browser)) == len(off)
    mean, absolute, _ = numbers(browser.texts("#residual-figures td"))
    assert mean == pytest.approx(sum(off) / len(off), abs=1e-4)
    assert absolute == pytest.approx(sum(map(abs, off)) / len(off), abs=1e-4)
    bins = browser.texts(".bin title")
    assert sum(map(int, bins)) == len(off)
    browser.quiet()


def test_labels_of_a_text_and_options(browser: Browser, pages: Pages, place: Place) -> None:
    labels = (*QUEUES[:3], "long")
    answers: list[Any] = firth.load(place.model("several")).predict([one.text for one in tickets()])
    cells = Counter(
        (label, label in row("several", ticket)["label"], label in (answer.label or ()))
        for ticket, answer in zip(tickets(), answers, strict=True)
        for label in labels
    )
    opened(browser, pages, "several")
    expected = [
        cells[label, *outcome]
        for label in labels
        for outcome in ((True, True), (True, False), (False, True))
    ]
    assert browser.texts("#counts [data-cell] text") == [str(one or "") for one in expected]
    missed = max(range(1, len(expected), 3), key=lambda number: expected[number])
    browser.click("#counts [data-cell]", missed)
    assert len(lines(browser)) == expected[missed]

    opened(browser, pages, "choice")
    line = lines(browser)[0]
    given = row("choice", tickets()[line - 1])
    found = firth.load(place.model("choice")).choose(given["context"], given["choices"])
    shown = browser.texts(".case:first-child .number")
    assert shown == [f"{one:.4f}" for one in found.probabilities]
    titles = browser.texts(".case:first-child .bar-title")
    assert titles[given["label"]].endswith("(true)")
    assert titles[found.choice].endswith("(predicted)")
    browser.quiet()


def test_of_many_examples_some_are_held_and_that_is_said(
    browser: Browser, place: Place, tmp_path: Path
) -> None:
    rows = [row("classify", ticket) for _ in range(6) for ticket in tickets()]
    rows[3]["label"] = "weather"
    rows[4]["label"] = ""
    data = write_rows(tmp_path / "many.csv", rows)
    found = firth.report(place.model("classify"), data, tmp_path / "many.html")
    browser.open(tmp_path / "many.html")
    assert found.examples == 400
    assert browser.text("#held").startswith("This page holds 400 of 497 examples: the worst of all")
    said = browser.text("#said")
    assert "1 of 498 rows have no label" in said
    assert "which count as wrong: 'weather' 1" in said
    assert browser.texts("#counts .row-name title")[-1] == "weather"
    browser.quiet()


@pytest.mark.parametrize("task", TASKS)
def test_every_page_fits_a_phone_and_saves_its_pictures(
    browser: Browser, pages: Pages, task: str
) -> None:
    browser.media(dark=True, width=390, height=800)
    opened(browser, pages, task)
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    saved = browser.saved_pictures()
    assert len(saved) == len(browser.all("figure"))
    for picture in saved:
        assert picture.startswith("<svg")
        assert "var(" not in picture
        assert not re.search(r"\bNaN\b|undefined", picture)
    assert browser.run(
        "return [...document.querySelectorAll('[tabindex=\"0\"]:not(.scroll.tall):not(.case), svg[role=img]')]"
        ".every(e => e.getAttribute('aria-label'))"
    )
    browser.quiet()
