"""What every family of the registry promises; a family that is added is tested here by itself."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from firth.base.errors import FirthError, InputError
from firth.families import registry
from firth.families.family import Family
from firth.families.registry import by_model_type, by_name, families, names, register_family
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.counts import Sentences
from firth.models.protocols import Encoder, EncoderDecoder, Network, NeuralLanguageModel
from firth.nn.vocab import target_log_probs
from firth.recipes.settings import PretrainSettings
from firth.samples.texts import TEXTS
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer
from tests.plugins.toy_family import FAMILY as TOY

LINES = [line for lines in TEXTS.values() for line in lines]
FAMILIES = {family.name: family for family in [*registry.BUILT_IN, TOY]}
NETWORKS = [name for name, family in FAMILIES.items() if not family.arrays]
PRETRAINED = [name for name, family in FAMILIES.items() if family.recipe is not None]
HOSTILE: list[Any] = [-1, 0, 10**12, 1.5, math.nan, math.inf, True, None, "x", "", [], [1], {}]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.train(LINES, "words", 200)


def small(family: Family, words: Tokenizer) -> Any:
    """Settings of a small model, as a folder of the family can have them."""
    values = {"width": 16, "depth": 2, "heads": 2, "inner": 24, "length": 60, "order": 3}
    values |= {"vocab": words.size, "start": words.cls, "end": words.sep}
    known = {name: values[name] for name in values if name in family.settings.model_fields}
    settings = family.settings(**known)
    return family.read(family.write(settings), "config.json")


def rows(words: Tokenizer, count: int = 12) -> list[list[int]]:
    return [[*found.ids, words.sep] for found in words.encode(LINES[:count], special=False)]


def make(family: Family, words: Tokenizer, seed: int = 0) -> Bundle:
    """A small model with new weights, or with counts."""
    settings = small(family, words)
    # GPT-2's folders say by their architecture whether they are more than an encoder.
    kind = "continue" if family.predicts(settings) and not family.layout.bare else None
    if family.is_encoder_decoder:
        kind = "translate"
    torch.manual_seed(seed)
    if family.arrays:
        text = rows(words, 40)
        ids = np.array([word for row in text for word in row])
        model = family.network_class.fit([Sentences(ids, np.array([*map(len, text)]))], settings)
    else:
        model = family.network(settings).eval()
    return Bundle(model, words, family.model_type, kind)


def stream(texts: list[list[int]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    ids = torch.tensor([word for text in texts for word in text])
    positions = torch.cat([torch.arange(len(text)) for text in texts])
    return ids, positions, torch.zeros_like(ids), torch.tensor([*map(len, texts)])


def answers(bundle: Bundle, texts: list[list[int]]) -> list[Tensor]:
    """What a model makes of each text: vectors, or log-probabilities."""
    ids, positions, segments, lengths = stream(texts)
    with torch.no_grad():
        if bundle.record.is_encoder:
            found = bundle.encoder(ids, positions, segments, lengths).tokens
        elif bundle.record.is_encoder_decoder:
            found = bundle.translator(ids, lengths, ids, lengths)
        else:
            found = bundle.language.score(ids, lengths)[0]
    return list(found.split(lengths.tolist()))


def named(model: EncoderDecoder, ids: Tensor, lengths: Tensor) -> Tensor:
    """The log-probability of each token of texts that are translated to themselves."""
    vectors = model(ids, lengths, ids, lengths)
    rows = (ids - model.first).clamp(min=0)  # a few words are unknown, and have no row
    return target_log_probs(vectors, model.output.weight, rows, model.output.bias)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_record_is_whole(name: str) -> None:
    family = FAMILIES[name]
    assert family.name
    assert "\n" not in family.help
    assert 0 < len(family.help) < 80
    assert family.contracts
    assert by_model_type(family.model_type, "here") is family
    assert set(family.adjustable) <= set(family.settings.model_fields)
    assert family.options <= set(PretrainSettings.model_fields)
    if family.recipe is None:
        with pytest.raises(InputError, match=f"there is no model '{name}'"):
            by_name(name)
        return
    assert by_name(name) is family
    assert family.default_size in family.sizes
    assert set(family.timed_sizes) <= set(family.sizes)


@pytest.mark.parametrize("name", PRETRAINED)
def test_every_size_has_settings(name: str, words: Tokenizer) -> None:
    family = FAMILIES[name]
    given = {"vocab": words.size, "start": words.cls, "end": words.sep}
    for size in family.sizes:
        settings = family.settings_for(size, **given)
        assert settings.vocab == words.size
        with pytest.raises(InputError, match="has no setting 'wdith' to be set"):
            family.settings_for(size, {"wdith": 64}, **given)
    if "width" in family.adjustable:
        assert family.settings_for(size, {"width": 64}, **given).width == 64
        with pytest.raises(InputError, match="width"):
            family.settings_for(size, {"width": -2}, **given)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_contracts_are_kept(name: str, words: Tokenizer) -> None:
    family = FAMILIES[name]
    model: Any = make(family, words).model
    assert isinstance(model, Encoder) == family.is_encoder
    assert isinstance(model, Network) == (not family.arrays)
    if isinstance(model, Network):
        model.set_dropout(0.25)
        assert model.settings.dropout == 0.25
        assert set(model.saved_tensors()) <= set(model.state_dict())
    if isinstance(model, Encoder):
        assert len(model.table) == words.size
        kept = model.table.detach()[3:9].clone()
        model.replace_table(kept)
        assert torch.equal(model.table, kept)
        assert model.table.requires_grad
        assert all(isinstance(layer, nn.Module) for layer in model.top_layers(1))
        assert model.token_cost().products > 0
    assert isinstance(model, EncoderDecoder) == family.is_encoder_decoder
    if family.is_encoder_decoder:
        assert (model.length is not None) == family.has_length
        assert model.output.weight.shape == (words.size - model.first, model.width)
    if family.is_language_model:
        model = make(family, words).model
        assert model.gradient == isinstance(model, NeuralLanguageModel)
        assert (model.length is not None) == family.has_length
        state = model.score(torch.tensor([5, 6]), torch.tensor([2]))[1].latest(8)
        again = model.state(state.tensors())
        ids, lengths = torch.tensor([7]), torch.tensor([1])
        assert torch.allclose(*(model.score(ids, lengths, one)[0] for one in (state, again)))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_config_is_read_as_it_was_written(name: str, words: Tokenizer) -> None:
    family = FAMILIES[name]
    settings = small(family, words)
    page = json.loads(json.dumps(family.write(settings)))
    assert page["model_type"] == family.model_type
    assert family.read(page, "config.json") == settings


def tried(family: Family, page: dict[str, Any]) -> tuple[Any, str | None]:
    """The settings in a config.json, or why it is refused; nothing else may come of it."""
    try:
        return family.read(page, "there/config.json"), None
    except InputError as error:
        return None, str(error)


@pytest.mark.parametrize("name", FAMILIES)
def test_hostile_values_are_refused_or_harmless(name: str, words: Tokenizer) -> None:
    family = FAMILIES[name]
    page = json.loads(json.dumps(family.write(small(family, words))))
    refused = 0
    for key in page.keys() - {"model_type"}:
        for value in HOSTILE:
            found, reason = tried(family, page | {key: value})
            assert found is None or isinstance(found, family.settings)
            assert reason is None or reason.startswith("there/config.json: ")
            refused += found is None
    assert refused > len(HOSTILE)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_folder_is_exact(name: str, words: Tokenizer, tmp_path: Path) -> None:
    made = make(FAMILIES[name], words)
    folder = save(made, tmp_path / "saved")
    again = load(folder)
    assert (again.family, again.kind, again.unmatched) == (made.family, made.kind, ((), ()))
    assert again.model.settings == made.model.settings
    texts = rows(words)
    for one, other in zip(answers(made, texts), answers(again, texts), strict=True):
        assert torch.equal(one, other)
    save(again, tmp_path / "again")
    for file in ("model.safetensors", "config.json", "README.md"):
        assert (folder / file).read_bytes() == (tmp_path / "again" / file).read_bytes()
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# ")
    assert made.record.card(made.model) in card


ENCODERS = [name for name, family in FAMILIES.items() if family.is_encoder]
HEADS = [(name, kind) for name in ENCODERS for kind in ("classify", "tag")]


@pytest.mark.parametrize(("name", "kind"), [*HEADS, ("toy", "pretrain"), ("bert", "pretrain")])
def test_a_folder_with_a_head_is_exact(
    name: str, kind: str, words: Tokenizer, tmp_path: Path
) -> None:
    """Also one whose family has no place for the head: it is saved under names of our own."""
    made = make(FAMILIES[name], words)
    labels = ("no", "yes") if kind != "pretrain" else ()
    made.encoder.set_pooler(kind != "tag")
    made.kind, made.labels = kind, labels
    made.head = make_head(kind, made.encoder, labels)
    assert made.own_head == (kind not in made.record.layout.heads)
    again = load(save(made, tmp_path / "saved"))
    assert (again.kind, again.labels, again.tied) == (kind, labels, True)
    for one, other in ((made.head, again.head), (made.network, again.network)):
        ours, theirs = one.state_dict(), other.state_dict()
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_a_head_of_an_unknown_task_is_refused_by_name(words: Tokenizer, tmp_path: Path) -> None:
    made = make(TOY, words)
    made.kind, made.labels = "classify", ("no", "yes")
    made.head = make_head("classify", made.encoder, made.labels)
    folder = save(made, tmp_path / "saved")
    record = json.loads((folder / "firth.json").read_text())
    (folder / "firth.json").write_text(json.dumps(record | {"task": "haggle"}))
    with pytest.raises(InputError, match="the task 'haggle' is none that Firth knows"):
        load(folder)


@pytest.mark.parametrize("name", FAMILIES)
def test_batch_mates_change_nothing(name: str, words: Tokenizer) -> None:
    made = make(FAMILIES[name], words)
    texts = [text[: 3 + number % 7] for number, text in enumerate(rows(words))]
    together = answers(made, texts)
    for text, found in zip(texts, together, strict=True):
        assert torch.allclose(answers(made, [text])[0], found, atol=2e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_reach_every_parameter(name: str, words: Tokenizer) -> None:
    family = FAMILIES[name]
    made = make(family, words)
    ids, positions, segments, lengths = stream(rows(words))
    outputs: list[Tensor] = []
    if family.is_encoder:
        hidden = made.encoder(ids, positions, segments, lengths)
        outputs = [hidden.tokens, *([] if hidden.pooled is None else [hidden.pooled])]
    if family.is_encoder_decoder:
        outputs.append(named(made.translator, ids, lengths))
    if made.kind == "continue":
        outputs.append(made.language.score(ids, lengths)[0])
    torch.manual_seed(1)
    sum((torch.randn_like(output) * output).sum() for output in outputs).backward()
    parameters = made.network.named_parameters()
    assert [key for key, tensor in parameters if tensor.grad is None or not tensor.grad.any()] == []


@pytest.mark.parametrize("name", NETWORKS)
def test_new_weights_are_a_function_of_the_seed(name: str, words: Tokenizer) -> None:
    one, same, other = (make(FAMILIES[name], words, seed).network for seed in (3, 3, 4))
    states = [model.state_dict() for model in (one, same, other)]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert any(not torch.equal(states[0][key], states[2][key]) for key in states[0])


def test_what_a_model_may_be_is_listed() -> None:
    assert names()[:6] == ["bert", "gpt", "elmo", "rnn", "ffnn", "ngram"]
    with pytest.raises(InputError, match="there is no model 'emlo'; there are: bert, gpt, elmo"):
        by_name("emlo")
    with pytest.raises(InputError, match="there: model_type 7 is not one that Firth opens"):
        by_model_type(7, "there")


def test_a_built_in_family_is_never_replaced() -> None:
    for changes in ({"name": "bert"}, {"model_type": "gpt2"}):
        values = {field: getattr(TOY, field) for field in TOY.__dataclass_fields__}
        with pytest.raises(FirthError, match="already"):
            register_family(type(TOY)(**values | changes))


def test_an_installed_family_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "toy"

        def load(self) -> Family:
            return TOY

    monkeypatch.delitem(registry._known, "toy")
    assert "toy" not in [family.name for family in families()]
    monkeypatch.setattr(registry, "_installed", lambda: (Point(),))
    assert names()[-1] == "toy"
    assert by_model_type("toy", "here") is TOY
