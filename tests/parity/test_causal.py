"""A BERT that sees only what came before: the same folder, and the same numbers, as transformers' decoder type of BERT."""

from pathlib import Path

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
)

from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer
from tests.parity.test_bert import SIZES, batch, close, shake, write_words

LENGTHS = [[1], [40], [9, 1, 30, 30, 29, 4], [12, 12, 12], [2, 17, 5]]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small(folder: Path, kind: str | None, causal: bool = True) -> Bundle:
    """A small network of ours with shaken weights."""
    torch.manual_seed(0)
    sizes = {
        "vocab": 60,
        "width": 32,
        "depth": 3,
        "heads": 4,
        "inner": 48,
        "length": 64,
        "spread": 0.2,
    }
    encoder = Bert(BertSettings(**sizes, causal=causal, pooler=kind == "pretrain"))
    head = make_head(kind, encoder)
    shake(encoder, torch.Generator().manual_seed(1))
    if head is not None:
        shake(head, torch.Generator().manual_seed(2))
        head.eval()
    folder.mkdir()
    write_words(folder)
    return Bundle(encoder.eval(), Tokenizer.open(folder), kind=kind, head=head)


@pytest.mark.parametrize("eager", [False, True], ids=["fused", "eager"])
def test_ours_opens_in_transformers(tmp_path: Path, eager: bool) -> None:
    ours = small(tmp_path / "words", None)
    folder = save(ours, tmp_path / "ours")
    assert AutoConfig.from_pretrained(folder).is_decoder is True
    more = {"attn_implementation": "eager"} if eager else {}
    theirs, report = BertModel.from_pretrained(
        folder, add_pooling_layer=False, output_loading_info=True, **more
    )
    assert not any(report.values()), report
    theirs.eval()
    for lengths in LENGTHS:
        asked = batch(lengths, 60, torch.Generator().manual_seed(len(lengths)))
        with torch.inference_mode():
            reference = theirs(**asked.rectangle, output_hidden_states=True)
            hidden = ours.encoder(*asked.stream, layers=True)
            explained = ours.encoder(*asked.stream, weights=True)
        assert len(hidden.layers) == len(reference.hidden_states) == 4
        for one, other in zip(hidden.layers, reference.hidden_states, strict=True):
            close(one, other[asked.mask])
        close(explained.tokens, reference.last_hidden_state[asked.mask])
        assert all((text.triu(1) == 0).all() for layer in explained.weights for text in layer)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("fill", BertForMaskedLM), ("pretrain", BertForPreTraining)],
    ids=["fill", "pretrain"],
)
def test_ours_with_a_head_opens_in_transformers(tmp_path: Path, kind: str, name: type) -> None:
    ours = small(tmp_path / "words", kind)
    folder = save(ours, tmp_path / "ours")
    theirs = name.from_pretrained(folder).eval()
    assert theirs.config.is_decoder
    asked = batch(LENGTHS[2], 60, torch.Generator().manual_seed(5))
    with torch.inference_mode():
        reference = theirs(**asked.rectangle)
        hidden = ours.encoder(*asked.stream)
        close(
            ours.head.masked(hidden.tokens),
            (reference.logits if kind == "fill" else reference.prediction_logits)[asked.mask],
        )
        if kind == "pretrain":
            close(ours.head.next(hidden.pooled), reference.seq_relationship_logits)
    again = load(folder)
    assert again.encoder.settings.causal
    with torch.inference_mode():
        assert torch.equal(again.encoder(*asked.stream).tokens, hidden.tokens)


def test_theirs_opens_here(tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = BertModel(
        BertConfig(
            **SIZES | {"max_position_embeddings": 64}, is_decoder=True, initializer_range=0.2
        )
    ).eval()
    shake(theirs, torch.Generator().manual_seed(1))
    theirs.save_pretrained(tmp_path / "theirs")
    write_words(tmp_path / "theirs")
    ours = load(tmp_path / "theirs")
    assert ours.encoder.settings.causal
    back = AutoModel.from_pretrained(save(ours, tmp_path / "back")).eval()
    assert back.config.is_decoder
    for lengths in LENGTHS:
        asked = batch(lengths, 60, torch.Generator().manual_seed(len(lengths)))
        with torch.inference_mode():
            reference = theirs(**asked.rectangle)
            hidden = ours.encoder(*asked.stream)
            again = back(**asked.rectangle)
        close(hidden.tokens, reference.last_hidden_state[asked.mask])
        close(hidden.pooled, reference.pooler_output)
        close(again.last_hidden_state[asked.mask], reference.last_hidden_state[asked.mask])


def test_what_comes_later_changes_nothing_before(tmp_path: Path) -> None:
    for causal in (True, False):
        ours = small(tmp_path / str(causal), None, causal)
        asked = batch([30, 30], 60, torch.Generator().manual_seed(3))
        changed = asked.ids.clone()
        changed[:, 20:] = changed[:, 20:].flip(0)
        with torch.inference_mode():
            one, other = (
                ours.encoder(*given.stream).tokens.view(2, 30, -1)
                for given in (asked, asked._replace(ids=changed))
            )
        assert torch.equal(one[:, :20], other[:, :20]) == causal
        assert not torch.allclose(one[:, 20:], other[:, 20:])


def test_a_folder_of_ours_that_sees_both_ways_is_no_decoder(tmp_path: Path) -> None:
    folder = save(small(tmp_path / "words", "fill", causal=False), tmp_path / "ours")
    assert AutoConfig.from_pretrained(folder).is_decoder is False
