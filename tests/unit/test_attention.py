"""The arithmetic of attention on paper, and the parts around it: groups, batches, windows, pooling."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors
from torch import Tensor

from firth.base.errors import InputError
from firth.data.batch import make_batch, plan
from firth.data.window import Window, windows
from firth.nn.attention import Attention, attend, attend_stream
from firth.nn.pool import first_tokens, pool
from firth.nn.ragged import Group, groups
from firth.text.tokenizer import Encoding, Tokenizer

WORDS = torch.tensor([[0.2, 0.8], [-0.2, 0.5], [-0.3, -0.4], [0.7, 0.7]], dtype=torch.float64)
Lengths = st.lists(st.integers(1, 60) | st.sampled_from([1, 8, 8, 9, 512]), min_size=1, max_size=40)


def rounded(tensor: Tensor, digits: int = 2) -> list[float]:
    """The numbers as a slide prints them."""
    return [round(value, digits) for value in tensor.tolist()]


def test_the_worked_exercise() -> None:
    """Four words that are their own queries, keys and values; the row of the fourth."""
    scores = WORDS[3] @ WORDS.T
    assert rounded(scores) == [0.70, 0.21, -0.49, 0.98]
    assert rounded(scores / 2**0.5) == pytest.approx([0.49, 0.15, -0.35, 0.69])
    mixed, shares = attend(WORDS, WORDS, WORDS)
    assert rounded(shares[3]) == [0.30, 0.21, 0.13, 0.36]
    assert rounded(mixed[3], 4) == [0.2331, 0.5464]
    torch.testing.assert_close(mixed, (WORDS @ WORDS.T / 2**0.5).softmax(-1) @ WORDS)


def test_scores_of_112_and_96() -> None:
    """Keys of width 64 divide scores by 8, which gives 14 and 12."""
    q, k = torch.zeros(1, 64), torch.zeros(2, 64)
    q[0, 0], k[:, 0] = 1.0, torch.tensor([112.0, 96.0])
    mixed, shares = attend(q, k, torch.eye(2))
    assert rounded(shares[0]) == [0.88, 0.12]
    assert torch.equal(mixed, shares)


def test_the_layer_does_the_exercise() -> None:
    """The same numbers from the layer, with unit matrices for its projections; both paths."""
    layer = Attention(2, 1).double()
    with torch.no_grad():
        layer.qkv.weight.copy_(torch.eye(2).repeat(3, 1))
        layer.out.weight.copy_(torch.eye(2))
        layer.qkv.bias.zero_()
        layer.out.bias.zero_()
    layout = groups([4])
    mixed, (shares,) = layer.explain(WORDS, layout)
    assert rounded(mixed[3], 4) == rounded(layer(WORDS, layout)[3], 4) == [0.2331, 0.5464]
    assert rounded(shares[0, 3]) == [0.30, 0.21, 0.13, 0.36]


def test_where_layers_are_in_bf16_the_attention_between_them_is_not(without_onednn: None) -> None:
    """Both ways: the shares, which bf16 would round to three digits, are those of the rounded queries and keys, to the last bit."""
    torch.manual_seed(0)
    layer, layout = Attention(16, 2), groups([3, 3, 7])
    x = torch.randn(13, 16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        qkv = layer.qkv(x)
        mixed = attend_stream(qkv, layout, 2, False, 0.0)
    assert (qkv.dtype, mixed.dtype) == (torch.bfloat16, torch.float32)
    alone = qkv.detach().float().requires_grad_(True)
    expected = attend_stream(alone, layout, 2, False, 0.0)
    assert torch.equal(mixed, expected)
    slope = torch.randn(13, 16)
    ours, theirs = (
        torch.autograd.grad(mixed, qkv, slope)[0],
        torch.autograd.grad(expected, alone, slope)[0],
    )
    assert torch.equal(ours, theirs.bfloat16())


@given(Lengths)
def test_groups_cover_the_stream_once(lengths: list[int]) -> None:
    for given_lengths in (lengths, sorted(lengths, reverse=True)):
        start, text = 0, 0
        for group in groups(given_lengths):
            assert group.start == start
            assert given_lengths[text : text + group.texts] == [group.length] * group.texts
            start, text = start + group.texts * group.length, text + group.texts
        assert (start, text) == (sum(given_lengths), len(given_lengths))


def test_equal_neighbours_share_a_call_and_others_do_not() -> None:
    assert groups([5] * 300) == [Group(0, 300, 5)]
    assert groups([512, 1, 1, 40, 512]) == [
        Group(0, 1, 512),
        Group(512, 2, 1),
        Group(514, 1, 40),
        Group(554, 1, 512),
    ]
    assert groups([]) == []


@given(st.lists(st.integers(1, 300), max_size=80), st.integers(1, 400))
def test_a_plan_keeps_its_budget(lengths: list[int], budget: int) -> None:
    batches = plan(lengths, budget)
    order = [row for picked in batches for row in picked]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[row] for row in order] == sorted(lengths, reverse=True)
    for picked in batches:
        assert picked
        assert sum(lengths[row] for row in picked) <= budget or len(picked) == 1


def test_a_plan_is_stable_and_full() -> None:
    assert plan([3, 9, 3, 3], 6) == [[1], [0, 2], [3]]
    assert plan([], 6) == []


def encoding(body: int, other: int = 0, first_id: int = 100) -> Encoding:
    """[CLS] body [SEP], or [CLS] body [SEP] other [SEP], with ids, offsets and words that tell every token apart."""
    lead, tail = (1, 2) if other else (1, 1)
    total = lead + body + other + tail
    parts: list[int | None] = [None, *[0] * body, None]
    if other:
        parts += [*[1] * other, None]
    ids = [first_id + i for i in range(total)]
    offsets = [(0, 0) if part is None else (3 * i, 3 * i + 2) for i, part in enumerate(parts)]
    words = [None if part is None else i // 2 for i, part in enumerate(parts)]
    segments = [0] * (body + 2) + [1] * (total - body - 2)
    return Encoding(ids, segments, offsets, words, parts)


def test_a_batch_is_one_stream() -> None:
    rows = [encoding(2), encoding(0, first_id=7), encoding(1, 2)]
    made = make_batch(rows, [4, 4, 9])
    assert made.ids.tolist() == [100, 101, 102, 103, 7, 8, 100, 101, 102, 103, 104, 105]
    assert made.positions.tolist() == [0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4, 5]
    assert made.segments.tolist() == [0] * 9 + [1] * 3
    assert made.lengths.tolist() == [4, 2, 6]
    assert made.owner == [4, 4, 9]
    assert make_batch(rows).owner == [0, 1, 2]
    assert all(tensor.dtype == torch.int64 for tensor in made.stream)


def body_of(window: Window, part: int = 0) -> list[int]:
    """The ids of one part of a window."""
    return [i for i, owner in zip(window.row.ids, window.row.parts, strict=True) if owner == part]


def test_a_text_that_fits_is_left_whole() -> None:
    whole = encoding(8)
    for long in ("cut", "slide", "error"):
        assert windows(whole, 10, long) == [Window(whole, 0)]


def test_cut_keeps_the_beginning_and_the_special_tokens() -> None:
    (window,) = windows(encoding(20), 10, "cut")
    assert window.first == 0
    assert list(window.row.ids) == [*range(100, 109), 121]
    assert list(window.row.parts) == [None, *[0] * 8, None]


def test_error_names_the_ways_out() -> None:
    with pytest.raises(
        InputError, match=r"22 tokens where the model takes 10; long='cut' or long='slide'"
    ):
        windows(encoding(20), 10, "error")


def test_slide_by_hand() -> None:
    """Room for 8, two of them shared: windows begin at every sixth token."""
    found = windows(encoding(20), 10, "slide")
    assert [window.first for window in found] == [0, 6, 12]
    assert [body_of(window) for window in found] == [
        [*range(101, 109)],
        [*range(107, 115)],
        [*range(113, 121)],
    ]


def check_slide(whole: Encoding, length: int, stride: int | None, part: int) -> None:
    """Every token of the part is seen, neighbours share what was asked, and nothing about a token changes."""
    found = windows(whole, length, "slide", stride, part)
    body = [i for i, owner in enumerate(whole.parts) if owner == part]
    rest = [token for token, owner in zip(whole.ids, whole.parts, strict=True) if owner != part]
    room = length - len(rest)
    shared = room // 4 if stride is None else stride
    place = {token: i for i, token in enumerate(whole.ids)}
    seen: set[int] = set()
    for number, window in enumerate(found):
        row = window.row
        own = body_of(window, part)
        assert len(row) <= length
        assert own == [whole.ids[i] for i in body[window.first : window.first + len(own)]]
        assert [
            token for token, owner in zip(row.ids, row.parts, strict=True) if owner != part
        ] == rest
        fields = zip(row.ids, row.segments, row.offsets, row.words, row.parts, strict=True)
        for token, *others in fields:
            at = place[token]
            assert others == [
                whole.segments[at],
                whole.offsets[at],
                whole.words[at],
                whole.parts[at],
            ]
        if number + 1 < len(found):
            assert len(row) == length
            assert found[number + 1].first == window.first + room - shared
        assert not set(own) <= seen  # no window is there for nothing
        seen |= set(own)
    assert seen == {whole.ids[i] for i in body}


@given(st.integers(1, 120), st.integers(3, 30), st.data())
def test_slide_sees_every_token(body: int, length: int, data: st.DataObject) -> None:
    whole = encoding(body)
    if len(whole) > length:
        stride = data.draw(st.none() | st.integers(0, length - 3))
        check_slide(whole, length, stride, 0)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 1), st.data())
def test_slide_over_one_text_of_a_pair(
    first: int, second: int, part: int, data: st.DataObject
) -> None:
    """The other text stands whole in every window, as a question does over a long page."""
    whole = encoding(first, second)
    fixed = 3 + (second if part == 0 else first)
    length = data.draw(st.integers(fixed + 1, fixed + 40))
    if len(whole) > length:
        check_slide(whole, length, data.draw(st.none() | st.integers(0, length - fixed - 1)), part)


@pytest.mark.parametrize(
    ("first", "second"), [(50, 10), (10, 50), (50, 40), (40, 50), (50, 50), (0, 50)]
)
def test_the_longer_text_of_a_pair_slides_and_the_other_keeps_half_of_the_room_at_most(
    first: int, second: int
) -> None:
    whole = encoding(first, second)
    found = windows(whole, 23, "slide")
    longer = int(second > first)
    short = body_of(found[0], 1 - longer)
    assert len(short) == min(first, second, 10)
    assert all(len(window.row) <= 23 and body_of(window, 1 - longer) == short for window in found)
    seen = {token for window in found for token in body_of(window, longer)}
    assert len(seen) == max(first, second)
    assert len(whole) - found[-1].first - len(found[-1].row) == min(first, second) - len(
        short
    )  # what nobody sees


@pytest.mark.parametrize(
    ("first", "second"), [(20, 20), (20, 19), (19, 20), (20, 3), (3, 20), (6, 7), (7, 6), (1, 9)]
)
@pytest.mark.parametrize("length", [12, 13])
def test_a_pair_is_cut_as_the_tokenizers_library_cuts_it(
    first: int, second: int, length: int
) -> None:
    """Both parts are as equal as they can be; of an odd room the longer part has the odd token, of equal parts the second."""
    sizes = {"a": first, "b": second}
    backend = Backend(models.WordLevel({"[CLS]": 0, "[SEP]": 1, "a": 2, "b": 3}, unk_token="a"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    pair = tuple(" ".join([word] * size) for word, size in sizes.items())
    (window,) = windows(
        Tokenizer(backend, "a test", {}).encode(pair[:1], pair[1:])[0], length, "cut"
    )

    backend.enable_truncation(length, strategy="longest_first")
    assert window.row.ids == backend.encode(*pair).ids
    assert len(window.row) == min(length, first + second + 3)


def test_what_no_window_can_hold_is_refused() -> None:
    with pytest.raises(InputError, match="13 tokens that every window must repeat"):
        windows(encoding(50, 10), 13, "slide", part=0)
    for stride in (-1, 8):
        with pytest.raises(
            InputError, match=f"a stride of {stride} doesn't fit in windows with room for 8"
        ):
            windows(encoding(50), 10, "slide", stride)


def test_pool_by_hand() -> None:
    x = torch.tensor([[1.0, -8.0], [3.0, -2.0], [5.0, 5.0], [0.0, 9.0], [4.0, -1.0], [-1.0, 1.0]])
    lengths = torch.tensor([2, 1, 3])
    assert first_tokens(lengths).tolist() == [0, 2, 3]
    assert pool(x, lengths, "mean").tolist() == [[2, -5], [5, 5], [1, 3]]
    assert pool(x, lengths, "max").tolist() == [[3, -2], [5, 5], [4, 9]]
    assert pool(x, lengths, "cls").tolist() == [[1, -8], [5, 5], [0, 9]]


@given(Lengths, st.integers(0, 2**31))
def test_pool_is_torch_text_by_text(lengths: list[int], seed: int) -> None:
    x = torch.randn(
        sum(lengths), 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    pieces = x.split(lengths)
    sizes = torch.tensor(lengths)
    torch.testing.assert_close(
        pool(x, sizes, "mean"), torch.stack([piece.mean(0) for piece in pieces])
    )
    torch.testing.assert_close(
        pool(x, sizes, "max"), torch.stack([piece.amax(0) for piece in pieces])
    )
    torch.testing.assert_close(pool(x, sizes, "cls"), torch.stack([piece[0] for piece in pieces]))


def test_pool_refuses_an_unknown_way() -> None:
    with pytest.raises(ValueError, match="median"):
        pool(torch.ones(2, 1), torch.tensor([2]), "median")


def test_order_in_a_stream_does_not_matter(seed: int) -> None:
    """Groups depend on the order of texts, the numbers don't."""
    torch.manual_seed(seed)
    layer = Attention(8, 2).double()
    lengths = [1, 7, 7, 6, 30, 1, 1, 29, 2]
    texts = [torch.randn(length, 8, dtype=torch.float64) for length in lengths]
    alone = [layer(text, groups([len(text)])) for text in texts]
    rng = random.Random(seed)
    for _ in range(20):
        order = rng.sample(range(len(texts)), len(texts))
        out = layer(torch.cat([texts[i] for i in order]), groups([lengths[i] for i in order]))
        torch.testing.assert_close(out, torch.cat([alone[i] for i in order]))
