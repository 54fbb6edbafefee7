"""Word vectors that were read from a file, which doesn't tell how they were trained."""

from firth.families.vectors import NETWORK, SIZES, STATIC, VectorFamily, VectorSettings

FAMILY = VectorFamily(
    name="vectors",
    model_type="firth-vectors",
    help="word vectors that were read from a file",
    settings=VectorSettings,
    network=NETWORK,
    contracts=STATIC,
    sizes=SIZES,
    vocabulary="words",
)
