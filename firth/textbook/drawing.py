"""What a textbook's picture is made of: numbers beside those that are printed, and sections."""

from collections.abc import Sequence
from dataclasses import dataclass

from firth.pages.page import PageSection
from firth.pages.textbook import NumberRow, printed_section

ROUNDING = 1e-9  # a half is rounded either way


@dataclass(frozen=True)
class PrintedNumber:
    """A number as it comes out, beside the one that a book prints, if any."""

    name: str
    value: float
    book: str | None = None  # as it is printed there

    @property
    def agrees(self) -> bool | None:
        """Tell whether the book's number is this one, rounded to as many decimals."""
        if self.book is None:
            return None
        _, _, decimals = self.book.partition(".")
        unit = 10.0 ** -len(decimals)
        return abs(self.value - float(self.book)) <= unit / 2 + ROUNDING

    def as_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {"name": self.name, "value": self.value, "book": self.book, "agrees": self.agrees}


@dataclass(frozen=True)
class Drawing:
    """A picture: what is drawn, the numbers of the book, and sentences."""

    sections: Sequence[PageSection]
    numbers: Sequence[PrintedNumber] = ()
    notes: Sequence[str] = ()
    tokens: int = 0  # that a model read

    def page_sections(self) -> list[PageSection]:
        """Return the sections of the page."""
        rows = [NumberRow(one.name, one.value, one.book, one.agrees) for one in self.numbers]
        return [*self.sections, printed_section(rows, self.notes)]


def said_of_book(numbers: Sequence[PrintedNumber]) -> str:
    """Say whether a book's numbers are what comes out."""
    compared = [one for one in numbers if one.agrees is not None]
    wrong = [one for one in compared if not one.agrees]
    if not wrong:
        return f"All {len(compared)} printed numbers are what comes out."
    named = "; ".join(f"{one.name} is {one.value:,.4f}, not {one.book}" for one in wrong)
    return f"The book errs in {len(wrong)} of {len(compared)} numbers: {named}."
