"""Small models with random weights, for what surrounds an answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.models.transformer import Transformer, TransformerSettings
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer

# Words for `pretrain`: a network of one narrow layer, for a run of which only the bits matter.
NARROW = ("--size", "tiny", "--set", "width=16", "--set", "depth=1")


def small_translator(folder: Path, words: Tokenizer, **settings: Any) -> Path:
    """Save an encoder-decoder of one narrow layer a side that has learned nothing."""
    torch.manual_seed(1)
    sizes = {"vocab": words.size, "width": 32, "depth": 1, "heads": 2, "inner": 64, "length": 24}
    marks = TransformerSettings(**sizes, start=words.cls, end=words.sep)
    model = Transformer(marks).eval()
    return save(Bundle(model, words, "firth-transformer", "translate", settings=settings), folder)


def small_model(
    folder: Path,
    kind: str | None,
    words: Tokenizer,
    labels: tuple[str, ...] = (),
    made: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """Save a BERT of one narrow layer with a head for a kind of task, or without one; `made` says how it came about."""
    torch.manual_seed(1)
    sizes = {
        "vocab": words.size,
        "width": 32,
        "depth": 1,
        "heads": 2,
        "inner": 64,
        "length": 64,
        "spread": 0.3,
    }
    pooled = ("classify", "several", "regress", "choice")
    encoder = Bert(BertSettings(**sizes, pooler=kind in pooled))
    head = make_head(kind, encoder, labels)
    if kind in (*pooled, "tag"):
        assert head is not None
        torch.nn.init.normal_(head.linear.weight, std=1.0)
    bundle = Bundle(
        encoder.eval(),
        words,
        kind=kind,
        head=head.eval() if head else None,
        labels=labels,
        settings=settings,
    )
    return save(bundle, folder, made=made)
