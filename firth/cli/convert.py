"""`firth convert`."""

import json
from typing import TYPE_CHECKING, Any

from firth.base.output import reported

if TYPE_CHECKING:
    from firth.verbs.convert import Converted


def convert(as_json: bool, **options: Any) -> None:
    """Turn a BERT that Google published, a checkpoint of TensorFlow 1, into a model folder.

    Example: firth convert uncased_L-12_H-768_A-12/ -o my-bert/
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
    read = f"{converted.tensors:,} tensors, {converted.parameters:,} parameters"
    lines = [f"{converted.out}: {read} from {converted.checkpoint} (task: {converted.task})"]
    if converted.ignored:
        lines.append(f"  {converted.ignored:,} tensors of the optimizer were left behind")
    return "\n".join(lines)
