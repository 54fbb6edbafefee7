"""GPT-2: the same numbers as transformers from the same weights, as an encoder and as a language model, whole or in pieces."""

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from firth.base.errors import InputError
from firth.families import gpt as adapter
from firth.families.layout import body_sources
from firth.folders.weights import to_theirs, turned
from firth.models.gpt import Gpt, GptSettings, GptState
from firth.samples.texts import TEXTS
from tests.parity.test_bert import (
    Padded,
    batch,
    check_gradients,
    close,
    close_weights,
    loss,
    shake,
    shapes,
)

SIZES = {
    "vocab_size": 101,
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 512,
    "bos_token_id": 100,
    "eos_token_id": 100,
}
LETTERS = sorted({letter for texts in TEXTS.values() for text in texts for letter in text})
Pair = tuple[Gpt, GPT2LMHeadModel]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def theirs(spread: float, **changes: Any) -> GPT2LMHeadModel:
    """A small network with weights that they draw."""
    torch.manual_seed(0)
    model = GPT2LMHeadModel._from_config(
        GPT2Config(**SIZES | changes, initializer_range=spread), attn_implementation="eager"
    )
    shake(model, torch.Generator().manual_seed(1))
    return model.eval()


def ours(model: GPT2LMHeadModel) -> Gpt:
    """The same network here."""
    made = Gpt(adapter.FAMILY.read(model.config.to_dict(), "config.json"))
    state, names = (
        model.transformer.state_dict(),
        {name: body_sources(adapter.LAYOUT, name)[0] for name in made.state_dict()},
    )
    made.load_state_dict(
        {name: turned(adapter.LAYOUT, source, state[source]) for name, source in names.items()}
    )
    return made.eval()


@pytest.fixture(scope="module")
def sharp() -> Pair:
    """Weights so wide that each head looks at a few tokens: equal shares would agree whatever the queries and keys are."""
    reference = theirs(0.2)
    return ours(reference), reference


@pytest.fixture(scope="module")
def gentle() -> Pair:
    """Weights for gradients, which grow with the weights' width, and with them the rounding noise."""
    reference = theirs(0.1)
    return ours(reference), reference


def rectangle(asked: Padded) -> dict[str, Tensor]:
    """What transformers takes; a segment would be looked up among the words."""
    return {"input_ids": asked.ids, "attention_mask": asked.mask.long()}


def letters(lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Real text in rows of these lengths: a token is a letter."""
    text = "".join(part for texts in TEXTS.values() for part in texts)
    ids = [LETTERS.index(letter) for letter in text[: sum(lengths)]]
    assert len(ids) == sum(lengths)
    return torch.tensor(ids), torch.tensor(lengths)


def expected(model: GPT2LMHeadModel, rows: Sequence[Tensor], start: int = 100) -> Tensor:
    """The log-probability of each token of some rows, one row at a time after the start mark."""
    found = []
    for row in rows:
        logits = model(torch.cat([torch.tensor([start]), row])[None]).logits[0]
        found.append(logits.log_softmax(-1)[:-1].gather(1, row[:, None])[:, 0])
    return torch.cat(found)


def test_every_output_is_theirs(sharp: Pair, seed: int) -> None:
    model, reference = sharp
    generator = torch.Generator().manual_seed(seed)
    for lengths in shapes(random.Random(seed), 60):
        print(lengths)
        asked = batch(lengths, SIZES["vocab_size"], generator)
        with torch.inference_mode():
            known = reference(**rectangle(asked), output_hidden_states=True, output_attentions=True)
            for weights in (False, True):
                hidden = model(*asked.stream, layers=True, weights=weights)
                assert hidden.layers[-1] is hidden.tokens
                assert torch.equal(
                    hidden.pooled, torch.stack([rows[-1] for rows in hidden.tokens.split(lengths)])
                )
                for one, other in zip(hidden.layers, known.hidden_states, strict=True):
                    close(one, other[asked.mask])
                close(hidden.tokens @ model.token.weight.t(), known.logits[asked.mask])
            close_weights(hidden, known.attentions, lengths)


def test_attention_is_not_flat(sharp: Pair) -> None:
    asked = batch([20] * 8, SIZES["vocab_size"], torch.Generator().manual_seed(0))
    with torch.inference_mode():
        for layer in sharp[0](*asked.stream, weights=True).weights:
            assert (
                torch.stack(list(layer))[:, :, -1].amax(-1).mean() > 2 / 20
            )  # twice an equal share of 20 tokens


def gradients(model: Gpt) -> dict[str, Tensor]:
    """Ours under their names."""
    slopes = to_theirs(
        adapter.LAYOUT, {name: tensor.grad for name, tensor in model.named_parameters()}
    )
    return {f"transformer.{name}": slope for name, slope in slopes.items()}


@pytest.mark.parametrize("weights", [False, True], ids=["fast", "explained"])
@pytest.mark.parametrize(
    "lengths",
    [[1], [9, 9, 9, 9], [12, 11, 11, 10, 1], [3, 30, 1, 1, 17, 64], [512, 1, 33]],
    ids=str,
)
def test_every_gradient_of_the_encoder_is_theirs(
    gentle: Pair, lengths: list[int], weights: bool, seed: int
) -> None:
    model, reference = gentle
    asked = batch(lengths, SIZES["vocab_size"], torch.Generator().manual_seed(seed))
    known = reference(**rectangle(asked), output_hidden_states=True)
    reference.zero_grad()
    loss(
        [known.logits[asked.mask], *(x[asked.mask] for x in known.hidden_states)],
        torch.Generator().manual_seed(seed),
    ).backward()
    model.zero_grad()
    hidden = model(*asked.stream, layers=True, weights=weights)
    loss(
        [hidden.tokens @ model.token.weight.t(), *hidden.layers],
        torch.Generator().manual_seed(seed),
    ).backward()
    check_gradients(
        gradients(model), {name: tensor.grad for name, tensor in reference.named_parameters()}
    )


@pytest.mark.parametrize(
    "lengths",
    [[1], [9, 9, 0, 9], [12, 11, 11, 10, 1], [0, 3, 30, 1, 1, 17, 64], [511, 1, 33]],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True], ids=["sum", "weighted"])
def test_scores_and_their_gradients_are_theirs(
    gentle: Pair, lengths: list[int], weighted: bool, seed: int
) -> None:
    model, reference = gentle
    ids, sizes = letters(lengths)
    slopes = (
        torch.rand(len(ids), generator=torch.Generator().manual_seed(seed))
        if weighted
        else torch.tensor(1 / len(ids))
    )
    known = expected(reference, ids.split(lengths))
    reference.zero_grad()
    (known * slopes).sum().backward()
    model.zero_grad()
    scores, _ = model.score(ids, sizes)
    close(scores, known)
    (scores * slopes).sum().backward()
    check_gradients(
        gradients(model), {name: tensor.grad for name, tensor in reference.named_parameters()}
    )


@pytest.mark.parametrize(
    "cuts",
    [
        [[5, 5, 5], [1, 1, 1], [4, 4, 4]],
        [[3, 0, 7, 7], [0, 0, 2, 2], [9, 1, 0, 5]],
        [[0, 0], [0, 3], [0, 0], [70, 70]],
        [[100, 2], [2, 100], [300, 300]],
    ],
    ids=str,
)
def test_a_text_read_in_pieces_is_the_text(sharp: Pair, cuts: list[list[int]]) -> None:
    """Scores, gradients and what comes next are those of rows read at once."""
    model, reference = sharp
    lengths = [sum(column) for column in zip(*cuts, strict=True)]
    rows = letters(lengths)[0].split(lengths)
    whole = expected(reference, rows).split(lengths)
    state, read = None, [0] * len(rows)
    for cut in cuts:
        pieces = [
            row[first : first + size] for row, first, size in zip(rows, read, cut, strict=True)
        ]
        scores, state = model.score(torch.cat(pieces), torch.tensor(cut), state)
        known = [
            row[first : first + size] for row, first, size in zip(whole, read, cut, strict=True)
        ]
        if sum(cut):
            close(scores, torch.cat(known))
        read = [first + size for first, size in zip(read, cut, strict=True)]
    at_once = model.score(torch.cat(rows), torch.tensor(lengths))[1]
    assert (
        state.cache.lengths.tolist()
        == at_once.cache.lengths.tolist()
        == [length + 1 for length in lengths]
    )
    close(state.last, at_once.last)
    nxt = torch.arange(len(rows))
    for _ in range(3):
        one, state = model.step(nxt, state)
        other, at_once = model.step(nxt, at_once)
        close(one, other)


def test_the_text_before_is_given(gentle: Pair) -> None:
    """A gradient reaches only the tokens that are scored, and those are seen as a part of the whole."""
    model, reference = gentle
    ids, _ = letters([60])
    with torch.no_grad():
        _, state = model.score(ids[:40], torch.tensor([40]))
    model.zero_grad()
    scores, _ = model.score(ids[40:], torch.tensor([20]), state)
    close(scores, expected(reference, [ids])[40:])
    scores.sum().backward()
    used = model.position.weight.grad.abs().sum(1) > 0
    assert used.nonzero()[:, 0].tolist() == list(
        range(41, 60)
    )  # the last is read only for what may come after it


def test_steps_are_the_scores(sharp: Pair) -> None:
    """One token at a time gives what the whole row gives, beyond the first memory of the cache and in any order of rows."""
    model, reference = sharp
    ids, _ = letters([150, 150, 150])
    grid = ids.view(3, 150)
    known = expected(reference, list(grid)).view(3, 150)
    state, token = model.start(3), torch.full((3,), 100)
    order = torch.arange(3)
    for column in range(150):
        scores, state = model.step(token, state)
        close(scores.gather(1, grid[order, column][:, None])[:, 0], known[order, column])
        assert (scores.exp().sum(1) - 1).abs().max() < 1e-5
        if column % 40 == 20:
            turn = torch.tensor([1, 2, 0])
            state, order = state.pick(turn), order[turn]
        token = grid[order, column]


def test_a_state_can_be_gone_on_from_twice(sharp: Pair) -> None:
    """Caches share memory; what one branch writes is not what another reads."""
    model, _ = sharp
    _, root = model.score(*letters([9, 4, 20]))

    def go(state: GptState, tokens: list[int]) -> list[Tensor]:
        found = []
        for token in tokens:
            scores, state = model.step(torch.full((len(state.last),), token), state)
            found.append(scores)
        return found

    paths = [[1, 2, 3], [4, 5, 6], [1, 2, 3]]
    first, other, again = (go(root, path) for path in paths)
    fresh = go(model.score(*letters([9, 4, 20]))[1], paths[1])
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(other, fresh, strict=True))
    assert not torch.allclose(first[1], other[1])
    picked = go(root.pick(torch.tensor([1, 1, 0])), paths[0])
    for one, whole in zip(picked, first, strict=True):
        close(one, whole[[1, 1, 0]])


def test_what_is_longer_than_the_positions_is_refused() -> None:
    model = ours(theirs(0.1, n_positions=16))
    scores, state = model.score(*letters([15, 3]))  # and the start mark
    assert len(scores) == 18
    with pytest.raises(InputError, match="16"):
        model.step(torch.tensor([1, 1]), state)
    with pytest.raises(InputError, match="17 tokens"):
        model.score(*letters([16]))
    with pytest.raises(InputError, match="17 tokens"):
        model.score(torch.tensor([1]), torch.tensor([1, 0]), state)
    short = state.pick(torch.tensor([1]))
    for _ in range(12):
        _, short = model.step(torch.tensor([1]), short)
    with pytest.raises(InputError, match="16"):
        model.read(torch.tensor([1]), torch.tensor([1]), short)


@pytest.mark.parametrize(
    ("ids", "lengths", "reason"),
    [
        ([1, 101], [2], "id 101"),
        ([-1], [1], "id -1"),
        ([1, 2], [1], "add up"),
        ([1, 2], [3, -1], "add up"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    sharp: Pair, ids: list[int], lengths: list[int], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        sharp[0].score(torch.tensor(ids), torch.tensor(lengths))
    with pytest.raises(InputError, match="2 rows"):
        sharp[0].score(torch.tensor([1]), torch.tensor([1]), sharp[0].start(2))
    with pytest.raises(InputError, match="2 rows"):
        sharp[0].step(torch.tensor([1]), sharp[0].start(2))


def test_training_drops_at_three_rates() -> None:
    """Each of the three rates alone makes two readings of a text differ; at rest nothing is dropped."""
    torch.manual_seed(0)
    settings = GptSettings(vocab=50, width=32, depth=2, heads=4, inner=64, start=0, length=64)
    model = Gpt(settings)
    ids, lengths = torch.randint(50, (60,)), torch.tensor([30, 20, 10])
    assert torch.equal(*(model.eval().score(ids, lengths)[0] for _ in range(2)))
    for place in ("dropout", "embedding_dropout", "attention_dropout"):
        rates = {"dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0} | {place: 0.5}
        dropping = Gpt(settings.model_copy(update=rates)).train()
        scores = [dropping.score(ids, lengths)[0].detach() for _ in range(2)]
        assert not torch.equal(*scores), place


def test_fresh_weights_are_smaller_where_they_add_to_the_residual_stream() -> None:
    torch.manual_seed(0)
    sizes = {"vocab": 101, "width": 64, "depth": 8, "heads": 4, "inner": 256, "start": 100}
    for block in Gpt(GptSettings(**sizes, spread=0.02)).blocks:
        for layer in (block.attention.out, block.down):
            assert layer.weight.std().item() == pytest.approx(0.02 / 16**0.5, rel=0.1)  # 2 a block
        for layer in (block.attention.qkv, block.up):
            assert layer.weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_a_small_text_is_learned() -> None:
    torch.manual_seed(0)
    model = Gpt(
        GptSettings(
            vocab=101,
            width=64,
            depth=2,
            heads=4,
            inner=128,
            start=100,
            length=64,
            dropout=0.0,
            embedding_dropout=0.0,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    ids, lengths = letters([40, 40, 39, 25])
    for _ in range(60):
        optimizer.zero_grad()
        loss_now = -model.score(ids, lengths)[0].mean()
        loss_now.backward()
        optimizer.step()
    assert loss_now < 0.3
    assert -Gpt(model.settings).score(ids, lengths)[0].mean() > 4


def test_settings_are_translated_both_ways() -> None:
    settings = GptSettings(
        vocab=90, width=24, depth=3, heads=3, inner=50, length=77, start=1, end=None, dropout=0.2, embedding_dropout=0.3,
        attention_dropout=0.4, eps=1e-6, activation="relu", spread=0.1,
    )  # fmt: skip
    for kind, name in (("continue", "GPT2LMHeadModel"), (None, "GPT2Model")):
        config = adapter.FAMILY.write(settings, kind)
        assert config["architectures"] == [name]
        assert adapter.FAMILY.read(config, "config.json") == settings
        assert adapter.FAMILY.read(GPT2Config(**config).to_dict(), "config.json") == settings
    published = GPT2Config().to_dict()
    assert published["n_inner"] is None
    small = adapter.FAMILY.read(published, "config.json")
    assert (small.inner, small.start, small.end, small.activation, small.length) == (
        3072,
        50256,
        50256,
        "gelu_new",
        1024,
    )
    assert (
        adapter.FAMILY.read(
            published | {"bos_token_id": None, "eos_token_id": 5}, "config.json"
        ).start
        == 5
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"scale_attn_weights": False}, "scale_attn_weights"),
        ({"scale_attn_by_inverse_layer_idx": True}, "inverse_layer"),
        ({"add_cross_attention": True}, "cross"),
        ({"tie_word_embeddings": False}, "tie_word"),
        ({"activation_function": "quick_gelu"}, "activation_function"),
        ({"n_embd": "64"}, "n_embd"),
        ({"n_head": 5}, "width 64 is not a multiple"),
        ({"vocab_size": 1 << 40}, "vocab_size"),
        ({"bos_token_id": 50256}, "beyond the vocabulary"),
        ({"eos_token_id": [1, 2]}, "eos_token_id"),
        ({"bos_token_id": None, "eos_token_id": None}, "bos_token_id"),
    ],
)
def test_a_config_that_the_network_cannot_express_is_refused(
    changes: dict[str, Any], reason: str
) -> None:
    config = GPT2Config(**SIZES).to_dict()
    adapter.FAMILY.read(config, "there/config.json")
    with pytest.raises(InputError, match=f"^there/config.json: .*{re.escape(reason)}"):
        adapter.FAMILY.read(config | changes, "there/config.json")


@pytest.mark.parametrize(
    "changes",
    [{"start": 101}, {"end": 101}, {"heads": 3}, {"width": 0}, {"dropout": 1.0}, {"depht": 2}],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GptSettings(
            **{"vocab": 101, "width": 64, "depth": 2, "heads": 4, "inner": 256, "start": 100}
            | changes
        )
