"""The part of `firth view` that is about training runs: a page of them, or a server of one."""

import os
from collections.abc import Sequence

from firth.base.errors import InputError
from firth.base.signals import stoppable

PAGE = "view.html"  # where nobody says otherwise


def are_runs(words: Sequence[str]) -> bool:
    """Tell runs from models with a text: the last word is a run, or a folder beside runs."""
    if not words:
        return False
    # Not by pathlib, which refuses a text that is too long for a name.
    if not os.path.exists(words[-1]):  # noqa: PTH110
        # A name that is mistyped is no text.
        return words[-1].endswith(".run") and " " not in words[-1]

    from firth.output.runs import is_run

    is_folder = os.path.isdir(words[-1])  # noqa: PTH112
    return is_run(words[-1]) or (is_folder and any(map(is_run, words)))


def refuse_runs(models: Sequence[str]) -> None:
    """Refuse a run in the place of a model."""
    from firth.output.runs import is_model, is_run

    for model in models:
        if is_run(model) and not is_model(model):
            raise InputError(
                f"{model} is a run, and a text is for models: leave the text out to see how the "
                "run went, or name the model's folder"
            )


def view_runs(
    runs: Sequence[str],
    out: str | None,
    follow: bool,
    port: int | None,
    as_json: bool,
    force: bool,
) -> None:
    """Write the page of runs, or serve it while they go on."""
    if not runs:
        raise InputError("which run? Name its folder, OUT.run, or the model that came of it")
    if as_json:
        raise InputError(
            f"--json is not for runs, and {runs[-1]} is taken for one: leave --json out, or give "
            "a model a text in quotes"
        )
    if follow:
        if out is not None:
            raise InputError(f"--follow serves the page and writes no {out}: leave one of them out")
        _follow(runs, port)
        return
    if port is not None:
        raise InputError("--port is for --follow")

    from firth.verbs.curves import curves

    found = curves(runs, out or PAGE, force=force)
    said = [f"{run}, {steps:,} steps" for run, steps in zip(found.runs, found.steps, strict=True)]
    print(f"{found.path}: {'; '.join(said)}; open it in a browser")


def _follow(runs: Sequence[str], port: int | None) -> None:
    """Serve the page until somebody stops it."""
    from firth.verbs.curves import followed

    with followed(runs, port) as server, stoppable("stopped as asked; the runs go on"):
        print(f"{server.address} shows {', '.join(runs)}; Ctrl-C ends it", flush=True)
        server.serve_forever()
