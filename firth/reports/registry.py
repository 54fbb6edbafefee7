"""Which report a task has; of other tasks a page shows the metrics alone."""

from firth.reports.answers import AnswerReport
from firth.reports.choices import ChoiceReport
from firth.reports.classes import ClassReport
from firth.reports.numbers import NumberReport
from firth.reports.report import TaskReport
from firth.reports.spans import SpanReport
from firth.tasks.answer import AnswerScoring
from firth.tasks.choice import ChoiceScoring
from firth.tasks.classify import ClassScoring
from firth.tasks.regress import NumberScoring
from firth.tasks.tag import EntityScoring
from firth.tasks.trained import Scoring


def report_of(model: str, scoring: Scoring) -> TaskReport | None:
    """Return the report of a model's task, by what adds up its answers."""
    if isinstance(scoring, ClassScoring):
        return ClassReport(model, scoring)
    if isinstance(scoring, NumberScoring):
        return NumberReport(scoring)
    if isinstance(scoring, EntityScoring):
        return SpanReport(scoring)
    if isinstance(scoring, AnswerScoring):
        return AnswerReport()
    if isinstance(scoring, ChoiceScoring):
        return ChoiceReport(scoring)
    return None
