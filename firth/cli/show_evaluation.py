"""What `firth evaluate` prints."""

from collections.abc import Iterator, Mapping

from firth.data.record import on_a_line
from firth.evaluation.figures import NARROWEST, named, score_lines
from firth.evaluation.report import (
    Amount,
    Compared,
    Confidence,
    Evaluation,
    MaskedAmount,
    Measured,
    Section,
    WordAmount,
)
from firth.metrics.decisions import Share
from firth.metrics.sums import RESAMPLES, Difference, Interval

LOWEST_P = 2 / RESAMPLES  # the smallest p-value that so many resampled sets can tell


def evaluation_as_json(found: Evaluation) -> dict[str, object]:
    """Return an evaluation as a JSON object.

    The metrics of a single model also stand at its top, as plain numbers.
    """
    page: dict[str, object] = {
        "data": found.data,
        "examples": found.examples,
        "left_out": found.left_out,
    }
    if found.unlabelled is not None:
        page["unlabelled"] = found.unlabelled
    words = found.models[0].words
    if words:
        page[words.of] = found.examples
    if len(found.models) == 1 and found.models[0].metrics:
        metrics = found.models[0].metrics
        values = {name: interval.value for name, interval in metrics.items()}
        page["metrics"] = values
        if words or found.models[0].signatures:
            page |= values
        if words and words.sections:
            page["sections"] = [_section_as_json(section) for section in words.sections]
    page["models"] = [_model_as_json(one) for one in found.models]
    page["differences"] = [_difference_as_json(one) for one in found.differences]
    return page


def _difference_as_json(one: Compared) -> dict[str, object]:
    """Return how a model differs from the first as a JSON object."""
    return {
        "model": one.model,
        "against": one.against,
        "metrics": _intervals_as_json(one.metrics),
    }


def _model_as_json(one: Measured) -> dict[str, object]:
    """Return what was measured of one model as a JSON object."""
    page: dict[str, object] = {
        "model": one.model,
        "metrics": _intervals_as_json(one.metrics),
        "cut": one.cut,
    }
    if one.trained_on is not None:
        page["trained_on"] = one.trained_on
    if one.signatures:
        page["signatures"] = one.signatures
    if "f1" in one.metrics and one.positive:
        page["positive"] = one.positive
    if one.confidence:
        page["confidence"] = _confidence_as_json(one.confidence)
    if one.text:
        page |= _amount_as_json(one.text)
    if one.masked:
        page |= one.masked._asdict()
    if one.words:
        page["several_pieces"] = one.words.several
        if one.words.sections:
            page["sections"] = [_section_as_json(section) for section in one.words.sections]
    return page


def _section_as_json(section: Section) -> dict[str, object]:
    """Return how many analogies of a section were completed as a JSON object."""
    accuracy = section.accuracy._asdict() if section.accuracy else None
    return {**section._asdict(), "accuracy": accuracy}


def _intervals_as_json(
    metrics: Mapping[str, Interval | Difference | Share],
) -> dict[str, dict[str, float]]:
    """Return figures with their intervals as JSON objects."""
    return {name: figures._asdict() for name, figures in metrics.items()}


def _confidence_as_json(sure: Confidence) -> dict[str, object]:
    """Return how sure a model is as a JSON object."""
    page: dict[str, object] = {
        "mean": sure.mean,
        "calibration_error": sure.calibration_error,
    }
    if sure.answered and sure.right:
        shares = {"answered": sure.answered, "right": sure.right}
        page["threshold"] = sure.threshold
        page |= _intervals_as_json(shares)
    return page


def _amount_as_json(read: Amount) -> dict[str, object]:
    """Return how much text was read as a JSON object."""
    page: dict[str, object] = {
        "words": read.words,
        "tokens": read.tokens,
        "unknown": read.unknown,
    }
    bands = []
    for band in read.bands:
        perplexity = band.perplexity._asdict()
        bands.append({"times": band.times, "words": band.words, "perplexity": perplexity})
    if bands:
        page["frequency"] = bands
    return page


def evaluation_lines(found: Evaluation) -> Iterator[str]:
    """Yield an evaluation as a person reads it."""
    counted = f"{found.examples:,} {found.unit}"
    if found.models[0].words and found.left_out:
        counted += f" ({found.left_out:,} left out)"
    yield f"{found.data}: {counted}, with 95 % intervals"
    for one in found.models:
        yield one.model
        yield from score_lines(one.metrics, one.positive)
        for name, signature in one.signatures.items():
            yield f"  {name} {signature}"
        if one.confidence:
            yield from _confidence_lines(one.confidence)
        if one.text:
            yield from _amount_lines(one.text)
        if one.masked:
            yield _masked_line(one.masked)
        if one.words:
            yield from _word_lines(one.words)
    for compared in found.differences:
        yield f"{compared.model} against {compared.against}, on the same {found.unit}"
        yield from _difference_lines(compared, found.models[0].positive)


def _difference_lines(compared: Compared, positive: str | None) -> Iterator[str]:
    """Yield the difference of each metric with its interval and its p-value."""
    names = [named(name, positive) for name in compared.metrics]
    width = max(NARROWEST, *map(len, names))
    for name, difference in zip(names, compared.metrics.values(), strict=True):
        value, low, high, p_value = difference
        chance = f"{p_value:.3f}"
        if p_value < LOWEST_P:
            chance = f"below {LOWEST_P:.3f}"
        interval = f"{low:+.4f} to {high:+.4f}"
        yield f"  {name:{width}} {value:+8.4f}   {interval}   chance {chance}"


def _word_lines(read: WordAmount) -> Iterator[str]:
    """Yield how analogies were completed by section, and how many words have several pieces."""
    width = max((len(section.name) for section in read.sections), default=0)
    for section in read.sections:
        accuracy = "none asked"
        if section.accuracy:
            accuracy = f"{section.accuracy.value:.4f}"
        asked = f"{section.questions:,} questions, {section.left_out:,} left out"
        yield f"  {on_a_line(section.name):{width}} {accuracy:>10}   {asked}"
    if read.several:
        yield f"  {read.several:,} words have several pieces, of which the mean was taken"


def _masked_line(read: MaskedAmount) -> str:
    """Return how much text a masked model was measured on."""
    line = f"  {read.masked:,} masked words in {read.tokens:,} tokens"
    if read.pairs:
        line += f", {read.pairs:,} pairs"
    return line


def _confidence_lines(sure: Confidence) -> Iterator[str]:
    """Yield how sure a model is, and how many texts it answers at its threshold."""
    error = f"calibration error {sure.calibration_error:.4f}"
    yield f"  {'confidence':14} {sure.mean:8.4f}   on average; {error}"
    if sure.answered and sure.right:
        yield from score_lines({"answered": Interval(*sure.answered)})
        if sure.answered.value:
            yield from score_lines({"right of these": Interval(*sure.right)})
        else:
            yield "  right of these  none was answered"


def _amount_lines(read: Amount) -> Iterator[str]:
    """Yield how much text was read, and the perplexity of rare and of frequent words."""
    line = f"  {read.words:,} words in {read.tokens:,} tokens"
    if read.unknown:
        line += f"; {read.unknown:,} of them stand for words that the vocabulary doesn't have"
    yield line
    if read.bands:
        yield "  perplexity of words by how often they occur in the training text"
        for times, words, (value, low, high) in read.bands:
            interval = f"{low:.4f} to {high:.4f}"
            yield f"  {times:>14} {value:8.4f}   {interval}   {words:,} words"
