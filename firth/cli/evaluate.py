"""`firth evaluate`."""

import json
from pathlib import Path
from typing import Any

from firth.base.errors import InputError


def evaluate(models: list[str], data: str | None, as_json: bool, **options: Any) -> None:
    """Measure models on labelled examples, or language models on plain text, with intervals.

    A pretrained BERT is measured on plain text too. Each model is compared with the first.

    Example: firth evaluate triage/ --data later.csv
    """
    if data is None:
        *models, data = models
        if not Path(data).is_file() and not (models and _is_text_folder(Path(data))):
            raise InputError(
                f"which file holds the examples? {data!r} is no file; name one with --data"
            )

    from firth.recipes.inputs import refuse_missing_models, refuse_missing_texts

    refuse_missing_texts([data, options["counts"]])
    refuse_missing_models(models)
    from firth.cli.show_evaluation import evaluation_as_json, evaluation_lines
    from firth.verbs.evaluate import evaluate as run

    found = run(models, data, **options)
    if as_json:
        print(json.dumps(evaluation_as_json(found)))
    else:
        print("\n".join(evaluation_lines(found)))


def _is_text_folder(path: Path) -> bool:
    """Tell a folder of texts from that of a model."""
    return path.is_dir() and not (path / "config.json").exists()
