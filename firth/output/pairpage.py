"""What a page shows of a translator and a text: all that the model can show, as sections."""

from collections.abc import Iterator

import torch

from firth.output.page import as_array, heads_of, next_bars, steps_of
from firth.pages.attention import Chosen, attention_data, attention_section
from firth.pages.page import PageSection
from firth.pages.sections import positions_section, steps_section
from firth.pages.translation import translation_section, vector_section
from firth.predictor import Predictor
from firth.probes.guesses import target_guesses
from firth.probes.inside import Inside
from firth.probes.pair import Pair, look_inside_pair

NO_ATTENTION = (
    "This model has no attention between the two sides: all that the decoder knows of the source "
    "is the one vector that it begins with, which is shown below."
)


def pair_sections(predictor: Predictor, pair: Pair) -> list[PageSection]:
    """Return the sections of a page in the order in which they are read."""
    return list(_sections(predictor, pair))


def _sections(predictor: Predictor, pair: Pair) -> Iterator[PageSection]:
    model = predictor.bundle.translator
    inside = look_inside_pair(predictor, pair)
    yield _translation(predictor, pair, inside.cross)
    source = pair.source
    ids, _, target_ids, _ = pair.streams()
    with predictor.computing(), torch.inference_mode():
        vector = model.context_vector(ids)
        encoder, decoder = model.recurrent_steps(ids, target_ids)
    if vector is not None:
        yield vector_section(as_array(vector))
    parts = source.encoding.parts
    # What the decoder looks at are the tokens that it has read, the start mark first.
    read_parts = [None, *pair.parts[:-1]]
    for side, tokens, own, heads in (
        ("Encoder", source.tokens, parts, inside.encoder),
        ("Decoder", pair.read, read_parts, inside.decoder),
    ):
        if heads is not None:
            title = f"{side} self-attention"
            yield attention_section(tokens, own, heads_of(heads), title=title)
    for side, tokens, layers in (
        ("encoder", source.tokens, encoder),
        ("decoder", pair.read, decoder),
    ):
        if layers:
            yield steps_section(tokens, steps_of(layers), f"The {side} step by step")
    if model.position_table is not None:
        yield positions_section(as_array(model.position_table))


def _translation(predictor: Predictor, pair: Pair, cross: Inside | None) -> PageSection:
    """Return each step of the target, with what it looks at of the source."""
    steps = next_bars(target_guesses(predictor, pair))
    given = (pair.source.tokens, pair.tokens, pair.parts, steps)
    if cross is None:
        return translation_section(*given, None, NO_ATTENTION)
    aligned = predictor.bundle.translator.aligned
    heads = heads_of(cross)
    _, count, *_ = heads.weights.shape
    mean = count > 1
    chosen = Chosen(aligned, count if mean else 0, 0)
    data = attention_data(
        pair.tokens, pair.parts, heads, chosen, keys=pair.source.tokens, mean=mean
    )
    of_heads = f"the mean of all heads of layer {aligned + 1}" if mean else "these weights"
    note = f"firth predict --align takes {of_heads}."
    return translation_section(*given, data, note)
