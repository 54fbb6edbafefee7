"""Lines of text for language models: which are held out, and what they may not hold."""

import shlex
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

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
    why = "which has no probability inside a line"
    refuse_pieces(settings, tokenizer, {start: "the start mark"}, why, text, held)


def refuse_pieces(
    settings: PretrainSettings,
    tokenizer: Tokenizer,
    pieces: Mapping[int, str],
    why: str,
    text: Shards,
    held: Shards | None,
) -> None:
    """Refuse text that holds one of some pieces, which are given with what they are."""
    unwanted = np.array(list(pieces))
    for shards, paths in ((text, settings.corpus), (held, [settings.dev or ""])):
        for shard in shards.shards if shards else ():
            found = shard.ids[np.isin(shard.ids, unwanted)]
            if not len(found):
                continue
            number = int(found[0])
            mark = tokenizer.piece(number)
            raise InputError(
                f"the text holds {pieces[number]} {mark!r}, {why}: "
                f"leave it out (grep -rnF {shlex.join([mark, *paths])} finds it)"
            )
