"""What every language model promises: chances that sum to one, the same scores however a text is read, and an exact folder."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.families.registry import families
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.counts import NGramSettings, Sentences
from firth.models.ffnn import Ffnn, FfnnSettings
from firth.models.gpt import Gpt, GptSettings
from firth.models.ngram import NGram
from firth.models.protocols import LanguageModel
from firth.models.rnn import Rnn, RnnSettings
from firth.nn.recurrent import CELLS
from firth.samples.texts import TEXTS
from firth.samples.tickets import tickets
from firth.text.tokenizer import Tokenizer

LINES = [
    *(line for lines in TEXTS.values() for line in lines),
    *(ticket.text for ticket in tickets()),
]
TIED: dict[str, Any] = {"tied": True}
CLASSES: dict[str, Any] = {"output": "classes", "cutoffs": (40,)}
SAMPLED: dict[str, Any] = {"output": "sampled", "samples": 100, "tied": True}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tanh": ("firth-rnn", {"cell": "tanh"}),
    "gru": ("firth-rnn", {"cell": "gru", "depth": 1}),
    "lstm": ("firth-rnn", {}),
    "lstm, one text": ("firth-rnn", {"end": None}),
    "lstm, start beyond": ("firth-rnn", {"start": None}),
    "lstm, tied": ("firth-rnn", TIED),
    "lstm, classes": ("firth-rnn", CLASSES),
    "lstm, sampled": ("firth-rnn", SAMPLED),
    "order 2": ("firth-ffnn", {"order": 2}),
    "order 4": ("firth-ffnn", {"order": 4, "direct": True}),
    "order 4, one text": ("firth-ffnn", {"order": 4, "end": None}),
    "order 3, tied": ("firth-ffnn", {"order": 3, "inner": 16, **TIED}),
    "order 3, classes": ("firth-ffnn", {"order": 3, **CLASSES}),
    "gpt": ("gpt2", {}),
    "gpt, one mark": ("gpt2", {"start": 3, "end": 3}),
    "unigram": ("firth-ngram", {"order": 1}),
    "trigram": ("firth-ngram", {"order": 3}),
    "5-gram": ("firth-ngram", {"order": 5}),
}
NAMES = list(VARIANTS)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(before)


@cache
def words() -> Tokenizer:
    return Tokenizer.train(LINES, "words", 500)


@cache
def sentences() -> list[list[int]]:
    """Real lines, each with its end mark."""
    return [[*row.ids, words().sep] for row in words().encode(LINES, special=False)]


@cache
def make(name: str) -> Bundle:
    """A small model with lively weights, or with counts of real text."""
    family, changes = VARIANTS[name]
    vocab = words().size
    values = {"vocab": vocab, "start": words().cls, "end": words().sep} | changes
    values |= {"start": vocab} if values["start"] is None else {}
    torch.manual_seed(0)
    if family == "firth-ngram":
        text = sentences()[:80]
        rows = Sentences(
            np.array([word for line in text for word in line]),
            np.array([len(line) for line in text]),
        )
        return Bundle(NGram.fit([rows], NGramSettings(**values)), words(), family, "continue")
    if family == "gpt2":
        sizes = {"width": 32, "depth": 2, "heads": 4, "inner": 48, "length": 200, "spread": 0.3}
        return Bundle(Gpt(GptSettings(**sizes | values)).eval(), words(), family, "continue")
    values = (
        {"width": 16, "spread": 0.5} | ({"inner": 20} if family == "firth-ffnn" else {}) | values
    )
    model = Rnn(RnnSettings(**values)) if family == "firth-rnn" else Ffnn(FfnnSettings(**values))
    with torch.no_grad():
        for tensor in model.layers.parameters() if isinstance(model, Rnn) else ():
            tensor.mul_(3)
    if values.get("output") in ("classes", "sampled"):
        model.output.rank(torch.rand(model.settings.symbols))
    return Bundle(model.eval(), words(), family, "continue")


def tensors(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    return torch.tensor([word for row in rows for word in row], dtype=torch.long), torch.tensor(
        [len(row) for row in rows]
    )


def score(name: str, rows: list[list[int]], state: Any = None) -> tuple[Tensor, Any]:
    return make(name).language.score(*tensors(rows), state)


def close(name: str, ours: Tensor, theirs: Tensor) -> None:
    """Counts leave no room for rounding, and networks little."""
    assert ours.shape == theirs.shape
    assert torch.allclose(
        ours, theirs, atol=1e-12 if VARIANTS[name][0] == "firth-ngram" else 2e-5, rtol=0
    )


def test_every_family_is_here() -> None:
    known = {family.model_type for family in families() if family.is_language_model}
    assert {family for family, _ in VARIANTS.values()} == known
    assert {
        changes.get("cell", "lstm")
        for family, changes in VARIANTS.values()
        if family == "firth-rnn"
    } == set(CELLS)


@pytest.mark.parametrize("name", NAMES)
def test_a_chain_of_steps_is_a_score(name: str) -> None:
    """And what may follow a word sums to one, the start mark left out."""
    made = make(name)
    model: LanguageModel[Any] = made.language
    text = [word for line in sentences()[90:92] for word in line]
    whole, _ = score(name, [text])
    state, read, found = model.start(1), made.model.settings.start, []
    for word in text:
        scores, state = model.step(torch.tensor([read]), state)
        assert scores.shape == (1, model.vocab)
        assert scores.exp().sum().item() == pytest.approx(1, abs=1e-5)
        found.append(scores[0, word])
        read = word
    close(name, torch.stack(found), whole)
    assert whole.std() > 0.1  # they are not all alike
    assert isinstance(model, nn.Module) == model.gradient


@settings(max_examples=60)
@given(st.sampled_from(NAMES), st.lists(st.integers(0, 60), max_size=5))
def test_going_on_from_a_state_is_reading_at_once(name: str, cuts: list[int]) -> None:
    ids = torch.tensor([word for line in sentences()[:4] for word in line])
    model = make(name).language
    with torch.no_grad():
        whole, _ = model.score(ids, torch.tensor([len(ids)]))
        state, found = model.start(1), []
        for part in torch.tensor_split(ids, sorted(cuts)):
            scores, state = model.score(part, torch.tensor([len(part)]), state)
            found.append(scores)
    close(name, torch.cat(found), whole)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_goes_on_where_a_score_ended_and_the_other_way_round(name: str) -> None:
    line = sentences()[90]
    whole, _ = score(name, [line])
    _, state = score(name, [line[:4]])
    scores, state = make(name).language.step(torch.tensor([line[4]]), state)
    close(name, scores[0, line[5]], whole[5])
    rest, _ = score(name, [line[5:]], state)
    close(name, rest, whole[5:])


@pytest.mark.parametrize("name", NAMES)
def test_two_steps_from_one_state_leave_each_other_alone(name: str) -> None:
    model, line = make(name).language, sentences()[90]
    whole, _ = score(name, [line])
    _, state = score(name, [line[:4]])
    _, first = model.step(torch.tensor([line[4]]), state)
    _, second = model.step(torch.tensor([line[0]]), state)
    scores, _ = model.step(torch.tensor([line[5]]), first)
    close(name, scores[0, line[6]], whole[6])
    scores, _ = model.step(torch.tensor([line[5]]), second)
    other, _ = score(name, [[*line[:4], line[0], line[5], line[6]]])
    close(name, scores[0, line[6]], other[6])


@pytest.mark.parametrize("name", NAMES)
def test_batch_mates_change_nothing(name: str) -> None:
    model = make(name).language
    rows = sorted(sentences(), key=len)[::9]
    together, state = score(name, rows)
    following, _ = model.step(torch.arange(len(rows)) + 5, state)
    for number, (row, scores) in enumerate(
        zip(rows, together.split([len(row) for row in rows]), strict=True)
    ):
        alone, state = score(name, [row])
        close(name, alone, scores)
        close(name, model.step(torch.tensor([number + 5]), state)[0][0], following[number])


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_picked_and_repeated_and_empty_ones_stay_as_they_are(name: str) -> None:
    model = make(name).language
    texts = [sentences()[0][:3], sentences()[1][:5], []]
    _, state = score(name, texts)
    picked = state.pick(torch.tensor([2, 1, 1]))
    scores, after = model.step(torch.tensor([7, 8, 9]), picked)
    for row, (text, word) in enumerate([([], 7), (texts[1], 8), (texts[1], 9)]):
        close(name, scores[row], model.step(torch.tensor([word]), score(name, [text])[1])[0][0])
    again, _ = model.step(torch.tensor([7]), after.pick(torch.tensor([1])))
    close(name, again, model.step(torch.tensor([7]), score(name, [[*texts[1], 8]])[1])[0])
    empty, same = score(name, [[], [], []], state)
    assert empty.shape == (0,)
    close(
        name,
        model.step(torch.tensor([7, 8, 9]), same)[0],
        model.step(torch.tensor([7, 8, 9]), state)[0],
    )


@pytest.mark.parametrize(
    "name",
    [name for name, (family, new) in VARIANTS.items() if family != "gpt2" and "end" not in new],
)
def test_after_an_end_mark_a_sentence_begins_anew(name: str) -> None:
    rows = sentences()[:4]
    close(name, score(name, [[word for row in rows for word in row]])[0], score(name, rows)[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_exact(name: str, tmp_path: Path) -> None:
    """A model that is saved and opened again scores to the bit as before, and is saved to the same bytes."""
    made = make(name)
    again = load(save(made, tmp_path / "saved"))
    assert (again.family, again.kind, again.unmatched) == (made.family, "continue", ((), ()))
    assert again.model.settings == made.model.settings
    assert again.end == made.end == words().sep
    assert again.length == made.length == (200 if made.family == "gpt2" else None)
    ids = tensors(sentences()[85:95])
    (ours, state), (theirs, other) = made.language.score(*ids), again.language.score(*ids)
    assert torch.equal(ours, theirs)
    last = torch.arange(10) + 5
    assert torch.equal(made.language.step(last, state)[0], again.language.step(last, other)[0])
    save(again, tmp_path / "again")
    for file in ("model.safetensors", "config.json", "tokenizer.json", "README.md"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "saved" / file).read_bytes()
    assert json.loads((tmp_path / "saved/firth.json").read_text())["task"] == "continue"
    assert (tmp_path / "saved/README.md").read_text().startswith("# A language model\n")
    if isinstance(again.model, nn.Module):
        assert not any(
            tensor.requires_grad or tensor.is_meta for tensor in again.model.parameters()
        )
        assert again.model.training is False
    if VARIANTS[name][1].get("tied"):
        assert again.model.output.table is again.model.table
    if made.record.is_encoder:
        assert again.encoder is again.model
    else:
        with pytest.raises(InputError, match="gives no vectors"):
            again.encoder  # noqa: B018 - asking is what is refused
