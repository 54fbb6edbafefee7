"""`firth glue`."""

import json
from typing import Any

from firth.base.errors import FirthError
from firth.base.output import reported


def glue(as_json: bool, **options: Any) -> None:
    """Fine-tune and measure a model on each GLUE task of a folder; write the papers' table.

    Tasks of SuperGLUE are measured too, as far as there are tasks for them.

    Example: firth glue glue/ --model minilm -o report/
    """
    from firth.recipes.inputs import refuse_family

    refuse_family(options["model"])
    from firth.evaluation.glue_table import markdown
    from firth.verbs.glue import glue as run

    report = run(**options)
    with reported():
        if as_json:
            print(json.dumps(report.as_json()))
        else:
            print(markdown(report), end="")
    if report.failed:
        raise FirthError(f"failed: {', '.join(report.failed)} ({report.out} says why)")
