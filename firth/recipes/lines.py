"""Lines of text for language models: which are held out, and what they may not hold."""

import shlex
from typing import NamedTuple

from firth.base.errors import InputError
from firth.corpus.shards import Shards
from firth.corpus.stream import TokenStream, hold_out
from firth.recipes.settings import PretrainSettings
from firth.text.tokenizer import Tokenizer


class Lines(NamedTuple):
    """The lines to learn from, and those to measure on."""

    kept: TokenStream
    held: TokenStream


def read_lines(text: Shards, held: Shards | None, end: int) -> Lines:
    """Return lines with their end marks; where none are given to measure on, some are held out."""
    whole = TokenStream(text, end)
    if held:
        return Lines(whole, TokenStream(held, end))
    return Lines(*hold_out(whole))


def refuse_start(
    settings: PretrainSettings, tokenizer: Tokenizer, start: int, text: Shards, held: Shards | None
) -> None:
    """Refuse text that holds the start mark, which most models give no probability in a line."""
    for shards, paths in ((text, settings.corpus), (held, [settings.dev or ""])):
        if shards and any((shard.ids == start).any() for shard in shards.shards):
            mark = tokenizer.piece(start)
            raise InputError(
                f"the text holds the start mark {mark!r}, which has no probability inside a line: "
                f"leave it out (grep -rnF {shlex.join([mark, *paths])} finds it)"
            )
