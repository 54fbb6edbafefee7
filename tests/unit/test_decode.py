"""Writing on: what transformers writes, what looking at every text would find, and draws by the model's probabilities."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel

from firth.models.counts import NGramSettings, Sentences
from firth.models.ffnn import Ffnn, FfnnSettings
from firth.models.gpt import Gpt, GptSettings
from firth.models.ngram import NGram
from firth.models.rnn import Rnn, RnnSettings
from firth.models.search import RUN, SHORT, Beam, Generated, Greedy, Sampling, decode, largest
from firth.samples.texts import TEXTS
from tests.parity.test_gpt import ours, theirs

LINES = [line for name, lines in TEXTS.items() for line in lines if name != "swedish"]
LETTERS = ["\n", *sorted(set("".join(LINES)))]
END, START = 0, len(LETTERS)


def ids(text: str) -> list[int]:
    return [LETTERS.index(letter) for letter in text]


@cache
def letters(order: int, first: int = len(LETTERS)) -> NGram:
    """An n-gram of letters, of which the rarer ones may be left out; a line ends with its own mark."""
    common = [letter for letter, _ in Counter("".join(LINES)).most_common(first)]
    rows = [[*(token for token in ids(line) if LETTERS[token] in common), END] for line in LINES]
    names = {
        token: number
        for number, token in enumerate(sorted({token for row in rows for token in row}))
    }
    stream = Sentences(
        np.array([names[token] for row in rows for token in row]),
        np.array([len(row) for row in rows]),
    )
    return NGram.fit(
        [stream], NGramSettings(vocab=len(names), order=order, start=len(names), end=END)
    )


@cache
def wide() -> tuple[Gpt, GPT2LMHeadModel]:
    """A GPT-2 with random weights and a vocabulary of more than one piece."""
    reference = theirs(0.2, vocab_size=5003)
    return ours(reference), reference


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def prompts(lengths: Sequence[int], vocab: int = 5000) -> list[list[int]]:
    generator = torch.Generator().manual_seed(len(lengths))
    return [torch.randint(vocab, (length,), generator=generator).tolist() for length in lengths]


def generated(
    asked: Sequence[list[int]], most: int, end: int | None, **options: object
) -> list[list[list[int]]]:
    """What transformers writes after each prompt alone, up to the end mark."""
    found = []
    for prompt in asked:
        given = torch.tensor([prompt])
        options |= {
            "max_new_tokens": most,
            "eos_token_id": end,
            "pad_token_id": 0,
            "do_sample": False,
        }
        rows = (
            wide()[1]
            .generate(given, attention_mask=torch.ones_like(given), **options)[:, len(prompt) :]
            .tolist()
        )
        found.append([row[: row.index(end) + 1] if end in row else row for row in rows])
    return found


def texts(found: list[list[Generated]]) -> list[list[list[int]]]:
    return [[one.ids for one in row] for row in found]


def test_greedy_is_transformers() -> None:
    asked = prompts([5, 1, 40, 12, 12, 3, 90, 2])
    free = decode(wide()[0], asked, Greedy(), most=24)
    assert texts(free) == generated(asked, 24, None)
    end = free[2][0].ids[9]
    stopped = texts(decode(wide()[0], asked, Greedy(), most=24, end=end))
    assert stopped == generated(asked, 24, end)
    assert len({len(row[0]) for row in stopped}) > 1


@pytest.mark.parametrize(
    "beam",
    [
        Beam(4, 3),
        Beam(4, 2, penalty=0.0),
        Beam(3, 3, penalty=2.0, early=True),
        Beam(5, 1, penalty=-1.0),
        Beam(2, 2, early=True),
    ],
)
def test_beams_are_transformers(beam: Beam) -> None:
    """With an end that comes early, one that comes now and then, and none."""
    asked = prompts([6, 1, 33])
    model = wide()[0]
    likely = [text.ids for row in decode(model, asked, Beam(6, 6), most=8) for text in row]
    ends = [None, Counter(itertools.chain(*likely)).most_common(1)[0][0], likely[4][5]]
    options = {
        "num_beams": beam.width,
        "num_return_sequences": beam.best,
        "length_penalty": beam.penalty,
        "early_stopping": beam.early,
    }
    lengths = set()
    for end in ends:
        found = texts(decode(model, asked, beam, most=12, end=end))
        assert found == generated(asked, 12, end, **options)
        lengths |= {len(text) for row in found for text in row}
    assert len(lengths) > 2


@pytest.mark.parametrize("how", [Greedy(), Beam(3, 3), Sampling(range(5))], ids=str)
def test_scores_are_the_models(how: Greedy | Beam | Sampling) -> None:
    """For models that read a token at a time and for one that reads rows, with prompts of any length."""
    torch.manual_seed(0)
    marks = {"vocab": START, "start": START, "end": END}
    others = [
        Rnn(RnnSettings(width=16, **marks)),
        Ffnn(FfnnSettings(order=4, width=16, inner=20, **marks)),
    ]
    lines = [ids(line[: size % 17]) for size, line in zip((0, 3, 20, 7, 3), LINES, strict=False)]
    readers = [(model.eval(), lines, START) for model in others]
    for model, asked, start in (
        (wide()[0], prompts([0, 7, 2, 30, 7]), 100),
        (letters(4), lines, START),
        *readers,
    ):
        for prompt, found in zip(
            asked, decode(model, asked, how, most=9, start=start, end=END), strict=True
        ):
            for text in found:
                row = torch.tensor(prompt + text.ids)
                known = model.score(row, torch.tensor([len(row)]))[0][len(prompt) :]
                assert text.scores == pytest.approx(known.tolist(), abs=1e-4)
                assert END not in text.ids[:-1]
                assert len(text.ids) == 9 or text.ids[-1] == END


def test_mates_and_their_order_change_nothing() -> None:
    model, asked = wide()[0], prompts([9, 1, 30, 4])
    for how in (Greedy(), Beam(3, 2), Sampling([5, 6, 7, 8], 0.7, top=40)):
        together = decode(model, asked, how, most=10, end=17)
        for row, prompt in enumerate(asked):
            alone = decode(
                model,
                [prompt],
                how._replace(seeds=[how.seeds[row]]) if isinstance(how, Sampling) else how,
                most=10,
                end=17,
            )
            assert texts(alone) == texts(together[row : row + 1])
    assert decode(model, [], Greedy(), most=3) == []


def every(model: NGram, prompt: list[int], most: int, end: int) -> list[tuple[float, list[int]]]:
    """All texts up to a length, with their log-probabilities."""
    found = []
    for size in range(1, most + 1):
        for text in itertools.product(range(model.vocab), repeat=size):
            if end in text[:-1] or (size < most and text[-1] != end):
                continue
            row = torch.tensor([*prompt, *text])
            found.append(
                (
                    model.score(row, torch.tensor([len(row)]))[0][len(prompt) :].sum().item(),
                    list(text),
                )
            )
    return found


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_beam_as_wide_as_the_language_finds_the_best(penalty: float) -> None:
    model = letters(3, 4)
    assert model.vocab == 5
    prompt = [1, 2]
    known = sorted(
        ((total / len(text) ** penalty, text) for total, text in every(model, prompt, 4, END)),
        reverse=True,
    )
    (found,) = decode(model, [prompt], Beam(200, 20, penalty), most=4, start=model.vocab, end=END)
    assert [text.ids for text in found] == [text for _, text in known[:20]]
    assert [sum(text.scores) / len(text.ids) ** penalty for text in found] == pytest.approx(
        [rank for rank, _ in known[:20]]
    )
    (narrow,) = decode(model, [prompt], Beam(3, 3, penalty), most=4, start=model.vocab, end=END)
    ranks = [sum(text.scores) / len(text.ids) ** penalty for text in narrow]
    assert ranks == sorted(ranks, reverse=True)
    assert len({tuple(text.ids) for text in narrow}) == 3


def test_a_wider_beam_finds_likelier_texts_than_greed() -> None:
    model, asked = letters(5), [ids(line[:9]) for line in LINES]
    sums = [
        sum(sum(found[0].scores) for found in decode(model, asked, how, most=12, start=START))
        for how in (Greedy(), Beam(1), Beam(4), Beam(16))
    ]
    assert sums[0] == sums[1] < sums[2] < sums[3]


def test_it_writes_english() -> None:
    (found,) = decode(letters(7), [ids("Brown the oni")], Greedy(), most=16, start=START, end=END)
    assert "".join(LETTERS[token] for token in found[0].ids) == "ons slowly in th"


def test_texts_end_at_stop_sequences() -> None:
    model, prompt = letters(7), ids("Brown the oni")
    for stops, expected in (
        (["slo"], "ons slo"),
        (["zz", "ly", "ons "], "ons "),
        ([" "], "ons "),
        (["the", "oni"], "ons slowly in the"),  # the prompt's own end is not looked at
    ):
        (found,) = decode(
            model, [prompt], Greedy(), most=80, start=START, stops=[ids(stop) for stop in stops]
        )
        assert "".join(LETTERS[token] for token in found[0].ids) == expected
        (beams,) = decode(
            model, [prompt], Beam(3, 3), most=20, start=START, stops=[ids(stop) for stop in stops]
        )
        for text in beams:
            written = "".join(LETTERS[token] for token in text.ids)
            assert len(written) == 20 or any(written.endswith(stop) for stop in stops)
            assert not any(stop in written[:-1] for stop in stops)


def spread(scores: list[float], temperature: float, top: int | None, mass: float) -> list[float]:
    """The probabilities that a draw should have, by the book."""
    chances = [math.exp(score / temperature) for score in scores]
    order = sorted(range(len(chances)), key=lambda token: -chances[token])[:top]
    total, kept = sum(chances[token] for token in order), []
    for token in order:
        kept.append(token)
        if sum(chances[one] for one in kept) >= mass * total:
            break
    share = sum(chances[token] for token in kept)
    return [chances[token] / share if token in kept else 0.0 for token in range(len(chances))]


@pytest.mark.parametrize(
    ("temperature", "top", "mass"),
    [
        (1.0, None, 1.0),
        (0.6, None, 1.0),
        (1.7, 6, 1.0),
        (1.0, None, 0.7),
        (1.3, 8, 0.8),
        (1.0, 1, 1.0),
    ],
)
def test_draws_have_the_models_probabilities(
    temperature: float, top: int | None, mass: float
) -> None:
    model, prompt, times = letters(3), ids("the c"), 4000
    _, state = model.score(torch.tensor(prompt[:-1]), torch.tensor([len(prompt) - 1]))
    scores, _ = model.step(torch.tensor(prompt[-1:]), state)
    known = spread(scores[0].tolist(), temperature, top, mass)
    how = Sampling(range(times), temperature, top, mass)
    seen = Counter(
        found[0].ids[0] for found in decode(model, [prompt] * times, how, most=1, start=START)
    )
    for token, chance in enumerate(known):
        slack = 4.5 * math.sqrt(times * chance * (1 - chance)) + 3 * (
            chance > 0
        )  # the rare ones are not spread evenly
        assert abs(seen[token] - times * chance) <= slack, (token, seen[token], chance)
    assert sum(seen.values()) == times


def test_equal_seeds_draw_the_same() -> None:
    for model, prompt, start in (
        (wide()[0], prompts([6])[0], None),
        (letters(4), ids("The w"), START),
    ):
        first, again, other = (
            [
                found[0].ids
                for found in decode(
                    model, [prompt] * 3, Sampling(seeds, 1.2, mass=0.95), most=30, start=start
                )
            ]
            for seeds in ([1, 2, 1], [1, 2, 1], [2, 1, 3])
        )
        assert first == again
        assert first[0] == first[2] == other[1]
        assert first[1] == other[0] != first[0] != other[2]


def test_a_small_mass_is_greed_and_a_large_one_is_everything(seed: int) -> None:
    model, asked = wide()[0], prompts([6, 2])
    greedy = texts(decode(model, asked, Greedy(), most=12))
    for how in (Sampling([1, 2], mass=1e-6), Sampling([1, 2], top=1), Sampling([1, 2], 1e-3)):
        assert texts(decode(model, asked, how, most=12)) == greedy
    flat = Sampling(
        [seed, seed + 1], 50.0
    )  # nearly all tokens are alike: a short list has too little of the mass
    assert texts(decode(model, asked, flat, most=12)) != texts(
        decode(model, asked, flat._replace(mass=0.5), most=12)
    )
    drawn = decode(model, asked, flat._replace(mass=0.5), most=12)
    rows = [torch.tensor(prompt + found[0].ids) for prompt, found in zip(asked, drawn, strict=True)]
    _, state = model.score(rows[0][:6], torch.tensor([6]))
    assert len(set(drawn[0][0].ids)) > 6
    assert state.cache.end == 7


@pytest.mark.parametrize("count", [1, 8, 60, SHORT, 5000, 9000])
def test_thelargest_are_torchs(count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for width in (5, RUN, 10 * RUN, 5003, 50_257):
        x = torch.randn(3, width, generator=generator)
        values, places = largest(x, count)
        known = x.topk(min(count, width))
        assert torch.equal(values, known.values)
        assert torch.equal(x.gather(1, places), values)


@pytest.mark.parametrize(
    ("how", "more", "reason"),
    [
        (Greedy(), {"start": None}, "start mark"),
        (Greedy(), {"most": 0}, "one token"),
        (Greedy(), {"stops": [[]]}, "one token"),
        (Beam(2, 3), {}, "width 2"),
        (Beam(0, 0), {}, "width 0"),
        (Sampling([1]), {}, "2 prompts"),
        (Sampling([1, 2], 0.0), {}, "temperature"),
        (Sampling([1, 2], math.nan), {}, "temperature"),
        (Sampling([1, 2], top=0), {}, "top"),
        (Sampling([1, 2], mass=1.1), {}, "mass"),
    ],
)
def test_what_makes_no_sense_is_refused(
    how: Greedy | Beam | Sampling, more: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        decode(letters(2), [[], [1]], how, **{"most": 3, "start": START} | more)


@pytest.mark.usefixtures("without_onednn")
def test_scores_in_bf16_are_near() -> None:
    torch.manual_seed(0)
    model = Gpt(
        GptSettings(vocab=START + 1, width=64, depth=2, heads=4, inner=128, start=START, length=64)
    )
    text = torch.tensor(ids("".join(LINES))[:60]), torch.tensor([40, 20])
    exact = -model.eval().score(*text)[0].mean()
    exact.backward()
    known = {name: tensor.grad.clone() for name, tensor in model.named_parameters()}
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        near = -model.score(*text)[0].mean()
    near.backward()
    assert near.item() == pytest.approx(exact.item(), rel=1e-3)
    whole = torch.stack([tensor.norm() for tensor in known.values()]).norm()
    for name, tensor in model.named_parameters():
        assert (tensor.grad - known[name]).norm() <= 0.03 * whole, name
