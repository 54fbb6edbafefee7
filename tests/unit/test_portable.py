"""What a page can hold of a model, and what it is told that it can't."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from firth.base.errors import InputError
from firth.folders.bundle import Bundle
from firth.models.bert import Bert, BertSettings
from firth.probes.portable import LONGEST, portable_model
from firth.tasks.head import make_head
from firth.text.rules import wordpiece_rules
from firth.text.tokenizer import Tokenizer
from firth.verbs.view import view
from tests.unit.speakers import bundle, tokenizer

SIZES = {"width": 32, "depth": 1, "heads": 2, "inner": 64, "length": 200}


def small(
    words: Tokenizer | None = None, kind: str | None = "fill", tied: bool = True, **sizes: int
) -> Bundle:
    """A small BERT."""
    words = words or tokenizer("wordpiece")
    encoder = Bert(BertSettings(vocab=words.size, **SIZES | sizes))
    labels = ("good", "bad") if kind == "classify" else ()
    head = make_head(kind, encoder, labels, tied)
    return Bundle(encoder.eval(), words, kind=kind, head=head)


def edited(folder: Path, **changes: object) -> Tokenizer:
    """A tokenizer with other rules."""
    words = tokenizer("wordpiece")
    words.save(folder)
    path = folder / "tokenizer.json"
    rules = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps(rules), encoding="utf-8")
    return Tokenizer.open(folder)


def test_a_model_is_its_weights() -> None:
    made = small()
    found = portable_model(made)
    table = found.tensors["embedding.token.weight"]
    assert table.dtype == np.float16
    assert np.abs(table - made.encoder.table.detach().numpy()).max() < 1e-4
    assert len(found.tensors["embedding.position.weight"]) == found.length == LONGEST
    kept = {name.split(".")[0] for name in found.tensors}
    assert kept == {"embedding", "blocks", "head"}
    assert found.rules.pieces[found.rules.special[found.mask]] == found.mask


def test_rules_of_published_berts_are_known(tmp_path: Path) -> None:
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocab) + "\n", encoding="utf-8")
    rules = wordpiece_rules(Tokenizer.open(tmp_path))
    # Accents go with the case where nobody says otherwise.
    assert rules.steps == ["clean", "ideographs", "accents", "lower"]
    assert rules.pieces == vocab
    assert (rules.before, rules.after, rules.unknown) == ([2], [3], 1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pre_tokenizer": {"type": "WhitespaceSplit"}}, "WhitespaceSplit as its pre_tokenizer"),
        ({"pre_tokenizer": None}, "nothing as its pre_tokenizer"),
        ({"normalizer": {"type": "NFKC"}}, "NFKC as its normalizer"),
    ],
)
def test_other_rules_are_refused(changes: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        portable_model(small(edited(tmp_path, **changes)))


def test_a_token_that_takes_the_space_beside_it_is_refused(tmp_path: Path) -> None:
    tokens = tokenizer("wordpiece").rules["added_tokens"]
    tokens[-1]["lstrip"] = True
    with pytest.raises(InputError, match="takes more than its own characters"):
        portable_model(small(edited(tmp_path, added_tokens=tokens)))


def test_what_a_page_cant_run_is_refused() -> None:
    far = small()
    with torch.no_grad():
        far.encoder.table[0, 0] = 1e5
    refused = {
        "BPE as its model": small(tokenizer("bytes")),
        "the family gpt": bundle("gpt"),
        "no head for masked words: give the pretrained model": small(kind="classify"),
        "no head for masked words": small(kind=None),
        "a table of its own": small(tied=False),
        "a tiny or mini BERT with some 8,000 pieces fits": small(width=512, inner=2048, depth=2),
        "embedding.token.weight has some too large": far,
    }
    for said, made in refused.items():
        with pytest.raises(InputError, match=said):
            portable_model(made)


def test_a_pair_is_refused() -> None:
    with pytest.raises(InputError, match="leave pair= out"):
        view("minilm", "a", pair="b", with_model=True)
