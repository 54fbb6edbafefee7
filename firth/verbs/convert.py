"""Convert a BERT that Google published, a checkpoint of TensorFlow, into a model folder."""

from pathlib import Path
from typing import NamedTuple, get_args

from firth.base.arguments import as_path, check_choice, check_flags
from firth.base.errors import InputError
from firth.base.files import refuse_folder
from firth.base.notes import note, warn
from firth.data.record import listed, on_a_line
from firth.folders.google import Case, GoogleModel, find_checkpoint, open_checkpoint
from firth.folders.write import save


class Converted(NamedTuple):
    """A folder that was made of a checkpoint, and what was read for it."""

    out: str
    checkpoint: str
    task: str  # what the model does: `embed` where it is an encoder alone
    labels: tuple[str, ...]  # of a classifier
    tensors: int  # that were read
    parameters: int
    left_out: tuple[str, ...]  # tensors that have no place in the folder
    ignored: int  # tensors that only training needs
    pieces: int
    case: Case

    def as_json(self) -> dict[str, object]:
        """Return the record as a JSON object."""
        return self._asdict()


def convert(
    checkpoint: str | Path, out: str | Path, *, case: Case | None = None, force: bool = False
) -> Converted:
    """Write what a checkpoint of TensorFlow 1 holds as a folder, and return what was read.

    `checkpoint` is the folder, its index or the name that its files share. `case` says whether the
    vocabulary is of text in lower case; by default its pieces tell.
    """
    given = Path(as_path("checkpoint", checkpoint))
    target = Path(as_path("out", out))
    check_choice("case", case, get_args(Case), optional=True)
    check_flags(force=force)
    refuse_folder(target, force)
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


def _say(model: GoogleModel, asked: Case | None) -> None:
    """Say what was decided and what was left out."""
    bundle = model.bundle
    if asked is None:
        taken = "text keeps its case"
        other = "lower"
        if model.case == "lower":
            taken = "text is brought to lower case, without accents"
            other = "keep"
        having = f"{model.capitals:,} of {bundle.tokenizer.size:,} pieces have capital letters"
        note(f"{having}, so {taken} (--case {other} overrides)")
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
