"""Language models read lines with an end mark after each, as rows that begin with a line or as lanes that go on."""

from pathlib import Path

import numpy as np
import pytest
import torch

from firth.base.errors import InputError
from firth.corpus import shards as shards_module
from firth.corpus.shards import Shards, open_shards
from firth.corpus.stream import LineRows, StatefulOrder, StatefulRows, TokenStream, hold_out
from firth.models.ffnn import Ffnn, FfnnSettings
from firth.models.gpt import Gpt, GptSettings
from firth.models.rnn import Rnn, RnnSettings
from firth.recipes.objectives import StatefulLearner
from firth.samples.texts import TEXTS
from firth.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([line for lines in TEXTS.values() for line in lines], "words", 400)


@pytest.fixture(params=[1 << 24, 40], ids=["one shard", "many shards"])
def made(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> Shards:
    monkeypatch.setattr(shards_module, "SHARD_TOKENS", request.param)
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join("\n".join(lines) for lines in TEXTS.values()), encoding="utf-8")
    return open_shards(tmp_path / "data", [file], tokenizer)


def truth(tokenizer: Tokenizer) -> list[int]:
    """All lines, an end mark after each."""
    lines = [line for lines in TEXTS.values() for line in lines]
    return [
        token
        for found in tokenizer.encode(lines, special=False)
        for token in (*found.ids, tokenizer.sep or -1)
    ]


def test_a_stream_is_every_line_and_an_end_mark_after_it(
    made: Shards, tokenizer: Tokenizer
) -> None:
    expected, stream = truth(tokenizer), TokenStream(made, tokenizer.sep or -1)
    assert stream.size == len(expected)
    assert stream.read(0, stream.size).tolist() == expected
    for start, stop in ((0, 1), (5, 5), (7, 60), (stream.size - 3, stream.size)):
        assert stream.read(start, stop).tolist() == expected[start:stop]
    inner = stream.part(10, stream.size - 4)
    assert inner.read(3, 20).tolist() == expected[13:30]


def test_lines_and_documents_begin_after_end_marks(made: Shards, tokenizer: Tokenizer) -> None:
    expected, stream = np.array(truth(tokenizer)), TokenStream(made, tokenizer.sep or -1)
    assert stream.lines().tolist() == [
        0,
        *(np.flatnonzero(expected == tokenizer.sep)[:-1] + 1).tolist(),
    ]
    sizes = [
        sum(len(e) + 1 for e in tokenizer.encode(lines, special=False)) for lines in TEXTS.values()
    ]
    assert stream.documents().tolist() == [0, *np.cumsum(sizes)[:-1].tolist()]


def test_the_last_documents_are_held_out_or_else_the_last_lines(
    made: Shards, tokenizer: Tokenizer
) -> None:
    stream = TokenStream(made, tokenizer.sep or -1)
    kept, held = hold_out(stream)
    assert kept.size + held.size == stream.size
    assert kept.size in stream.documents().tolist()
    single = stream.part(0, int(stream.documents()[1]))
    kept, held = hold_out(single)
    assert 0 < held.size < kept.size
    assert kept.size in single.lines().tolist()


def test_rows_are_whole_lines_where_they_fit(made: Shards, tokenizer: Tokenizer) -> None:
    expected, stream = truth(tokenizer), TokenStream(made, tokenizer.sep or -1)
    room = 30
    rows = LineRows(stream, tokenizer, room)
    assert rows.sizes.max() <= room
    read = [rows.batch(0, np.array([number])).ids.tolist() for number in range(len(rows.sizes))]
    assert [token for row in read for token in row] == expected
    begins = set(stream.lines().tolist())
    longest = np.diff([*stream.lines(), stream.size]).max()
    if longest <= room:
        assert all(start in begins for start in rows.starts.tolist())


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        (
            ["a b c", "d e f"],
            [["a b c"], ["d e f"]],
        ),  # each line fills a row, its end mark included
        (["a", "b", "c d e"], [["a", "b"], ["c d e"]]),  # two lines fill a row together
        (["a b", "c d e", "f"], [["a b"], ["c d e"], ["f"]]),
        (["a b c d", "e f g"], [["a b c d"], ["e f g"]]),  # one token too many is a row of its own
    ],
)
def test_lines_that_fill_a_row_exactly_are_all_in_it(
    lines: list[str], rows: list[list[str]], tmp_path: Path
) -> None:
    words = Tokenizer.train(["a b c d e f g"], "words", 20)
    file = tmp_path / "text.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    stream = TokenStream(open_shards(tmp_path / "data", [file], words), words.sep or -1)
    found = LineRows(stream, words, room=4)
    read = [found.batch(0, np.array([number])).ids.tolist() for number in range(len(found.sizes))]

    expected = [
        [token for line in row for token in (*map(words.id, line.split()), words.sep)]
        for row in rows
    ]
    whole = [part for row in expected for part in (row[:4], row[4:]) if part]
    assert read == whole


def test_rows_may_go_on_to_the_end_of_their_room(made: Shards, tokenizer: Tokenizer) -> None:
    expected, stream = truth(tokenizer), TokenStream(made, tokenizer.sep or -1)
    room = 30
    rows, whole = LineRows(stream, tokenizer, room, fill=True), LineRows(stream, tokenizer, room)
    assert rows.starts.tolist() == whole.starts.tolist()
    assert (rows.sizes[:-2] == room).all()
    read = np.zeros(stream.size, int)
    for number, start in enumerate(rows.starts.tolist()):
        ids = rows.batch(0, np.array([number])).ids.tolist()
        assert ids == expected[start : start + len(ids)]
        read[start : start + len(ids)] += 1
    assert read.min() == 1
    assert read.max() == 2


def test_lanes_read_everything_once_in_order(made: Shards, tokenizer: Tokenizer) -> None:
    expected, stream = truth(tokenizer), TokenStream(made, tokenizer.sep or -1)
    lanes = StatefulRows(stream, tokenizer, 4, 7)
    order, read = StatefulOrder(lanes), [[] for _ in range(4)]
    for step in range(order.per_epoch):
        batch = lanes.batch(*order.at(step))
        parts = batch.ids.split(batch.lengths.tolist())
        assert batch.targets["begins"].tolist() == [step == 0] * 4
        for lane, part in zip(batch.targets["lanes"].tolist(), parts, strict=True):
            read[lane] += part.tolist()
    assert [token for lane in read for token in lane] == expected
    assert order.at(order.per_epoch).epoch == 1
    with pytest.raises(InputError, match="too few"):
        StatefulRows(stream, tokenizer, stream.size + 1, 7)


@pytest.mark.parametrize("kind", ["rnn", "ffnn"])
@pytest.mark.parametrize("pieces", [1, 3])
def test_a_carried_state_makes_a_lane_one_text(
    made: Shards, tokenizer: Tokenizer, kind: str, pieces: int
) -> None:
    torch.manual_seed(1)
    sizes = {"vocab": tokenizer.size, "start": tokenizer.cls, "width": 16}
    model = (
        Rnn(RnnSettings(**sizes))
        if kind == "rnn"
        else Ffnn(FfnnSettings(**sizes, order=3, inner=16))
    )
    lanes = StatefulRows(TokenStream(made, tokenizer.sep or -1), tokenizer, 4, 9)
    learner, order, total = StatefulLearner(model, 4), StatefulOrder(lanes), 0.0
    for step in range(2 * order.per_epoch):  # the second epoch begins anew
        for part in np.array_split(order.at(step).numbers, pieces):
            total += learner(lanes.batch(0, part))["language"].item()
        learner.share(lambda tensor: tensor)
    whole = [
        lanes.stream.read(*edge)
        for edge in zip(lanes.starts[:4], [*lanes.starts[1:4], lanes.stream.size], strict=True)
    ]
    ids, lengths = (
        torch.from_numpy(np.concatenate(whole)),
        torch.tensor([len(lane) for lane in whole]),
    )
    assert total == pytest.approx(-2 * model.score(ids, lengths)[0].sum().item(), rel=1e-5)


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_gpt_sees_the_span_before(made: Shards, tokenizer: Tokenizer, pieces: int) -> None:
    """In one layer, keys and values depend on their own token alone: what is remembered can be read again at its old positions."""
    torch.manual_seed(1)
    marks = {"vocab": tokenizer.size, "start": tokenizer.cls, "end": tokenizer.sep}
    model = Gpt(
        GptSettings(**marks, width=16, depth=1, heads=2, inner=16, length=20, spread=0.3)
    ).eval()
    lanes = StatefulRows(TokenStream(made, tokenizer.sep or -1), tokenizer, 3, 10)
    kept, order, total = int(lanes.sizes.min()), StatefulOrder(lanes), 0.0
    learner = StatefulLearner(model, 3, kept)
    for step in range(order.per_epoch):
        for part in np.array_split(order.at(step).numbers, pieces):
            total += learner(lanes.batch(0, part))["language"].item()
    assert order.per_epoch > 6  # positions go round several times
    expected = 0.0
    for lane in range(3):
        stop = int(lanes.starts[lane + 1]) if lane < 2 else lanes.stream.size
        ids = [tokenizer.cls or 0, *lanes.stream.read(int(lanes.starts[lane]), stop).tolist()]
        first, told = 1, None
        for size in lanes.sizes[lane::3].tolist():
            begin = max(0, first - kept) if first > 1 else 0
            seen = torch.tensor(ids[begin : first + size])
            places = torch.arange(begin, first + size) % 20
            with torch.no_grad():
                hidden = model(
                    seen, places, torch.zeros_like(seen), torch.tensor([len(seen)])
                ).tokens
                scores = (hidden @ model.token.weight.t()).log_softmax(1)[first - begin - 1 :]
            scores[0] = scores[0] if told is None else told  # by the span before, when it was read
            expected -= scores[:-1].gather(1, seen[first - begin :, None]).sum().item()
            first, told = first + size, scores[-1]
    assert total == pytest.approx(expected, rel=1e-5)


def test_processes_learn_what_the_others_carry(made: Shards, tokenizer: Tokenizer) -> None:
    torch.manual_seed(1)
    model = Rnn(RnnSettings(vocab=tokenizer.size, start=tokenizer.cls, width=8, depth=1))
    lanes = StatefulRows(TokenStream(made, tokenizer.sep or -1), tokenizer, 5, 9)
    alone, one, two = (StatefulLearner(model, 5) for _ in range(3))
    numbers = StatefulOrder(lanes).at(0).numbers
    alone(lanes.batch(0, numbers))
    one(lanes.batch(0, numbers[:3]))
    two(lanes.batch(0, numbers[3:]))
    read = {
        name: torch.cat([state[:3], two.carried[name][3:]]) for name, state in one.carried.items()
    }
    told: list[torch.Tensor] = []
    two.share(
        lambda tensor: told.append(tensor.clone()) or tensor
    )  # the sums of two processes, by hand
    one.share(lambda tensor: tensor + told.pop(0))
    for name, state in alone.carried.items():
        assert torch.equal(one.carried[name], read[name])
        # Of five lanes at once a processor may round otherwise than of three.
        torch.testing.assert_close(one.carried[name], state, rtol=1e-6, atol=1e-7)
