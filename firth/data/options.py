"""Examples of multiple choice: a context and the options after it."""

from collections.abc import Sequence
from dataclasses import dataclass

from firth.data.examples import Candidates
from firth.data.record import shortened


@dataclass(frozen=True, slots=True)
class Options(Candidates):
    """A context and its options, of which one is right; None where nobody said which."""

    right: int | None = None  # from 0

    @property
    def pairs(self) -> tuple[tuple[str, str | None], ...]:
        """The context with each of the options."""
        return tuple((self.text, option) for option in self.candidates)

    @property
    def annotation(self) -> int | None:
        """The number of the right option."""
        return self.right


def wrong_options(options: Sequence[str]) -> str | None:
    """Say what keeps texts from being options to choose from; None if nothing does."""
    if len(options) < 2:
        count = "one option" if options else "no options"
        return f"has {count}, where there must be two or more to choose from"
    seen: dict[str, int] = {}
    for number, option in enumerate(options):
        plain = " ".join(option.split())
        if not plain:
            return f"has an empty option, number {number}"
        if plain in seen:
            return f"has the option {shortened(plain)} twice, as number {seen[plain]} and {number}"
        seen[plain] = number
    return None
