"""The objectives of word vectors: each update is that of the formulas, pair by pair."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.nn.bernoulli import Bernoulli
from firth.nn.glove import CountBatch, Glove
from firth.nn.rows import EPS, adagrad, descend, sum_rows
from firth.nn.tiles import NOISE, Tiles, WordBlock, group_size
from firth.nn.word2vec import Cbow, NegativeSampling, SkipGram

Rows = NDArray[np.float64]
VOCAB = 50
WIDTH = 6
PAD = 0
RATE = 0.05


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def logistic(x: float) -> float:
    return 1 / (1 + np.exp(-x))


def fresh_table(seed: int) -> Tensor:
    table = torch.randn(VOCAB, 2 * WIDTH, generator=torch.Generator().manual_seed(seed))
    table[PAD] = 0
    return table.double()


def fresh_block(seed: int, window: int, words: int) -> WordBlock:
    """Words in lines of seven, in windows of all sizes, padded to whole groups."""
    draws = np.random.default_rng(seed)
    place = np.arange(words)
    reach = draws.integers(1, window, words, endpoint=True)
    left = np.minimum(reach, place % 7)
    right = np.minimum(reach, np.minimum(6 - place % 7, words - 1 - place))
    groups = -(-words // group_size(window))
    room = (0, groups * group_size(window) - words)
    return WordBlock(
        torch.from_numpy(np.pad(draws.integers(1, VOCAB, words), room, constant_values=PAD)),
        torch.from_numpy(np.pad(left.astype(np.int8), room)),
        torch.from_numpy(np.pad(right.astype(np.int8), room)),
        torch.from_numpy(draws.integers(1, VOCAB, groups * NOISE)),
    )


class Slow:
    """A block's loss and gradients in loops over pairs."""

    def __init__(self, table: Rows, block: WordBlock, window: int, negatives: int) -> None:
        self.table = table
        self.words = block.words.tolist()
        self.noise = block.noise.tolist()
        self.left = block.left.tolist()
        self.right = block.right.tolist()
        self.group = group_size(window)
        self.share = negatives / NOISE
        self.loss = 0.0
        self.own = np.zeros((len(self.words), 2 * WIDTH))  # of both vectors at each place
        self.drawn = np.zeros((len(self.noise), WIDTH))

    def around(self, place: int) -> list[int]:
        near = range(place - self.left[place], place + self.right[place] + 1)
        return [other for other in near if other != place]

    def against(self, place: int) -> range:
        first = place // self.group * NOISE
        return range(first, first + NOISE)

    def first(self, place: int) -> Rows:
        return self.table[self.words[place], :WIDTH]

    def second(self, place: int) -> Rows:
        return self.table[self.words[place], WIDTH:]

    def noise_vector(self, number: int) -> Rows:
        return self.table[self.noise[number], WIDTH:]


def slow_skip_gram(slow: Slow) -> None:
    for place in range(len(slow.words)):
        for other in slow.around(place):
            score = slow.first(place) @ slow.second(other)
            slow.loss -= np.log(logistic(score))
            error = logistic(score) - 1
            slow.own[place, :WIDTH] += error * slow.second(other)
            slow.own[other, WIDTH:] += error * slow.first(place)
            for number in slow.against(place):
                score = slow.first(place) @ slow.noise_vector(number)
                slow.loss -= slow.share * np.log(logistic(-score))
                error = slow.share * logistic(score)
                slow.own[place, :WIDTH] += error * slow.noise_vector(number)
                slow.drawn[number] += error * slow.first(place)


def slow_context(slow: Slow, mean: bool) -> None:
    for place in range(len(slow.words)):
        near = slow.around(place)
        if not near:
            continue
        part = 1 / len(near) if mean else 1.0
        context = part * sum((slow.first(other) for other in near), start=np.zeros(WIDTH))
        score = context @ slow.second(place)
        slow.loss -= np.log(logistic(score))
        error = logistic(score) - 1
        back = error * slow.second(place)
        slow.own[place, WIDTH:] += error * context
        for number in slow.against(place):
            score = context @ slow.noise_vector(number)
            slow.loss -= slow.share * np.log(logistic(-score))
            error = slow.share * logistic(score)
            back += error * slow.noise_vector(number)
            slow.drawn[number] += error * context
        for other in near:
            slow.own[other, :WIDTH] += part * back


def by_row(rows: list[int], gradients: Rows) -> tuple[Rows, Rows]:
    """The sums of the gradients of each row of a table, and how many each has."""
    sums = np.zeros((VOCAB, gradients.shape[1]))
    counts = np.zeros((VOCAB, 1))
    for row, gradient in zip(rows, gradients, strict=True):
        sums[row] += gradient
        counts[row] += 1
    return sums, counts


def slow_descent(slow: Slow, limit: float) -> Rows:
    """The table after a step, in which a row moves no further than as if it had few gradients."""
    table = slow.table.copy()
    sums, counts = by_row(slow.words, slow.own)
    table -= RATE * sums * np.minimum(1, limit / (RATE * np.maximum(counts, 1)))
    sums, counts = by_row(slow.noise, slow.drawn)
    table[:, WIDTH:] -= RATE * sums * np.minimum(1, limit / (RATE * np.maximum(counts, 1)))
    return table


def compare(objective: NegativeSampling, block: WordBlock, slow: Slow, table: Rows) -> None:
    """An objective's loss and update are those of the loops."""
    pairs = int((block.left.int() + block.right.int()).sum())
    found = objective.loss(block)
    assert found.total == pytest.approx(slow.loss, rel=1e-12)
    if isinstance(objective, SkipGram):
        assert found.pairs == pairs
    else:
        assert found.pairs == int((block.left + block.right > 0).sum())
    objective.update(block, RATE)
    np.testing.assert_allclose(objective.table.numpy(), table, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("window", "words"), [(1, 5), (3, 90), (6, 200), (17, 70)])
def test_a_step_of_skip_gram_is_that_of_its_formula(window: int, words: int) -> None:
    table = fresh_table(window)
    block = fresh_block(words, window, words)
    slow = Slow(table.numpy().copy(), block, window, 5)
    slow_skip_gram(slow)
    compare(SkipGram(table, window, 5), block, slow, slow_descent(slow, SkipGram.limit))


@pytest.mark.parametrize(("window", "words"), [(1, 5), (3, 90), (17, 70)])
def test_a_step_of_cbow_is_that_of_its_formula(window: int, words: int) -> None:
    table = fresh_table(window)
    block = fresh_block(words, window, words)
    slow = Slow(table.numpy().copy(), block, window, 5)
    slow_context(slow, mean=True)
    compare(Cbow(table, window, 5), block, slow, slow_descent(slow, Cbow.limit))


def test_a_step_of_bernoulli_embeddings_is_that_of_their_formula() -> None:
    window = 3
    precision = 2.0
    table = fresh_table(2)
    block = fresh_block(4, window, 90)
    occurrences = torch.rand(VOCAB, generator=torch.Generator().manual_seed(3)).double() * 20
    slow = Slow(table.numpy().copy(), block, window, 20)
    slow_context(slow, mean=False)
    prior = precision / np.maximum(1, occurrences.numpy())
    for place, word in enumerate(slow.words):
        slow.own[place] += prior[word] * slow.table[word]

    expected = slow.table.copy()
    squares = np.full_like(expected, 0.5)
    sums, _ = by_row(slow.words, slow.own)
    squares += sums**2
    expected -= RATE * sums / (np.sqrt(squares) + EPS)
    sums, _ = by_row(slow.noise, slow.drawn)
    squares[:, WIDTH:] += sums**2
    expected[:, WIDTH:] -= RATE * sums / (np.sqrt(squares[:, WIDTH:]) + EPS)

    objective = Bernoulli(table, window, 20, precision, occurrences)
    objective.squares.fill_(0.5)
    compare(objective, block, slow, expected)
    np.testing.assert_allclose(objective.squares.numpy(), squares, rtol=1e-10)
    assert torch.equal(objective.vectors, objective.table[:, WIDTH:])


def test_a_pass_has_the_prior_of_each_word_once() -> None:
    """However often a word occurs, and in however many steps."""
    table = torch.ones(VOCAB, 2 * WIDTH).double()
    words = torch.tensor([3] * 6 + [4] + [PAD] * 25)
    none = torch.zeros(32, dtype=torch.int8)
    occurrences = torch.zeros(VOCAB).double()
    occurrences[3], occurrences[4] = 6, 1
    objective = Bernoulli(table, 3, 20, 0.5, occurrences)
    objective.update(WordBlock(words, none, none, torch.ones(NOISE, dtype=torch.int64)), 1e-9)
    assert objective.squares[3].sqrt().tolist() == pytest.approx([0.5] * 2 * WIDTH)
    assert objective.squares[4].sqrt().tolist() == pytest.approx([0.5] * 2 * WIDTH)


def test_a_step_of_glove_is_that_of_its_formula() -> None:
    draws = np.random.default_rng(8)
    tables = [torch.from_numpy(draws.normal(size=(VOCAB, WIDTH + 1))) for _ in range(2)]
    words, contexts = (table.numpy().copy() for table in tables)
    rows, columns = draws.integers(0, VOCAB, (2, 300))
    counts = draws.exponential(60, 300)
    loss = 0.0
    gradients = np.zeros((2, 300, WIDTH + 1))
    for cell, (row, column, count) in enumerate(zip(rows, columns, counts, strict=True)):
        one, two = words[row], contexts[column]
        weight = min(1.0, (count / 100) ** 0.75)
        off = one[:-1] @ two[:-1] + one[-1] + two[-1] - np.log(count)
        loss += weight * off**2 / 2
        gradients[0, cell] = weight * off * np.append(two[:-1], 1)
        gradients[1, cell] = weight * off * np.append(one[:-1], 1)
    expected = []
    for table, places, found in zip((words, contexts), (rows, columns), gradients, strict=True):
        sums, _ = by_row(places.tolist(), found)
        expected.append(table - RATE * sums / (np.sqrt(1 + sums**2) + EPS))

    glove = Glove(tables[0], tables[1], 100.0, 0.75)
    cells = CountBatch(*map(torch.from_numpy, (rows, columns, counts)))
    assert glove.loss(cells) == pytest.approx(loss, rel=1e-12)
    glove.update(cells, RATE)
    np.testing.assert_allclose(glove.words.numpy(), expected[0], rtol=1e-10)
    np.testing.assert_allclose(glove.contexts.numpy(), expected[1], rtol=1e-10)
    both = (expected[0] + expected[1])[:, :-1]
    np.testing.assert_allclose(glove.vectors.numpy(), both, rtol=1e-9)


def test_single_precision_is_near() -> None:
    table = fresh_table(1)
    block = fresh_block(1, 5, 150)
    single = SkipGram(table.float(), 5, 5)
    double = SkipGram(table, 5, 5)
    assert single.loss(block).total == pytest.approx(double.loss(block).total, rel=1e-5)
    single.update(block, RATE)
    double.update(block, RATE)
    assert torch.allclose(single.table.double(), double.table, rtol=1e-4, atol=1e-5)


def test_rows_are_summed_and_added_once() -> None:
    rows = torch.tensor([7, 2, 7, 7])
    gradients = torch.tensor([[1.0, 0], [0, 2], [3, 0], [4, 1]])
    found = sum_rows(rows, gradients)
    assert found.rows.tolist() == [2, 7]
    assert found.sums.tolist() == [[0, 2], [8, 1]]
    assert found.counts.tolist() == [1, 3]
    table = torch.zeros(9, 2)
    descend(table, rows, gradients, rate=0.1, limit=0.2)  # at most two gradients of a row
    assert table[2].tolist() == [0, -2]
    assert table[7].tolist() == pytest.approx([-8 * 2 / 3, -2 / 3])
    assert int((table != 0).any(1).sum()) == 2
    squares = torch.zeros(9, 2)
    table = torch.zeros(9, 2)
    adagrad(table, squares, rows, gradients, rate=0.1)
    assert table[7].tolist() == pytest.approx([-0.1, -0.1])
    assert squares[7].tolist() == [64, 1]


def test_a_shorter_block_sees_nothing_of_the_one_before() -> None:
    long, short = fresh_block(1, 4, 200), fresh_block(2, 4, 9)
    used, fresh = SkipGram(fresh_table(5), 4, 5), SkipGram(fresh_table(5), 4, 5)
    used.loss(long)
    used.tiles._gradients.fill_(1e9)
    used.update(short, RATE)
    fresh.update(short, RATE)
    assert torch.equal(used.table, fresh.table)


def test_the_number_of_threads_changes_no_bit() -> None:
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        table = torch.randn(VOCAB, 200, generator=torch.Generator().manual_seed(3))
        objective = SkipGram(table, 5, 5)
        for seed in range(3):
            objective.update(fresh_block(seed, 5, 500), RATE)
        found.append(table)
    assert torch.equal(*found)


def test_tiles_reach_no_further_than_into_the_next() -> None:
    for window in (1, 16, 17, 50):
        tiles = Tiles(2, window)
        assert tiles.tile >= window
        assert tiles.group % tiles.tile == 0
        assert int(tiles.distance.max()) == tiles.tile + window - 1
        assert int(tiles.distance.min()) == -(tiles.tile + window - 1)
