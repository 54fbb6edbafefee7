"""Going on with an existing encoder: which vectors a new vocabulary gets, and which heads are kept."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertForMaskedLM, BertForPreTraining

from benchmarks import transfer
from firth.base.errors import InputError
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.bert import Bert
from firth.nn.heads import MaskedHead
from firth.recipes.start import Moved, expect, fresh, going_on
from firth.samples.texts import TEXTS
from firth.text.tokenizer import Tokenizer
from tests.unit.folders import sound_folders, write

ENGLISH = [line for topic, lines in TEXTS.items() if topic != "swedish" for line in lines]
SWEDISH = list(TEXTS["swedish"])
ROLES = ("pad", "unk", "cls", "sep", "mask")


def small(tokenizer: Tokenizer, follow: bool = True, causal: bool = False) -> Bundle:
    """A tiny model with weights that are far from even."""
    made = fresh("tiny", tokenizer, 96, 0.0, follow, 3, causal)
    with torch.no_grad():
        for module in (made.encoder, made.head):
            for tensor in module.parameters():
                tensor.add_(
                    torch.randn(
                        tensor.shape, generator=torch.Generator().manual_seed(tensor.numel())
                    ),
                    alpha=0.1,
                )
    return made


@pytest.fixture(scope="module")
def english() -> Tokenizer:
    return Tokenizer.train(ENGLISH, size=500)


@pytest.fixture(scope="module")
def swedish() -> Tokenizer:
    return Tokenizer.train(SWEDISH * 2, size=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, english: Tokenizer) -> Path:
    return save(small(english), tmp_path_factory.mktemp("model") / "english")


def table(bundle: Bundle) -> torch.Tensor:
    return bundle.encoder.embedding.token.weight.detach()


def masked(bundle: Bundle) -> MaskedHead:
    return bundle.head.masked


def test_shared_pieces_keep_their_vectors_and_others_are_spelled(
    folder: Path, english: Tokenizer, swedish: Tokenizer
) -> None:
    old = load(folder)
    new, moved = going_on(str(folder), swedish, 0.0, True, 0)
    assert (
        moved.shared + moved.spelled + moved.fresh
        == swedish.size
        == len(table(new))
        == len(masked(new).bias)
    )
    before, after = table(old), table(new)
    bias_before, bias_after = masked(old).bias.detach(), masked(new).bias.detach()
    shared = [
        piece for piece in range(swedish.size) if english.id(swedish.piece(piece)) is not None
    ]
    assert moved.shared == len(shared) > 50
    for piece in shared:
        was = english.id(swedish.piece(piece))
        assert torch.equal(after[piece], before[was])
        assert bias_after[piece] == bias_before[was]
    for role in ROLES:
        assert torch.equal(after[getattr(swedish, role)], before[getattr(english, role)])
    assert moved.spelled > 20
    assert moved.fresh > 0
    strange = swedish.id("å")  # which no English word of the samples has
    assert torch.allclose(after[strange], before.mean(0), atol=1e-6)
    assert str(moved).startswith(
        f"of the new pieces {moved.shared} keep their vectors, {moved.spelled} begin as the mean"
    )


def test_spellings_by_hand(tmp_path: Path) -> None:
    """The old vocabulary has letters and a few syllables, so that every spelling can be written down."""
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdeinort",
        *(f"##{sign}" for sign in "abcdeinort"),
        "in",
        "##ed",
        "tide",
    ]
    (tmp_path / "old").mkdir()
    (tmp_path / "old/vocab.txt").write_text("\n".join(words) + "\n")
    old = Tokenizer.open(tmp_path / "old")
    others = ["indebted", "##tided", "##in", "tide", "tided", "q", "##q", "##tide", "##dent"]
    (tmp_path / "new").mkdir()
    (tmp_path / "new/vocab.txt").write_text(
        "\n".join(["[MASK]", "[PAD]", "[CLS]", "[UNK]", "[SEP]", *others]) + "\n"
    )
    new = Tokenizer.open(tmp_path / "new")
    model = small(old, follow=False)
    before, bias = table(model).clone(), masked(model).bias.detach().clone()
    made, moved = going_on(str(save(model, tmp_path / "model")), new, 0.0, False, 0)
    spelled = {
        "indebted": ["in", "##d", "##e", "##b", "##t", "##ed"],
        "##tided": ["tide", "##d"],  # the old vocabulary has tide at the start of words alone
        "##in": ["in"],
        "tided": ["tide", "##d"],
        "##tide": ["tide"],
        "##dent": ["##d", "##e", "##n", "##t"],  # inside a word every letter is one inside a word
    }
    for piece, parts in spelled.items():
        ids = [old.id(part) for part in parts]
        assert None not in ids
        torch.testing.assert_close(table(made)[new.id(piece)], before[ids].mean(0))
        torch.testing.assert_close(masked(made).bias[new.id(piece)].detach(), bias[ids].mean())
    assert torch.equal(table(made)[new.id("tide")], before[old.id("tide")])
    for role in ROLES:
        assert torch.equal(table(made)[getattr(new, role)], before[getattr(old, role)])
    for strange in ("q", "##q"):
        torch.testing.assert_close(table(made)[new.id(strange)], before.mean(0))
    assert moved == Moved(shared=6, spelled=6, fresh=2)


@pytest.mark.parametrize(
    ("before", "after"),
    [("bytes", "bytes"), ("bytes", "wordpiece"), ("wordpiece", "bytes"), ("wordpiece", "words")],
)
def test_any_kind_after_any_kind(tmp_path: Path, before: str, after: str) -> None:
    old = Tokenizer.train(ENGLISH, before, 500)
    new = Tokenizer.train([*SWEDISH, *ENGLISH[:6]] * 2, after, 600)
    model = small(old, follow=False)
    made, moved = going_on(str(save(model, tmp_path / "model")), new, 0.0, False, 0)
    assert sum(moved) == new.size == made.encoder.settings.vocab
    assert moved.spelled > 50
    for role in ROLES:
        assert torch.equal(table(made)[getattr(new, role)], table(model)[getattr(old, role)])
    if before == after == "bytes":
        assert moved.fresh == 0  # bytes spell everything
        assert moved.shared >= 256 + len(ROLES)
        known = {new.piece(number): number for number in range(new.size)}
        odd = next(
            piece
            for piece in known
            if piece.startswith("Ã¤") and len(piece) > 2 and old.id(piece) is None
        )
        parts = old.encode([new.decode([known[odd]])], special=False)[0].ids
        torch.testing.assert_close(table(made)[known[odd]], table(model)[parts].mean(0))


def test_a_part_of_a_character_is_spelled_by_its_bytes(tmp_path: Path) -> None:
    old = Tokenizer.train(ENGLISH, "bytes", 300)
    new = Tokenizer.train(["日本 日木 日末 日未"] * 9, "bytes", 300)
    model = small(old, follow=False)
    made, moved = going_on(str(save(model, tmp_path / "model")), new, 0.0, False, 0)
    broken = [n for n in range(new.size) if len(new.piece(n)) > 1 and "\ufffd" in new.decode([n])]
    assert broken
    for piece in broken:
        ids = [old.id(byte) for byte in new.piece(piece)]
        torch.testing.assert_close(table(made)[piece], table(model)[ids].mean(0))
    assert moved.fresh == 0


def test_a_head_with_a_table_of_its_own_keeps_it(
    tmp_path: Path, english: Tokenizer, swedish: Tokenizer
) -> None:
    model = small(english, follow=False)
    masked(model).table = nn.Parameter(
        torch.randn(english.size, 128, generator=torch.Generator().manual_seed(8))
    )
    assert not model.tied
    name = str(save(model, tmp_path / "model"))
    same, _ = going_on(name, None, 0.0, False, 0)
    assert torch.equal(masked(same).table, masked(model).table)
    made, _ = going_on(name, swedish, 0.0, False, 0)
    assert not made.tied
    assert masked(made).table.shape == (swedish.size, 128)
    for piece in ("de", "##t", "."):
        assert torch.equal(
            masked(made).table[swedish.id(piece)], masked(model).table[english.id(piece)]
        )
        assert torch.equal(table(made)[swedish.id(piece)], table(model)[english.id(piece)])


@pytest.mark.parametrize("follow", [True, False])
def test_heads_are_kept(folder: Path, follow: bool) -> None:
    old = load(folder)
    made, moved = going_on(str(folder), None, 0.3, follow, 0)
    assert moved is None
    assert made.tied
    assert made.kind == ("pretrain" if follow else "fill")
    assert masked(made).table is made.encoder.embedding.token.weight
    for name, tensor in old.head.masked.state_dict().items():
        assert torch.equal(tensor, made.head.masked.state_dict()[name]), name
    kept = dict(old.encoder.state_dict().items())
    for name, tensor in made.encoder.state_dict().items():
        assert torch.equal(tensor, kept[name]), name
    if follow:
        assert torch.equal(made.head.next.weight, old.head.next.weight)
        assert made.encoder.pooler is not None
    else:
        assert made.head.next is None
        assert made.encoder.pooler is None
    assert all(
        tensor.requires_grad
        for module in (made.encoder, made.head)
        for tensor in module.parameters()
    )
    rates = {module.dropout for module in made.encoder.modules() if hasattr(module, "dropout")}
    assert rates == {0.3}
    assert made.encoder.settings.dropout == made.encoder.settings.attention_dropout == 0.3


def test_minilm_gets_a_tied_head(tmp_path: Path) -> None:
    made, _ = going_on("minilm", None, 0.0, True, 0)
    old = load("minilm")
    assert made.tied
    assert masked(made).table is made.encoder.embedding.token.weight
    assert torch.equal(table(made), table(old))
    assert masked(made).bias.shape == (old.encoder.settings.vocab,)
    assert made.head.next is not None
    assert made.encoder.settings.pooler
    again, _ = going_on("minilm", None, 0.0, True, 0)
    other, _ = going_on("minilm", None, 0.0, True, 1)
    assert torch.equal(masked(again).dense.weight, masked(made).dense.weight)
    assert not torch.equal(masked(other).dense.weight, masked(made).dense.weight)


def test_a_fresh_model_is_a_function_of_its_seed(english: Tokenizer) -> None:
    one, same, other = (fresh("tiny", english, 64, 0.1, True, seed) for seed in (5, 5, 6))
    for module in ("encoder", "head"):
        first, second = (getattr(bundle, module).state_dict() for bundle in (one, same))
        assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(table(one), table(other))
    assert one.encoder.settings.vocab == english.size
    assert one.length == 64
    assert isinstance(one.encoder, Bert)


@pytest.mark.parametrize(("size", "length"), [("tiny", 64), ("mini", 128), ("small", 512)])
def test_every_head_of_a_fresh_model_begins_on_one_neighbour(
    english: Tokenizer, size: str, length: int
) -> None:
    made = fresh(size, english, length, 0.0, True, 3)
    places = torch.arange(64)
    ids = torch.full_like(places, english.mask)  # hidden words have nothing else to go by
    with torch.no_grad():
        seen = made.encoder.eval()(
            ids, places, torch.zeros_like(places), torch.tensor([64]), weights=True
        ).weights
    for head, step in zip(seen[0][0], (1, -1, 2, -2), strict=False):
        looked = head.argmax(-1) - places  # at the ends there may be no such neighbour
        assert (looked[4:-4] - step).abs().float().mean() < 1, (head, step)
        assert float(head[4:-4].max(-1).values.mean()) > 2 / 64


@pytest.mark.parametrize(
    ("follow", "name"),
    [(True, BertForPreTraining), (False, BertForMaskedLM)],
    ids=["pretrain", "fill"],
)
@pytest.mark.parametrize("vocabulary", [False, True], ids=["same", "new"])
def test_what_is_saved_opens_in_transformers(
    folder: Path, tmp_path: Path, swedish: Tokenizer, follow: bool, name: type, vocabulary: bool
) -> None:
    made, _ = going_on(str(folder), swedish if vocabulary else None, 0.1, follow, 0)
    made.encoder.eval()
    made.head.eval()
    theirs, report = name.from_pretrained(save(made, tmp_path / "out"), output_loading_info=True)
    assert not any(report.values()), report
    lines = TEXTS["swedish" if vocabulary else "weather"]
    encoding = made.tokenizer.encode([lines[3]], [lines[4]])[0]
    assert len(encoding) <= made.length
    ids, segments = torch.tensor(encoding.ids), torch.tensor(encoding.segments)
    with torch.inference_mode():
        hidden = made.encoder(ids, torch.arange(len(ids)), segments, torch.tensor([len(ids)]))
        ours = made.head.masked(hidden.tokens)
        reference = theirs.eval()(input_ids=ids[None], token_type_ids=segments[None])
        answer = made.head.next(hidden.pooled) if follow else None
    logits = (reference.prediction_logits if follow else reference.logits)[0]
    assert (ours - logits).abs().max() <= 1e-5 * max(1, logits.abs().max())
    if follow:
        following = reference.seq_relationship_logits
        assert (answer - following).abs().max() <= 1e-5 * max(1, following.abs().max())


def test_another_family_is_refused(tmp_path: Path) -> None:
    model = write(tmp_path / "distil", sound_folders()["distilbert"])
    with pytest.raises(
        InputError, match="is a distilbert; pretraining goes on with folders of BERT"
    ):
        going_on(str(model), None, 0.0, False, 0)


def test_a_new_head_begins_with_how_frequent_pieces_are(english: Tokenizer) -> None:
    made = fresh("tiny", english, 64, 0.0, True, 3)
    counts = np.arange(english.size - 2)
    expect(made.head, counts)
    seen = torch.tensor([*(counts + 0.5), 0.5, 0.5])
    torch.testing.assert_close(masked(made).bias.softmax(0), (seen / seen.sum()).float())


def test_the_random_weights_of_the_benchmark_are_those_that_pretraining_began_with(
    english: Tokenizer, tmp_path: Path
) -> None:
    own = fresh("tiny", english, 64, 0.0, True, transfer.SEED)
    beginning = {name: weight.clone() for name, weight in own.encoder.named_parameters()}
    with torch.no_grad():
        for weight in own.encoder.parameters():
            weight.add_(1.0)  # as if it had learned
    save(own, tmp_path / "transfer-own")
    random = load(transfer._model("random", tmp_path, tmp_path, quick=False))
    assert random.kind == "pretrain"
    for name, weight in random.encoder.named_parameters():
        assert torch.equal(weight, beginning[name])
