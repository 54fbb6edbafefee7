"""The page that holds its model: what it computes for a text that is typed there is what Firth computes."""

import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth import Filled, load, view
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.nn.block import ACTIVATIONS
from firth.pages.page import bundle_modules
from firth.probes.portable import LONGEST, portable_model
from firth.samples.daybook import documents
from firth.tasks.head import make_head
from firth.text.rules import wordpiece_rules
from firth.text.tokenizer import Tokenizer
from tests.browser.browser import Browser, numbers
from tests.conftest import SOAK, count
from tests.unit.speakers import HELD_OUT, LINES, TRAIN, tokenizer

TEXT = "the module returns a list of strings because it was told to"
BOX = "#sentence"
CHIP = "#section-1 [aria-label='Words to hide'] .word"
TOKEN = "#section-1 [aria-label='Words of the text'] .word"
BOOK = [line for page in documents() for line in page]
SENTENCES = 100 if SOAK else 5
AT_ONCE = 1 << 14  # texts of a call into the page, far from the driver's 30 seconds for one
NEAR = 0.01  # what probabilities may differ by: the page's weights have 16 bits
ODD = (
    "Ångström NAÏVE café DŽ İstanbul ΑΣ ΣΑΣ ﬁne Straße",
    "日本語テスト 漢字 中文",
    "한국어 각각",
    "नमस्ते क्षत्रिय",
    "العَرَبِيَّة עִבְרִית ไทยภาษา",
    "e\u0301 a\u030a\u0323 3.14 U.S.A. x@y.org don't",
)
INSERTED = ("[MASK]", "[mask]", "[UNK]", "[SEP", "\t", "\r\n", "\0", "\ud800", "\u200b", "\ufffd")
BLOCKS = (
    (0, 0x500), (0x590, 0x700), (0x900, 0x980), (0x1100, 0x1200), (0x1E00, 0x2100), (0x3000, 0x3100),
    (0x4E00, 0x4E40), (0xAC00, 0xAC40), (0xF900, 0xFB50), (0xFE00, 0xFFFF), (0x1D400, 0x1D800),
    (0x1F300, 0x1F700), (0x20000, 0x20020), (0xE0000, 0xE0200),
)  # fmt: skip


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that learned the day book for a while, with its page beside it."""
    folder = tmp_path_factory.mktemp("book")
    (folder / "book.txt").write_text("\n".join(BOOK), encoding="utf-8")
    firth.pretrain(
        folder / "book.txt",
        folder / "book",
        steps=120,
        batch=1024,
        rate=0.01,
        dropout=0.0,
        length=32,
        size="tiny",
        nsp=False,
        dtype="fp32",
        threads=1,
        model_settings={"width": 48, "heads": 4, "inner": 96},
    )
    view(folder / "book", "The courier left", folder / "book.html", with_model=True)
    return folder / "book"


@pytest.fixture(scope="module")
def lively(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with lively random weights, with its page beside it."""
    folder = tmp_path_factory.mktemp("lively")
    (folder / "bert").symlink_to(models / "bert")
    view(folder / "bert", TEXT, folder / "bert.html", with_model=True)
    return folder / "bert"


def open_page(browser: Browser, model: Path) -> None:
    """Open the page beside a model."""
    browser.open(model.with_suffix(".html"))


def settled(browser: Browser) -> None:
    """Wait until the page shows what is in its box."""
    latest = time.monotonic() + 20
    busy = "return document.querySelector('#section-1').getAttribute('aria-busy') !== 'false'"
    while browser.run(busy):
        assert time.monotonic() < latest
        time.sleep(0.01)


def write(browser: Browser, text: str) -> None:
    """Put a text into the box at once, as pasting does."""
    browser.run(
        "const box = document.querySelector('#sentence');"
        "box.value = arguments[0]; box.dispatchEvent(new Event('input'))",
        text,
    )
    settled(browser)


def written(browser: Browser) -> str:
    """The text of the box."""
    return str(browser.run("return document.querySelector('#sentence').value"))


def shown(browser: Browser) -> dict[str, float]:
    """What the page would fill in at the chosen mask after the chosen layer."""
    names = browser.texts("#section-1 .bar-name title")
    return dict(zip(names, numbers(browser.texts("#section-1 .bar-value")), strict=True))


def filled(model: firth.Predictor, text: str) -> dict[str, float]:
    """What Firth fills in at the first mask."""
    (answer,) = model.predict([text], top=10)
    assert isinstance(answer, Filled)
    return {one.piece: one.probability for one in answer.blanks[0].choices}


def test_guesses_of_a_trained_model_are_firths(browser: Browser, book: Path, seed: int) -> None:
    check_sentences(browser, book, BOOK, random.Random(seed))


def test_guesses_of_lively_weights_are_firths(browser: Browser, lively: Path, seed: int) -> None:
    texts = [line for line in LINES if 5 < len(line.split()) < 25]
    check_sentences(browser, lively, texts, random.Random(seed))


def check_sentences(browser: Browser, folder: Path, texts: list[str], draw: random.Random) -> None:
    """Hide a word of each of some sentences, and compare what the page shows with what Firth says."""
    model = load(folder)
    open_page(browser, folder)
    same = 0
    for text in draw.sample(texts, SENTENCES):
        write(browser, text)
        chip = draw.randrange(len(browser.all(CHIP)))
        browser.click(CHIP, chip)
        settled(browser)
        hidden = written(browser)
        assert hidden.count("[MASK]") == 1
        ours, theirs = filled(model, hidden), shown(browser)
        theirs.pop("all others")
        same += next(iter(ours)) == next(iter(theirs))
        for piece in ours.keys() & theirs.keys():
            assert abs(ours[piece] - theirs[piece]) < NEAR
        (record,) = model.attention([hidden])
        assert browser.texts(TOKEN) == record.tokens
        layer, head, query = (draw.randrange(size) for size in record.weights.shape[:3])
        browser.click(".small", layer * record.weights.shape[1] + head)
        if browser.all(TOKEN)[query].get_attribute("aria-pressed") == "false":
            browser.click(TOKEN, query)
        browser.settle()
        weights = numbers(browser.texts("#arithmetic [data-cell=weight]"))
        assert np.abs(np.array(weights) - record.weights[layer, head, query]).max() < NEAR
    assert same >= 0.99 * SENTENCES
    browser.quiet()


def test_logits_are_those_of_the_weights_in_the_page(
    browser: Browser, models: Path, tmp_path: Path, seed: int
) -> None:
    words = tokenizer("wordpiece")
    texts = [words.encode([text])[0].ids[:40] for text in HELD_OUT[:3]]
    for activation, causal in (
        ("gelu", False),
        ("gelu_new", True),
        ("relu", False),
        ("silu", False),
    ):
        torch.manual_seed(seed % 1000)
        # Neither sizes nor texts are multiples of four, which the page multiplies at a time.
        sizes = {"width": 42, "heads": 3, "inner": 70, "depth": 3, "length": 160, "spread": 0.2}
        encoder = Bert(
            BertSettings(vocab=words.size, activation=activation, causal=causal, **sizes)
        )
        head = make_head("pretrain", encoder)
        assert head is not None
        for weight in [*encoder.parameters(), *head.parameters()]:
            with torch.no_grad():
                weight.add_(torch.randn_like(weight), alpha=0.1)
                weight.copy_((64 * weight).round() / 64)  # 16 bits hold these, and sums of two
        bundle = Bundle(encoder.eval(), words, kind="pretrain", head=head.eval())
        save(bundle, tmp_path / activation)
        view(tmp_path / activation, TEXT, tmp_path / f"{activation}.html", with_model=True)
        browser.open(tmp_path / f"{activation}.html")
        found = browser.driver.execute_async_script(
            bundle_modules("live")
            + """
const done = arguments[1];
const { data } = $data.readData().sections[0];
$model.readModel(data).then((model) => {
  const read = (ids) => $encoder.readTokens(model, ids, [0, 1, ids.length - 1]).states;
  const logits = (ids) => read(ids).map((one) => [...$encoder.maskedLogits(model, one)]);
  done(arguments[0].map(logits));
});
""",
            texts,
        )
        for ids, layers in zip(texts, found, strict=True):
            stream = (torch.tensor(ids), torch.arange(len(ids)), torch.zeros(len(ids)).long())
            with torch.inference_mode():
                hidden = encoder(*stream, torch.tensor([len(ids)]), layers=True)
                ours = [head.masked(layer[[0, 1, -1]]) for layer in hidden.layers]
            for logits, right in zip(layers, ours, strict=True):
                assert np.abs(np.array(logits) - right.flatten().numpy()).max() < 0.0002
    browser.quiet()


def test_activations_are_torchs(browser: Browser, lively: Path) -> None:
    open_page(browser, lively)
    points = torch.linspace(-6, 6, 101)
    script = bundle_modules("activation") + (
        "return arguments[1].map((x) => $activation.ACTIVATIONS[arguments[0]](x));"
    )
    for name, function in ACTIVATIONS.items():
        found = torch.tensor(browser.run(script, name, points.tolist()))
        assert (found - function(points.clone())).abs().max() < 1e-6


def oddities(number: int, draw: random.Random) -> list[str]:
    """Real texts with characters of all kinds where they don't belong."""
    found = ["", "  ", "a" * 100, "a" * 101, "é" * 101, "[MASK][MASK]", "[[MASK]]", *ODD]
    while len(found) < number:
        text = list(draw.choice(TRAIN)[:80])
        for _ in range(draw.randrange(8)):
            first, end = draw.choice(BLOCKS)
            characters = "".join(chr(draw.randrange(first, end)) for _ in range(draw.randrange(3)))
            text.insert(draw.randrange(len(text) + 1), draw.choice((*INSERTED, characters)))
        found.append("".join(text))
    return found


def in_page(browser: Browser, rules: Tokenizer, texts: list[str]) -> list[list[int]]:
    """The pieces of texts as the page's script finds them.

    As JSON both ways: half a character only survives so, and the driver takes lists apart number by number.
    """
    script = bundle_modules("pieces") + (
        "const pieces = $pieces.makePieces(arguments[0]);"
        "return JSON.stringify(JSON.parse(arguments[1]).map((text) => pieces.encode(text)));"
    )
    return list(
        json.loads(browser.run(script, wordpiece_rules(rules)._asdict(), json.dumps(texts)))
    )


@pytest.mark.parametrize("case", ["lower", "keep"])
@pytest.mark.parametrize("accents", ["keep", "strip"])
def test_pieces_are_the_tokenizers(
    browser: Browser, lively: Path, case: Any, accents: Any, seed: int
) -> None:
    words = Tokenizer.train([*TRAIN, *ODD * 20], "wordpiece", 900, case, accents)
    texts = oddities(count(1000), random.Random(seed))
    open_page(browser, lively)
    right = [encoding.ids for encoding in words.encode(texts, special=False)]
    for text, ids, found in zip(texts, right, in_page(browser, words, texts), strict=True):
        assert found == ids, ascii(text)


@pytest.mark.soak
def test_every_character_is_the_tokenizers(browser: Browser, lively: Path) -> None:
    open_page(browser, lively)
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for case, accents in (("lower", "strip"), ("keep", "keep")):
        words = Tokenizer.train([*TRAIN, *ODD * 20], "wordpiece", 900, case, accents)  # type: ignore[arg-type]
        for first in range(0, len(codes), AT_ONCE):
            texts = [f"a{chr(code)}b {chr(code)}" for code in codes[first : first + AT_ONCE]]
            right = [encoding.ids for encoding in words.encode(texts, special=False)]
            # One by one: pytest would take minutes to draw where two long lists differ.
            for text, ids, found in zip(texts, right, in_page(browser, words, texts), strict=True):
                assert found == ids, ascii(text)


def test_words_are_hidden_by_mouse_and_keyboard(browser: Browser, book: Path) -> None:
    model = load(book)
    open_page(browser, book)
    assert written(browser) == "The courier left"
    assert not browser.all("#section-1 .bar-name")
    browser.focus(BOX)
    browser.press("END", *" the kettle in Lyon")
    settled(browser)
    assert written(browser) == "The courier left the kettle in Lyon"
    (record,) = model.attention([written(browser)])
    assert browser.texts(TOKEN) == record.tokens

    browser.click(".small", 6)
    browser.click(CHIP, 4)
    settled(browser)
    assert written(browser) == "The courier left the [MASK] in Lyon"
    assert [chip.get_attribute("aria-pressed") for chip in browser.all(CHIP)].count("true") == 1
    best, probability = next(iter(filled(model, written(browser)).items()))
    said = browser.text("#live-said")
    assert said.startswith(f"[MASK]: {best} ")
    assert abs(numbers([said.split()[2].rstrip(";.")])[0] - probability) < NEAR
    # What was chosen stays chosen.
    assert browser.text("#attention-said").startswith("Layer 2, head 3")

    browser.focus(CHIP)
    browser.press("ARROW_RIGHT", "ENTER")
    settled(browser)
    assert written(browser) == "The [MASK] left the [MASK] in Lyon"
    assert "[MASK] 2: " in browser.text("#live-said")
    assert len(browser.all("#section-1 .chooser select")[0].find_elements("css selector", "*")) == 2
    browser.press("ENTER")
    settled(browser)
    assert written(browser) == "The courier left the [MASK] in Lyon"
    browser.click(CHIP, 4)
    settled(browser)
    assert written(browser) == "The courier left the kettle in Lyon"
    assert browser.text("#live-said") == "No word is hidden."
    # Nothing is known to stand behind a mask that was typed: it is marked, to be written over.
    browser.focus(BOX)
    browser.press("END", *" [MASK]")
    settled(browser)
    browser.click(CHIP, 7)
    browser.press(*"today")
    settled(browser)
    assert written(browser) == "The courier left the kettle in Lyon today"
    browser.quiet()


def test_any_text_can_be_typed(browser: Browser, lively: Path) -> None:
    open_page(browser, lively)
    elements = "return document.querySelectorAll('script, img, iframe, style').length"
    before = browser.run(elements)
    for text in ("", " ", "<img src=x onerror=alert(1)>[MASK]</textarea><script>alert(1)</script>"):
        write(browser, text)
        assert browser.run(elements) == before
    assert "<" in browser.texts(TOKEN)
    write(browser, f"{TEXT} " * 20)
    assert len(browser.all(TOKEN)) == LONGEST
    total = len(tokenizer("wordpiece").encode([f"{TEXT} " * 20])[0])
    assert f"; {total - LONGEST} more are not read" in browser.text("#live-amount")
    browser.quiet()


def test_colours_change_after_typing(browser: Browser, lively: Path) -> None:
    open_page(browser, lively)
    pixels = "return document.querySelector('canvas[tabindex]').toDataURL()"
    for text in ("a list", "a list of strings"):
        write(browser, text)
        light = browser.run(pixels)
        browser.click("header button")
        assert browser.run(pixels) != light
        browser.click("header button")
        assert browser.run(pixels) == light
    browser.quiet()


@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_is_as_wide_as_the_screen(browser: Browser, lively: Path, width: int) -> None:
    browser.media(width=width)
    open_page(browser, lively)
    write(browser, f"{TEXT} [MASK] {'w' * 90}")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.quiet()


def test_a_mini_with_8000_pieces_fits(tmp_path: Path) -> None:
    words = Tokenizer.train(TRAIN, "wordpiece", 4000)
    torch.manual_seed(1)
    sizes = {"width": 256, "depth": 4, "heads": 4, "inner": 1024}
    encoder = Bert(BertSettings(vocab=8000, **sizes)).eval()
    bundle = Bundle(encoder, words, kind="pretrain", head=make_head("pretrain", encoder))
    weights = portable_model(bundle).tensors.values()
    assert sum(one.nbytes for one in weights) * 4 / 3 < 15e6
    save(bundle, tmp_path / "mini")
    view(tmp_path / "mini", "a list", tmp_path / "mini.html", with_model=True)
    assert (tmp_path / "mini.html").stat().st_size < 15e6
