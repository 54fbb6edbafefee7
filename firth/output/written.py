"""What a command wrote to a file."""

from pathlib import Path
from typing import NamedTuple


class Written(NamedTuple):
    """A file of answers or vectors."""

    path: Path
    texts: int  # of the input that were answered
