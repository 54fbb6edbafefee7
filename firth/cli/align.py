"""`firth align`."""

import json
from typing import TYPE_CHECKING, Any

from firth.base.output import reported

if TYPE_CHECKING:
    from firth.verbs.align import Aligned


def align(as_json: bool, **options: Any) -> None:
    """Fit a map from the words of A to those of B, and measure how it translates.

    There are two: a rotation, and a network with one hidden layer.

    Example: firth align english/ swedish/ --dictionary pairs.tsv -o map/
    """
    from firth.verbs.align import align as run

    aligned = run(**options)
    with reported():
        print(json.dumps(aligned.as_json()) if as_json else alignment_lines(aligned))


def alignment_lines(found: "Aligned") -> str:
    """Describe a map for a person."""
    where = f"of {found.tested_on}" if found.tested_on else f"held out of {found.dictionary}"
    tested = f"{found.tested:,} words {where}"
    if found.test_left_out:
        tested += f" ({found.test_left_out:,} pairs left out)"
    lines = [
        f"{found.out}: fitted on {found.pairs:,} pairs; tested on {tested}, "
        f"among {found.words:,} words, with 95 % intervals",
        f"  {'':10} precision@1                  precision@5",
    ]
    for by, precision in (("linear", found.linear), ("network", found.network)):
        shares = [f"{value:.4f}  {low:.4f} to {high:.4f}" for value, low, high in precision]
        lines.append(f"  {by:10} {shares[0]}     {shares[1]}")
    at_1, at_5 = found.chance
    lines.append(f"  {'chance':10} {at_1:<24.3g}     {at_5:.3g}")
    return "\n".join(lines)
