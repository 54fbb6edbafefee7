"""`firth convert`."""

import json
from typing import TYPE_CHECKING, Any

from firth.base.output import reported

if TYPE_CHECKING:
    from firth.verbs.convert import Converted


def convert(as_json: bool, **options: Any) -> None:
    """Turn what others wrote into a model folder, and word vectors into a file.

    Read are a BERT that Google published (a checkpoint of TensorFlow 1) and word vectors of
    word2vec and GloVe.

    Example: firth convert glove.6B.50d.txt -o vectors/
    """
    from firth.verbs.convert import convert as run

    converted = run(**options)
    with reported():
        if as_json:
            print(json.dumps(converted.as_json()))
        else:
            print(conversion_lines(converted))


def conversion_lines(converted: "Converted") -> str:
    """Describe a conversion for a person."""
    vectors = converted.vectors
    if vectors:
        words = f"{vectors.words:,} words of {vectors.width:,} numbers"
        return f"{converted.out}: {words} from {converted.checkpoint} (format: {vectors.form})"
    read = f"{converted.tensors:,} tensors, {converted.parameters:,} parameters"
    lines = [f"{converted.out}: {read} from {converted.checkpoint} (task: {converted.task})"]
    if converted.ignored:
        lines.append(f"  {converted.ignored:,} tensors of the optimizer were left behind")
    return "\n".join(lines)
