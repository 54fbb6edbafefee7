"""`firth embed`."""

from contextlib import closing
from typing import Any


def embed(**options: Any) -> None:
    """Turn texts into contextual vectors, in the order of the file.

    Example: firth embed minilm reviews.txt -o vectors.npy
    """
    from firth.output.vectors import json_line
    from firth.verbs.embed import embed as run

    if options["out"] is not None:
        run(**options)
        return
    with closing(run(**options)) as embedded:
        for text, vectors in embedded:
            print(json_line(text, vectors))
