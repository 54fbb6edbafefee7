"""`firth finetune`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from firth.base.output import reported
from firth.cli.options import Config, Encoding, Force, Long, Missing, Overlong, Overrides, Threads


class Task(StrEnum):
    """What can be taught."""

    classify = "classify"
    regress = "regress"
    tag = "tag"


class Combine(StrEnum):
    """How several layers become one vector."""

    concat = "concat"
    sum = "sum"
    weights = "weights"


def finetune(
    task: Annotated[Task, typer.Argument(help="Classes, numbers, or named spans.")],
    model: Annotated[str, typer.Option(help="A model folder, or minilm.")],
    train: Annotated[
        Path, typer.Option(help="Examples: .csv, .tsv, .jsonl, .parquet, CoNLL columns.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", help="The model folder to write; OUT.run beside it holds the run."
        ),
    ],
    dev: Annotated[
        Path | None, typer.Option(help="Examples to measure on; by default a tenth is held out.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="The column with the text; several are joined: subject,body.")
    ] = None,
    second: Annotated[
        str | None, typer.Option(help="The column with the second text of a pair.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The column with the label.")] = None,
    missing: Missing = [],  # noqa: B006
    features: Annotated[
        str | None,
        typer.Option(
            help="Teach only a head on these layers: 0 is the embedding, -1 the last; -4..-1 is a range, 1,6 a list."
        ),
    ] = None,
    combine: Annotated[
        Combine | None,
        typer.Option(
            help="How the layers of --features become one vector; by default by learned weights."
        ),
    ] = None,
    new_head: Annotated[
        bool,
        typer.Option(
            "--new-head",
            help="Initialise a head also where the model has one for this task and these labels.",
        ),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Teach only so many layers, the last ones, and the head."),
    ] = None,
    epochs: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="Passes over the examples; by default 3, and more where they are few."
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1, help="Examples in a step; by default 32, and fewer where they are few."
        ),
    ] = None,
    micro: Annotated[int, typer.Option(min=1, help="Tokens in memory at once.")] = 2048,
    rate: Annotated[
        float | None,
        typer.Option(
            min=1e-9,
            max=0.999,
            help="Peak learning rate; by default as the model's width asks for.",
        ),
    ] = None,
    warmup: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Share of the steps in which the rate rises.")
    ] = 0.1,
    dropout: Annotated[float, typer.Option(min=0.0, max=0.99, help="While training.")] = 0.1,
    length: Annotated[
        int | None,
        typer.Option(min=5, help="Tokens of a text; by default what the model's folder says."),
    ] = None,
    long: Overlong = Long.cut,
    balance: Annotated[
        bool,
        typer.Option("--balance", help="Let rare classes weigh as much; not for lists of labels."),
    ] = False,
    select: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC",
            help="What the best model has most of; by default accuracy, with --balance macro_f1.",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1, help="Stop after so many epochs in a row without a better measurement."
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="Teach with so many seeds; the best on held-out examples is kept."
        ),
    ] = 1,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=100,
            help="Measure every example by a model that did not see it; then learn from all.",
        ),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.999,
            help="Of classes: answer only where it is right so often; else say unsure.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Everything that is drawn is a function of it.")
    ] = 1,
    save_every: Annotated[
        int | None,
        typer.Option(min=1, help="Steps between checkpoints; by default every five minutes."),
    ] = None,
    workers: Annotated[int, typer.Option(min=0, max=64, help="Threads that prepare batches.")] = 1,
    threads: Threads = None,
    encoding: Encoding = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the scores as one JSON object.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from the newest whole checkpoint, if there is one."),
    ] = False,
    force: Force = False,
    config: Config = None,
    overrides: Overrides = [],  # noqa: B006 - typer reads it, nobody changes it
) -> None:
    """Teach a model a task from your own examples, and say how well it learned it.

    Example: firth finetune classify --model minilm --train tickets.csv -o triage/
    """
    from firth.verbs.finetune import finetune as run
    from firth.verbs.finetune import show

    taught = run(
        task.value,
        model,
        train,
        out,
        dev=str(dev) if dev else None,
        text=text,
        second=second,
        label=label,
        missing=missing,
        new_head=new_head,
        select=select,
        features=features,
        combine=combine.value if combine else None,
        top=top,
        epochs=epochs,
        batch=batch,
        micro=micro,
        rate=rate,
        warmup=warmup,
        dropout=dropout,
        length=length,
        long=long.value,
        balance=balance,
        patience=patience,
        seeds=seeds,
        folds=folds,
        precision=precision,
        seed=seed,
        save_every=save_every,
        workers=workers,
        threads=threads,
        encoding=encoding,
        resume=resume,
        force=force,
    )
    with reported():
        show(taught, out, json)
