"""The options of every command, as the fields of a settings class: each once, with its help.

Those of training are the settings of the run; the others have the names and defaults of the Python
function that the command calls.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.base.settings import (
    Column,
    Encoding,
    Force,
    LabelColumn,
    Missing,
    Option,
    SecondColumn,
    Settings,
    TextColumn,
    Threads,
    one_of,
)
from firth.reading.glue import known_tasks
from firth.recipes.settings import FinetuneSettings, Long, PretrainSettings, Seed, task_names

Json = Annotated[
    bool, Option(names=("--json",)), Field(description="Print all as one JSON object.")
]
Resume = Annotated[
    bool, Field(description="Go on from the newest whole checkpoint, if there is one.")
]
Format = Annotated[
    Literal["lines", "csv", "tsv", "jsonl"] | None,
    Option(names=("--format",)),
    Field(
        description="What the input is, standard input too: lines of text, csv, tsv, jsonl; "
        "by default as it looks."
    ),
]

MeasuredLong = Literal["cut", "slide", "carry", "error"] | None
Target = Annotated[
    str | None,
    Option(path=True),
    Field(description="Of text to text: a file whose lines are the targets of those of the data."),
]


class CheckSettings(Settings):
    """Options of `firth check`."""

    data: Annotated[str, Option(argument=True, metavar="DATA", path=True)] = Field(
        description="A .csv, .tsv, .jsonl, .json (SQuAD's too), .parquet or CoNLL file, or text; "
        "also .gz or .zst."
    )
    task: Annotated[str | None, Option(choices=task_names), one_of(task_names)] = Field(
        default=None, description="What it is for; by default what it looks like."
    )
    dev: Annotated[str | None, Option(path=True)] = Field(
        default=None, description="The file that will be held out: its texts must not be in DATA."
    )
    target: Target = None
    dev_target: Annotated[str | None, Option(path=True)] = Field(
        default=None, description="The same for --dev."
    )
    model: str | None = Field(
        default=None, description="A model folder, or minilm: how the texts fit it."
    )
    text: str | None = Field(
        default=None, description="The column of the text; several are joined: subject,body."
    )
    second: str | None = Field(
        default=None, description="The column of the second text, where there are pairs."
    )
    label: str | None = Field(default=None, description="The column of the label, or of the spans.")
    missing: Missing = Field(default_factory=list)
    encoding: Encoding = None
    as_json: Json = False


class VocabSettings(Settings):
    """Options of `firth vocab`."""

    corpus: Annotated[list[str], Option(argument=True, metavar="CORPUS...", path=True)] = Field(
        description="Files and folders of .txt or .jsonl, also .gz or .zst."
    )
    out: Annotated[str, Option(names=("-o", "--out"), path=True)] = Field(
        description="The folder to write."
    )
    size: int = Field(
        default=30000, ge=1, le=1 << 24, description="How many pieces, special tokens included."
    )
    kind: Literal["wordpiece", "bytes", "words"] = Field(
        default="wordpiece",
        description="Pieces of words, bytes (any text comes back as it was), or whole words.",
    )
    case: Literal["lower", "keep"] | None = Field(
        default=None, description="By default lower, for bytes keep."
    )
    accents: Literal["keep", "strip"] | None = Field(default=None, description="By default keep.")
    split: Literal["auto", "punctuation", "spaces"] | None = Field(
        default=None,
        description="Of words: at spaces, or also at punctuation; "
        "by default auto: punctuation where commas stand on words.",
    )
    field: Column = "text"
    encoding: Encoding = None
    as_json: Annotated[bool, Option(names=("--json",))] = Field(
        default=False, description="Print the report as one JSON object."
    )
    force: Force = False


class PretrainCall(PretrainSettings):
    """Options of `firth pretrain`."""

    resume: Resume = False
    force: Force = False


class FinetuneCall(FinetuneSettings):
    """Options of `firth finetune`."""

    as_json: Annotated[bool, Option(names=("--json",))] = Field(
        default=False, description="Print the scores as one JSON object."
    )
    resume: Resume = False
    force: Force = False


class EvaluateSettings(Settings):
    """Options of `firth evaluate`."""

    models: Annotated[list[str], Option(argument=True, metavar="MODEL")] = Field(
        description="Model folders for one task; a file at the end is --data."
    )
    data: Annotated[str | None, Option(path=True)] = Field(
        default=None,
        description="Examples: .csv, .tsv, .jsonl, .parquet, CoNLL, SQuAD's .json; or a text.",
    )
    target: Target = None
    text: TextColumn = None
    second: SecondColumn = None
    label: LabelColumn = None
    missing: Missing = Field(default_factory=list)
    encoding: Encoding = None
    long: MeasuredLong = Field(
        default=None,
        description="A text too long for the model: cut, slide (default for plain text), carry, "
        "error; default: as taught.",
    )
    counts: Annotated[str | None, Option(path=True)] = Field(
        default=None,
        description="A training text: perplexity is also given by how often words occur in it.",
    )
    threads: Threads = None
    as_json: Json = False


class EmbedSettings(Settings):
    """Options of `firth embed`."""

    model: Annotated[str, Option(argument=True)] = Field(description="A model folder, or minilm.")
    source: Annotated[str, Option(argument=True, metavar="FILE")] = Field(
        default="-",
        description="One text a line (.txt), or .jsonl with a field text; - is standard input.",
    )
    out: Annotated[str | None, Option(names=("-o", "--out"), path=True)] = Field(
        default=None,
        description="vectors.npy, .jsonl or .parquet; without it JSON lines are printed.",
    )
    layers: str = Field(
        default="-1",
        description="Layers: 0 is the embedding, -1 the last; -4..-1 is a range, 1,6 a list.",
    )
    combine: Literal["mean", "sum", "concat"] = Field(
        default="mean", description="How several layers become one vector."
    )
    pool: Literal["mean", "cls", "max", "words", "none"] | None = Field(
        default=None,
        description="A vector for each text (mean, cls, max), word (words) or piece (none); "
        "by default as the folder says.",
    )
    long: Long = Field(
        default="cut",
        description="A text longer than the model reads: cut it, slide over it, or stop.",
    )
    field: Column = "text"
    encoding: Encoding = None
    form: Format = None
    threads: Threads = None
    force: Force = False


class PredictSettings(Settings):
    """Options of `firth predict`."""

    model: Annotated[str, Option(argument=True)] = Field(description="A model folder.")
    source: Annotated[str, Option(argument=True, metavar="FILE|TEXT")] = Field(
        default="-", description="A file with one text a line, a text, or - for standard input."
    )
    out: Annotated[str | None, Option(names=("-o", "--out"), path=True)] = Field(
        default=None,
        description="A .csv, .tsv, .parquet or .jsonl file: the input's columns and the answers.",
    )
    target_precision: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Of classes: answer only where it is right so often, by the decisions that "
        "finetune found; else say unsure.",
    )
    score: bool = Field(
        default=False, description="Rate texts, or rank lists of them, with a language model."
    )
    weight: float | None = Field(
        default=None,
        ge=0,
        le=1000,
        description="Of lists with scores of their own: what the model's log-likelihood counts "
        "beside them; default 1.",
    )
    complete: bool = Field(
        default=False, description="The likeliest ends of each line, by a language model."
    )
    top: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="How many pieces for each blank, ends of each line, or answers to a question, "
        "default 5; or translations, default 1.",
    )
    beam: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="Of a translation: how many beginnings are kept at every length; default 4, "
        "1 takes the likeliest token each time.",
    )
    align: bool = Field(
        default=False,
        description="Of a translation: which word of the source each word comes from.",
    )
    tokens: int | None = Field(
        default=None,
        ge=1,
        description="New tokens of a text that is continued, at most; default 50, or half of the "
        "room; of a translation 256.",
    )
    temperature: float | None = Field(
        default=None,
        ge=0,
        description="0, the default, takes the likeliest token each time; above 0 tokens are "
        "drawn.",
    )
    top_k: int | None = Field(
        default=None, ge=1, description="Draw among the so many likeliest tokens."
    )
    top_p: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Draw among the fewest tokens that have this share of the probability.",
    )
    stop: list[str] = Field(
        default_factory=list,
        description="A text before which a continuation ends; may be given again.",
    )
    seed: int | None = Field(default=None, ge=0, description="Of the draws; default 0.")
    long: Long | None = Field(
        default=None,
        description="A text too long for the model: cut, slide (default of --score), error; "
        "default: as taught.",
    )
    field: Annotated[str | None, Option(names=("--text",))] = Field(
        default=None,
        description="The field or column with the text, several joined: subject,body; "
        "default: as trained, or text.",
    )
    second: SecondColumn = None
    pair: str | None = Field(
        default=None,
        description="The second text of TEXT: does it follow, or what a model of pairs says.",
    )
    question: str | None = Field(
        default=None, description="A question that --context answers, in place of a file."
    )
    context: str | None = Field(
        default=None, description="The text that a question, or options, are about."
    )
    choices: Annotated[list[str], Option(names=("--choice",))] = Field(
        default_factory=list,
        description="An option to choose from after --context; given once for each.",
    )
    encoding: Encoding = None
    form: Format = None
    threads: Threads = None
    as_lines: Annotated[bool, Option(names=("--json",))] = Field(
        default=False, description="Print JSON lines instead of a table."
    )
    force: Force = False


class ViewSettings(Settings):
    """Options of `firth view`."""

    words: Annotated[list[str], Option(argument=True, metavar="MODEL... FILE|TEXT | RUN...")] = (
        Field(
            default_factory=list,
            description="A model folder and a text in quotes, of which a page is written; "
            "or language models and a file with one text a line, or -; or runs, OUT.run or OUT.",
        )
    )
    projector: bool = Field(
        default=False, description="Of a model and a file: draw its texts as points on two axes."
    )
    sought: Annotated[str | None, Option(names=("--words",))] = Field(
        default=None,
        description="Of a model and a file: draw these words, in each of their sentences, as "
        "points: bank,river.",
    )
    axes: Literal["pca", "umap"] | None = Field(
        default=None,
        description="Of points: principal components alone, or UMAP too; by default UMAP where "
        "umap-learn is installed.",
    )
    pair: str | None = Field(
        default=None,
        description="A second text, read after the first; of a translator the target to look at, "
        "by default its own translation.",
    )
    with_model: bool = Field(
        default=False,
        description="Put a small BERT into the page, which follows what is typed there.",
    )
    example: str | None = Field(
        default=None,
        description="A picture of textbooks by its name, of a model where it needs one; "
        "list names all.",
    )
    data: Annotated[str | None, Option(path=True)] = Field(
        default=None,
        description="A file of examples, as evaluate reads it: a page of how good the model is.",
    )
    target: Target = None
    second: SecondColumn = None
    label: LabelColumn = None
    missing: Missing = Field(default_factory=list)
    out: Annotated[str | None, Option(names=("-o", "--out"), path=True)] = Field(
        default=None,
        description="The page to write, an .html file; of a text or runs by default view.html.",
    )
    follow: bool = Field(
        default=False,
        description="Of runs: serve the page on this machine, and show what they note as it comes.",
    )
    port: int | None = Field(
        default=None, ge=1, le=65535, description="Of --follow; by default any that is free."
    )
    field: Annotated[str | None, Option(names=("--text",))] = Field(
        default=None,
        description="The field or column with the text, several joined: subject,body; "
        "default: text, or of --data as trained.",
    )
    encoding: Encoding = None
    form: Format = None
    long: MeasuredLong = Field(
        default=None, description="Of --data: a text too long for the model, as evaluate has it."
    )
    threads: Threads = None
    as_json: Annotated[bool, Option(names=("--json",))] = Field(
        default=False,
        description="Print how far back language models look, or the numbers of an example, "
        "as one JSON object; write no page of a text.",
    )
    force: Force = False


class NeighboursSettings(Settings):
    """Options of `firth neighbours`."""

    model: Annotated[str, Option(argument=True)] = Field(
        description="A folder of word vectors or of another model; its embedding table is read."
    )
    words: Annotated[list[str], Option(argument=True, metavar="WORD...")] = Field(
        description="The words to find neighbours of."
    )
    analogy: bool = Field(
        default=False, description="Of three words a b c: what is to c as b is to a."
    )
    similarity: bool = Field(
        default=False, description="Of two words: the cosine of their vectors."
    )
    top: int = Field(default=10, ge=1, le=1000, description="How many neighbours.")
    into: str | None = Field(
        default=None, description="A second model: neighbours among its words, by --map."
    )
    mapping: Annotated[str | None, Option(names=("--map",), path=True)] = Field(
        default=None, description="The map to it, a folder that firth align made."
    )
    by: Literal["linear", "network"] | None = Field(
        default=None, description="Which of the folder's two maps; default linear."
    )
    threads: Threads = None
    as_json: Json = False

    @model_validator(mode="after")
    def _fits(self) -> "NeighboursSettings":
        count = len(self.words)
        if (self.analogy or self.similarity) and (self.into or self.mapping or self.by):
            raise ValueError("--into, --map and --by are for neighbours of words alone")
        if self.analogy and self.similarity:
            raise ValueError("--analogy and --similarity ask for different things; say one of them")
        if self.analogy and count != 3:
            raise ValueError(f"--analogy takes three words, a b c; there are {count}")
        if self.similarity and count != 2:
            raise ValueError(f"--similarity takes two words; there are {count}")
        return self


class AlignSettings(Settings):
    """Options of `firth align`."""

    source: Annotated[str, Option(argument=True, metavar="A")] = Field(
        description="A folder with vectors of words."
    )
    target: Annotated[str, Option(argument=True, metavar="B")] = Field(
        description="Another, of another language: the map leads from A to B."
    )
    dictionary: Annotated[str, Option(path=True)] = Field(
        description="Words of A with their translations in B, two columns, to fit the map on."
    )
    out: Annotated[str, Option(names=("-o", "--out"), path=True)] = Field(
        description="The folder of the map."
    )
    test: Annotated[str | None, Option(path=True)] = Field(
        default=None,
        description="Words and translations to measure on; by default a tenth of the words of "
        "--dictionary, which are held out.",
    )
    seed: Annotated[Seed, Field(lt=1 << 62)] = 1
    threads: Threads = None
    as_json: Json = False
    force: Force = False


class GlueSettings(Settings):
    """Options of `firth glue`."""

    folder: Annotated[str, Option(argument=True, metavar="DIR", path=True)] = Field(
        description="A folder with the tasks of GLUE or SuperGLUE, a folder each."
    )
    model: str = Field(description="A model folder, or minilm.")
    out: Annotated[str, Option(names=("-o", "--out"), path=True)] = Field(
        description="The folder of the report: its tables, all models, the answers to test sets."
    )
    tasks: str | None = Field(
        default=None, description="The tasks to measure, by default all: rte,mrpc."
    )
    seeds: int = Field(default=1, ge=1, le=100, description="Train each task with so many seeds.")
    seed: Annotated[Seed, Field(lt=1 << 62)] = 1
    epochs: float | None = Field(
        default=None, gt=0, description="Passes over the examples; by default as finetune has it."
    )
    steps: int | None = Field(
        default=None, gt=0, description="Train for so many steps, in place of --epochs."
    )
    batch: int | None = Field(
        default=None, gt=0, description="Examples in a step; by default as finetune has it."
    )
    rate: float | None = Field(
        default=None, gt=0, lt=1, description="Peak learning rate; by default by the model's width."
    )
    length: int | None = Field(
        default=None, gt=4, description="Tokens of a text; by default what the model's folder says."
    )
    threads: Threads = None
    as_json: Json = False
    resume: Annotated[
        bool, Field(description="Go on with the report: what is finished is not trained again.")
    ] = False
    force: Force = False

    @model_validator(mode="after")
    def _fits(self) -> "GlueSettings":
        if self.steps and self.epochs:
            raise ValueError("--steps and --epochs both say how long to train; say one of them")
        if self.tasks is not None:
            known_tasks(self.tasks)
        return self


class ConvertSettings(Settings):
    """Options of `firth convert`."""

    source: Annotated[str, Option(argument=True, metavar="DIR|FILE", path=True)] = Field(
        description="A checkpoint's folder, or of several in it one, by name or by its .index; "
        "a file of word vectors; or a folder whose word vectors are written to a file."
    )
    out: Annotated[str, Option(names=("-o", "--out"), path=True)] = Field(
        description="The folder to write; of word vectors a .txt, .vec or .bin file."
    )
    case: Literal["lower", "keep"] | None = Field(
        default=None,
        description="Lower the case of text (and of a BERT strip accents), or keep it; "
        "by default as the vocabulary is.",
    )
    form: Annotated[
        Literal["word2vec", "glove", "binary"] | None,
        Option(names=("--format",)),
        Field(
            description="Of a file to write: word2vec's text (.txt, .vec), its binary format "
            "(.bin), or GloVe's text, which has no header; by default as its ending says."
        ),
    ] = None
    as_json: Json = False
    force: Force = False


class DemoSettings(Settings):
    """Options of `firth demo`."""

    minutes: float = Field(default=1.0, ge=0.05, le=60, description="How long to pretrain.")
    kill: bool = Field(
        default=False,
        description="Instead: kill a run three times and show that no bit is lost.",
    )
    files: Annotated[str | None, Option(metavar="DIR", path=True)] = Field(
        default=None,
        description="Instead: write the sample texts and tickets into a folder, to try commands "
        "on.",
    )
    out: Annotated[str | None, Option(names=("-o", "--out"), path=True)] = Field(
        default=None, description="The page with pictures, an .html file; by default demo.html."
    )
    threads: Threads = None
    force: Force = False


class EnvSettings(Settings):
    """Options of `firth env`."""

    as_json: Annotated[bool, Option(names=("--json",))] = Field(
        default=False, description="Print one JSON object."
    )


SETTINGS: dict[str, type[Settings]] = {
    "check": CheckSettings,
    "vocab": VocabSettings,
    "pretrain": PretrainCall,
    "finetune": FinetuneCall,
    "evaluate": EvaluateSettings,
    "embed": EmbedSettings,
    "predict": PredictSettings,
    "view": ViewSettings,
    "neighbours": NeighboursSettings,
    "align": AlignSettings,
    "glue": GlueSettings,
    "convert": ConvertSettings,
    "demo": DemoSettings,
    "env": EnvSettings,
}
UNCONFIGURED = ("demo", "env")  # commands without --config and --set
WITHOUT_PLUGINS = ("vocab", "convert", "demo", "env")  # commands that no task or family changes
