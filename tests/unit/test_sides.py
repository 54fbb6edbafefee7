"""Pairs of a source and a target: files of four kinds, and what is wrong with them."""

import gzip
import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from firth.base.errors import InputError
from firth.data.examples import Example, TextToText
from firth.reading.columns import Named
from firth.reading.pairsurvey import PairSurvey
from firth.reading.readers import Reading
from firth.reading.sides import SourceReader
from firth.reading.split import split
from firth.reading.survey import Findings, survey
from firth.reading.usable import Usable
from firth.tasks.registry import readers
from tests.unit.reads import open_file

FRENCH = "je suis étudiant|merci beaucoup|où est la gare|il fait froid ce soir".split("|")
ENGLISH = "I am a student|thanks a lot|where is the station|it is cold tonight".split("|")
PAIRS = [TextToText(*pair) for pair in zip(FRENCH, ENGLISH, strict=True)]
NOUNS = "chat:cat chien:dog cheval:horse oiseau:bird poisson:fish mouton:sheep".split()
VERBS = "dort:sleeps mange:eats court:runs chante:sings nage:swims tombe:falls".split()
PLACES = "ici:here là:there dehors:outside dedans:inside".split()


def translated(*words: str) -> TextToText:
    """A sentence of words with their translations."""
    source, target = zip(*(word.split(":") for word in words), strict=True)
    return TextToText("le " + " ".join(source), "the " + " ".join(target))


CLEAN = [translated(noun, verb, place) for noun in NOUNS for verb in VERBS for place in PLACES]


DATA = os.environ.get("FIRTH_DATA")


def write_objects(path: Path, pairs: list[TextToText]) -> Path:
    rows = [json.dumps({"src": pair.text, "tgt": pair.target}) for pair in pairs]
    path.write_text("\n".join(rows) + "\n")
    return path


def found(reading: Reading) -> list[Example]:
    rows = list(reading)
    assert [row.fault for row in rows if row.fault] == []
    return [row.example for row in rows if row.example]


def findings(path: Path, beside: Path | None = None) -> Findings:
    every = Findings()
    survey(open_file(path, task="translate", beside=beside), every)
    return every


def swapped(pairs: list[TextToText]) -> list[int | None]:
    """The numbers of the pairs that are called swapped."""
    survey = PairSurvey("pairs")
    for number, pair in enumerate(pairs):
        survey.add(number, pair)
    return [doubt.line for doubt in survey.doubts(None) if doubt.kind == "swapped"]


@pytest.mark.parametrize("task", [None, "translate"])
def test_objects_are_known_by_their_fields(task: str | None, tmp_path: Path) -> None:
    path = write_objects(tmp_path / "a.jsonl", PAIRS)
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for one in (path, packed):
        reading = open_file(one, task=task)
        assert (reading.task, found(reading)) == ("translate", PAIRS)


def test_a_table_of_two_columns_needs_no_header(tmp_path: Path) -> None:
    lines = [f"{pair.text}\t{pair.target}" for pair in PAIRS]
    bare = tmp_path / "bare.tsv"
    bare.write_text("\n".join(lines) + "\n")
    named = tmp_path / "named.tsv"
    named.write_text("\n".join(["source\ttarget", *lines]) + "\n")
    for path in (bare, named):
        assert found(open_file(path, task="translate")) == PAIRS
    other = tmp_path / "other.csv"
    other.write_text("fr,en,note\n" + "".join(f"{p.text},{p.target},x\n" for p in PAIRS))
    assert found(open_file(other, Named.of("fr", label="en"), task="translate")) == PAIRS
    with pytest.raises(InputError, match=r"other.csv has no columns src and tgt"):
        open_file(other, task="translate")
    plain = tmp_path / "plain.txt"
    plain.write_text("\n".join(FRENCH))
    with pytest.raises(InputError, match=r"plain text.*target.* names a file"):
        open_file(plain, task="translate")


def test_sources_are_read_without_a_header_as_in_training(tmp_path: Path) -> None:
    lines = [f"{pair.text}\t{pair.target}" for pair in PAIRS]
    bare = tmp_path / "bare.tsv"
    bare.write_text("\n".join(lines) + "\n")
    trained = Named.of("src", label="tgt")
    asked = Reading(bare, trained=trained, asks=SourceReader)
    assert [one.texts[0] for one in found(asked)] == FRENCH
    named = tmp_path / "named.tsv"
    named.write_text("\n".join(["fr\ten", *lines]) + "\n")
    asked = Reading(named, trained=Named.of("fr", label="en"), asks=SourceReader)
    assert [one.texts[0] for one in found(asked)] == FRENCH
    texts = tmp_path / "texts.tsv"
    texts.write_text("id\ttext\n" + "".join(f"1\t{text}\n" for text in FRENCH))
    asked = Reading(texts, trained=trained, asks=SourceReader)
    assert [one.texts[0] for one in found(asked)] == FRENCH
    with pytest.raises(InputError, match=r"without a header it is read with .*translate"):
        Reading(bare, readers=readers())


def test_two_parallel_files_are_read_line_by_line(tmp_path: Path) -> None:
    source, target = tmp_path / "train.fr", tmp_path / "train.en"
    source.write_text("\r\n".join(FRENCH) + "\r\n", newline="")
    target.write_text("\n".join(ENGLISH))
    assert found(open_file(source, beside=target)) == PAIRS
    target.write_text("\n".join([*ENGLISH, "one more", "and another"]) + "\n")
    reading = open_file(source, task="translate", beside=target)
    with pytest.raises(InputError, match=r"train.fr:5 .* has 4 lines and .*train.en has 6"):
        list(Usable(reading))
    assert findings(source, target).counts["error"] == {"lines": 1}
    with pytest.raises(InputError, match=r"train.en:5 .* has 6 lines and .*train.fr has 4"):
        list(Usable(open_file(target, task="translate", beside=source)))


def test_an_empty_side_is_skipped_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [*PAIRS, TextToText("", "nothing"), TextToText("rien", " ")]
    path = write_objects(tmp_path / "a.jsonl", rows)
    usable = Usable(open_file(path, task="translate"))
    assert list(usable) == PAIRS
    with caplog.at_level("INFO", "firth"):
        usable.settle()
    said = "2 of 6 rows have an empty side and were skipped (first: line 5)"
    assert said in caplog.text
    assert findings(path).counts["warning"]["unlabelled"] == 2


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('{"src": "a"', "json"),
        ('{"src": 3, "tgt": "b"}', "text"),
        ('{"src": "a", "tgt": ["b"]}', "text"),
        ('{"tgt": "b"}', "text"),
        ('{"src": "a\\u0000", "tgt": "b"}', "nul"),
        ('["a", "b"]', "json"),
    ],
)
def test_a_malformed_row_is_counted_at_its_line(line: str, kind: str, tmp_path: Path) -> None:
    path = write_objects(tmp_path / "a.jsonl", CLEAN)
    lines = path.read_text().splitlines()
    lines[17] = line
    path.write_text("\n".join(lines) + "\n")
    every = findings(path)
    assert [(one.kind, one.line) for one in every.kept if one.level == "error"] == [(kind, 18)]


def test_clean_pairs_have_no_findings(tmp_path: Path) -> None:
    every = findings(write_objects(tmp_path / "a.jsonl", CLEAN))
    assert every.kept == []


def test_doubtful_pairs_are_found_at_their_lines(tmp_path: Path) -> None:
    rows = list(CLEAN)
    rows[20] = TextToText(CLEAN[20].target, CLEAN[20].text)
    rows[40] = TextToText(CLEAN[40].text, "word " * 10_000)
    rows[60] = CLEAN[3]
    rows[80] = TextToText("the horse sleeps here and there and everywhere, said the " * 3, "no")
    every = findings(write_objects(tmp_path / "a.jsonl", rows))
    kinds = Counter((one.kind, one.line) for one in every.kept)
    assert kinds[("swapped", 21)] == kinds[("long", 41)] == kinds[("repeated", 61)] == 1
    assert kinds[("lengths", 41)] == kinds[("lengths", 81)] == 1
    assert {kind for kind, _ in kinds} == {"swapped", "long", "repeated", "lengths"}
    assert "has 10,000 words in its target" in {one.said for one in every.kept}


@pytest.mark.parametrize("how", ["one more sign", "letters exchanged", "unrelated"])
def test_sides_of_one_language_are_not_called_swapped(how: str, tmp_path: Path) -> None:
    """As in corrections and summaries: nothing tells which side is which."""
    draw = random.Random(4)

    def other(text: str) -> str:
        if how == "one more sign":
            return f"{text} !"
        if how == "unrelated":
            return draw.choice(CLEAN).target
        place = draw.randrange(4, len(text) - 1)
        return f"{text[:place]}{text[place + 1]}{text[place]}{text[place + 2 :]}"

    rows = [TextToText(pair.target, other(pair.target)) for pair in CLEAN]
    draw.shuffle(rows)
    for count in (10, 30, len(rows)):
        every = findings(write_objects(tmp_path / f"{count}.jsonl", rows[:count]))
        assert {one.kind for one in every.kept} <= {"alike", "repeated", "conflict"}


@pytest.mark.skipif(not DATA, reason="FIRTH_DATA names no folder of data sets")
@pytest.mark.parametrize(("corpus", "least"), [("multi30k_en_de", 380), ("tatoeba_en_sv", 80)])
def test_few_pairs_are_judged_with_care(corpus: str, least: int) -> None:
    """Of 400 files of 30 real pairs none has a right row that is called swapped, and a swapped one is found."""
    with gzip.open(Path(str(DATA)) / corpus / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows_of_file = [json.loads(line) for line in lines]
    every = [TextToText(row["src"], row["tgt"]) for row in rows_of_file]
    draw = random.Random(1)
    found = 0
    for _ in range(400):
        rows = draw.sample(every, 30)
        place = draw.randrange(30)
        assert swapped(rows) == []
        rows[place] = TextToText(rows[place].target, rows[place].text)
        called = swapped(rows)
        assert called in ([], [place])
        found += len(called)
    assert found >= least


def test_swapped_pairs_are_all_found() -> None:
    """Of two files that were put together the wrong way around."""
    turned = [TextToText(pair.target, pair.text) for pair in CLEAN[:12]]
    assert swapped([*turned, *CLEAN[12:]]) == list(range(12))
    assert swapped([*turned, *CLEAN[12:24]]) == []  # half of them: nobody can tell


def test_translations_of_one_source_stay_on_one_side() -> None:
    pairs = [TextToText(f"source {number // 3}", f"target {number}") for number in range(90)]
    kept, held = split(pairs, seed=3)
    assert len(held) == pytest.approx(9, abs=2)
    assert not {pairs[i].text for i in kept} & {pairs[i].text for i in held}
