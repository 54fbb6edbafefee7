"""Convert what others wrote into a model folder, and word vectors into a file that others read.

Read are a BERT that Google published, a checkpoint of TensorFlow, and files of word vectors.
"""

from pathlib import Path
from typing import NamedTuple, get_args

from firth.base.arguments import as_path, check_choice, check_flags
from firth.base.errors import InputError
from firth.base.files import refuse_folder
from firth.base.notes import note, warn
from firth.data.record import listed, on_a_line
from firth.folders.find import CONFIG
from firth.folders.google import (
    Case,
    GoogleModel,
    find_checkpoint,
    has_checkpoint,
    is_checkpoint,
    open_checkpoint,
)
from firth.folders.read import load
from firth.folders.wordvectors import open_word_vectors
from firth.folders.write import save
from firth.output.wordvectors import form_of, write_word_vectors
from firth.probes.words import WordTable
from firth.reading.wordvectors import Form
from firth.text.repair import REPLACEMENT
from firth.text.tokenizer import Tokenizer


class WordFile(NamedTuple):
    """A file of word vectors that was read or written."""

    form: Form
    words: int  # in the folder that was written, or in the file
    width: int
    left_out: int  # words that are no words of the file's format, when one was written
    repeated: int  # words that came again, of which the first vector is kept
    replaced: int  # words with bytes that are not UTF-8, which were replaced


class Converted(NamedTuple):
    """What was written, and what was read for it."""

    out: str
    checkpoint: str  # or the file of word vectors, or the folder
    task: str  # what the model does: `embed` where it is an encoder alone
    labels: tuple[str, ...]  # of a classifier
    tensors: int  # that were read
    parameters: int
    left_out: tuple[str, ...]  # tensors that have no place in the folder
    ignored: int  # tensors that only training needs
    pieces: int
    case: Case
    vectors: WordFile | None = None  # of word vectors

    def as_json(self) -> dict[str, object]:
        """Return the record as a JSON object."""
        page: dict[str, object] = self._asdict()
        if self.vectors is None:
            del page["vectors"]
        else:
            page["vectors"] = self.vectors._asdict()
        return page


def convert(
    source: str | Path,
    out: str | Path,
    *,
    case: Case | None = None,
    form: Form | None = None,
    force: bool = False,
) -> Converted:
    """Write a folder or a file, and return what was read for it.

    A folder is made of a checkpoint of TensorFlow 1 (its folder, its index or the name that its
    files share) and of a file of word vectors; a file of word vectors of a model's folder. `case`
    says whether the vocabulary is of text in lower case; by default its words tell. `form` is the
    format of a file; by default its ending tells.
    """
    given = Path(as_path("source", source))
    target = Path(as_path("out", out))
    check_choice("case", case, get_args(Case), optional=True)
    check_choice("form", form, get_args(Form), optional=True)
    check_flags(force=force)
    # Published checkpoints may have a config.json of transformers beside their own.
    if (given / CONFIG).is_file() and not has_checkpoint(given):
        if case is not None:
            raise InputError("--case is for what is read; the words of a folder are as they are")
        return _to_file(given, target, form, force)
    if form is not None:
        raise InputError("--format is for a file of word vectors that is written of a folder")
    refuse_folder(target, force)
    if given.is_file() and not is_checkpoint(given):
        return _from_file(given, target, case, force)
    return _from_checkpoint(given, target, case, force)


def _from_checkpoint(given: Path, target: Path, case: Case | None, force: bool) -> Converted:
    """Make a folder of a checkpoint of TensorFlow."""
    prefix = find_checkpoint(given)
    if prefix.resolve().is_relative_to(target.resolve()):
        raise InputError(f"{target} holds the checkpoint itself; choose another name")

    model = open_checkpoint(prefix, case)
    _say(model, case)
    bundle = model.bundle
    decided = {"case": model.case, "left_out": list(model.left_out)}
    save(bundle, target, force, made={"checkpoint": prefix.name, **decided})
    return Converted(
        out=str(target),
        checkpoint=str(prefix),
        task=bundle.kind or "embed",
        labels=bundle.labels,
        tensors=model.tensors,
        parameters=model.parameters,
        left_out=model.left_out,
        ignored=model.ignored,
        pieces=bundle.tokenizer.size,
        case=model.case,
    )


def _from_file(given: Path, target: Path, case: Case | None, force: bool) -> Converted:
    """Make a folder of a file of word vectors."""
    if given.resolve().is_relative_to(target.resolve()):
        raise InputError(f"{target} holds the file itself; choose another name")
    model = open_word_vectors(given, case)
    _say_case(model.case, case, f"{model.capitals:,} of {model.words:,} words")
    if model.repeated:
        note(f"{given}: {model.repeated:,} words came again; the first vector of each is kept")
    if model.replaced:
        broken = f"{model.replaced:,} words have bytes that are not UTF-8"
        warn(f"{given}: {broken}, which were replaced by {REPLACEMENT}")
    bundle = model.bundle
    made = {"file": given.name, "form": model.form, "case": model.case, "split": model.split}
    save(bundle, target, force, made=made)
    width = bundle.encoder.width
    form = model.form
    read = WordFile(form, model.words, width, 0, model.repeated, model.replaced)
    return _of_vectors(str(target), str(given), bundle.tokenizer, model.case, read)


def _to_file(folder: Path, target: Path, form: Form | None, force: bool) -> Converted:
    """Write the words of a model with their vectors."""
    form = form_of(target, form, force)
    bundle = load(folder)
    table = WordTable(bundle, str(folder))
    words = table.words
    if bundle.tokenizer.kind == "words":
        # The <unk> and </s> of a file, and of a language model, have vectors like words.
        special = {row: bundle.tokenizer.piece(row) for row in bundle.tokenizer.special}
        words = dict(sorted({**words, **special}.items()))
    has_vector = table.vectors.any(1).tolist()
    rows: dict[str, int] = {}
    for row, word in words.items():
        if has_vector[row]:
            rows.setdefault(word, row)
    written = write_word_vectors(target, rows, table.vectors.numpy(), form, force)
    left_out = len(rows) - written
    if left_out:
        warn(f"{left_out:,} words have blanks, which {form} can't hold: they are left out")
    case: Case = "lower" if bundle.tokenizer.normalise("A") == "a" else "keep"
    file = WordFile(form, written, table.width, left_out, 0, 0)
    return _of_vectors(str(target), str(folder), bundle.tokenizer, case, file)


def _of_vectors(
    out: str, source: str, tokenizer: Tokenizer, case: Case, vectors: WordFile
) -> Converted:
    """Return the record of word vectors, which are one tensor."""
    return Converted(
        out=out,
        checkpoint=source,
        task="embed",
        labels=(),
        tensors=1,
        parameters=vectors.words * vectors.width,
        left_out=(),
        ignored=0,
        pieces=tokenizer.size,
        case=case,
        vectors=vectors,
    )


def _say_case(case: Case, asked: Case | None, having: str, also: str = "") -> None:
    """Say whether text keeps its case, where nobody did."""
    if asked is not None:
        return
    taken = "text keeps its case"
    other = "lower"
    if case == "lower":
        taken = f"text is brought to lower case{also}"
        other = "keep"
    note(f"{having} have capital letters, so {taken} (--case {other} overrides)")


def _say(model: GoogleModel, asked: Case | None) -> None:
    """Say what was decided and what was left out."""
    bundle = model.bundle
    having = f"{model.capitals:,} of {bundle.tokenizer.size:,} pieces"
    _say_case(model.case, asked, having, also=", without accents")
    rows = bundle.model.settings.vocab
    if bundle.tokenizer.size < rows:
        has = f"vocab.txt has {bundle.tokenizer.size:,} pieces where the model has {rows:,}"
        warn(f"{has}: is it the vocabulary of this model?")
    if bundle.labels:
        classes = f"a head of {len(bundle.labels)} classes of whole texts"
        note(f"output_weights is taken as {classes}; a checkpoint doesn't hold their names")
    if model.left_out:
        names = listed([on_a_line(name) for name in model.left_out])
        warn(f"tensors of the checkpoint that have no place in the folder: {names}")
