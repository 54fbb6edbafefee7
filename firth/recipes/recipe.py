"""The contract of pretraining recipes, which a family's record chooses from.

A recipe may descend on a loss, count, or do whatever else makes a model of a text.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from firth.corpus.shards import Shards
from firth.folders.bundle import Bundle
from firth.recipes.session import Session
from firth.train.loop import Outcome

DEV_TOKENS = 100_000  # of held-out text that are measured on, at most


class Trained(NamedTuple):
    """What came of a recipe."""

    bundle: Bundle
    outcome: Outcome
    baseline: dict[str, Any]  # how well held-out text is predicted by frequency alone


class Recipe(Protocol):
    """How a model is made of a text; it is built from the run's settings and a tokenizer."""

    def check(self, session: Session) -> None:
        """Refuse a run that this recipe can't have, before the text is read."""
        ...

    def read(self, text: Shards, held: Shards | None, plan: Mapping[str, Any] | None = None) -> int:
        """Take the text, and text to measure on if there is some; return how much is held out.

        `plan` is that of a run which is resumed: it reads what it read before.
        """
        ...

    def decide(self, session: Session) -> dict[str, Any]:
        """Return what the settings left open, to be put down in the run's plan."""
        ...

    def run(self, session: Session, plan: Mapping[str, Any]) -> Trained:
        """Make the model, or go on where a killed run was."""
        ...
