"""The mean of word vectors: the encoder of a linear classifier, which is trained with it."""

from firth.families.vectors import NETWORK, SIZES, VectorFamily, VectorSettings

FAMILY = VectorFamily(
    name="mean",
    model_type="firth-mean",
    help="the mean of a text's word vectors, which are trained with the task",
    settings=VectorSettings,
    network=NETWORK,
    contracts=frozenset({"encoder"}),
    sizes=SIZES,
    vocabulary="words",
    new_size="mini",
)
