"""GloVe: word vectors from counts of words that stand together (Pennington et al. 2014)."""

from pydantic import Field

from firth.families.family import Import
from firth.families.vectors import NETWORK, SIZES, STATIC, UNUSED, VectorFamily, VectorSettings


class GloveSettings(VectorSettings):
    """How words are counted, and how much each count weighs."""

    window: int = Field(
        default=10, gt=0, le=20, description="Words on either side that count, at most."
    )
    x_max: float = Field(
        default=100.0, gt=0, le=1e9, description="Of glove: the count from which on all weigh 1."
    )
    alpha: float = Field(
        default=0.75, gt=0, le=10, description="Of glove: the power of a count that it weighs."
    )


FAMILY = VectorFamily(
    name="glove",
    model_type="firth-glove",
    help="word vectors from counts of words that stand together (GloVe)",
    settings=GloveSettings,
    network=NETWORK,
    contracts=STATIC,
    recipe=Import("firth.recipes.glove", "GloveRecipe"),
    rate=0.05,
    decays=False,
    unused=UNUSED,
    epochs=25,
    sizes=SIZES,
    vocabulary="words",
)
