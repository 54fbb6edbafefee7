"""`firth vocab`."""

import json
from typing import TYPE_CHECKING, Any

from firth.base.output import reported

if TYPE_CHECKING:
    from firth.verbs.vocab import VocabReport


def vocab(as_json: bool, **options: Any) -> None:
    """Learn a vocabulary from text, and say how well it covers it.

    Example: firth vocab letters/ -o words/ --size 16000
    """
    from firth.verbs.vocab import vocab as run

    report = run(**options)
    with reported():
        if as_json:
            print(json.dumps(report.as_json()))
        else:
            print(report_sentences(report))


def report_sentences(report: "VocabReport") -> str:
    """Describe a vocabulary for a person."""
    read = f"{report.lines:,} lines, {report.characters:,} characters"
    if report.learned_from_every > 1:
        read += f", learned from one line of {report.learned_from_every}"
    lines = [
        f"{report.out}: {report.size:,} pieces ({report.kind}) from {read}",
        f"  {report.pieces_per_word:.3f} pieces a word; "
        f"{report.whole_words:.1%} of {report.words:,} words are one piece, "
        f"{report.unknown_words:.3%} are unknown",
    ]
    if report.split_reason:
        lines.append(f"  {report.split_reason}")
    return "\n".join(lines)
