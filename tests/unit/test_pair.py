"""What is looked at inside a translator is what it computes: the steps of its search, attention in all its parts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.base.errors import InputError
from firth.data.examples import Line, TextToText
from firth.families.registry import families
from firth.folders.bundle import Bundle
from firth.models.search import Beam
from firth.models.translate import translate as search
from firth.nn.attention import attend
from firth.output.pairpage import pair_sections
from firth.pages.attention import LARGEST
from firth.predictor import Predictor
from firth.probes.guesses import TOP, target_guesses
from firth.probes.pair import look_inside_pair, read_pair
from firth.tasks.translate import BEAM
from firth.text.tokenizer import Tokenizer
from tests.unit.speakers import TRANSLATORS, translator

TEXT = "the module returns a list of strings"
TARGET = "a list of names"
ATTENDING = [name for name in TRANSLATORS if name != "seq2seq"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def opened(name: str) -> Predictor:
    return Predictor(translator(name))


@pytest.mark.parametrize("name", TRANSLATORS)
def test_steps_are_those_of_the_search(name: str) -> None:
    """The target is the best one that the usual search finds, with its log-probabilities."""
    predictor = opened(name)
    pair = read_pair(predictor, TEXT)
    source, length, *_ = pair.streams()
    model = predictor.bundle.translator
    ((best, *_),) = search(
        model, source, length, Beam(BEAM, BEAM), most=predictor.bundle.length or 256
    )
    assert pair.ids == best.ids
    (answer,) = predictor.translate([TEXT])
    assert pair.target == answer.translation
    guesses = target_guesses(predictor, pair)
    assert [one.came for one in guesses] == pair.tokens
    scores = [np.log(one.probability) for one in guesses if one.probability is not None]
    assert scores == pytest.approx(best.scores, abs=1e-5)
    assert np.mean(scores) == pytest.approx(answer.score, abs=1e-5)
    for one in guesses:
        total = sum(one.guess.probabilities) + one.guess.rest
        assert total == pytest.approx(1, abs=1e-5)
        assert len(one.guess.pieces) == TOP
        assert one.guess.probabilities == sorted(one.guess.probabilities, reverse=True)
        assert one.rank is not None
        if one.rank <= TOP:
            assert one.guess.pieces[one.rank - 1] == one.came
    assert pair.read[0] == "<s>"
    assert pair.read[1:] == pair.tokens[:-1]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_given_target_is_read_as_in_training(name: str) -> None:
    predictor = opened(name)
    pair = read_pair(predictor, TEXT, TARGET)
    model = predictor.bundle.translator
    (encoding,) = predictor.bundle.targets.encode([TARGET], special=False)
    assert pair.ids == [*encoding.ids, model.end]
    with torch.inference_mode():
        vectors = model(*pair.streams())
        weight, bias = model.output
        logits = vectors @ weight.T + (0 if bias is None else bias)
        known = logits.softmax(-1)
    for place, (one, token) in enumerate(
        zip(target_guesses(predictor, pair), pair.ids, strict=True)
    ):
        row = token - model.first
        assert one.probability == pytest.approx(float(known[place, row]), abs=1e-5)
        assert one.rank == 1 + int((known[place] > known[place, row]).sum())


@pytest.mark.parametrize("name", TRANSLATORS)
def test_attention_is_what_its_parts_give(name: str) -> None:
    predictor = opened(name)
    pair = read_pair(predictor, TEXT, TARGET)
    model = predictor.bundle.translator
    inside = look_inside_pair(predictor, pair)
    if name == "seq2seq":
        assert inside == (None, None, None)
        return
    cross = inside.cross
    assert cross is not None
    heads = cross.weights.shape[1]
    assert cross.weights.shape[2:] == (len(pair.tokens), len(pair.source.tokens))
    sums, weights = attend(cross.queries, cross.keys, cross.values)
    assert torch.allclose(weights, cross.weights, atol=1e-5)
    assert torch.allclose(sums, cross.sums, atol=1e-4)
    # What --align takes is the mean of the heads of one of these layers.
    (aligned,) = model.align(*pair.streams()) or ()
    assert torch.allclose(cross.weights[model.aligned].mean(0), aligned, atol=1e-6)
    assert heads == (1 if name == "attention" else 4)
    if name == "attention":
        assert inside.encoder is inside.decoder is None
        return
    for side, tokens in ((inside.encoder, pair.source.tokens), (inside.decoder, pair.read)):
        assert side is not None
        assert side.weights.shape == (3, 4, len(tokens), len(tokens))
        sums, _ = attend(side.queries, side.keys, side.values, side.causal)
        assert torch.allclose(sums, side.sums, atol=1e-4)
        assert side.causal == (side is inside.decoder)


@pytest.mark.parametrize("name", ["transformer", "marian"])
def test_sums_are_what_the_network_goes_on_with(name: str) -> None:
    """The queries, keys and values are those of the pass itself: its output layers get their sums."""
    predictor = opened(name)
    pair = read_pair(predictor, TEXT, TARGET)
    model: Any = predictor.bundle.translator
    given: list[torch.Tensor] = []
    handles = [
        block.cross.out.register_forward_pre_hook(lambda _, args: given.append(args[0]))
        for block in model.decoder
    ]
    with torch.inference_mode():
        model(*pair.streams())
    for handle in handles:
        handle.remove()
    inside = look_inside_pair(predictor, pair)
    assert inside.cross is not None
    joined = inside.cross.sums.transpose(1, 2).flatten(2)  # (N, U, D)
    assert torch.allclose(joined, torch.stack(given), atol=1e-4)
    assert not any(layer.qkv._forward_hooks for side in model.attention_layers() for layer in side)


@pytest.mark.parametrize("name", ATTENDING)
def test_weights_are_given_as_arrays(name: str) -> None:
    predictor = opened(name)
    texts = [TEXT, "it is a string", TEXT[:4]]
    records = predictor.attention(texts)
    translations = predictor.translate(texts)
    for record, text, found in zip(records, texts, translations, strict=True):
        assert (record.text, record.second) == (text, found.translation)
        ids = [predictor.bundle.targets.id(token) for token in record.target_tokens]
        pair = read_pair(predictor, text)._replace(ids=ids)
        inside = look_inside_pair(predictor, pair)
        assert inside.cross is not None
        assert record.weights.dtype == np.float32
        assert np.abs(record.weights - inside.cross.weights.numpy()).max() < 1e-5
        depth, heads, queries, keys = record.weights.shape
        assert (depth, heads) == ((1, 1) if name == "attention" else (3, 4))
        assert len(record.tokens) == len(record.offsets) == len(record.parts) == keys
        assert len(record.target_tokens) == len(record.target_offsets) == queries
    (given,) = predictor.attention([(TEXT, TARGET)])
    assert given.second == TARGET
    quoted = [TARGET[start:end] for start, end in given.target_offsets]
    assert quoted == [token.lstrip("Ġ") for token in given.target_tokens[:-1]] + [""]
    assert np.allclose(given.weights.sum(-1), 1, atol=1e-5)


def test_a_translation_that_was_cut_is_aligned() -> None:
    """It has as many tokens as the model takes, and no room for its end mark."""
    predictor = opened("transformer")
    pair = read_pair(predictor, TEXT)
    assert len(pair.ids) == 32
    assert predictor.bundle.translator.end not in pair.ids
    (found,) = predictor.translate([TEXT], align=True)
    assert {one.source for one in found.alignment} <= set(TEXT.split())


def test_texts_keep_their_order_and_long_ones_are_cut() -> None:
    predictor = opened("transformer")
    texts = [TEXT, f"{TEXT} " * 20, TEXT[:4]]
    with pytest.warns(firth.FirthWarning, match="1 of 3 texts were longer .* were cut"):
        records = predictor.attention(texts)
    assert [record.text for record in records] == texts
    assert len(records[1].tokens) == 32
    for way, said in (("error", "text 2: a text has"), ("slide", "split long texts")):
        with pytest.raises(InputError, match=said):
            predictor.attention(texts, long=way)  # type: ignore[arg-type]


def test_what_has_no_attention_or_room_is_refused() -> None:
    with pytest.raises(InputError, match="no attention between source and target"):
        opened("seq2seq").attention([TEXT])
    predictor = opened("transformer")
    with pytest.raises(InputError, match=r"text 2: its target has .* and the model takes 32"):
        predictor.attention([(TEXT, TARGET), (TEXT, "a list of names " * 20)])
    for text, target, said in (
        (" \n", None, "the text is empty"),
        (TEXT, " ", "pair= is empty"),
        (TEXT, "a list of names " * 20, "pair= has .* tokens, and the model takes 32"),
    ):
        with pytest.raises(InputError, match=said):
            read_pair(predictor, text, target)


def test_a_word_that_is_never_written_has_no_rank() -> None:
    words = Tokenizer.train(["un chat", "a cat", "a dog"], "words", 60, end_last=True)
    (family,) = (one for one in families() if one.name == "seq2seq")
    marks = {"vocab": words.size, "start": words.cls, "end": words.sep}
    model = family.network(family.settings(**marks, width=8)).eval()
    predictor = Predictor(Bundle(model, words, family.model_type, "translate"))
    guesses = target_guesses(predictor, read_pair(predictor, "un chat", "a whale"))
    assert [(one.came, one.rank is None) for one in guesses] == [
        ("a", False),
        ("<unk>", True),
        ("</s>", False),
    ]
    assert guesses[1].probability == 0
    # All that can be written is named: there are no others.
    assert all(one.guess.rest == 0 for one in guesses)
    assert len(guesses[0].guess.pieces) < TOP


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("seq2seq", ["translation", "sheets", "steps", "steps"]),
        ("attention", ["translation", "steps", "steps"]),
        ("transformer", ["translation", "attention", "attention", "positions"]),
        ("marian", ["translation", "attention", "attention", "positions"]),
    ],
)
def test_a_page_has_what_the_model_can_show(name: str, kinds: list[str]) -> None:
    predictor = opened(name)
    sections = pair_sections(predictor, read_pair(predictor, TEXT, TARGET))
    assert [section.kind for section in sections] == kinds
    data = sections[0].data
    assert (data["attention"] is None) == (name == "seq2seq")
    if name == "seq2seq":
        assert "no attention between the two sides" in data["note"]
        return
    # The mean of the heads stands after them, and is chosen at first, in the layer of --align.
    weights = [layer["all"].whole for layer in data["attention"]["weights"]]
    heads = data["attention"]["heads"]
    assert data["attention"]["mean"] == (name != "attention")
    if heads > 1:
        assert data["attention"]["chosen"] == {"layer": 1, "head": heads, "query": 0}
        assert np.abs(weights[1][:heads].mean(0) - weights[1][heads]).max() <= 1


def test_a_long_side_has_the_largest_weights() -> None:
    """Also where the other side has fewer tokens than are kept."""
    predictor = Predictor(replace(translator("attention"), settings={}))
    short, long = "a b", "the list of names is a string " * 20
    for source, target in ((short, long), (long, short)):
        pair = read_pair(predictor, source, target)
        data = pair_sections(predictor, pair)[0].data["attention"]
        keys = len(pair.source.tokens)
        assert max(keys, len(pair.tokens)) > 128
        assert "vectors" not in data
        (layer,) = data["weights"]
        assert layer["index"].shape == (1, len(pair.tokens), min(LARGEST, keys))
        inside = look_inside_pair(predictor, pair)
        assert inside.cross is not None
        known = inside.cross.weights[0].sort(-1, descending=True).values[..., :LARGEST].numpy()
        assert np.abs(layer["weight"].whole / 10**4 - known).max() < 6e-5


def test_the_examples_of_the_task_are_pairs() -> None:
    """`attention` takes what `given_examples` makes of texts and pairs."""
    predictor = opened("transformer")
    (first,) = predictor.attention([Line(TEXT)])
    (second,) = predictor.attention([TextToText(TEXT, first.second or "")])
    assert np.abs(first.weights - second.weights).max() < 1e-6
