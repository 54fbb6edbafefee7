"""word2vec's CBOW: the mean of the words around it predicts a word (Mikolov et al. 2013)."""

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

FAMILY = VectorFamily(
    name="cbow",
    model_type="firth-cbow",
    help="word vectors: the mean of those around it predicts a word (CBOW)",
    settings=WindowSettings,
    network=NETWORK,
    contracts=STATIC,
    recipe=WINDOWED,
    objective=Import("firth.recipes.windowed", "cbow"),
    rate=0.2,  # of a mean's gradient each word has a share
    unused=UNUSED,
    epochs=5,
    sizes=SIZES,
    vocabulary="words",
)
