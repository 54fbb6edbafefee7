"""The keyword arguments of `firth.pretrain` and `firth.finetune`, for editors and type checkers.

Names and types are those of the settings classes, which have the help and the defaults; a test
compares them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

from firth.recipes.settings import Long, ModelSetting, Schedule


class PretrainOptions(TypedDict, total=False):
    """Options of `firth.pretrain`; `text` is another name of `field`."""

    model: str
    minutes: float | None
    steps: int | None
    epochs: float | None
    size: Literal["tiny", "mini", "small", "medium", "base", "large"] | None
    cell: Literal["lstm", "gru", "tanh"] | None
    order: int | None
    output: Literal["full", "classes", "sampled"] | None
    carry: bool
    vocab: str | Path | None
    split: Literal["auto", "punctuation", "spaces"] | None
    init: str | Path | None
    dev: str | Path | None
    length: int | None
    batch: int | None
    micro: int
    rate: float | None
    schedule: Schedule
    weight_decay: float | None
    clip: float | None
    dropout: float | None
    nsp: bool
    whole_words: bool
    causal: bool
    model_settings: dict[str, ModelSetting]
    seed: int
    save_every: int | None
    check_every: int | None
    workers: int
    dtype: Literal["auto", "fp32", "bf16"]
    timeout: float
    threads: int | None
    field: str
    text: str | None
    encoding: str | None


class FinetuneOptions(TypedDict, total=False):
    """Options of `firth.finetune`."""

    dev: str | Path | None
    target: str | Path | None
    dev_target: str | Path | None
    text: str | None
    second: str | None
    label: str | None
    missing: str | Sequence[str]
    size: Literal["tiny", "mini", "small", "medium", "base", "large"] | None
    cell: Literal["lstm", "gru", "tanh"] | None
    bidirectional: bool
    vectors: str | Path | None
    freeze: bool
    vocab: str | Path | None
    vocab_kind: Literal["bytes", "wordpiece", "words"] | None
    case: Literal["lower", "keep"] | None
    separate_vocabs: bool
    model_settings: dict[str, ModelSetting]
    features: str | None
    combine: Literal["concat", "sum", "weights"] | None
    head: Literal["linear", "bilstm"] | None
    new_head: bool
    top: int | None
    epochs: float | None
    steps: int | None
    minutes: float | None
    batch: int | None
    micro: int
    rate: float | None
    warmup: float
    schedule: Schedule
    weight_decay: float
    clip: float
    dropout: float
    smoothing: float
    average: float
    length: int | None
    long: Long
    stride: int | None
    tune_no_answer: bool
    balance: bool
    select: str | None
    patience: int | None
    seeds: int
    folds: int | None
    target_precision: float | None
    seed: int
    save_every: int | None
    workers: int
    threads: int | None
    encoding: str | None
