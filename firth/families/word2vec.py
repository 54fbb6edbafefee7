"""word2vec's skip-gram: a word predicts the words around it (Mikolov et al. 2013)."""

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
    name="word2vec",
    model_type="firth-word2vec",
    help="word vectors: a word predicts those around it (skip-gram)",
    settings=WindowSettings,
    network=NETWORK,
    contracts=STATIC,
    recipe=WINDOWED,
    objective=Import("firth.recipes.windowed", "skip_gram"),
    unused=UNUSED,
    epochs=5,
    sizes=SIZES,
    vocabulary="words",
)
