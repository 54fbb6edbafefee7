"""`firth pretrain`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.options import Column, Config, Encoding, Force, Overrides, Threads
from firth.cli.vocab import Split


class Model(StrEnum):
    """What is trained."""

    bert = "bert"
    gpt = "gpt"
    rnn = "rnn"
    ffnn = "ffnn"
    ngram = "ngram"


class Cell(StrEnum):
    """Of a recurrent model."""

    lstm = "lstm"
    gru = "gru"
    tanh = "tanh"


class Output(StrEnum):
    """How a recurrent or feed-forward model finds the probabilities of words."""

    full = "full"
    classes = "classes"
    sampled = "sampled"


class Size(StrEnum):
    """BERT's published sizes, and like ones of the others."""

    tiny = "tiny"
    mini = "mini"
    small = "small"
    medium = "medium"
    base = "base"
    large = "large"


class Precision(StrEnum):
    """Of the matrix products."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"


def pretrain(
    corpus: Annotated[
        list[Path],
        typer.Argument(
            metavar="CORPUS...", help="Files and folders of .txt or .jsonl, also .gz or .zst."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", help="The model folder to write; OUT.run beside it holds the run."
        ),
    ],
    model: Annotated[
        Model,
        typer.Option(
            help="An encoder (bert), or a language model: gpt, recurrent, feed-forward, n-gram."
        ),
    ] = Model.bert,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Train for so long, from start to saved folder.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Train for so many steps.")] = None,
    epochs: Annotated[
        float | None, typer.Option(min=0.0001, help="Train for so many passes over the text.")
    ] = None,
    size: Annotated[
        Size | None,
        typer.Option(
            help="By default mini, or with --minutes what fits the time; of rnn and ffnn small."
        ),
    ] = None,
    cell: Annotated[Cell | None, typer.Option(help="Of an rnn; by default lstm.")] = None,
    order: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Words of an n-gram (by default 5) and of an ffnn, the next one included (6).",
        ),
    ] = None,
    output: Annotated[
        Output | None,
        typer.Option(
            help="Of an rnn or ffnn: a score for every word, classes of rare words, or words drawn."
        ),
    ] = None,
    carry: Annotated[
        bool,
        typer.Option(
            "--carry",
            help="Of a gpt: read the text in order, half a length a step, with the half before in memory.",
        ),
    ] = False,
    vocab: Annotated[
        Path | None,
        typer.Option(help="A folder from firth vocab; by default one is learned from the text."),
    ] = None,
    split: Annotated[
        Split | None,
        typer.Option(
            help="Of a vocabulary of words that is learned: at spaces, or also at punctuation; by default auto."
        ),
    ] = None,
    init: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Go on from a model folder, or minilm.")
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help="Text to measure on; by default the last documents are held out."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            min=5,
            max=8192,
            help="Tokens of a text, by default 128; of what an rnn or ffnn reads in a step, 35.",
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Tokens in a step, over all processes.")
    ] = None,
    micro: Annotated[
        int,
        typer.Option(
            min=1, help="Tokens in memory at once; a step is split into as many pieces as it takes."
        ),
    ] = 4096,
    rate: Annotated[
        float | None,
        typer.Option(min=1e-9, max=0.999, help="Peak learning rate; by default by size."),
    ] = None,
    dropout: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=0.99, help="While training; by default bert 0, gpt 0.1, ffnn 0.2, rnn 0.4."
        ),
    ] = None,
    nsp: Annotated[
        bool,
        typer.Option(
            "--nsp/--no-nsp", help="Also learn whether the second text follows the first."
        ),
    ] = True,
    whole_words: Annotated[
        bool, typer.Option("--whole-words", help="Hide whole words instead of pieces.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Everything that is drawn is a function of it.")
    ] = 1,
    save_every: Annotated[
        int | None,
        typer.Option(min=1, help="Steps between checkpoints; by default every five minutes."),
    ] = None,
    check_every: Annotated[
        int | None, typer.Option(min=1, help="Steps between measurements; by default ten in a run.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, max=64, help="Threads that prepare batches.")] = 1,
    precision: Annotated[
        Precision, typer.Option(help="bf16 only where it was tried and is faster.")
    ] = Precision.auto,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds after which a process of several counts as stuck.")
    ] = 110.0,
    threads: Threads = None,
    field: Column = "text",
    encoding: Encoding = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from the newest whole checkpoint, if there is one."),
    ] = False,
    force: Force = False,
    config: Config = None,
    overrides: Overrides = [],  # noqa: B006 - typer reads it, nobody changes it
) -> None:
    """Pretrain a BERT or a language model of your own on your own text.

    Example: firth pretrain letters/ -o base/ --minutes 60
    """
    from firth.base.clock import Clock
    from firth.verbs.pretrain import pretrain as run

    run(
        corpus,
        out,
        clock=Clock(of_process=True),
        model=model.value,
        minutes=minutes,
        steps=steps,
        epochs=epochs,
        size=size.value if size else None,
        cell=cell.value if cell else None,
        order=order,
        output=output.value if output else None,
        carry=carry,
        vocab=str(vocab) if vocab else None,
        split=split.value if split else None,
        init=init,
        dev=str(dev) if dev else None,
        length=length,
        batch=batch,
        micro=micro,
        rate=rate,
        dropout=dropout,
        nsp=nsp,
        whole_words=whole_words,
        seed=seed,
        save_every=save_every,
        check_every=check_every,
        workers=workers,
        precision=precision.value,
        timeout=timeout,
        threads=threads,
        field=field,
        encoding=encoding,
        resume=resume,
        force=force,
    )
