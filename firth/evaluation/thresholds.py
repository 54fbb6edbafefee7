"""How sure a model must be to answer: chosen on held-out answers, or read from a model's sheet."""

from collections.abc import Sequence

from firth.base.errors import DataWarning, InputError
from firth.base.files import read_json
from firth.base.notes import warn
from firth.evaluation.figures import percent
from firth.folders.find import find
from firth.metrics.decisions import GradedAnswer, Sheet, decide
from firth.tasks.classify import UNSURE

NEVER = 2.0  # a threshold that no confidence reaches


def choose_threshold(answers: Sequence[GradedAnswer], precision: float) -> float:
    """Return the threshold above which held-out answers are right as often as asked."""
    confidences = [confidence for _, _, confidence in answers]
    right = [truth == predicted for truth, predicted, _ in answers]
    chosen = decide(confidences, right, precision)
    if chosen.threshold is None:
        warn(
            f"no confidence is right {percent(precision)} of the time; "
            "the model will always be unsure",
            DataWarning,
        )
        return NEVER
    return chosen.threshold


def stored_threshold(model: str, precision: float) -> float:
    """Return how sure a classifier must be to be right so often, by what finetune found."""
    sheet = stored_sheet(model)
    if sheet is None:
        raise InputError(
            f"{model} has no decisions on held-out texts: "
            "--target-precision is for classes that firth finetune trained"
        )
    if UNSURE in sheet.labels:
        raise InputError(
            f"a class of {model} is called {UNSURE!r}, "
            "which --target-precision lets the model say instead of a class"
        )
    threshold = sheet.threshold(precision)
    if threshold is None:
        raise InputError(
            f"--target-precision {precision:g}: {model} was not right so often "
            f"on held-out texts at any confidence; {_reached(sheet)}"
        )
    return threshold


def stored_sheet(model: str) -> Sheet | None:
    """Read the decision sheet of a model's folder, if it has one."""
    path = find(model) / "firth.json"
    made = read_json(path).get("made") if path.exists() else None
    if not isinstance(made, dict) or "decisions" not in made:
        return None
    try:
        return Sheet.read(made["decisions"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: the decisions are damaged") from error


def _reached(sheet: Sheet) -> str:
    """Name the precisions that some threshold of a sheet reaches."""
    known = [f"{decided.precision:g}" for decided in sheet.all if decided.threshold is not None]
    if not known:
        return "none is reached"
    return f"known are: {', '.join(known)}"
