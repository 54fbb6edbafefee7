"""Published tests of word vectors: pairs of words with people's ratings, and analogies."""

from typing import NamedTuple


class RatedPair(NamedTuple):
    """Two words and how alike people find them."""

    first: str
    second: str
    rating: float


class Analogy(NamedTuple):
    """An analogy: `answer` is to `third` as `second` is to `first`."""

    first: str
    second: str
    third: str
    answer: str

    @property
    def words(self) -> tuple[str, str, str]:
        """The words that are given."""
        return self.first, self.second, self.third


class RatedPairs(NamedTuple):
    """A test of similarity, as WordSim-353 and SimLex-999."""

    pairs: tuple[RatedPair, ...]


class Analogies(NamedTuple):
    """A test of analogies in sections, as Google's questions-words.txt."""

    sections: dict[str, tuple[Analogy, ...]]


WordTest = RatedPairs | Analogies
