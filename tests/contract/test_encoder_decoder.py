"""What every encoder-decoder promises: no look ahead, the same answers in any company, steps that are the whole, an exact folder."""

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from firth.base.errors import InputError
from firth.families.registry import families
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.protocols import EncoderDecoder
from firth.models.search import Beam, Greedy, Sampling, decode
from firth.models.translate import translate
from firth.nn.vocab import log_probs
from firth.samples.texts import TEXTS
from firth.text.tokenizer import Tokenizer

FAMILIES = {family.name: family for family in families() if family.is_encoder_decoder}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "seq2seq": ("seq2seq", {}),
    "seq2seq, one way": ("seq2seq", {"bidirectional": False, "depth": 2, "cell": "gru"}),
    "attention": ("attention", {"depth": 2}),
    "attention, one way": ("attention", {"bidirectional": False, "cell": "tanh"}),
    "attention, two vocabularies": ("attention", {"target_vocab": 19, "tied": False}),
    "transformer": ("transformer", {"depth": 2}),
    "transformer, pre": ("transformer", {"depth": 1, "decoder_depth": 3, "norm": "pre"}),
    "transformer, two vocabularies": ("transformer", {"depth": 1, "target_vocab": 19}),
    "marian": ("marian", {"depth": 1, "decoder_depth": 2, "activation": "silu"}),
    "t5": ("t5", {"depth": 2, "head_width": 5}),
    "t5, 1.1": (
        "t5",
        {
            "depth": 1,
            "decoder_depth": 3,
            "head_width": 12,
            "activation": "gelu_new",
            "gated": True,
            "scaled": False,
            "own_output": True,
        },
    ),
    "mt5": ("mt5", {"depth": 1, "head_width": 8, "gated": True, "scaled": False}),
}
# Of those whose output layer has rows from the end mark on: the words after it can be few.
OWN = [name for name in VARIANTS if not name.startswith(("marian", "t5", "mt5"))]
SWEDISH = list(TEXTS["swedish"])
ENGLISH = [line for name, lines in TEXTS.items() if name != "swedish" for line in lines]
SOURCES = [[7, 8, 9, 4], [10, 4], [11, 12, 13, 14, 15, 4], [16, 4], [7, 9, 8, 4]]
TARGETS = [[6, 7, 5], [8, 9, 10, 11, 12, 13, 5], [5], [9, 9, 5], [14, 13, 12, 5]]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def fresh(name: str, **changes: Any) -> EncoderDecoder:
    """A small model with new weights."""
    family, values = VARIANTS[name]
    record = FAMILIES[family]
    sizes = {"vocab": 20, "start": 2, "end": 5, "width": 16, "dropout": 0.0} | values | changes
    wanted = {"heads": 2, "inner": 24} | sizes
    settings = record.settings(
        **{k: v for k, v in wanted.items() if k in record.settings.model_fields}
    )
    torch.manual_seed(1)
    model: EncoderDecoder = record.network(settings)
    return model.eval()


def build(name: str, **changes: Any) -> EncoderDecoder:
    """A small model with lively weights, which have learned nothing."""
    model = fresh(name, **changes)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(tensor + 0.3 * torch.randn(tensor.shape))
    return model


@cache
def lively(name: str) -> EncoderDecoder:
    return build(name)


def stream(texts: list[list[int]]) -> tuple[Tensor, Tensor]:
    ids = torch.tensor([token for text in texts for token in text])
    return ids, torch.tensor([len(text) for text in texts])


def named(
    model: EncoderDecoder, sources: list[list[int]], targets: list[list[int]]
) -> list[Tensor]:
    """The log-probabilities of all words at each token of each target."""
    with torch.no_grad():
        vectors = model(*stream(sources), *stream(targets))
        found = log_probs(vectors, *model.output)
    return list(found.split([len(target) for target in targets]))


def close(found: list[Tensor], known: list[Tensor]) -> None:
    for one, other in zip(found, known, strict=True):
        assert one.shape == other.shape
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_output_has_rows_from_the_first_word_on(name: str) -> None:
    """From the end mark on, but where a family says else."""
    model = lively(name)
    words = VARIANTS[name][1].get("target_vocab", 20)
    assert model.first == (5 if name in OWN else 0)
    assert model.output.weight.shape == (words - model.first, model.width)
    assert named(model, SOURCES, TARGETS)[0].shape == (3, words - model.first)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_decoder_never_sees_the_future(name: str) -> None:
    """A token that is changed changes only what names the tokens after it; every earlier one counts."""
    model = lively(name)
    before = named(model, SOURCES[:1], [[6, 7, 8, 9, 5]])[0]
    for place in range(5):
        changed = [6, 7, 8, 9, 5]
        changed[place] = 17
        after = named(model, SOURCES[:1], [changed])[0]
        assert torch.equal(before[: place + 1], after[: place + 1])
        assert all((before[place + 1 :] != after[place + 1 :]).any(1))


@pytest.mark.parametrize("name", VARIANTS)
def test_every_source_token_counts(name: str) -> None:
    model = lively(name)
    before = named(model, [[7, 8, 9, 4]], [[6, 7, 5]])[0]
    for place in range(4):
        source = [7, 8, 9, 4]
        source[place] = 17
        assert (named(model, [source], [[6, 7, 5]])[0] != before).any(1).all()
    assert (named(model, [[9, 8, 7, 4]], [[6, 7, 5]])[0] != before).any(1).all()  # and its place


@pytest.mark.parametrize("name", VARIANTS)
def test_company_and_order_change_nothing(name: str) -> None:
    model = lively(name)
    together = named(model, SOURCES, TARGETS)
    for source, target, found in zip(SOURCES, TARGETS, together, strict=True):
        close(named(model, [source], [target]), [found])
    turned = named(model, SOURCES[::-1], TARGETS[::-1])
    close(turned[::-1], together)


@pytest.mark.parametrize("name", VARIANTS)
def test_steps_are_the_whole(name: str) -> None:
    """One token at a time, with what was kept, gives what all at once gives; rows may be exchanged."""
    model = lively(name)
    targets = [[*target, *[6] * 7][:7] for target in TARGETS]
    known = torch.stack(named(model, SOURCES, targets))  # (B, 7, O)
    state = model.begin(*stream(SOURCES))
    rows = torch.arange(5)
    token = torch.full((5,), model.start)
    for place in range(7):
        found, state = model.step(token, state)
        assert torch.allclose(found, known[rows, place], atol=1e-5)
        if place in (1, 3):
            turn = torch.tensor([[0, 0, 2, 1, 4], [3, 1, 1, 0, 0]][place // 2])
            state, rows = state.pick(turn), rows[turn]
        token = torch.tensor(targets)[rows, place]
    (two,) = {tensor.shape for tensor in (found, known[rows, 6])}
    assert two[0] == 5


def rescored(
    model: EncoderDecoder, source: list[int], targets: list[list[int]]
) -> dict[tuple[int, ...], float]:
    """The log-probability of targets, by the model that reads them as a whole."""
    tables = named(model, [source] * len(targets), targets)
    found = {}
    for table, target in zip(tables, targets, strict=True):
        chosen = table[torch.arange(len(target)), torch.tensor(target) - model.first]
        found[tuple(target)] = chosen.sum().item()
    return found


@pytest.mark.parametrize("name", VARIANTS)
def test_cached_decoding_is_decoding_without_a_cache(name: str) -> None:
    model = lively(name)
    found = translate(model, *stream(SOURCES), Greedy(), most=9)
    for source, (target,) in zip(SOURCES, found, strict=True):
        text: list[int] = []
        while len(text) < 9 and model.end not in text:
            text.append(model.first + int(named(model, [source], [[*text, 6]])[0][-1].argmax()))
        assert target.ids == text
        (known,) = rescored(model, source, [text]).values()
        assert sum(target.scores) == pytest.approx(known, abs=1e-4)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_beam_of_one_is_greedy(name: str) -> None:
    model = lively(name)
    greedy = translate(model, *stream(SOURCES), Greedy(), most=9)
    beam = translate(model, *stream(SOURCES), Beam(1), most=9)
    assert [row[0].ids for row in beam] == [row[0].ids for row in greedy]


@pytest.mark.parametrize("name", OWN)
def test_a_wide_beam_is_an_exhaustive_search(name: str) -> None:
    """Of three words and the end mark, all targets of at most four tokens are compared."""
    changes = {"vocab": 20} if VARIANTS[name][1].get("target_vocab") else {"vocab": 9}
    if VARIANTS[name][1].get("target_vocab"):
        changes["target_vocab"] = 9
    model = build(name, **changes)
    source = [7, 6, 4]
    every = [
        [*words, model.end]
        for length in range(4)
        for words in itertools.product((6, 7, 8), repeat=length)
    ]
    every += [list(words) for words in itertools.product((6, 7, 8), repeat=4)]  # cut off
    known = rescored(model, source, every)
    for penalty in (0.0, 1.0):
        ranked = sorted(every, key=lambda text: -known[tuple(text)] / len(text) ** penalty)
        ((*found,),) = translate(model, *stream([source]), Beam(130, 5, penalty), most=4)
        assert [target.ids for target in found] == ranked[:5]


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("how", [Greedy(), Beam(3, 2), Sampling(range(5))], ids=str)
def test_sources_are_decoded_in_any_company(name: str, how: Greedy | Beam | Sampling) -> None:
    model = lively(name)
    together = translate(model, *stream(SOURCES), how, most=8)
    for number, (source, found) in enumerate(zip(SOURCES, together, strict=True)):
        alone = how._replace(seeds=[number]) if isinstance(how, Sampling) else how
        (again,) = translate(model, *stream([source]), alone, most=8)
        assert [target.ids for target in again] == [target.ids for target in found]
        assert all(token >= model.first for target in found for token in target.ids)
    assert translate(model, *stream(SOURCES[:0]), Greedy(), most=8) == []


@pytest.mark.parametrize("name", VARIANTS)
def test_alignments_are_shares_of_the_source(name: str) -> None:
    model = lively(name)
    found = model.align(*stream(SOURCES), *stream(TARGETS))
    assert (found is None) == name.startswith("seq2seq")
    if found is None:
        return
    for weights, source, target in zip(found, SOURCES, TARGETS, strict=True):
        assert weights.shape == (len(target), len(source))
        assert torch.allclose(weights.sum(1), torch.ones(len(target)), atol=1e-5)
        (alone,) = model.align(*stream([source]), *stream([target])) or ()
        assert torch.allclose(weights, alone, atol=1e-5)
    assert max(weights.std().item() for weights in found) > 0.001


@pytest.mark.parametrize("name", VARIANTS)
def test_alignments_are_the_mean_of_a_layers_heads(name: str) -> None:
    model = lively(name)
    pairs = (*stream(SOURCES), *stream(TARGETS))
    layers = list(model.cross_attention(*pairs))
    aligned = model.align(*pairs)
    assert bool(layers) == (aligned is not None)
    for layer in layers:
        for pair, source, target in zip(layer, SOURCES, TARGETS, strict=True):
            _, queries, _ = pair.queries.shape
            assert (queries, pair.keys.shape[1]) == (len(target), len(source))
            logits = pair.queries @ pair.keys.transpose(1, 2) * pair.scale
            assert torch.allclose(pair.weights, logits.softmax(-1), atol=1e-5)
            assert pair.values.shape == pair.keys.shape
    if aligned is not None:
        means = [pair.weights.mean(0) for pair in layers[model.aligned]]
        close(aligned, means)


@pytest.mark.parametrize("name", VARIANTS)
def test_recurrent_steps_are_those_of_the_network(name: str) -> None:
    model = lively(name)
    for source, target in zip(SOURCES, TARGETS, strict=True):
        ids = torch.tensor(source)
        encoder, decoder = model.recurrent_steps(ids, torch.tensor(target))
        assert bool(encoder) == bool(decoder) == (VARIANTS[name][0] in ("seq2seq", "attention"))
        if not encoder:
            return
        both_ways = encoder[-1].name.endswith("backwards")
        top = [one.values["h"] for one in encoder[-2:]] if both_ways else [encoder[-1].values["h"]]
        ends = torch.cat([top[0][-1], *(back[0] for back in top[1:])])
        known = model.context_vector(ids)
        assert (known is None) == name.startswith("attention")
        if known is not None:
            assert torch.allclose(known, ends, atol=1e-5)
        state: Any = model.begin(*stream([source]))
        for place, token in enumerate([model.start, *target[:-1]]):
            for number, layer in enumerate(decoder):
                for kind, letter in enumerate(layer.before):
                    held = layer.values[letter][place - 1] if place else layer.before[letter]
                    assert torch.allclose(state.memory[number, kind, 0], held, atol=1e-5)
            _, state = model.step(torch.tensor([token]), state)


@pytest.mark.parametrize("name", VARIANTS)
def test_positions_are_a_table_of_those_that_add_waves(name: str) -> None:
    model = lively(name)
    encoder, decoder = model.attention_layers()
    table = model.position_table
    if VARIANTS[name][0] not in ("transformer", "marian"):
        assert (len(encoder), len(decoder), table) == (0, 0, None)
        return
    settings: Any = model.settings
    assert (len(encoder), len(decoder)) == (settings.depth, settings.decoder_layers)
    assert [layer.causal for layer in (*encoder, *decoder)] == (
        [False] * len(encoder) + [True] * len(decoder)
    )
    assert table is not None
    assert table.shape == (model.length, model.width)
    sines = slice(None, 8) if name == "marian" else slice(None, None, 2)
    waves = torch.tensor([3 / 10_000 ** (2 * pair / 16) for pair in range(8)])
    assert torch.allclose(table[3, sines], waves.sin())


@pytest.mark.parametrize("name", VARIANTS)
def test_dropout_is_for_training(name: str) -> None:
    model = build(name)
    still = named(model, SOURCES, TARGETS)
    model.set_dropout(0.4)
    close(named(model, SOURCES, TARGETS), still)
    model.train()
    first, second = (torch.cat(named(model, SOURCES, TARGETS)) for _ in range(2))
    assert not torch.allclose(first, second, atol=1e-3)
    model.set_dropout(0.0)
    close(named(model, SOURCES, TARGETS), still)


def test_attention_has_a_dropout_of_its_own() -> None:
    model = build("transformer", attention_dropout=0.5)
    still = torch.cat(named(model, SOURCES, TARGETS))
    model.set_dropout(0.0)
    model.train()
    first, second = (torch.cat(named(model, SOURCES, TARGETS)) for _ in range(2))
    assert not torch.allclose(first, still, atol=1e-3)
    assert not torch.allclose(first, second, atol=1e-3)


@pytest.mark.parametrize("name", VARIANTS)
def test_threads_change_nothing(name: str) -> None:
    model = lively(name)
    one = named(model, SOURCES, TARGETS)
    torch.set_num_threads(2)
    try:
        close(named(model, SOURCES, TARGETS), one)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("name", "rate", "steps"),
    [("seq2seq", 1e-2, 40), ("attention", 1e-2, 40), ("transformer, pre", 5e-3, 70)],
)
def test_a_small_set_of_pairs_is_learned(name: str, rate: float, steps: int) -> None:
    model = fresh(name, width=32).train()
    optimizer = torch.optim.Adam(model.parameters(), rate)
    ids, lengths = stream(TARGETS)
    for _ in range(steps):
        optimizer.zero_grad()
        table = log_probs(model(*stream(SOURCES), ids, lengths), *model.output)
        loss = -table.gather(1, ids[:, None] - model.first).mean()
        loss.backward()
        optimizer.step()
    found = translate(model.eval(), *stream(SOURCES), Greedy(), most=9)
    assert [row[0].ids for row in found] == TARGETS


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.sizes])
def test_two_vocabularies_are_kept_in_a_folder(name: str, tmp_path: Path) -> None:
    source = Tokenizer.train(ENGLISH, "words", 60)
    target = Tokenizer.train(SWEDISH, "words", 50)
    assert source.fingerprint != target.fingerprint
    record = FAMILIES[name]
    marks = {"start": target.cls, "end": target.sep}
    settings = record.settings_for("tiny", vocab=source.size, target_vocab=target.size, **marks)
    model = record.network(settings).eval()
    made = Bundle(model, source, record.model_type, "translate", target_tokenizer=target)
    again = load(save(made, tmp_path / "saved"))
    assert again.tokenizer.fingerprint == source.fingerprint
    assert again.target_tokenizer is not None
    assert again.target_tokenizer.fingerprint == target.fingerprint
    pairs = ([[7, 8, 3], [9, 3]], [[6, 3], [7, 8, 9, 3]])
    for one, other in zip(named(model, *pairs), named(again.translator, *pairs), strict=True):
        assert torch.equal(one, other)

    small = Tokenizer.train(SWEDISH, "words", 40)
    settings = settings.model_copy(update={"target_vocab": small.size})
    wrong = record.network(settings).eval()
    folder = save(
        Bundle(wrong, source, record.model_type, "translate", target_tokenizer=target),
        tmp_path / "wrong",
    )
    with pytest.raises(InputError, match=r"target: the tokenizer has 50 pieces where .* have 40"):
        load(folder)


def test_a_model_that_is_none_says_so() -> None:
    words = Tokenizer.train(ENGLISH, "words", 60)
    model = build("transformer")
    bundle = Bundle(model, words, "firth-transformer", "translate")
    assert bundle.translator is model
    with pytest.raises(InputError, match="gives no vectors"):
        _ = bundle.encoder
    with pytest.raises(InputError, match="is no language model"):
        _ = bundle.language


def test_sides_that_do_not_fit_are_refused() -> None:
    model = build("transformer", length=6)
    with pytest.raises(InputError, match="a source of 7 tokens is longer than the 6"):
        named(model, [[7] * 7], [[5]])
    with pytest.raises(InputError, match="a target of 7 tokens is longer than the 6"):
        named(model, [[7]], [[7] * 7])
    with pytest.raises(InputError, match="a source has no token"):
        named(model, [[7], []], [[5], [5]])
    state = model.begin(*stream([[7, 4]]))
    for _ in range(6):
        _, state = model.step(torch.tensor([9]), state)
    with pytest.raises(InputError, match="longer than the 6 tokens that it may have"):
        model.step(torch.tensor([9]), state)


def test_a_beam_keeps_the_sources_where_they_are() -> None:
    """Nothing is copied while rows keep their source; what is picked is what was there."""
    model = lively("transformer")
    state: Any = model.begin(*stream(SOURCES[:3]))
    wide = state.pick(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert wide.sources.each == 2
    assert wide.sources.layers is state.sources.layers
    crossed = wide.pick(torch.tensor([1, 1, 3, 2, 4, 5]))
    assert crossed.sources.layers is state.sources.layers
    fewer = wide.pick(torch.tensor([2, 3, 5, 5]))
    assert len(fewer.sources.layers[0][0]) == 2
    uneven = wide.pick(torch.tensor([0, 2, 2, 4]))
    assert uneven.sources.each == 1


def test_decode_takes_rows_of_the_output() -> None:
    """`translate` is `decode` over ids."""
    model = lively("seq2seq")

    class Pairs:
        def start(self, rows: int) -> Any:
            return model.begin(*stream(SOURCES))

        def step(self, rows: Tensor, state: Any) -> tuple[Tensor, Any]:
            return model.step(rows + 5, state)

    found = decode(Pairs(), [[-3]] * 5, Beam(3, 2), most=8, end=0)
    known = translate(model, *stream(SOURCES), Beam(3, 2), most=8)
    shifted = [[[token + 5 for token in one.ids] for one in row] for row in found]
    assert shifted == [[one.ids for one in row] for row in known]
