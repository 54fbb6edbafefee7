"""Fit a map from the words of one model to those of another, and measure how it translates."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from firth.base.arguments import MOST_THREADS, as_path, as_whole, check_flags
from firth.base.errors import InputError
from firth.base.files import refuse_folder
from firth.base.notes import note
from firth.evaluation.translation import Precision, by_chance, precision
from firth.folders.wordmap import save_map
from firth.predictor import load_predictor
from firth.probes.words import WordTable
from firth.reading.dictionary import Pair, read_dictionary
from firth.recipes.align import fit, held_words

FEWEST = 10  # pairs to fit on


class Aligned(NamedTuple):
    """A map between the words of two models, and how often it finds a translation."""

    out: str
    dictionary: str
    pairs: int  # that it was fitted on
    left_out: int  # pairs of the dictionary with a word that a model lacks
    tested_on: str | None  # a file; None where words of the dictionary were held out
    tested: int  # words
    test_left_out: int  # pairs of the test with a word that a model lacks
    words: int  # among which translations are looked for
    linear: Precision
    network: Precision
    chance: tuple[float, float]  # of the nearest word, and of the nearest five
    steps: int  # that the network was trained for

    def as_json(self) -> dict[str, object]:
        """Return the record as a JSON object."""
        page: dict[str, object] = self._asdict()
        for by, found in (("linear", self.linear), ("network", self.network)):
            page[by] = {name: one._asdict() for name, one in found._asdict().items()}
        at_1, at_5 = self.chance
        return page | {"chance": {"at_1": at_1, "at_5": at_5}}


def align(
    source: str | Path,
    target: str | Path,
    dictionary: str | Path,
    out: str | Path,
    *,
    test: str | Path | None = None,
    seed: int = 1,
    threads: int | None = None,
    force: bool = False,
) -> Aligned:
    """Fit an orthogonal map and a network with one hidden layer, save both and return how they do.

    The dictionary has a word of the source and its translation a line, and so has `test`; without
    it a tenth of the dictionary's words are held out to measure on.
    """
    models = {"source": as_path("source", source), "target": as_path("target", target)}
    place = Path(as_path("out", out))
    given = Path(as_path("dictionary", dictionary))
    asked = as_path("test", test, optional=True)
    seed = as_whole("seed", seed, 0, (1 << 62) - 1)
    threads = as_whole("threads", threads, 1, MOST_THREADS, optional=True)
    check_flags(force=force)
    refuse_folder(place, force)
    pairs = read_dictionary(given)
    test_pairs = read_dictionary(Path(asked)) if asked is not None else None

    predictor = load_predictor(models["source"], threads)
    first = WordTable(predictor.bundle, models["source"])
    second = WordTable(load_predictor(models["target"], threads).bundle, models["target"])
    known = _known(pairs, first, second)
    left_out = len(pairs) - len(known)
    if left_out:
        lacking = f"{left_out:,} of {len(pairs):,} pairs have a word that a model lacks"
        note(f"{given}: {lacking}; they are left out")

    if test_pairs is None:
        words, held = held_words([word for word, _ in known], seed, turn=0)
        fitted_on = [pair for pair in known if pair[0] in words]
        tested_on = [pair for pair in known if pair[0] in held]
        test_left_out = 0
    else:
        tested_on = _known(test_pairs, first, second)
        test_left_out = len(test_pairs) - len(tested_on)
        fitted_on = _apart(known, tested_on, given)
    if len(fitted_on) < FEWEST or not tested_on:
        needs = f"a map needs {FEWEST} to fit and one to test"
        has = f"{len(fitted_on):,} to fit and {len(tested_on):,} to test"
        raise InputError(f"{given}: {needs} of which both models know the words; there are {has}")

    with predictor.computing():
        x = torch.stack([first.unit(word) for word, _ in fitted_on])
        y = torch.stack([second.unit(word) for _, word in fitted_on])
        mean = second.units().mean(0)
        names = [word for word, _ in fitted_on]
        fitted = fit(x, y, names, first.units().mean(0), mean, seed)
        rows = _rows(tested_on, second)
        centred = second.centred(mean)
        made = fitted.made
        found = Aligned(
            out=str(place),
            dictionary=str(given),
            pairs=len(fitted_on),
            left_out=left_out,
            tested_on=asked,
            tested=len(rows),
            test_left_out=test_left_out,
            words=second.count,
            linear=precision(made, "linear", first, centred, rows),
            network=precision(made, "network", first, centred, rows),
            chance=by_chance(rows, second.count),
            steps=fitted.steps,
        )
    save_map(made, place, models, found.as_json(), force)
    return found


def _known(pairs: Sequence[Pair], first: WordTable, second: WordTable) -> list[Pair]:
    """Return the pairs that both models know; a translation must be one word of the second's."""
    found = []
    for word, translation in pairs:
        rows = second.find(translation)
        if first.find(word) and len(rows) == 1 and rows[0] in second.words:
            found.append((word, translation))
    return found


def _apart(pairs: Sequence[Pair], test: Sequence[Pair], given: Path) -> list[Pair]:
    """Return the pairs whose word is not tested: it would say nothing of others."""
    tested = {word for word, _ in test}
    kept = [pair for pair in pairs if pair[0] not in tested]
    if len(kept) < len(pairs):
        count = len(pairs) - len(kept)
        note(f"{given}: {count:,} pairs have words of the test; the maps are not fitted on them")
    return kept


def _rows(pairs: Sequence[Pair], target: WordTable) -> Mapping[str, Sequence[int]]:
    """Return each word with the rows of its translations."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for word, translation in pairs:
        (row,) = target.find(translation)
        if row not in found[word]:
            found[word].append(row)
    return found
