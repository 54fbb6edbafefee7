"""What a token costs a Transformer, in multiplications and in memory."""

from firth.families.stack import StackSettings
from firth.models.protocols import TokenCost


def transformer_cost(sizes: StackSettings) -> TokenCost:
    """Return what a token costs, by the sizes of the blocks."""
    layer = 4 * sizes.width**2 + 2 * sizes.width * sizes.inner
    kept = 10 * sizes.width + 2 * sizes.inner
    return TokenCost(
        products=layer * sizes.depth,
        pairs=sizes.width * sizes.depth,
        kept=kept * sizes.depth,
        kept_pairs=2 * sizes.heads * sizes.depth,
        layer=(sizes.inner, sizes.width),
    )
