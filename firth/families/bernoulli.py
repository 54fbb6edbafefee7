"""Bernoulli embeddings: word vectors as a probabilistic model (Rudolph et al. 2016)."""

from typing import ClassVar

from pydantic import Field

from firth.families.family import Import
from firth.families.vectors import (
    NETWORK,
    SIZES,
    STATIC,
    UNUSED,
    WINDOWED,
    VectorFamily,
    WindowSettings,
)


class BernoulliSettings(WindowSettings):
    """How the vectors of a probabilistic model are trained."""

    draws_window: ClassVar[bool] = False

    negatives: int = Field(
        default=20, gt=0, le=1000, description="Words of noise that each pair is told from."
    )
    precision: float = Field(
        default=1.0, ge=0, le=1e6, description="Of the Gaussian prior on vectors."
    )


FAMILY = VectorFamily(
    name="bernoulli",
    model_type="firth-bernoulli",
    help="word vectors of a probabilistic model (Bernoulli embeddings)",
    settings=BernoulliSettings,
    network=NETWORK,
    contracts=STATIC,
    recipe=WINDOWED,
    objective=Import("firth.recipes.windowed", "bernoulli"),
    rate=0.05,
    decays=False,
    unused=UNUSED,
    epochs=5,
    sizes=SIZES,
    vocabulary="words",
)
