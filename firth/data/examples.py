"""What a person wrote, as frozen records; a task turns them into encodings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One text, as it stands in a file or was given in a call."""

    text: str


Example = Line  # a union, once there are more kinds
