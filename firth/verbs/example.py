"""Draw a picture that textbooks print, with numbers that are computed anew."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firth.base.arguments import as_path, check_flags, check_string
from firth.base.errors import InputError
from firth.base.files import new_file
from firth.pages.page import write_page
from firth.predictor import load_predictor, say_unmatched
from firth.textbook.drawing import PrintedNumber
from firth.textbook.names import PICTURES, Picture, find_picture
from firth.textbook.registry import BY_HAND, BY_MODEL
from firth.verbs.view import View, checked_target

USUAL = "minilm"


@dataclass(frozen=True)
class ExampleView(View):
    """A page with a picture of textbooks; a notebook displays it."""

    name: str = ""
    numbers: Sequence[PrintedNumber] = ()  # as they come out, beside those of the book
    notes: Sequence[str] = ()  # what to look at, and where the book errs

    def as_json(self) -> dict[str, object]:
        """Return the numbers as a JSON object."""
        numbers = [number.as_json() for number in self.numbers]
        return {"example": self.name, "numbers": numbers, "notes": list(self.notes)}


def example(
    name: str,
    model: str | Path | None = None,
    out: str | Path | None = None,
    *,
    threads: int | None = None,
    force: bool = False,
) -> ExampleView:
    """Return a page with a picture of textbooks, and write it to `out`, an .html file.

    `model` is for those that need one; without it they take minilm.
    """
    check_string("name", name, empty=False)
    model = as_path("model", model, optional=True)
    check_flags(force=force)
    picture = find_picture(name)
    target = checked_target(out, force)
    if picture.name in BY_HAND:
        if model is not None:
            raise InputError(f"the example {name} is worked out by hand: leave {model} out")
        drawing = BY_HAND[picture.name]()
        lead = [picture.help]
    else:
        model = model or USUAL
        predictor = load_predictor(model, threads)
        say_unmatched(predictor)
        with predictor.computing():
            drawing = BY_MODEL[picture.name](predictor, model)
        name_of_folder = Path(model).name or model
        lead = [picture.help, f"{name_of_folder}, {predictor.bundle.family}"]

    sections = drawing.page_sections()
    page = write_page(picture.title, lead, sections)
    if target is not None:
        with new_file(target, force) as path:
            path.write_text(page, encoding="utf-8")
    headings = tuple(section.title for section in sections)
    return ExampleView(
        page, headings, drawing.tokens, 0, target, picture.name, drawing.numbers, drawing.notes
    )


def examples() -> list[Picture]:
    """Return the pictures that can be drawn, with what each needs."""
    return list(PICTURES)
