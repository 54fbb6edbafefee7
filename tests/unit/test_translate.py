"""Translation: the textbook's objective, what is counted of a target, and the alignment of words."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import firth
from firth.base.errors import InputError
from firth.data.batch import TARGET, Batch
from firth.data.examples import TextToText
from firth.data.sides import LENGTHS, SAID, EncodedPair, PairFeed
from firth.models.protocols import EncoderDecoder
from firth.models.search import Greedy
from firth.models.translate import translate as search
from firth.nn.vocab import log_probs
from firth.predictor import Predictor
from firth.recipes.settings import FinetuneSettings
from firth.tasks.translate import Translate, word_of_tokens
from firth.text.tokenizer import Tokenizer
from tests.unit.speakers import translator

TEXTBOOK = {"je suis étudiant": "I am a student", "merci": "thanks"}
WORDS = ["</s>", "I", "a", "am", "student", "thanks"]


def textbook(folder: Path, model: str, **more: Any) -> firth.FinetuneResult:
    """Learn the textbook's two sentences."""
    path = folder / "textbook.jsonl"
    rows = [json.dumps({"src": source, "tgt": target}) for source, target in TEXTBOOK.items()]
    path.write_text("\n".join(rows))
    given: dict[str, Any] = {
        "dev": path,
        "vocab_kind": "words",
        "case": "keep",
        "separate_vocabs": True,
        "size": "tiny",
        "steps": 30,
        "rate": 0.01,
        "dropout": 0.0,
        "threads": 1,
        "workers": 0,
        **more,
    }
    return firth.finetune("translate", model, path, folder / model, **given)


def rows_of(bundle: Any, source: str, target: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-probabilities of each row of a target, and the rows of its own tokens."""
    model: EncoderDecoder = bundle.translator
    (encoding,) = bundle.tokenizer.encode([source])
    (ids,) = Translate().encode_targets([TextToText(source, target)], bundle.targets, model.end)
    with torch.inference_mode():
        x = model(
            torch.tensor(encoding.ids),
            torch.tensor([len(encoding)]),
            torch.tensor(ids),
            torch.tensor([len(ids)]),
        )
        return log_probs(x, *model.output), torch.tensor(ids) - model.first


@pytest.mark.parametrize("model", ["seq2seq", "attention", "transformer"])
def test_the_textbooks_objective_is_learned(model: str, tmp_path: Path) -> None:
    textbook(tmp_path, model)
    predictor = firth.load(tmp_path / model, threads=1)
    bundle = predictor.bundle
    network = bundle.translator
    pieces = [bundle.targets.piece(network.first + row) for row in range(6)]
    assert sorted(pieces) == WORDS  # the output layer has rows for words and the end mark only
    assert len(network.output.weight) == 6

    found, rows = rows_of(bundle, "je suis étudiant", "I am a student")
    assert found.shape == (5, 6)
    truth = F.one_hot(rows, 6)
    assert truth.sum(1).tolist() == [1] * 5
    assert [pieces[row] for row in rows] == ["I", "am", "a", "student", "</s>"]
    assert found.argmax(1).tolist() == rows.tolist()

    (encoding,) = bundle.tokenizer.encode(["je suis étudiant"])
    ids, lengths = torch.tensor(encoding.ids), torch.tensor([len(encoding)])
    ((greedy,),) = search(network, ids, lengths, Greedy(), most=50)
    assert len(greedy.ids) == 5
    assert greedy.ids[-1] == network.end
    said = predictor.translate(list(TEXTBOOK), beam=1)
    assert [one.translation for one in said] == list(TEXTBOOK.values())


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_smoothed_targets_are_the_published_mixture(smoothing: float, tmp_path: Path) -> None:
    """The loss is the cross-entropy with 1 - e + e / 6 for the target and e / 6 for the others."""
    textbook(tmp_path, "seq2seq", steps=1)
    bundle = firth.load(tmp_path / "seq2seq", threads=1).bundle
    found, rows = rows_of(bundle, "je suis étudiant", "I am a student")
    truth = torch.full((5, 6), smoothing / 6)
    truth[range(5), rows] = 1 - smoothing + smoothing / 6
    expected = -(truth * found).sum()

    (encoding,) = bundle.tokenizer.encode(["je suis étudiant"])
    pair = EncodedPair(encoding.ids, (rows + bundle.translator.first).tolist())
    batch = PairFeed([pair], ["je"], bundle.translator.first).batch(0, np.array([0]))
    task = Translate(smoothing=smoothing)
    losses = task.losses(bundle.translator, None, batch)
    assert float(losses["target"]) == pytest.approx(float(expected), rel=1e-5)
    assert task.counts(batch) == {"target": 5.0}
    metrics = task.metrics(task.tally(bundle.translator, None, batch))
    plain = float(-found[range(5), rows].mean())
    assert metrics["perplexity"] == pytest.approx(np.exp(plain), rel=1e-5)


def test_words_that_cant_be_written_are_read_and_not_learned(tmp_path: Path) -> None:
    textbook(tmp_path, "seq2seq", steps=1)
    bundle = firth.load(tmp_path / "seq2seq", threads=1).bundle
    model = bundle.translator
    known, _ = rows_of(bundle, "merci", "I am thanks")
    found, rows = rows_of(bundle, "merci", "I whatever thanks")
    (encoding,) = bundle.tokenizer.encode(["merci"])
    pair = EncodedPair(encoding.ids, (rows + model.first).tolist())
    batch = PairFeed([pair], ["merci"], model.first).batch(0, np.array([0]))
    assert batch.targets[SAID].tolist() == [True, False, True, True]
    task = Translate()
    assert task.counts(batch) == {"target": 3.0}
    expected = -found[[0, 2, 3], rows[[0, 2, 3]]].sum()
    assert float(task.losses(model, None, batch)["target"]) == pytest.approx(float(expected))
    assert not torch.allclose(known[2], found[2])


def test_a_batch_keeps_targets_beside_their_sources(seed: int) -> None:
    draw = np.random.default_rng(seed)
    pairs = []
    for number in range(20):
        sizes = draw.integers(1, 9, 2)
        pairs.append(EncodedPair([number] * sizes[0], [100 + number] * sizes[1]))
    feed = PairFeed(pairs, [str(number) for number in range(20)], first=110)
    assert feed.sizes.tolist() == [len(pair.source) + len(pair.target) for pair in pairs]
    numbers = draw.permutation(20)[:12]
    batch: Batch = feed.batch(0, numbers)
    sources = [part[0].item() for part in batch.ids.split(batch.lengths.tolist())]
    lengths = batch.targets[LENGTHS].tolist()
    targets = [part[0].item() for part in batch.targets[TARGET].split(lengths)]
    assert sources == batch.owner == [number - 100 for number in targets]
    assert sorted(sources) == sorted(numbers.tolist())
    both = list(zip(batch.lengths.tolist(), lengths, strict=True))
    assert both == sorted(both, reverse=True)
    assert batch.tokens == feed.sizes[numbers].sum()
    assert batch.targets[SAID].tolist() == (batch.targets[TARGET] >= 110).tolist()


def test_tokens_are_given_to_the_words_that_they_stand_in() -> None:
    text = "  Zwei   Männer\tlaufen. "
    tokenizer = Tokenizer.train([text] * 9, "bytes", 270)
    (encoding,) = tokenizer.encode([text])
    places = word_of_tokens(text, encoding)
    assert places[0] is places[-1] is None
    assert {place for place in places if place is not None} == {0, 1, 2}
    for (start, end), place in zip(encoding.offsets, places, strict=True):
        if place is not None:
            assert set(text[start:end].strip()) <= set(text.split()[place])


def test_words_are_aligned_by_attention(tmp_path: Path) -> None:
    textbook(tmp_path, "attention", steps=5)
    predictor = firth.load(tmp_path / "attention", threads=1)
    (found,) = predictor.translate(["je suis étudiant"], align=True)
    words = found.translation.split()
    assert [one.target for one in found.alignment] == words
    for number, one in enumerate(found.alignment):
        assert one.target_word == number
        assert "je suis étudiant".split()[one.source_word] == one.source
        assert 0 < one.weight <= 1
    (plain,) = predictor.translate(["je suis étudiant"])
    assert plain.alignment == ()
    textbook(tmp_path, "seq2seq", steps=1)
    with pytest.raises(InputError, match="this model has none between source and target"):
        firth.load(tmp_path / "seq2seq", threads=1).translate(["merci"], align=True)


def test_of_white_space_nothing_is_made() -> None:
    """An empty line keeps its place, as with every task, and no translation is invented for it."""
    predictor = Predictor(translator("transformer"), threads=1)
    texts = ["a list", "", " \t\n", "a list"]
    found = predictor.translate(texts, top=2, align=True)
    assert found[0].translation != ""
    assert found[0] == found[3]
    for blank in found[1:3]:
        assert blank.as_json() == {
            "translation": "",
            "score": 0.0,
            "candidates": [{"translation": "", "score": 0.0}],
            "alignment": [],
            "truncated_tokens": 0,
        }
    first, *blanks, last = predictor.attention(texts)
    assert [record.second for record in blanks] == ["", ""]
    assert first.second == last.second == found[0].translation


def test_candidates_are_named_best_first(tmp_path: Path) -> None:
    textbook(tmp_path, "seq2seq")
    predictor = firth.load(tmp_path / "seq2seq", threads=1)
    (found,) = predictor.translate(["merci"], top=3)
    scores = [one.score for one in found.candidates]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert found.candidates[0] == firth.TranslationCandidate(found.translation, found.score)
    assert len({one.translation for one in found.candidates}) == 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"model": "rnn"}, "translate takes an encoder-decoder, which rnn is not"),
        ({"task": "classify", "model": "transformer"}, "classify takes an encoder, which"),
        ({"task": "classify", "model": "mean", "smoothing": 0.2}, "smoothing= is for text to text"),
        ({"second": "b"}, "second= means nothing to translate"),
        ({"missing": ["nan"]}, "missing= means nothing to translate"),
        ({"steps": 3, "minutes": 2.0}, "steps= and minutes= both say how long to train"),
        ({"minutes": 2.0, "folds": 3}, "minutes= is for one training"),
        ({"schedule": "inverse-sqrt", "warmup": 0.0}, "give it a share"),
        ({"size": "huge"}, "size"),
        ({"vocab": "v", "vocab_kind": "bytes"}, "leave vocab_kind= out"),
        ({"vocab": "v", "separate_vocabs": True}, "leave separate_vocabs= out"),
        ({"case": "lower"}, "case=.* is for vocab_kind=.*words"),
        ({"dev_target": "d"}, "dev_target= goes with dev="),
        ({"target": "t", "dev": "d"}, "name those of dev= with dev_target="),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    given = {"task": "translate", "model": "seq2seq", "train": "t", "out": "o", **wrong}
    with pytest.raises(InputError, match=said):
        FinetuneSettings.given(given)
