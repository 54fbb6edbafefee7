"""`firth predict`."""

import json
from contextlib import closing
from typing import Any


def predict(as_lines: bool, **options: Any) -> None:
    """Answer texts with what the model was made for.

    A class, a number, named spans, one of several options, a translation, pieces for each [MASK],
    or text that goes on.

    Example: firth predict triage/ tickets.csv -o answers.csv
    """
    from firth.verbs.predict import predict as run

    if options["out"] is not None:
        run(**options)
        return
    # A line for a person doesn't tell which n-grams were used, and finding them takes longer.
    with closing(run(orders=as_lines, **options)) as predictions:
        for prediction in predictions:
            if as_lines:
                print(json.dumps(prediction.as_json(), ensure_ascii=False))
            else:
                print(prediction.line())
