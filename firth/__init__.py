"""Firth turns text into a language model that you own."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firth.base.errors import (
        DataWarning,
        FirthError,
        FirthWarning,
        InputError,
        RunWarning,
        Stopped,
    )
    from firth.evaluation.glue import GlueCell, GlueReport, GlueResult, GlueScore
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
    from firth.evaluation.translation import Precision
    from firth.metrics.decisions import Decided, Share, Sheet
    from firth.metrics.perplexity import Band
    from firth.metrics.sums import Difference, Interval
    from firth.output.written import Written
    from firth.plugins import register
    from firth.predictor import Coverage, Predictor
    from firth.predictor import load_predictor as load
    from firth.probes.gradient import Gradient
    from firth.probes.words import AskedWord, NearWord
    from firth.reading.survey import Finding
    from firth.recipes.options import FinetuneOptions, PretrainOptions
    from firth.tasks.answer import AnswerSpan, QuestionAnswer
    from firth.tasks.attention import AttentionMap
    from firth.tasks.bidirectional import BidirectionalLikelihood
    from firth.tasks.choice import Choice
    from firth.tasks.classify import Classification
    from firth.tasks.complete import Completed
    from firth.tasks.decoding import Completion, GeneratedText
    from firth.tasks.embed import Spans
    from firth.tasks.fill import Blank, Filled, LikelyPiece
    from firth.tasks.likelihood import Candidate, Likelihood, Ranking, TokenLikelihood
    from firth.tasks.regress import Number
    from firth.tasks.tag import FoundSpan, NamedSpans
    from firth.tasks.task import Answer
    from firth.tasks.translate import AlignedWord, Translation, TranslationCandidate
    from firth.textbook.drawing import PrintedNumber
    from firth.textbook.names import Picture
    from firth.train.loop import Outcome
    from firth.verbs.align import Aligned, align
    from firth.verbs.check import CheckedFile, CheckReport, check
    from firth.verbs.convert import Converted, WordFile, convert
    from firth.verbs.curves import CurvesView, curves
    from firth.verbs.embed import Embedded, EmbedOptions, embed
    from firth.verbs.evaluate import evaluate
    from firth.verbs.finetune import FinetuneResult, finetune
    from firth.verbs.glue import glue
    from firth.verbs.neighbours import (
        Neighbours,
        Similarity,
        analogy,
        neighbours,
        similarity,
    )
    from firth.verbs.predict import Prediction, PredictOptions, predict
    from firth.verbs.pretrain import pretrain
    from firth.verbs.projector import ProjectedWord, ProjectorView, projector
    from firth.verbs.report import ReportView, report
    from firth.verbs.view import (
        ExampleView,
        Look,
        View,
        example,
        examples,
        gradients,
        view,
    )
    from firth.verbs.vocab import VocabReport, vocab

__all__ = [
    "Aligned",
    "AlignedWord",
    "Amount",
    "Answer",
    "AnswerSpan",
    "AskedWord",
    "AttentionMap",
    "Band",
    "BidirectionalLikelihood",
    "Blank",
    "Candidate",
    "CheckReport",
    "CheckedFile",
    "Choice",
    "Classification",
    "Compared",
    "Completed",
    "Completion",
    "Confidence",
    "Converted",
    "Coverage",
    "CurvesView",
    "DataWarning",
    "Decided",
    "Difference",
    "EmbedOptions",
    "Embedded",
    "Evaluation",
    "ExampleView",
    "Filled",
    "Finding",
    "FinetuneOptions",
    "FinetuneResult",
    "FirthError",
    "FirthWarning",
    "FoundSpan",
    "GeneratedText",
    "GlueCell",
    "GlueReport",
    "GlueResult",
    "GlueScore",
    "Gradient",
    "InputError",
    "Interval",
    "Likelihood",
    "LikelyPiece",
    "Look",
    "MaskedAmount",
    "Measured",
    "NamedSpans",
    "NearWord",
    "Neighbours",
    "Number",
    "Outcome",
    "Picture",
    "Precision",
    "PredictOptions",
    "Prediction",
    "Predictor",
    "PretrainOptions",
    "PrintedNumber",
    "ProjectedWord",
    "ProjectorView",
    "QuestionAnswer",
    "Ranking",
    "ReportView",
    "RunWarning",
    "Section",
    "Share",
    "Sheet",
    "Similarity",
    "Spans",
    "Stopped",
    "TokenLikelihood",
    "Translation",
    "TranslationCandidate",
    "View",
    "VocabReport",
    "WordAmount",
    "WordFile",
    "Written",
    "align",
    "analogy",
    "check",
    "convert",
    "curves",
    "embed",
    "evaluate",
    "example",
    "examples",
    "finetune",
    "glue",
    "gradients",
    "load",
    "neighbours",
    "predict",
    "pretrain",
    "projector",
    "register",
    "report",
    "similarity",
    "view",
    "vocab",
]
__version__ = "0.1.0"

# The module and the name there of each public name. Nothing is imported until it is used.
_LAZY = {
    "Aligned": ("firth.verbs.align", "Aligned"),
    "AlignedWord": ("firth.tasks.translate", "AlignedWord"),
    "Amount": ("firth.evaluation.report", "Amount"),
    "Answer": ("firth.tasks.task", "Answer"),
    "AnswerSpan": ("firth.tasks.answer", "AnswerSpan"),
    "AskedWord": ("firth.probes.words", "AskedWord"),
    "AttentionMap": ("firth.tasks.attention", "AttentionMap"),
    "Band": ("firth.metrics.perplexity", "Band"),
    "BidirectionalLikelihood": ("firth.tasks.bidirectional", "BidirectionalLikelihood"),
    "Blank": ("firth.tasks.fill", "Blank"),
    "Candidate": ("firth.tasks.likelihood", "Candidate"),
    "CheckReport": ("firth.verbs.check", "CheckReport"),
    "CheckedFile": ("firth.verbs.check", "CheckedFile"),
    "Choice": ("firth.tasks.choice", "Choice"),
    "Classification": ("firth.tasks.classify", "Classification"),
    "Compared": ("firth.evaluation.report", "Compared"),
    "Completed": ("firth.tasks.complete", "Completed"),
    "Completion": ("firth.tasks.decoding", "Completion"),
    "Confidence": ("firth.evaluation.report", "Confidence"),
    "Converted": ("firth.verbs.convert", "Converted"),
    "Coverage": ("firth.predictor", "Coverage"),
    "CurvesView": ("firth.verbs.curves", "CurvesView"),
    "DataWarning": ("firth.base.errors", "DataWarning"),
    "Decided": ("firth.metrics.decisions", "Decided"),
    "Difference": ("firth.metrics.sums", "Difference"),
    "EmbedOptions": ("firth.verbs.embed", "EmbedOptions"),
    "Embedded": ("firth.verbs.embed", "Embedded"),
    "Evaluation": ("firth.evaluation.report", "Evaluation"),
    "ExampleView": ("firth.verbs.view", "ExampleView"),
    "Filled": ("firth.tasks.fill", "Filled"),
    "Finding": ("firth.reading.survey", "Finding"),
    "FinetuneOptions": ("firth.recipes.options", "FinetuneOptions"),
    "FinetuneResult": ("firth.verbs.finetune", "FinetuneResult"),
    "FirthError": ("firth.base.errors", "FirthError"),
    "FirthWarning": ("firth.base.errors", "FirthWarning"),
    "FoundSpan": ("firth.tasks.tag", "FoundSpan"),
    "GeneratedText": ("firth.tasks.decoding", "GeneratedText"),
    "GlueCell": ("firth.evaluation.glue", "GlueCell"),
    "GlueReport": ("firth.evaluation.glue", "GlueReport"),
    "GlueResult": ("firth.evaluation.glue", "GlueResult"),
    "GlueScore": ("firth.evaluation.glue", "GlueScore"),
    "Gradient": ("firth.probes.gradient", "Gradient"),
    "InputError": ("firth.base.errors", "InputError"),
    "Interval": ("firth.metrics.sums", "Interval"),
    "Likelihood": ("firth.tasks.likelihood", "Likelihood"),
    "LikelyPiece": ("firth.tasks.fill", "LikelyPiece"),
    "Look": ("firth.verbs.view", "Look"),
    "MaskedAmount": ("firth.evaluation.report", "MaskedAmount"),
    "Measured": ("firth.evaluation.report", "Measured"),
    "NamedSpans": ("firth.tasks.tag", "NamedSpans"),
    "NearWord": ("firth.probes.words", "NearWord"),
    "Neighbours": ("firth.verbs.neighbours", "Neighbours"),
    "Number": ("firth.tasks.regress", "Number"),
    "Outcome": ("firth.train.loop", "Outcome"),
    "Picture": ("firth.textbook.names", "Picture"),
    "Precision": ("firth.evaluation.translation", "Precision"),
    "PredictOptions": ("firth.verbs.predict", "PredictOptions"),
    "Prediction": ("firth.verbs.predict", "Prediction"),
    "Predictor": ("firth.predictor", "Predictor"),
    "PretrainOptions": ("firth.recipes.options", "PretrainOptions"),
    "PrintedNumber": ("firth.textbook.drawing", "PrintedNumber"),
    "ProjectedWord": ("firth.verbs.projector", "ProjectedWord"),
    "ProjectorView": ("firth.verbs.projector", "ProjectorView"),
    "QuestionAnswer": ("firth.tasks.answer", "QuestionAnswer"),
    "Ranking": ("firth.tasks.likelihood", "Ranking"),
    "ReportView": ("firth.verbs.report", "ReportView"),
    "RunWarning": ("firth.base.errors", "RunWarning"),
    "Section": ("firth.evaluation.report", "Section"),
    "Share": ("firth.metrics.decisions", "Share"),
    "Sheet": ("firth.metrics.decisions", "Sheet"),
    "Similarity": ("firth.verbs.neighbours", "Similarity"),
    "Spans": ("firth.tasks.embed", "Spans"),
    "Stopped": ("firth.base.errors", "Stopped"),
    "TokenLikelihood": ("firth.tasks.likelihood", "TokenLikelihood"),
    "Translation": ("firth.tasks.translate", "Translation"),
    "TranslationCandidate": ("firth.tasks.translate", "TranslationCandidate"),
    "View": ("firth.verbs.view", "View"),
    "VocabReport": ("firth.verbs.vocab", "VocabReport"),
    "WordAmount": ("firth.evaluation.report", "WordAmount"),
    "WordFile": ("firth.verbs.convert", "WordFile"),
    "Written": ("firth.output.written", "Written"),
    "align": ("firth.verbs.align", "align"),
    "analogy": ("firth.verbs.neighbours", "analogy"),
    "check": ("firth.verbs.check", "check"),
    "convert": ("firth.verbs.convert", "convert"),
    "curves": ("firth.verbs.curves", "curves"),
    "embed": ("firth.verbs.embed", "embed"),
    "evaluate": ("firth.verbs.evaluate", "evaluate"),
    "example": ("firth.verbs.view", "example"),
    "examples": ("firth.verbs.view", "examples"),
    "finetune": ("firth.verbs.finetune", "finetune"),
    "glue": ("firth.verbs.glue", "glue"),
    "gradients": ("firth.verbs.view", "gradients"),
    "load": ("firth.predictor", "load_predictor"),
    "neighbours": ("firth.verbs.neighbours", "neighbours"),
    "predict": ("firth.verbs.predict", "predict"),
    "pretrain": ("firth.verbs.pretrain", "pretrain"),
    "projector": ("firth.verbs.projector", "projector"),
    "register": ("firth.plugins", "register"),
    "report": ("firth.verbs.report", "report"),
    "similarity": ("firth.verbs.neighbours", "similarity"),
    "view": ("firth.verbs.view", "view"),
    "vocab": ("firth.verbs.vocab", "vocab"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'firth' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    own = {name for name in globals() if name.startswith("__")}
    return sorted({*own, *__all__})
