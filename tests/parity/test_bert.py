"""The same numbers as transformers (eager attention, fp32) from the same weights, on ragged batches of every shape."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import tokenizers
import torch
import transformers
from torch import Tensor, nn
from transformers import BertConfig, BertForPreTraining, BertModel

import firth
from firth.families.bert import LAYOUT
from firth.families.layout import head_source
from firth.folders.bundle import Bundle
from firth.folders.find import find
from firth.folders.read import load
from firth.folders.weights import to_theirs
from firth.models.protocols import Hidden
from firth.nn.block import ACTIVATIONS
from firth.nn.heads import PretrainHead

transformers.utils.logging.disable_progress_bar()

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghijklmnopqrstuvwxyz",
    *(f"##{c}" for c in "abcdefghij"),
]
SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 512,
}
BATCHES = 200
TOLERANCE = 1e-5
Pair = tuple[Bundle, BertForPreTraining]
Real = tuple[Bundle, BertModel]


class Padded(NamedTuple):
    """One ragged batch, as a stream for Firth and as a rectangle for transformers."""

    lengths: Tensor
    ids: Tensor
    segments: Tensor
    mask: Tensor

    @property
    def stream(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What our encoder takes."""
        positions = torch.arange(self.ids.shape[1]).expand_as(self.ids)
        return self.ids[self.mask], positions[self.mask], self.segments[self.mask], self.lengths

    @property
    def rectangle(self) -> dict[str, Tensor]:
        """What transformers takes."""
        return {
            "input_ids": self.ids,
            "attention_mask": self.mask.long(),
            "token_type_ids": self.segments,
        }


def write_words(folder: Path) -> None:
    """Put a small WordPiece tokenizer in a folder, for the body that transformers saves beside it."""
    words = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({p: i for i, p in enumerate(PIECES)}, unk_token="[UNK]")
    )
    words.normalizer = tokenizers.normalizers.BertNormalizer()
    words.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    words.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "mask_token": "[MASK]",
    }
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **names).save_pretrained(folder)


def shake(model: nn.Module, generator: torch.Generator) -> None:
    """Move biases and norms away from the zeros and ones that they are born with, which would hide a swap."""
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.dim() == 1:
                tensor.add_(torch.randn(tensor.shape, generator=generator), alpha=0.2)


def batch(lengths: Sequence[int], vocab: int, generator: torch.Generator, pad: int = 0) -> Padded:
    """Random tokens above the padding's id, the second part of each text in segment 1."""
    sizes = torch.tensor(lengths)
    columns = torch.arange(max(lengths))
    mask = columns < sizes[:, None]
    ids = torch.randint(pad + 1, vocab, mask.shape, generator=generator).masked_fill(~mask, pad)
    turn = (torch.rand(len(lengths), generator=generator) * (sizes + 1)).long()
    return Padded(sizes, ids, ((columns >= turn[:, None]) & mask).long(), mask)


def shapes(rng: random.Random, number: int) -> list[list[int]]:
    """Lengths of so many batches: single texts, equal runs, near-equal runs, any order, 1 and 512 among them."""
    found = [
        [1],
        [512],
        [1, 512],
        [512, 512, 1],
        [1, 1, 1],
        [2, 1],
        [511, 512],
        [7] * 60,
        [5, 5, 5, 6, 6],
        [40, 39, 38, 1],
    ]
    while len(found) < number:
        texts = rng.randint(1, 12)
        longest = rng.choice([1, 3, 9, 9, 20, 20, 50, 50, 120, 512 if texts < 4 else 30])
        shortest = rng.choice([1, max(1, longest * 4 // 5), longest])
        found.append([rng.randint(shortest, longest) for _ in range(texts)])
        rng.choice([lambda x: None, list.sort])(found[-1])
    return found


def close(ours: Tensor, theirs: Tensor) -> None:
    """Hold two outputs to the tolerance of the design page."""
    assert ours.shape == theirs.shape
    difference = (ours - theirs).abs().max().item()
    assert difference <= TOLERANCE * max(1.0, theirs.abs().max().item()), difference


def close_weights(hidden: Hidden, theirs: Sequence[Tensor], lengths: Sequence[int]) -> None:
    """Compare every head of every layer on the square of each text."""
    assert len(hidden.weights) == len(theirs)
    for ours, reference in zip(hidden.weights, theirs, strict=True):
        assert len(ours) == len(lengths)
        for own, rows, size in zip(ours, reference, lengths, strict=True):
            close(own, rows[:, :size, :size])


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_pair(folder: Path, spread: float) -> Pair:
    """A small network with every head of pretraining, theirs and ours, from one folder."""
    torch.manual_seed(0)
    theirs = BertForPreTraining(BertConfig(**SIZES, initializer_range=spread))
    shake(theirs, torch.Generator().manual_seed(1))
    theirs.save_pretrained(folder)
    write_words(folder)
    theirs = BertForPreTraining.from_pretrained(folder, attn_implementation="eager").eval()
    return load(folder), theirs


@pytest.fixture(scope="module")
def sharp(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Weights so wide that each head looks at a few tokens: equal shares would agree whatever the queries and keys are."""
    return make_pair(tmp_path_factory.mktemp("sharp"), 0.2)


@pytest.fixture(scope="module")
def gentle(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Weights for gradients: with wider ones the rounding noise in a key's bias, whose gradient is zero, outgrows its bound."""
    return make_pair(tmp_path_factory.mktemp("gentle"), 0.1)


@pytest.fixture(scope="module")
def minilm() -> Real:
    """The real weights, theirs and ours."""
    return load("minilm"), BertModel.from_pretrained(
        find("minilm"), attn_implementation="eager"
    ).eval()


def check_body(hidden: Hidden, theirs: object, asked: Padded) -> None:
    """Compare all layers and the summary."""
    assert len(hidden.layers) == len(theirs.hidden_states)
    for ours, reference in zip(hidden.layers, theirs.hidden_states, strict=True):
        close(ours, reference[asked.mask])
    assert hidden.layers[-1] is hidden.tokens


def heads_of(loaded: Bundle) -> PretrainHead:
    """The two heads of pretraining."""
    assert isinstance(loaded.head, PretrainHead)
    return loaded.head


def test_every_output_is_theirs(sharp: Pair, seed: int) -> None:
    loaded, theirs = sharp
    heads = heads_of(loaded)
    generator = torch.Generator().manual_seed(seed)
    for lengths in shapes(random.Random(seed), BATCHES):
        print(lengths)
        asked = batch(lengths, SIZES["vocab_size"], generator)
        with torch.inference_mode():
            reference = theirs(**asked.rectangle, output_hidden_states=True, output_attentions=True)
            pooled = theirs.bert(**asked.rectangle).pooler_output
            for weights in (False, True):
                hidden = loaded.encoder(*asked.stream, layers=True, weights=weights)
                check_body(hidden, reference, asked)
                close(hidden.pooled, pooled)
                close(heads.masked(hidden.tokens), reference.prediction_logits[asked.mask])
                close(heads.next(hidden.pooled), reference.seq_relationship_logits)
            close_weights(hidden, reference.attentions, lengths)


def test_attention_is_not_flat(sharp: Pair) -> None:
    asked = batch([20] * 8, SIZES["vocab_size"], torch.Generator().manual_seed(0))
    with torch.inference_mode():
        layers = sharp[0].encoder(*asked.stream, weights=True).weights
    for shares in layers:
        assert (
            torch.stack(list(shares)).amax(-1).mean() > 2 / 20
        )  # twice an equal share of 20 tokens


def loss(outputs: Sequence[Tensor], generator: torch.Generator) -> Tensor:
    """A fixed random projection of all outputs."""
    return sum(
        (torch.randn(x.shape, generator=generator) * x).sum() / x.shape[-1] ** 0.5 for x in outputs
    )


def check_gradients(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    """Hold every gradient to the tolerance of the design page, and let none go uncompared."""
    assert ours.keys() == theirs.keys()
    whole = torch.stack([g.norm() for g in theirs.values()]).norm().item()
    for name, reference in theirs.items():
        difference = (ours[name] - reference).norm().item()
        assert difference <= TOLERANCE * max(reference.norm().item(), 1e-3 * whole), (
            name,
            difference,
        )


def our_gradients(loaded: Bundle, prefix: str) -> dict[str, Tensor]:
    """Our gradients under their names, queries, keys and values apart."""
    layout = LAYOUT
    body = to_theirs(
        layout, {name: tensor.grad for name, tensor in loaded.encoder.named_parameters()}
    )
    found = {prefix + source: slope for source, slope in body.items()}
    if loaded.head is not None:
        own = [(n, p) for n, p in loaded.head.named_parameters() if n != "masked.table"]
        found |= {head_source(layout, "pretrain", name): tensor.grad for name, tensor in own}
    return found


@pytest.mark.parametrize("weights", [False, True], ids=["fast", "explained"])
@pytest.mark.parametrize(
    "lengths",
    [[1], [9, 9, 9, 9], [12, 11, 11, 10, 1], [3, 30, 1, 1, 17, 64], [512, 1, 33]],
    ids=str,
)
def test_every_gradient_is_theirs(
    gentle: Pair, lengths: list[int], weights: bool, seed: int
) -> None:
    loaded, theirs = gentle
    heads = heads_of(loaded)
    asked = batch(lengths, SIZES["vocab_size"], torch.Generator().manual_seed(seed))
    body = theirs.bert(**asked.rectangle)
    tokens = body.last_hidden_state[asked.mask]
    logits = theirs.cls(tokens, body.pooler_output)
    theirs.zero_grad()
    loss([tokens, body.pooler_output, *logits], torch.Generator().manual_seed(seed)).backward()
    model = nn.ModuleList([loaded.encoder, heads]).requires_grad_(True)
    model.zero_grad()
    hidden = loaded.encoder(*asked.stream, weights=weights)
    outputs = [hidden.tokens, hidden.pooled, heads.masked(hidden.tokens), heads.next(hidden.pooled)]
    loss(outputs, torch.Generator().manual_seed(seed)).backward()
    check_gradients(
        our_gradients(loaded, "bert."), {n: p.grad for n, p in theirs.named_parameters()}
    )
    model.requires_grad_(False)


@pytest.mark.parametrize(
    "lengths",
    [[1], [512], [1, 256, 12], [20, 20, 20], [33, 32, 31, 30, 30, 4], [9, 14, 2, 61, 27]],
    ids=str,
)
def test_every_output_of_minilm_is_theirs(minilm: Real, lengths: list[int], seed: int) -> None:
    loaded, theirs = minilm
    asked = batch(lengths, loaded.encoder.settings.vocab, torch.Generator().manual_seed(seed))
    with torch.inference_mode():
        reference = theirs(**asked.rectangle, output_hidden_states=True, output_attentions=True)
        for weights in (False, True):
            hidden = loaded.encoder(*asked.stream, layers=True, weights=weights)
            check_body(hidden, reference, asked)
            close(hidden.pooled, reference.pooler_output)
        close_weights(hidden, reference.attentions, lengths)


def test_every_gradient_of_minilm_is_theirs(minilm: Real, seed: int) -> None:
    loaded, theirs = minilm
    asked = batch(
        [24, 23, 23, 7, 1], loaded.encoder.settings.vocab, torch.Generator().manual_seed(seed)
    )
    body = theirs(**asked.rectangle)
    loss(
        [body.last_hidden_state[asked.mask], body.pooler_output],
        torch.Generator().manual_seed(seed),
    ).backward()
    loaded.encoder.requires_grad_(True)
    hidden = loaded.encoder(*asked.stream)
    loss([hidden.tokens, hidden.pooled], torch.Generator().manual_seed(seed)).backward()
    check_gradients(our_gradients(loaded, ""), {n: p.grad for n, p in theirs.named_parameters()})
    loaded.encoder.requires_grad_(False)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_theirs(name: str) -> None:
    """To 1e-6: GELU and its approximation by tanh are 5e-4 apart."""
    x = torch.linspace(-6, 6, 1001)
    expected = transformers.activations.ACT2FN[name](x)
    for wanted in (False, True):  # GELU works in place where no gradient is wanted
        ours = ACTIVATIONS[name](x.clone().requires_grad_(wanted)).detach()
        torch.testing.assert_close(ours, expected, atol=1e-6, rtol=0)


def test_the_next_sentence_is_as_probable_as_transformers_says(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    theirs = BertForPreTraining(BertConfig(**SIZES, initializer_range=0.3)).eval()
    shake(theirs, generator)
    theirs.save_pretrained(tmp_path)
    write_words(tmp_path)
    judge = transformers.BertForNextSentencePrediction.from_pretrained(tmp_path).eval()
    words = transformers.AutoTokenizer.from_pretrained(tmp_path)
    pairs = [("a b c", "d e f"), ("abc", "[MASK] g h i j"), ("x y z a", "b"), ("a", "a")]
    for pair, answer in zip(pairs, firth.load(tmp_path, threads=1).predict(pairs), strict=True):
        found = answer.as_json()
        rows = words(*pair, return_tensors="pt", return_token_type_ids=True)
        with torch.inference_mode():
            for logits in (judge(**rows).logits, theirs(**rows).seq_relationship_logits):
                expected = float(logits.softmax(-1)[0, 0])
                assert abs(found["next_probability"] - expected) < TOLERANCE
        assert found["next"] == (expected >= 0.5)
