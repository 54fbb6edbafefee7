"""`firth finetune`."""

import json
from typing import Any

from firth.base.output import reported


def finetune(as_json: bool, **options: Any) -> None:
    """Teach a model a task from your own examples, and say how well it learned it.

    Text to text too: translate trains on pairs of a source and its target, translations among them.

    Example: firth finetune classify --model minilm --train tickets.csv -o triage/
    """
    from firth.recipes.inputs import refuse_missing

    names = ("task", "model", "train", "dev", "vectors", "vocab", "target", "dev_target")
    refuse_missing(*(options[name] for name in names))
    from firth.cli.show_finetune import result_as_json, result_lines
    from firth.verbs.finetune import finetune as run

    result = run(**options)
    with reported():
        if as_json:
            print(json.dumps(result_as_json(result)))
        else:
            print("\n".join(result_lines(result)))
