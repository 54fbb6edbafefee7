"""The sections of a page beside attention: what each shows is what the model computes, by mouse and by keyboard."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from firth import gradients, load, view
from firth.data.batch import make_batch
from firth.probes.ablation import switched_off
from firth.probes.row import read_row
from tests.browser.browser import Browser, numbers

TEXT = "the module returns a list of strings because it was told to"
SHORT = "the module returns a list"  # the small GPT reads no more
BLANK = "the module returns a [MASK] of strings"


@pytest.fixture(scope="module")
def pages(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of each kind of model."""
    folder = tmp_path_factory.mktemp("pages")
    view(models / "bert", BLANK, folder / "bert.html", pair=TEXT)
    for name in ("queues", "bare", "rnn", "elmo", "counts"):
        view(models / name, TEXT, folder / f"{name}.html")
    view(models / "gpt", SHORT, folder / "gpt.html")
    return folder


def bars(browser: Browser, section: str) -> dict[str, float]:
    """The bars of a section by their names."""
    names = browser.texts(f"{section} .bar-name")
    values = numbers(browser.texts(f"{section} .bar-value"))
    titles = browser.texts(f"{section} .bar-name title")
    shown = titles or names
    return dict(zip(shown, values, strict=True))


def section(browser: Browser, title: str) -> str:
    """The selector of a section by its heading."""
    headings = browser.texts("section h2")
    return f"#section-{headings.index(title) + 1}"


def choose(browser: Browser, within: str, list_number: int, option: int) -> None:
    """Choose from a drop-down list by the keyboard."""
    browser.focus(f"{within} select", list_number)
    browser.press("HOME", *["ARROW_DOWN"] * option)
    browser.settle()


def test_blanks_are_filled_by_every_layer(browser: Browser, models: Path, pages: Path) -> None:
    predictor = load(models / "bert")
    bundle = predictor.bundle
    row = read_row(predictor, BLANK, TEXT)
    with torch.inference_mode():
        hidden = bundle.encoder(*row.batch().stream, layers=True)
        place = row.encoding.ids.index(bundle.tokenizer.mask)
        every = [bundle.head.masked(layer[place]).softmax(-1) for layer in hidden.layers]
        (following,) = bundle.head.next(hidden.pooled).softmax(-1).tolist()
    browser.open(pages / "bert.html")
    own = section(browser, "What each layer would fill in")
    for number, probabilities in enumerate(every):
        choose(browser, own, 1, number)
        shown = bars(browser, own)
        rest = shown.pop("all others")
        best = probabilities.topk(10)
        pieces = [bundle.tokenizer.piece(token) for token in best.indices.tolist()]
        assert list(shown) == pieces
        assert list(shown.values()) == [float(f"{one:.4f}") for one in best.values.tolist()]
        assert abs(rest - (1 - float(best.values.sum()))) < 0.0002
    table = numbers(browser.texts("#blank-layers td:last-child"))
    assert table == [float(f"{one.max():.4f}") for one in every]
    pair = bars(browser, section(browser, "Next or not next"))
    assert pair == {
        "next": float(f"{following[0]:.4f}"),
        "not next": float(f"{following[1]:.4f}"),
    }
    (answer,) = predictor.predict([(BLANK, TEXT)])
    assert answer.as_json()["next_probability"] == pytest.approx(following[0], abs=1e-6)
    browser.quiet()


def test_a_head_is_switched_off(browser: Browser, models: Path, pages: Path) -> None:
    predictor = load(models / "queues")
    (whole,) = predictor.predict([TEXT])
    with switched_off(predictor.bundle.encoder, [(1, 2)]), torch.inference_mode():
        (answer,) = predictor.predict([TEXT])
    without = answer.figures()
    assert without != whole.figures()

    browser.open(pages / "queues.html")
    own = section(browser, "The answer, and heads switched off")
    assert bars(browser, own) == {
        name: float(f"{value:.4f}")
        for name, value in sorted(whole.figures().items(), key=lambda one: -one[1])
    }
    browser.focus("#ablation")
    browser.press("ARROW_RIGHT", "ARROW_DOWN", "ARROW_RIGHT", "ARROW_RIGHT", "ENTER")
    best = max(whole.figures(), key=lambda name: whole.figures()[name])
    change = numbers([browser.text("#ablation-said").split(": ")[1]])[0]
    assert change == pytest.approx(without[best] - whole.figures()[best], abs=6e-5)
    shown = bars(browser, own)
    assert shown == {name: float(f"{without[name]:.4f}") for name in shown}
    assert "Without head 3 of layer 2" in browser.text("#without-line")
    browser.quiet()


def test_a_recurrent_model_answers(browser: Browser, models: Path, tmp_path: Path) -> None:
    """It has no heads to switch off."""
    predictor = load(models / "mood")
    (answer,) = predictor.predict([TEXT])
    view(models / "mood", TEXT, tmp_path / "mood.html")
    browser.open(tmp_path / "mood.html")
    assert bars(browser, section(browser, "The answer")) == {
        name: float(f"{value:.4f}") for name, value in answer.figures().items()
    }
    assert browser.texts("h2")[1:] == ["The network step by step", "The way through the layers"]
    browser.quiet()


def test_a_tagger_that_finds_nothing_answers(
    browser: Browser, models: Path, tmp_path: Path
) -> None:
    """There is no number that a head could change."""
    view(models / "names", "list ", tmp_path / "names.html")
    browser.open(tmp_path / "names.html")
    assert "The answer" in browser.texts("h2")
    assert browser.text("#answer-line").split() == ["list", "nothing"]
    browser.quiet()


def test_only_the_head_named_is_off(models: Path) -> None:
    """The same as with that head's part of the output matrix set to zero, in each of several copies."""
    predictor = load(models / "bare")
    row = read_row(predictor, TEXT)
    encoder = predictor.bundle.encoder
    heads = [(0, 0), (1, 3), (0, 2)]
    with torch.inference_mode(), switched_off(encoder, heads):
        found = encoder(*make_batch([row.encoding] * 3).stream).tokens.view(3, len(row.tokens), -1)
    for (layer, head), vectors in zip(heads, found, strict=True):
        attention = encoder.attention_layers()[layer]
        kept = attention.out.weight.detach().clone()
        size = kept.shape[1] // attention.heads
        with torch.no_grad():
            attention.out.weight[:, head * size : (head + 1) * size] = 0
            expected = encoder(*row.batch().stream).tokens
            attention.out.weight.copy_(kept)
        assert torch.allclose(vectors, expected, atol=1e-5)


def test_vectors_move_through_the_layers(browser: Browser, models: Path, pages: Path) -> None:
    predictor = load(models / "bare")
    row = read_row(predictor, TEXT)
    with torch.inference_mode():
        layers = predictor.bundle.encoder(*row.batch().stream, layers=True).layers
    browser.open(pages / "bare.html")
    own = section(browser, "The way through the layers")
    browser.focus("#cosines")
    browser.press("ARROW_RIGHT", "ARROW_RIGHT", "ARROW_DOWN")

    def shown() -> float:
        return numbers([browser.text("#cosines-said").split(": ")[1]])[0]

    cosine = torch.cosine_similarity
    assert shown() == pytest.approx(float(cosine(layers[2][1], layers[0][1], dim=0)), abs=6e-5)
    choose(browser, own, 0, 1)
    assert shown() == pytest.approx(float(cosine(layers[2][1], layers[1][1], dim=0)), abs=6e-5)

    unit = torch.stack([layer / layer.norm(dim=1, keepdim=True) for layer in layers]).flatten(0, 1)
    centred = (unit - unit.mean(0)).double()
    sizes = torch.linalg.svdvals(centred).square()
    share = re.findall(
        r"(\d+) %", browser.run(f"return document.querySelector('{own}').textContent")
    )
    expected = (100 * sizes / sizes.sum())[:2].tolist()
    assert [int(one) for one in share] == [round(one) for one in expected]
    browser.focus(f"{own} .wide")
    browser.press("ARROW_DOWN", "ARROW_DOWN", "ARROW_LEFT")
    assert browser.text("#plane-said").startswith(f"{row.tokens[1]} after layer 1: ")
    # Points may cover each other: the one that is furthest from all others is covered by none.
    circles = f"{own} [data-token] circle"
    at = browser.run(
        "return [...document.querySelectorAll(arguments[0])]"
        ".map(one => one.getBoundingClientRect()).map(one => [one.x, one.y])",
        circles,
    )
    corners = torch.tensor(at, dtype=torch.float64)
    distances = torch.cdist(corners, corners).fill_diagonal_(torch.inf)
    alone = int(distances.amin(1).argmax())
    browser.click(circles, alone)
    assert browser.text("#plane-said").startswith(f"{row.tokens[alone]} after layer 1: ")
    browser.quiet()


@pytest.mark.parametrize("name", ["gpt", "rnn", "counts"])
def test_a_language_model_expects_the_next_token(
    browser: Browser, models: Path, pages: Path, name: str
) -> None:
    predictor = load(models / name)
    (likelihood,) = predictor.score([SHORT if name == "gpt" else TEXT])
    own_tokens = [piece.score for piece in likelihood.pieces]
    browser.open(pages / f"{name}.html")
    probabilities = numbers(browser.texts("#next-table td:nth-of-type(1)"))
    length = len(probabilities)
    expected = [float(f"{np.exp(one):.4f}") for one in own_tokens[:length]]
    assert probabilities == pytest.approx(expected, abs=1e-4)
    own = section(browser, "What comes next")
    browser.focus(f"{own} .word[aria-pressed=true]")
    browser.press("HOME")
    said = browser.text("#next-said")
    assert f"probability {probabilities[0]:.4f}" in said
    assert sum(bars(browser, own).values()) == pytest.approx(1, abs=0.001)
    browser.quiet()


def test_gates_are_those_of_the_network(browser: Browser, models: Path, pages: Path) -> None:
    predictor = load(models / "rnn")
    row = read_row(predictor, TEXT)
    encoder = predictor.bundle.encoder
    with torch.inference_mode():
        (first, *_) = encoder.recurrent_steps(torch.tensor(row.encoding.ids))
    browser.open(pages / "rnn.html")
    own = section(browser, "The network step by step")
    letters = list(first.values)
    assert set(letters) == {"h", "c", "f", "i", "g", "o"}
    browser.focus("#units")
    browser.press("ARROW_RIGHT", *["ARROW_DOWN"] * 4, "ARROW_RIGHT", "ENTER")
    for number, letter in enumerate(letters):
        choose(browser, own, 1, number)
        shown = numbers([browser.text("#units-said").split(": ")[1]])[0]
        assert shown == pytest.approx(float(first.values[letter][4, 1]), abs=6e-5)
    value = {letter: first.values[letter][4, 1] for letter in letters}
    before = first.values["c"][3, 1]
    assert torch.isclose(value["f"] * before + value["i"] * value["g"], value["c"], atol=1e-6)
    said = browser.text("#unit-arithmetic").replace("−", "-")
    for number in (value["f"], before, value["i"], value["g"], value["c"], value["o"], value["h"]):
        assert f"{float(number):.4f}" in said
    norms = browser.texts(f"{own} [data-step] text:last-child")
    assert norms[4] == f"|h| {float(first.values['h'][4].norm()):.2f}"
    browser.click(f"{own} [data-step]", 2)
    assert f"at {row.tokens[2]}:" in browser.text("#unit-arithmetic")
    browser.quiet()


def test_gradients_are_scaled_and_clipped(browser: Browser, pages: Path) -> None:
    browser.open(pages / "rnn.html")
    own = section(browser, "How the gradient fades")

    def columns() -> np.ndarray:
        texts = browser.texts("#fading-table td")
        return np.array(
            [float(text.replace("-", "nan") if text == "-" else text) for text in texts]
        ).reshape(-1, 3)

    half, whole, twice = columns().T
    assert half[-1] < whole[-1] < twice[-1]
    choose(browser, own, 0, 3)
    assert browser.texts(f"{own} thead th")[2:] == ["a fresh RNN", "a fresh LSTM"]
    choose(browser, own, 0, 1)
    free = columns()
    browser.click(f"{own} input")
    clipped = columns()
    for before, after in zip(free.T, clipped.T, strict=True):
        norm = float(np.linalg.norm(before))
        assert np.allclose(after, before * min(1, 1 / norm), rtol=0.01)
    browser.quiet()


def test_models_are_compared_by_distance(browser: Browser, models: Path, tmp_path: Path) -> None:
    page = tmp_path / "looks.html"
    looks = gradients([models / "rnn", models / "gpt"], f"{TEXT} {TEXT}", page)
    browser.open(page)
    assert len(browser.all("polyline")) == 2
    cells = browser.texts("#distances td")
    shares = [look.gradient.relative.geometric for look in looks]
    assert cells[:2] == ["1", "1"]
    assert cells[2:4] == [f"{share[1]:.3g}" for share in shares]
    assert browser.run("return document.documentElement.scrollWidth") <= 1280
    browser.quiet()


def test_orders_add_up_to_a_probability(browser: Browser, models: Path, pages: Path) -> None:
    predictor = load(models / "counts")
    row = read_row(predictor, TEXT)
    ids = torch.tensor(
        [
            token
            for token, part in zip(row.encoding.ids, row.encoding.parts, strict=True)
            if part is not None
        ]
    )
    found = predictor.bundle.language.explain(ids)
    browser.open(pages / "counts.html")
    cells = np.array(numbers(browser.texts("#backoff td"))).reshape(len(found), -1)
    for (order, probability, *parts), one in zip(cells.tolist(), found, strict=True):
        assert order == one.order
        assert probability == float(f"{np.exp(one.score):.4f}")
        assert parts == [float(f"{part:.4f}") for part in one.parts]
    browser.quiet()


def test_a_backward_model_reads_from_the_end(browser: Browser, models: Path, pages: Path) -> None:
    predictor = load(models / "elmo")
    ids = torch.tensor(read_row(predictor, TEXT).encoding.ids)
    with torch.inference_mode():
        steps = predictor.bundle.encoder.recurrent_steps(ids)
    last = [one.name for one in steps].index("layer 1, backwards")
    values = steps[last].values
    browser.open(pages / "elmo.html")
    own = section(browser, "The network step by step")
    choose(browser, own, 0, last)
    browser.click(f"{own} [data-step]", 3)
    said = browser.text("#unit-arithmetic").replace("−", "-")
    assert f"f · c before + i · g = {values['f'][3, 0]:.4f} · {values['c'][4, 0]:.4f} + " in said
    hidden = f"{own} svg > path[visibility=hidden]"
    assert len(browser.all(hidden)) == len(ids) - 1
    browser.quiet()


def test_layers_are_weighed(browser: Browser, models: Path, pages: Path) -> None:
    weights = load(models / "elmo").bundle.encoder.layer_weights()
    assert weights is not None
    browser.open(pages / "elmo.html")
    shown = bars(browser, section(browser, "The weights of the layers"))
    assert list(shown) == ["embedding", *(f"layer {number}" for number in range(1, len(weights)))]
    assert list(shown.values()) == [float(f"{one:.4f}") for one in weights.tolist()]
    browser.quiet()


def test_positions_are_the_models(browser: Browser, models: Path, pages: Path) -> None:
    table = load(models / "bare").bundle.encoder.position_table
    assert table is not None
    browser.open(pages / "bare.html")
    own = section(browser, "The vectors of positions")
    browser.focus("#positions")
    browser.press("ARROW_RIGHT", "ARROW_DOWN", "ARROW_RIGHT")

    def shown() -> float:
        return numbers([browser.text("#positions-said").split(": ")[1]])[0]

    assert shown() == pytest.approx(float(table[1, 1]), abs=6e-4)
    choose(browser, own, 0, 1)
    assert shown() == 1
    browser.press("TAB")
    browser.focus("#positions")
    browser.press("ARROW_RIGHT")
    assert shown() == pytest.approx(
        float(torch.cosine_similarity(table[1], table[2], dim=0)), abs=6e-5
    )
    browser.quiet()


@pytest.mark.parametrize("name", ["bert", "queues", "gpt", "rnn", "elmo", "counts"])
def test_every_page_fits_a_phone_and_saves_its_pictures(
    browser: Browser, pages: Path, name: str
) -> None:
    browser.media(dark=True, width=390, height=800)
    browser.open(pages / f"{name}.html")
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    ends = "return [...document.querySelectorAll('.bar-value')].map(e => e.getBoundingClientRect().right)"
    assert all(end <= 390 for end in browser.run(ends))
    faults = browser.driver.execute_async_script(
        """
const made = [];
const before = URL.createObjectURL;
URL.createObjectURL = (blob) => { made.push(blob); return before(blob); };
for (const button of document.querySelectorAll("figcaption button")) button.click();
const done = arguments[0];
Promise.all(made.map((blob) => blob.text())).then((texts) => done(texts.map((text) => {
  const read = new DOMParser().parseFromString(text, "image/svg+xml");
  return read.querySelectorAll("parsererror").length + text.split("var(").length - 1;
})));
"""
    )
    assert len(faults) == len(browser.all("figure"))
    assert set(faults) == {0}
    assert browser.run(
        "return [...document.querySelectorAll('canvas[tabindex], svg[role=img]')].every(e => e.getAttribute('aria-label'))"
    )
    browser.quiet()
