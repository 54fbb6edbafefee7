"""ELMo against torch's LSTM layers and a plain loop: what it gives, what it learns from, and what it may not see."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.corpus.stream import MarkedRows, TokenStream
from firth.data.batch import Batch, make_batch
from firth.families.registry import by_name
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.models.elmo import Elmo, ElmoSettings
from firth.models.protocols import Hidden
from firth.nn.softmax import FullSoftmax
from firth.recipes.finetune import OF_HEADS, RATE_TIMES_WIDTH, decided
from firth.recipes.objectives import BidirectionalObjective
from firth.recipes.settings import FinetuneSettings
from firth.samples.texts import TEXTS
from firth.tasks.bidirectional import KIND, log_probabilities
from firth.tasks.head import is_tied, make_head
from firth.text.tokenizer import Tokenizer
from tests.unit.corpora import make

LINES = [line for lines in TEXTS.values() for line in lines]
OUTPUTS: dict[str, dict[str, object]] = {
    "tied": {"tied": True},
    "full": {},
    "classes": {"output": "classes", "cutoffs": (20, 90)},
    "sampled": {"output": "sampled", "samples": 40, "tied": True},
}


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.train(LINES, "words", 200)


def model(words: Tokenizer, output: str = "tied") -> tuple[Elmo, nn.Module]:
    """A model with lively weights, and its output layer."""
    torch.manual_seed(3)
    marks = {"vocab": words.size, "start": words.cls, "end": words.sep}
    encoder = Elmo(ElmoSettings(**marks, width=16, spread=0.5, **OUTPUTS[output]))
    head = make_head(KIND, encoder)
    assert head is not None
    return encoder.eval(), head.eval()


def batch(words: Tokenizer, count: int = 4) -> Batch:
    """Texts between their marks, an empty one among them."""
    return make_batch(words.encode([*LINES[:count], ""]))


def test_gamma_1_and_the_first_layer_alone_give_the_static_vector(words: Tokenizer) -> None:
    encoder, _ = model(words)
    asked = batch(words)
    with torch.no_grad():
        encoder.mix.shares.copy_(torch.tensor([0, -torch.inf, -torch.inf]))
        vectors = encoder.embedding(asked.ids)
        static = torch.cat([vectors, vectors], 1)
        assert encoder.mix.shares.softmax(0).tolist() == [1, 0, 0]
        assert torch.equal(encoder(*asked.stream).tokens, static)
        # Gamma scales, and any other weights let the text in.
        encoder.mix.scale.fill_(2.0)
        assert torch.equal(encoder(*asked.stream).tokens, 2 * static)
        encoder.mix.shares.zero_()
        assert not torch.allclose(encoder(*asked.stream).tokens, 2 * static, atol=0.1)


def torchs(layer: nn.Module) -> nn.LSTM:
    """Torch's own layer with the same weights, whose gates stand in another order."""
    width = layer.keep.weight.shape[1]
    theirs = nn.LSTM(width, width, batch_first=True)
    with torch.no_grad():
        for name, tensor in (
            ("weight_ih_l0", layer.take.weight),
            ("bias_ih_l0", layer.take.bias),
            ("weight_hh_l0", layer.keep.weight),
        ):
            gates = tensor.chunk(4)
            getattr(theirs, name).copy_(torch.cat([gates[i] for i in (1, 2, 0, 3)]))
        theirs.bias_hh_l0.zero_()
    return theirs


def stacked(layers: nn.ModuleList, x: Tensor) -> list[Tensor]:
    """What torch's layers give for one text (L, D), each above the first with what it read added."""
    every = []
    for layer in layers:
        y, _ = torchs(layer)(x[None])
        x = y[0] + x if every else y[0]
        every.append(x)
    return every


def test_layers_are_those_of_torch_forwards_and_on_the_reversed_text(words: Tokenizer) -> None:
    encoder, _ = model(words)
    asked = batch(words)
    with torch.no_grad():
        encoder.mix.shares.copy_(torch.tensor([0.5, -1.0, 2.0]))
        encoder.mix.scale.fill_(1.5)
        hidden: Hidden = encoder(*asked.stream, layers=True)
        expected: list[list[Tensor]] = [[], [], []]
        for x in encoder.embedding(asked.ids).split(asked.lengths.tolist()):
            expected[0].append(torch.cat([x, x], 1))
            ahead = stacked(encoder.forwards, x)
            behind = [y.flip(0) for y in stacked(encoder.backwards, x.flip(0))]
            for layer, pair in enumerate(zip(ahead, behind, strict=True), 1):
                expected[layer].append(torch.cat(pair, 1))
    for found, texts in zip(hidden.layers, expected, strict=True):
        torch.testing.assert_close(found, torch.cat(texts), atol=1e-6, rtol=1e-5)

    shares = torch.tensor([0.5, -1.0, 2.0]).softmax(0)
    mixed = 1.5 * sum(share * layer for share, layer in zip(shares, hidden.layers, strict=True))
    torch.testing.assert_close(hidden.tokens, mixed, atol=1e-6, rtol=1e-5)
    of_texts = hidden.tokens.split(asked.lengths.tolist())
    ends = [torch.cat([text[-1, :16], text[0, 16:]]) for text in of_texts]
    assert torch.equal(hidden.pooled, torch.stack(ends))


def plain_log_probabilities(
    encoder: Elmo, head: FullSoftmax, text: list[int]
) -> tuple[list[float], list[float]]:
    """Each word's, by models that are given the words before it, or those after it, and nothing else."""
    start, end = encoder.settings.start, encoder.settings.end
    table = head.table.detach()

    def state(part: list[int], half: int, at: int) -> Tensor:
        asked = make_batch([Row(part)])
        top = encoder(*asked.stream, layers=True).layers[-1]
        return top[at].chunk(2)[half]

    def score(vector: Tensor, word: int) -> float:
        logits = table @ vector + head.bias
        logits[start] = -torch.inf
        return float(logits.log_softmax(0)[word])

    forward = [score(state(text[:k], 0, -1), text[k]) for k in range(1, len(text))]
    backward = []
    for k in range(len(text) - 1):
        word = end if k == 0 else text[k]
        backward.append(score(state(text[k + 1 :], 1, 0), word))
    return forward, backward


class Row:
    """Tokens as a row of a batch."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids
        self.segments = [0] * len(ids)

    def __len__(self) -> int:
        return len(self.ids)


def test_the_loss_is_that_of_a_plain_loop(words: Tokenizer) -> None:
    encoder, head = model(words)
    assert isinstance(head, FullSoftmax)
    assert is_tied(head, encoder)
    asked = batch(words, 3)
    forward: list[float] = []
    backward: list[float] = []
    with torch.no_grad():
        nn.init.normal_(head.bias)
        for text in asked.ids.split(asked.lengths.tolist()):
            ahead, behind = plain_log_probabilities(encoder, head, text.tolist())
            forward += ahead
            backward += behind
        found = log_probabilities(encoder, head, asked)
        objective = BidirectionalObjective()
        losses = objective.losses(encoder, head, asked)
        sums = objective.tally(encoder, head, asked)
    torch.testing.assert_close(found[0], torch.tensor(forward), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1], torch.tensor(backward), atol=1e-5, rtol=1e-5)
    assert objective.counts(asked) == {"forward": len(forward), "backward": len(backward)}
    assert float(losses["forward"]) == pytest.approx(-sum(forward), rel=1e-5)
    assert float(losses["backward"]) == pytest.approx(-sum(backward), rel=1e-5)
    metrics = objective.metrics(sums)
    assert metrics["loss"] == pytest.approx(-sum(forward + backward) / len(forward), rel=1e-5)
    perplexities = [float(np.exp(-np.mean(one))) for one in (forward, backward)]
    assert metrics["forward_perplexity"] == pytest.approx(perplexities[0], rel=1e-4)
    assert metrics["backward_perplexity"] == pytest.approx(perplexities[1], rel=1e-4)
    assert metrics["mean_perplexity"] == pytest.approx(sum(perplexities) / 2, rel=1e-4)


def test_no_model_sees_the_word_that_it_predicts(words: Tokenizer) -> None:
    """Another word k changes no state that k is predicted from, nor any that reads away from it."""
    encoder, head = model(words)
    (encoding,) = words.encode(LINES[:1])
    text = encoding.ids
    assert len(text) > 6

    def scores(ids: list[int]) -> tuple[Tensor, Tensor]:
        """Of every word that can be predicted, for each token but the first and for each but the last."""
        top = encoder(*make_batch([Row(ids)]).stream, layers=True).layers[-1]
        after, before = top.chunk(2, 1)
        words_from = encoder.settings.start + 1  # the start mark and those before it have none
        return head.scores(after[:-1])[:, words_from:], head.scores(before[1:])[:, words_from:]

    with torch.no_grad():
        forward, backward = scores(text)
        for k in range(1, len(text) - 1):
            other = [*text[:k], text[k] + 1, *text[k + 1 :]]
            changed_forward, changed_backward = scores(other)
            # Row j of the first predicts token j + 1, row j of the second predicts token j.
            assert torch.equal(changed_forward[:k], forward[:k])
            assert torch.equal(changed_backward[k:], backward[k:])
            assert (changed_forward[k:] - forward[k:]).abs().amax(1).min() > 1e-6
            assert (changed_backward[:k] - backward[:k]).abs().amax(1).min() > 1e-6


def test_rows_of_lines_stand_between_marks(words: Tokenizer, tmp_path: Path) -> None:
    """As the tokenizer puts them around a text, so that training and use read alike; a long line is cut."""
    long = " ".join(LINES[:4])
    made = make(tmp_path, "\n".join([*LINES[:6], long]), words)
    stream = TokenStream(made.shards, words.sep)
    room = 30
    feed = MarkedRows(stream, words, room, words.cls)
    rows = feed.batch(0, np.arange(len(feed.sizes)))
    texts = [text.tolist() for text in rows.ids.split(rows.lengths.tolist())]
    assert all(len(text) <= room for text in texts)
    assert all(text[0] == words.cls and text[-1] == words.sep for text in texts)
    assert all(words.cls not in text[1:] for text in texts)
    expected = [e.ids[1:] for e in words.encode([*LINES[:6], long])]
    tokens = sorted(word for text in texts for word in text[1:] if word != words.sep)
    assert tokens == sorted(word for text in expected for word in text if word != words.sep)
    (first, *_) = expected
    assert any(text[1 : 1 + len(first)] == first for text in texts)


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_folder_is_exact(output: str, words: Tokenizer, tmp_path: Path) -> None:
    encoder, head = model(words, output)
    if output in ("classes", "sampled"):
        head.rank(torch.arange(words.size))
    with torch.no_grad():
        encoder.mix.shares.copy_(torch.tensor([0.0, 1.0, 2.0]))
        encoder.mix.scale.fill_(1.25)
    folder = save(Bundle(encoder, words, "firth-elmo", KIND, head), tmp_path / "model")
    card = (folder / "README.md").read_text()
    assert "with gamma 1.250 and s = (0.090, 0.245, 0.665)" in card
    again = load(folder)
    assert (again.kind, again.length, again.unmatched) == (KIND, None, ((), ()))
    assert again.tied == (output != "full")
    assert again.head is not None
    for one, other in ((encoder, again.encoder), (head, again.head)):
        ours, theirs = one.state_dict(), other.state_dict()
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    if output in ("tied", "sampled"):
        assert again.head.table is again.encoder.table
    asked = batch(words)
    with torch.no_grad():
        for one, other in zip(
            log_probabilities(encoder, head, asked),
            log_probabilities(again.encoder, again.head, asked),
            strict=True,
        ):
            assert torch.equal(one, other)


def test_fine_tuning_has_the_rate_of_the_family() -> None:
    record = by_name("elmo")
    usual = record.fine_tuning_rate(record.settings_for("tiny", vocab=10, start=2, end=3))
    settings = FinetuneSettings(task="classify", model="elmo", train="a", out="b")  # type: ignore[arg-type]
    assert decided(settings, 100, 256, usual).rate == usual == 1e-3
    assert decided(settings, 100, 256).rate == RATE_TIMES_WIDTH / 256
    assert decided(settings.model_copy(update={"rate": 0.02}), 100, 256, usual).rate == 0.02
    frozen = settings.model_copy(update={"features": "0..2"})
    assert decided(frozen, 100, 256, usual).rate == OF_HEADS["linear"][0]


def test_a_wrong_folder_is_refused(words: Tokenizer, tmp_path: Path) -> None:
    encoder, head = model(words, "classes")
    assert not isinstance(head, FullSoftmax)
    head.order[0] = head.order[1]
    bad = save(Bundle(encoder, words, "firth-elmo", KIND, head), tmp_path / "ranks")
    with pytest.raises(InputError, match=r"firth\.head\.order and .* are not an order"):
        load(bad)

    encoder, head = model(words)
    good = save(Bundle(encoder, words, "firth-elmo", KIND, head), tmp_path / "good")
    (good / "firth.json").write_text(json.dumps(read(good / "firth.json") | {"sha256": {}}))
    config = read(good / "config.json")
    for change, said in (
        ({"end": None}, "the mark for the end of a text is missing"),
        ({"width": 8}, "has shape"),
        ({"depth": 3}, "weights are missing: forwards.2.keep.weight"),
        ({"start": words.size}, "has shape"),
    ):
        (good / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(InputError, match=said):
            load(good)

    # A head for masked words would be twice as wide as the table.
    (good / "config.json").write_text(json.dumps(config))
    record = read(good / "firth.json")
    (good / "firth.json").write_text(json.dumps(record | {"task": "fill"}))
    with pytest.raises(InputError, match="is for encoders whose table is as wide"):
        load(good)

    # Nor may another encoder claim to be two language models.
    sizes = {"vocab": words.size, "width": 16, "depth": 1, "heads": 2, "inner": 16, "length": 16}
    other = save(Bundle(Bert(BertSettings(**sizes)), words), tmp_path / "bert")
    record = read(other / "firth.json") | {"task": KIND, "head": {"tied": True}, "sha256": {}}
    (other / "firth.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="is for two language models side by side"):
        load(other)


def read(path: Path) -> dict[str, object]:
    page: dict[str, object] = json.loads(path.read_text())
    return page
