"""The page of a translator in a browser: each step, both sides and what lies between them are the model's numbers."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from firth import example, load, view
from firth.families.registry import families
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.output.pairpage import pair_sections
from firth.pages.page import write_page
from firth.probes.guesses import target_guesses
from firth.probes.pair import read_pair
from firth.text.tokenizer import Tokenizer
from tests.browser.browser import Browser, numbers
from tests.browser.test_hostile import COUNT, MANY, hostile, spoiled
from tests.browser.test_sections import choose, section
from tests.unit.speakers import TRANSLATORS

TEXT = "the module returns a list of strings"
TARGET = "a list of names"
FIRST = "The target, step by step"
WORDS = "#section-1 .word"
LINES = "#section-1 .scroll.tall svg:first-child"


@pytest.fixture(scope="module")
def pages(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of each family, of a target that was given, and one of a translation of its own."""
    folder = tmp_path_factory.mktemp("translation")
    for name in TRANSLATORS:
        view(models / name, TEXT, folder / f"{name}.html", pair=TARGET)
    view(models / "transformer", TEXT, folder / "own.html")
    return folder


def shown(value: float) -> float:
    """A number as it is printed."""
    return float(f"{value:.4f}")


def visible(text: str) -> str:
    """A text with the control characters that a piece of bytes may stand for, as a page shows them."""
    return "".join(chr(0x2400 + ord(sign)) if ord(sign) < 32 else sign for sign in text)


@pytest.mark.parametrize("name", ["seq2seq", "transformer"])
def test_steps_are_the_models(browser: Browser, models: Path, pages: Path, name: str) -> None:
    predictor = load(models / name)
    pair = read_pair(predictor, TEXT, TARGET)
    guesses = target_guesses(predictor, pair)
    browser.open(pages / f"{name}.html")
    assert browser.texts(WORDS) == pair.tokens
    assert browser.texts("#section-1 .token") == pair.source.tokens
    for number, one in enumerate(guesses):
        browser.click(WORDS, number)
        *names, tail = browser.texts("#section-1 .bar-name title")
        *values, rest = numbers(browser.texts("#section-1 .bar-value"))
        assert names == list(map(visible, one.guess.pieces))
        assert values == list(map(shown, one.guess.probabilities))
        assert tail == "all others"
        assert rest == pytest.approx(one.guess.rest, abs=6e-5)
        said = browser.text("#step-said")
        assert said.startswith(f"Step {number + 1} of {len(guesses)}: {one.came}: ")
        assert f"probability {one.probability:.4f}, rank {one.rank} of" in said
    cells = np.array(browser.texts("#next-table td")).reshape(-1, 3)
    assert cells[:, 1].tolist() == [str(one.rank) for one in guesses]
    assert numbers(cells[:, 0].tolist()) == [shown(one.probability or 0) for one in guesses]
    browser.quiet()


@pytest.mark.parametrize("name", ["transformer", "attention"])
def test_weights_between_the_sides_are_the_models(
    browser: Browser, models: Path, pages: Path, name: str
) -> None:
    """Of every head and layer, and of the mean of the heads, which --align takes."""
    (record,) = load(models / name).attention([(TEXT, TARGET)])
    depth, heads, _, _ = record.weights.shape
    many = heads > 1
    weights = np.concatenate([record.weights, record.weights.mean(1, keepdims=True)], 1)
    browser.open(pages / f"{name}.html")
    browser.click(WORDS, 2)
    small = "#section-1 .small"
    assert len(browser.all(small)) == depth * (heads + many)
    chosen = browser.run("return document.querySelector('.small[aria-pressed=true]').title")
    assert chosen == ("Layer 2, mean of all heads" if many else "Layer 1, head 1")
    for layer in range(depth):
        for head in range(heads + many):
            browser.click(small, layer * (heads + many) + head)
            browser.settle()
            found = numbers(browser.texts("#section-1 #arithmetic [data-cell=weight]"))
            assert found == pytest.approx(weights[layer, head, 2].tolist(), abs=5.1e-5)
    if many:
        every = numbers(browser.texts("#section-1 #arithmetic [data-cell=of-head]"))
        known = record.weights[-1, :, 2].T
        assert np.allclose(np.array(every).reshape(known.shape), known, atol=5.1e-5)
        assert not browser.all("#section-1 #query")[0].is_displayed()
    browser.quiet()


def test_the_arithmetic_of_two_sides_adds_up(browser: Browser, pages: Path) -> None:
    browser.open(pages / "attention.html")
    browser.click(WORDS, 1)
    browser.click("#section-1 .chooser input")
    browser.settle()

    def rows(name: str) -> np.ndarray:
        texts = browser.texts(f"#section-1 #arithmetic [data-cell={name}]")
        return np.array([numbers(text.strip("[]").split()) for text in texts])

    query = np.array(numbers(re.findall(r"\[(.*)\]", browser.text("#query"))[0].split()))
    keys, values, weights = rows("key"), rows("value"), rows("weight")[:, 0]
    logits = keys @ query / len(query) ** 0.5
    assert np.allclose(logits, rows("scaled")[:, 0], atol=0.0051)
    assert np.allclose(np.exp(logits) / np.exp(logits).sum(), weights, atol=0.001)
    sums = np.array(numbers(browser.text("#sum [data-cell=sum]").strip("[]").split()))
    assert np.allclose(weights @ values, sums, atol=0.005)
    assert len(keys) == len(browser.all("#section-1 .token"))
    browser.quiet()


def test_a_mouse_and_a_keyboard_choose_the_same(
    browser: Browser, models: Path, pages: Path
) -> None:
    predictor = load(models / "transformer")
    pair = read_pair(predictor, TEXT, TARGET)
    (record,) = predictor.attention([(TEXT, TARGET)])
    mean = record.weights[1].mean(0)
    browser.open(pages / "transformer.html")
    said = "#section-1 #attention-said"
    browser.point(f"{LINES} text", 2)
    hovered = browser.text(said)
    best = int(mean[2].argmax())
    start = f"Layer 2, mean of all heads: {pair.tokens[2]} looks at {pair.source.tokens[best]} "
    assert hovered.startswith(f"{start}{mean[2, best]:.4f}")
    browser.point("h1")
    assert browser.text(said) != hovered
    browser.focus(WORDS)
    browser.press("ARROW_RIGHT", "ARROW_RIGHT")
    assert browser.text(said) == hovered
    assert browser.text("#step-said").startswith("Step 3 of")
    browser.focus("#section-1 .scroll.tall[role=group]")
    browser.press("ARROW_UP")
    assert browser.text("#step-said").startswith("Step 2 of")

    # The matrix has a row for each token of the target, and a column for each of the source.
    canvas = "#section-1 canvas[tabindex]"
    browser.focus(canvas)
    browser.press("END")
    last = browser.text("#matrix-said")
    assert last.startswith(f"{pair.tokens[-1]} → {pair.source.tokens[-1]}: {mean[-1, -1]:.4f}")
    browser.press("ARROW_DOWN", "HOME", *["ARROW_DOWN"] * 3, "ARROW_RIGHT")
    assert browser.text("#matrix-said") == (
        f"{pair.tokens[3]} → {pair.source.tokens[1]}: {mean[3, 1]:.4f}"
    )
    browser.point(canvas, 0, 30, 30)
    found = re.fullmatch(r"(\S+) → (\S+): (0\.\d{4})", browser.text("#matrix-said"))
    assert found is not None
    query, key = pair.tokens.index(found[1]), pair.source.tokens.index(found[2])
    assert f"{mean[query, key]:.4f}" == found[3]
    browser.click(canvas)
    clicked, _, _ = browser.text("#matrix-said").partition(" → ")
    assert browser.text("#step-said").startswith(f"Step {pair.tokens.index(clicked) + 1} of")
    browser.quiet()


def test_each_side_looks_at_itself(browser: Browser, models: Path, pages: Path) -> None:
    predictor = load(models / "transformer")
    pair = read_pair(predictor, TEXT, TARGET)
    model = predictor.bundle.translator
    browser.open(pages / "transformer.html")
    # The decoder has read what comes before: its first token looks at the start mark alone.
    own = section(browser, "Decoder self-attention")
    assert browser.texts(f"{own} .word") == pair.read
    browser.click(f"{own} .word", 0)
    browser.settle()
    assert browser.texts(f"{own} [data-cell=weight]") == ["1.0000"]
    own = section(browser, "Encoder self-attention")
    assert browser.texts(f"{own} .word") == pair.source.tokens
    browser.click(f"{own} .word", 1)
    browser.settle()
    encoder, _ = model.attention_layers()
    ids, lengths, *_ = pair.streams()
    given: list[torch.Tensor] = []
    handle = encoder[0].register_forward_pre_hook(lambda _, args: given.append(args[0]))
    with torch.inference_mode():
        model.begin(ids, lengths)
        handle.remove()
        queries, keys, _ = encoder[0].qkv(given[0]).view(len(ids), 3, 4, -1).permute(1, 2, 0, 3)
        logits = queries[0, 1] @ keys[0].T / keys.shape[-1] ** 0.5
    found = numbers(browser.texts(f"{own} [data-cell=weight]"))
    assert found == pytest.approx(logits.softmax(0).tolist(), abs=6e-5)
    browser.quiet()


def test_without_attention_there_is_one_vector(browser: Browser, models: Path, pages: Path) -> None:
    predictor = load(models / "seq2seq")
    pair = read_pair(predictor, TEXT, TARGET)
    model = predictor.bundle.translator
    ids, _, target_ids, _ = pair.streams()
    vector = model.context_vector(ids)
    assert vector is not None
    browser.open(pages / "seq2seq.html")
    assert "no attention between the two sides" in browser.text("#section-1 > .note")
    own = section(browser, "The one vector between the two sides")
    browser.focus(f"{own} canvas")
    browser.press("ARROW_RIGHT", "ARROW_RIGHT", "ARROW_RIGHT")
    (found,) = numbers([browser.text("#sheet-1-said").split(": ")[1]])
    assert found == pytest.approx(float(vector[2]), abs=6e-5)
    # The decoder begins with what a layer makes of this vector.
    _, (first, *_) = model.recurrent_steps(ids, target_ids)
    own = section(browser, "The decoder step by step")
    assert browser.texts(f"{own} [data-step] text:nth-of-type(2)")
    said = browser.text(f"{own} [id^=unit-arithmetic]").replace("−", "-")
    values = first.values
    kept = f"{values['f'][0, 0]:.4f} · {first.before['c'][0]:.4f} + {values['i'][0, 0]:.4f}"
    assert f"at <s>: c = f · c before + i · g = {kept}" in said
    assert float(first.before["c"][0]) != 0
    browser.quiet()


def test_positions_are_sinusoids(browser: Browser, pages: Path) -> None:
    browser.open(pages / "transformer.html")
    browser.focus("#positions")
    browser.press("ARROW_RIGHT", "ARROW_DOWN")
    assert browser.text("#positions-said") == f"position 2, number 1: {np.sin(1):.4f}"
    browser.open(pages / "marian.html")
    browser.focus("#positions")
    browser.press(*["ARROW_RIGHT"] * 9, "ARROW_DOWN")
    assert browser.text("#positions-said") == f"position 2, number 9: {np.cos(1):.4f}"
    browser.quiet()


def test_a_translation_of_its_own(browser: Browser, models: Path, pages: Path) -> None:
    predictor = load(models / "transformer")
    pair = read_pair(predictor, TEXT)
    browser.open(pages / "own.html")
    assert len(browser.texts(WORDS)) == len(pair.tokens)
    lead = browser.texts(".lead")
    assert "by a beam search of width 4" in lead[1]
    assert lead[0].endswith(
        f"{len(pair.source.tokens)} tokens of the source and {len(pair.tokens)} of the target"
    )
    choose(browser, "#section-1", 0, 2)
    assert browser.text("#section-1 #attention-said").startswith("Layer 3, mean of all heads: ")
    browser.quiet()


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_page_fits_a_phone_and_saves_its_pictures(
    browser: Browser, pages: Path, name: str
) -> None:
    browser.media(dark=True, width=390, height=800)
    browser.open(pages / f"{name}.html")
    assert browser.texts("h2")[0] == FIRST
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    texts = browser.saved_pictures()
    assert len(texts) == len(browser.all("figure"))
    assert all(text.startswith("<svg") and "var(" not in text for text in texts)
    ids = browser.run("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    browser.quiet()


def test_hostile_texts_are_shown_and_nothing_runs(
    browser: Browser, models: Path, tmp_path: Path
) -> None:
    predictor = load(models / "transformer")
    sections = pair_sections(predictor, read_pair(predictor, "a list", "a b"))
    page = tmp_path / "page.html"

    def elements(text: str) -> int:
        spoilt = [one._replace(title=text, data=spoiled(one.data, text)) for one in sections]
        page.write_text(write_page(text, [text], spoilt), encoding="utf-8")
        browser.open(page)
        browser.click(WORDS, 1)
        browser.settle()
        browser.quiet()
        return int(browser.run(COUNT))

    tame = elements("a tame text")
    for number in range(0, MANY, 8):
        assert elements(hostile(number)) == tame, hostile(number)


def test_a_models_own_table(browser: Browser, tmp_path: Path) -> None:
    words = Tokenizer.train(
        ["je suis étudiant", "I am a student", "thanks"], "words", 60, "keep", end_last=True
    )
    (family,) = (one for one in families() if one.name == "seq2seq")
    marks = {"vocab": words.size, "start": words.cls, "end": words.sep}
    model = family.network(family.settings(**marks, width=8)).eval()
    save(Bundle(model, words, family.model_type, "translate"), tmp_path / "model")
    found = example("student", tmp_path / "model", tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    count = len(found.numbers)
    boxes = browser.texts("svg text.number")
    assert numbers(boxes[:count]) == [shown(one.value) for one in found.numbers]
    assert boxes[count : count + 6] == ["0", "0", "1", "0", "0", "0"]
    browser.quiet()
