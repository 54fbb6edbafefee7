"""BLEU and chrF are sacreBLEU's own, with intervals."""

import builtins
import random
from typing import Any

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from firth.base.errors import InputError
from firth.metrics.bleu import TranslationTally, sacrebleu_metrics

WORDS = "ein Mann sitzt auf einer Bank , und das Kind läuft im Park .".split()


def sentences(seed: int, count: int = 60) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 14))) for _ in range(count)]


def tallied(references: list[str], said: list[str]) -> TranslationTally:
    tally = TranslationTally()
    for reference, translation in zip(references, said, strict=True):
        tally.add(reference, translation)
    return tally


@pytest.mark.parametrize("same", [0, 30, 60])
def test_scores_are_sacrebleus(same: int) -> None:
    references = sentences(1)
    said = references[:same] + sentences(2)[same:]
    scores = tallied(references, said).scores()
    known = {"bleu": BLEU(), "chrf": CHRF()}
    for name, metric in known.items():
        expected = metric.corpus_score(said, [references]).score
        value, low, high = scores[name]
        assert value == pytest.approx(expected, abs=1e-9)
        assert 0 <= low <= value <= high <= 100


def test_models_are_compared_on_the_same_sentences() -> None:
    references = sentences(1)
    good = tallied(references, references[:50] + sentences(2)[50:])
    bad = tallied(references, references[:20] + sentences(2)[20:])
    for difference in good.against(bad).values():
        assert difference.value > 20
        assert difference.chance < 0.01


def test_empty_translations_score_nothing() -> None:
    scores = tallied(sentences(1, 4), [""] * 4).scores()
    assert (scores["bleu"].value, scores["chrf"].value) == (0, 0)


def test_a_signature_says_how_a_metric_is_computed() -> None:
    signatures = tallied(sentences(1, 4), sentences(1, 4)).signatures
    assert "tok:13a" in signatures["bleu"]
    assert "nc:6" in signatures["chrf"]
    assert all("version:" in signature for signature in signatures.values())


def test_without_the_library_the_command_that_gets_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *given: Any, **named: Any) -> Any:
        if name.startswith("sacrebleu"):
            raise ImportError(name)
        return real(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'firth\[translate\]'"):
        sacrebleu_metrics()
