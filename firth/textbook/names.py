"""The names of the textbooks' pictures, free of torch: what can be asked for, and what it needs."""

from typing import Literal, NamedTuple

from firth.base.arguments import nearest
from firth.base.errors import InputError

Needs = Literal["nothing", "positions", "translator", "attention", "words", "layers"]
NEEDED = {
    "nothing": "no model",
    "positions": "no model, or one with positions",
    "translator": "no model, or one that translates",
    "attention": "a model with attention, else minilm",
    "words": "word vectors, else the table of minilm",
    "layers": "an encoder with layers, else minilm",
}


class Picture(NamedTuple):
    """A picture of textbooks that can be drawn."""

    name: str
    title: str
    help: str
    needs: Needs

    @property
    def needed(self) -> str:
        """Return what model it needs, as a person reads it."""
        return NEEDED[self.needs]


PICTURES = (
    Picture(
        "thinking-machines",
        "Thinking Machines",
        "attention between two words: 112 and 96 become 0.88 and 0.12",
        "nothing",
    ),
    Picture(
        "computers",
        "Computers are thinking machines",
        "attention between four words with two numbers each, for the fourth",
        "nothing",
    ),
    Picture(
        "forget-gate",
        "The forget gate",
        "one step of an LSTM with one unit: how much of 2 is kept",
        "nothing",
    ),
    Picture(
        "animal",
        "The animal didn't cross the street because it was too tired, or too wide",
        "where 'it' looks in two sentences that differ in one word",
        "attention",
    ),
    Picture(
        "making",
        "Making ... more difficult",
        "where 'making' looks in a long sentence, in layer 5",
        "attention",
    ),
    Picture(
        "sinusoids",
        "Positions as sinusoids",
        "20 positions of 512 numbers, interleaved and in halves; or a model's own",
        "positions",
    ),
    Picture(
        "one-hot",
        "One-hot beside dense",
        "words as rows of zeros with a 1, and as vectors that know who is alike",
        "words",
    ),
    Picture(
        "analogies",
        "Analogies as a plane",
        "pairs of words as arrows: king is to man as queen is to woman",
        "words",
    ),
    Picture(
        "bank",
        "The bank of a river, the bank with an account",
        "the vector of one word in ten sentences, layer by layer",
        "layers",
    ),
    Picture(
        "student",
        "I am a student <eos>",
        "what a translator is to give, or gives: five rows of six words; label smoothing",
        "translator",
    ),
)


def find_picture(name: str) -> Picture:
    """Return the picture of a name; refuse one that isn't there."""
    known = {picture.name: picture for picture in PICTURES}
    if name not in known:
        listed = "firth view --example list names all"
        raise InputError(f"there is no example {name!r}{nearest(name, known)}; {listed}")
    return known[name]
