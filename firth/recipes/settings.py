"""What a pretraining run and a fine-tuning are told: each option once, with help and default.

The command line is made from these classes, so that nothing heavy is imported here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from firth.base.arguments import nearest
from firth.base.settings import (
    Column,
    Encoding,
    LabelColumn,
    Missing,
    Option,
    SecondColumn,
    Settings,
    TextColumn,
    Threads,
    one_of,
)
from firth.families import registry
from firth.families.family import Family
from firth.tasks.registry import find_trained, trained_names, trained_tasks

SOME_PIECES = 1000  # in a vocabulary, where it isn't known yet

# What says how to go down a loss, or for how long: nothing to one that counts.
OF_STEPS = (
    *("minutes", "steps", "epochs", "size", "init", "length", "batch", "micro", "rate"),
    *("schedule", "weight_decay", "clip", "dropout", "save_every", "check_every"),
)
OF_TASK: Any = None  # a default only where it is declared: a call has what is usual for its task
# What a fine-tuning has where neither the user nor the task says otherwise.
USUAL = {"micro": 2048, "dropout": 0.1, "smoothing": 0.0, "average": 0.0}
# Options of a new model.
OF_NEW = (
    *("cell", "bidirectional", "vectors", "freeze", "vocab", "size", "vocab_kind", "case"),
    "separate_vocabs",
)
Long = Literal["cut", "slide", "error"]
Schedule = Literal["linear", "constant", "inverse-sqrt"]  # of the learning rate
ModelSetting = int | float | bool | str


def task_names() -> Sequence[str]:
    """Return the names of the tasks that a model can be fine-tuned for."""
    return trained_names()


def model_names() -> Sequence[str]:
    """Return the names of the models that can be pretrained."""
    return registry.names()


def model_setting_names() -> Iterable[str]:
    """Return the settings of new models, of whichever family, that --set reaches."""
    pretrained = [family for family in registry.families() if family.recipe is not None]
    return sorted({name for family in pretrained for name in family.adjustable})


def new_model_setting_names() -> Iterable[str]:
    """Return the same of the models that fine-tuning can begin with new weights."""
    new = [family for family in registry.families() if family.new_size is not None]
    return sorted({name for family in new for name in family.adjustable})


# Options that pretraining and fine-tuning share.
Out = Annotated[
    str,
    Option(names=("-o", "--out"), path=True),
    Field(description="The model folder to write; OUT.run beside it holds the run."),
]
LearningSchedule = Annotated[
    Schedule,
    Field(
        description="The learning rate after its rise: falling in a line to 0, constant, or "
        "falling as the inverse square root of the steps."
    ),
]
Seed = Annotated[int, Field(ge=0, description="Everything that is drawn is a function of it.")]
SaveEvery = Annotated[
    int | None,
    Field(gt=0, description="Steps between checkpoints; by default every five minutes."),
]
Workers = Annotated[int, Field(ge=0, le=64, description="Threads that prepare batches.")]


class PretrainSettings(Settings):
    """What to learn from, what to learn, and for how long."""

    renamed: ClassVar[Mapping[str, str]] = {"precision": "dtype"}

    corpus: Annotated[list[str], Option(argument=True, metavar="CORPUS...", path=True)] = Field(
        description="Files and folders of .txt or .jsonl, also .gz or .zst."
    )
    out: Out
    model: Annotated[str, Option(choices=model_names), one_of(model_names)] = Field(
        default="bert",
        description="An encoder (bert, elmo), a language model: gpt, recurrent, feed-forward, "
        "n-gram, an encoder-decoder: transformer, attention, seq2seq, or word vectors: word2vec, "
        "cbow, glove, bernoulli.",
    )
    minutes: float | None = Field(
        default=None, gt=0, description="Train for so long, from start to saved folder."
    )
    steps: int | None = Field(default=None, gt=0, description="Train for so many steps.")
    epochs: float | None = Field(
        default=None, gt=0, description="Train for so many passes over the text."
    )
    size: Literal["tiny", "mini", "small", "medium", "base", "large"] | None = Field(
        default=None,
        description="By default mini, or with --minutes what fits the time; "
        "of recurrent ones and ffnn small.",
    )
    cell: Literal["lstm", "gru", "tanh"] | None = Field(
        default=None, description="Of an rnn, seq2seq or attention; by default lstm."
    )
    order: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Words of an n-gram (by default 5) and of an ffnn, the next one included (6).",
    )
    output: Literal["full", "classes", "sampled"] | None = Field(
        default=None,
        description="Of an rnn, ffnn or elmo: a score for every word, classes of rare words, "
        "or words drawn.",
    )
    carry: bool = Field(
        default=False,
        description="Of a gpt: read the text in order, half a length a step, "
        "with the half before in memory.",
    )
    vocab: Annotated[str | None, Option(path=True)] = Field(
        default=None,
        description="A folder from firth vocab; by default one is learned from the text.",
    )
    # None is auto, so that runs without it go on.
    split: Literal["auto", "punctuation", "spaces"] | None = Field(
        default=None,
        description="Of a vocabulary of words that is learned: at spaces, or also at punctuation; "
        "by default auto.",
    )
    init: Annotated[str | None, Option(metavar="MODEL")] = Field(
        default=None, description="Go on from a model folder, or minilm."
    )
    dev: Annotated[str | None, Option(path=True)] = Field(
        default=None, description="Text to measure on; by default the last documents are held out."
    )
    length: int | None = Field(
        default=None,
        ge=5,  # a BERT reads a token of each of two texts, and three special ones
        le=8192,
        description="Tokens of a text, by default 128; of what an rnn or ffnn reads in a step, 35.",
    )
    batch: int | None = Field(
        default=None, gt=0, description="Tokens in a step, over all processes."
    )
    micro: int = Field(
        default=4096,
        gt=0,
        description="Tokens in memory at once; a step is split into as many pieces as it takes.",
    )
    rate: float | None = Field(
        default=None, gt=0, lt=1, description="Peak learning rate; by default by size."
    )
    schedule: LearningSchedule = "linear"
    weight_decay: float | None = Field(
        default=None, ge=0, lt=1, description="By default 0.01; of rnn, ffnn and elmo 0."
    )
    clip: float | None = Field(
        default=None,
        gt=0,
        description="The largest norm of a step's gradient; by default 1, of rnn and ffnn 0.25.",
    )
    dropout: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="While training; by default 0, gpt and elmo 0.1, ffnn 0.2, rnn 0.4.",
    )
    nsp: bool = Field(
        default=True, description="Also learn whether the second text follows the first."
    )
    whole_words: bool = Field(default=False, description="Hide whole words instead of pieces.")
    causal: Annotated[bool, Option(only_set=True)] = Field(
        default=False, description="Of a bert: a token sees only those before it."
    )
    model_settings: Annotated[
        dict[str, ModelSetting], Option(only_set=True, keys=model_setting_names)
    ] = Field(default_factory=dict, description="Sizes of a new model.")
    seed: Annotated[Seed, Field(lt=1 << 63)] = 1
    save_every: SaveEvery = None
    check_every: int | None = Field(
        default=None, gt=0, description="Steps between measurements; by default ten in a run."
    )
    workers: Workers = 1
    dtype: Literal["auto", "fp32", "bf16"] = Field(
        default="auto",
        description="Numbers of the matrix products: bf16 only where it was tried and is faster.",
    )
    timeout: float = Field(
        default=110.0,
        gt=0,
        description="Seconds after which a process of several counts as stuck.",
    )
    threads: Threads = None
    field: Column = "text"
    encoding: Encoding = None

    def is_default(self, name: str) -> bool:
        """Tell whether a setting has its default value."""
        default = type(self).model_fields[name].get_default(call_default_factory=True)
        return bool(getattr(self, name) == default)

    @property
    def family(self) -> Family:
        """Return the record of the model's family."""
        return registry.by_name(self.model)

    @model_validator(mode="after")
    def _ends(self) -> "PretrainSettings":
        of_steps = [f"--{name.replace('_', '-')}" for name in OF_STEPS if not self.is_default(name)]
        if self.family.counts and of_steps:
            raise ValueError(f"an n-gram counts its text once: leave {' and '.join(of_steps)} out")
        ends = [end for end in (self.minutes, self.steps, self.epochs) if end is not None]
        needed = not self.family.counts and self.family.epochs is None
        if len(ends) > 1 or (needed and not ends):
            raise ValueError("say how long to train: --minutes, --steps or --epochs, one of them")
        return self

    @model_validator(mode="after")
    def _begins(self) -> "PretrainSettings":
        family = self.family
        if self.size and self.init:
            raise ValueError(
                "--init takes the size of the model that it begins with; leave --size out"
            )
        if self.size and self.size not in family.sizes:
            sizes = ", ".join(family.sizes)
            raise ValueError(
                f"there is no {self.model} of the size {self.size}; there are: {sizes}"
            )
        if self.init and self.vocab and not family.moves_vocabulary:
            raise ValueError(f"a {self.model} goes on with its own vocabulary: leave --vocab out")
        if self.split and (family.vocabulary != "words" or self.vocab or self.init):
            raise ValueError(
                "--split is for a vocabulary of words that is learned here "
                "(of an ngram, ffnn, rnn, elmo or word vectors, without --vocab and --init)"
            )
        if self.init:
            for name in self.model_settings:
                raise ValueError(f"--init takes the sizes of {self.init}; leave {name} out")
        _refuse_settings(family, self.model_settings)
        if self.model_settings:
            # Sizes that don't fit each other, before any text is read.
            size = self.size or family.default_size
            family.settings_for(size, self.model_settings, vocab=SOME_PIECES, start=0, end=1)
        return self

    @model_validator(mode="after")
    def _own_options(self) -> "PretrainSettings":
        family = self.family
        for name in sorted(family.unused):
            if not self.is_default(name):
                option = f"--{name.replace('_', '-')}"
                raise ValueError(f"{option} means nothing to a {self.model}: leave it out")
        for name in ("cell", "order", "output"):
            if getattr(self, name) is not None and (name not in family.options or self.init):
                *others, last = (one.name for one in registry.with_option(name))
                known = f"{', '.join(others)} or {last}" if others else last
                raise ValueError(
                    f"--{name} is for a new {known}, not for {self.init or self.model}"
                )
        if self.carry and "carry" not in family.options:
            raise ValueError(
                f"--carry is for gpt, not for {self.model}: "
                "an rnn always remembers the text before, others never do"
            )
        if self.causal and ("causal" not in family.options or self.init):
            raise ValueError(f"causal is for a new bert, not for {self.init or self.model}")
        for name in ("nsp", "whole_words"):
            if name not in family.options and not self.is_default(name):
                raise ValueError(f"--no-nsp and --whole-words are for bert, not for {self.model}")
        if wrong := family.complain(self.model_dump()):
            raise ValueError(wrong)
        return self


def _refuse_settings(family: Family, given: Mapping[str, ModelSetting]) -> None:
    """Refuse settings of a new model that its family doesn't have, and wrong values."""
    for name, value in given.items():
        if name not in family.adjustable:
            close = nearest(name, family.adjustable)
            raise ValueError(f"{family.name} has no setting {name!r}{close}")
        family.refuse_value(name, value)


class FinetuneSettings(Settings):
    """What to learn, from what, and how."""

    renamed: ClassVar[Mapping[str, str]] = {"precision": "target_precision"}

    task: Annotated[str, Option(argument=True, choices=task_names), one_of(task_names)] = Field(
        description="Classes, numbers, named spans, answers to questions, multiple choice, or text "
        "to text, as translation is."
    )
    model: str = Field(
        description="A model folder, minilm, or a new model: rnn, mean; of text to text "
        "transformer, attention, seq2seq."
    )
    train: Annotated[str, Option(path=True)] = Field(
        description="Examples: .csv, .tsv, .jsonl, .parquet, CoNLL columns, SQuAD's .json; of text "
        "to text also a file of sources, with --target."
    )
    out: Out
    dev: Annotated[str | None, Option(path=True)] = Field(
        default=None, description="Examples to measure on; by default a tenth is held out."
    )
    target: Annotated[str | None, Option(path=True)] = Field(
        default=None,
        description="Of text to text: a file whose lines are the targets of those of --train.",
    )
    dev_target: Annotated[str | None, Option(path=True)] = Field(
        default=None, description="The same for --dev."
    )
    text: TextColumn = None
    second: SecondColumn = None
    label: LabelColumn = None
    missing: Missing = Field(default_factory=list)
    size: Literal["tiny", "mini", "small", "medium", "base", "large"] | None = Field(
        default=None, description="Of a new model; by default as its family has it."
    )
    cell: Literal["lstm", "gru", "tanh"] | None = Field(
        default=None, description="Of a new rnn, seq2seq or attention; by default lstm."
    )
    bidirectional: bool = Field(
        default=False, description="Of a new rnn: read each text from both ends."
    )
    vectors: Annotated[str | None, Option(metavar="MODEL")] = Field(
        default=None,
        description="Of a new model: a folder with the word vectors to begin with, "
        "and their vocabulary.",
    )
    freeze: bool = Field(default=False, description="Leave these word vectors as they are.")
    vocab: Annotated[str | None, Option(path=True)] = Field(
        default=None,
        description="Of a new model: a folder from firth vocab; "
        "by default a vocabulary is learned from the examples.",
    )
    vocab_kind: Literal["bytes", "wordpiece", "words"] | None = Field(
        default=None,
        description="Of a vocabulary for text to text that is learned; by default bytes, a BPE.",
    )
    case: Literal["lower", "keep"] | None = Field(
        default=None, description="Of such a vocabulary: by default keep."
    )
    separate_vocabs: bool = Field(
        default=False, description="Learn a vocabulary for sources and another for targets."
    )
    model_settings: Annotated[
        dict[str, ModelSetting], Option(only_set=True, keys=new_model_setting_names)
    ] = Field(default_factory=dict, description="Sizes of a new model.")
    features: str | None = Field(
        default=None,
        description="Teach only a head on these layers: 0 is the embedding, -1 the last; "
        "-4..-1 is a range, 1,6 a list.",
    )
    combine: Literal["concat", "sum", "weights"] | None = Field(
        default=None,
        description="How the layers of --features become one vector; "
        "by default by learned weights.",
    )
    head: Literal["linear", "bilstm"] | None = Field(
        default=None,
        description="What reads the layers of --features: one linear layer (the default), "
        "or a biLSTM of two layers below it.",
    )
    new_head: bool = Field(
        default=False,
        description="Initialise a head also where the model has one for this task "
        "and these labels.",
    )
    top: int | None = Field(
        default=None, gt=0, description="Teach only so many layers, the last ones, and the head."
    )
    epochs: float | None = Field(
        default=None,
        gt=0,
        description="Passes over the examples; by default 3, and more where they are few.",
    )
    steps: int | None = Field(
        default=None, gt=0, description="Train for so many steps, in place of --epochs."
    )
    minutes: float | None = Field(
        default=None, gt=0, description="Train until so many minutes have passed since the start."
    )
    batch: int | None = Field(
        default=None,
        gt=0,
        description="Examples in a step; by default 32, and fewer where they are few; of text to "
        "text target tokens, 4096.",
    )
    micro: int = Field(
        default=OF_TASK,
        gt=0,
        description="Tokens in memory at once; by default 2048, of text to text 8192.",
    )
    rate: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Peak learning rate; by default as the model's width asks for.",
    )
    warmup: float = Field(
        default=0.1, ge=0, lt=1, description="Share of the steps in which the rate rises."
    )
    schedule: LearningSchedule = "linear"
    weight_decay: float = Field(
        default=0.01, ge=0, lt=1, description="How much weights shrink, times the learning rate."
    )
    clip: float = Field(default=1.0, gt=0, description="The largest norm of a step's gradient.")
    dropout: float = Field(
        default=OF_TASK,
        ge=0,
        lt=1,
        description="While training; by default 0.1, of text to text 0.3.",
    )
    smoothing: float = Field(
        default=OF_TASK,
        ge=0,
        lt=1,
        description="Of text to text: the probability that label smoothing gives to all words "
        "alike; by default 0.1.",
    )
    average: float = Field(
        default=OF_TASK,
        ge=0,
        le=1,
        description="Keep the average of the weights over this share of the steps so far; by "
        "default 0 for none, of text to text 0.1.",
    )
    length: int | None = Field(
        default=None, gt=4, description="Tokens of a text; by default what the model's folder says."
    )
    long: Long = Field(
        default=OF_TASK,
        description="A text longer than the model reads: cut it, slide over it, or stop; "
        "by default cut, slide for questions.",
    )
    stride: int | None = Field(
        default=None,
        gt=0,
        description="Of questions: tokens that neighbouring windows of a context share, "
        "at most half of it; by default 128.",
    )
    tune_no_answer: bool = Field(
        default=False,
        description="Of questions: choose on the dev set how sure the model must be to answer.",
    )
    balance: bool = Field(
        default=False, description="Let rare classes weigh as much; not for lists of labels."
    )
    select: Annotated[str | None, Option(metavar="METRIC")] = Field(
        default=None,
        description="What the best model has most of; by default accuracy, "
        "with --balance macro_f1.",
    )
    patience: int | None = Field(
        default=None,
        gt=0,
        description="Stop after so many epochs in a row without a better measurement.",
    )
    seeds: int = Field(
        default=1,
        gt=0,
        le=100,
        description="Teach with so many seeds; the best on held-out examples is kept.",
    )
    folds: int | None = Field(
        default=None,
        gt=1,
        le=100,
        description="Measure every example by a model that did not see it; then learn from all.",
    )
    target_precision: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Of classes: answer only where it is right so often; else say unsure.",
    )
    seed: Annotated[Seed, Field(lt=1 << 62)] = 1
    save_every: SaveEvery = None
    workers: Workers = 1
    threads: Threads = None
    encoding: Encoding = None

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, values: Any) -> Any:
        """Let the task say what is usual where nobody says otherwise."""
        name = values.get("task")
        if name not in task_names():
            return values
        task = find_trained(name)
        usual = USUAL | {"long": task.usual_long, **task.usual}
        left = {key: value for key, value in usual.items() if values.get(key) is None}
        return values | left

    @classmethod
    def stored(cls, values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        """Return settings that an earlier version stored; what it didn't know was as usual."""
        known = super().stored(values, names)
        left = {name: value for name, value in USUAL.items() if known.get(name, 0) is None}
        return known | left

    @field_validator("missing", mode="before")
    @classmethod
    def _words(cls, words: Any) -> Any:
        """Return one word or several in an order of their own: a run is told by which they are."""
        if isinstance(words, str):
            return [words]
        if not isinstance(words, list | tuple | set):
            return words
        if not all(isinstance(word, str) for word in words):
            return words
        return sorted(set(words))

    @model_validator(mode="after")
    def _fits(self) -> "FinetuneSettings":
        if self.top and self.features:
            raise ValueError("--top teaches layers and --features teaches none; say one of them")
        for name in ("combine", "head"):
            if getattr(self, name) and not self.features:
                raise ValueError(
                    f"--{name} is for the layers of --features; say which, or leave it out"
                )
        if self.stride and self.length and 2 * self.stride > self.length:
            raise ValueError(
                f"--stride {self.stride} is more than half of --length {self.length}: "
                "windows share half of their context at most"
            )
        ends = [name for name in ("steps", "epochs", "minutes") if getattr(self, name)]
        if len(ends) > 1:
            both = " and ".join(f"--{name}" for name in ends[:2])
            raise ValueError(f"{both} both say how long to train; say one of them")
        if self.minutes and (self.folds or self.seeds > 1):
            raise ValueError("--minutes is for one training: with --seeds and --folds say --epochs")
        if self.schedule == "inverse-sqrt" and not self.warmup:
            raise ValueError(
                "--schedule inverse-sqrt falls from the end of --warmup: give it a share"
            )
        if self.folds and (self.seeds > 1 or self.dev):
            raise ValueError(
                "--folds measures every example of --train in turn; leave --dev and --seeds out"
            )
        for name in ("patience", "select"):
            if getattr(self, name) and self.folds:
                raise ValueError(
                    f"--{name} needs examples to measure on, "
                    "and with --folds they are kept for the end"
                )
        return self

    @property
    def new_family(self) -> Family | None:
        """Return the family of a new model; None where the model is a folder."""
        return registry.new_family(self.model)

    @model_validator(mode="after")
    def _new_model_fits(self) -> "FinetuneSettings":
        family = self.new_family
        if family is None:
            self._refuse_options_of_new()
            return self
        if self.top or self.features:
            option = "top" if self.top else "features"
            raise ValueError(f"a new {family.name} has learned nothing yet: leave --{option} out")
        for name in ("cell", "bidirectional"):
            if getattr(self, name) and name not in family.finetune_options:
                raise ValueError(f"--{name} is for a new rnn, not for {self.model}")
        contract = find_trained(self.task).contract
        if contract not in family.contracts:
            raise ValueError(f"{self.task} takes an {contract}, which {self.model} is not")
        if self.size and self.size not in family.sizes:
            sizes = ", ".join(family.sizes)
            raise ValueError(
                f"there is no {self.model} of the size {self.size}; there are: {sizes}"
            )
        if self.vectors and self.vocab:
            raise ValueError("--vectors have a vocabulary of their own; leave --vocab out")
        if self.vectors and family.vectors in self.model_settings:
            raise ValueError(f"--vectors say how wide they are: leave {family.vectors} out")
        if self.freeze and not self.vectors:
            raise ValueError("--freeze is for the word vectors of --vectors; say which")
        _refuse_settings(family, self.model_settings)
        return self

    @model_validator(mode="after")
    def _vocabulary_fits(self) -> "FinetuneSettings":
        if self.vocab and (self.vocab_kind or self.case):
            option = "vocab-kind" if self.vocab_kind else "case"
            raise ValueError(f"--vocab is learned already; leave --{option} out")
        if self.vocab and self.separate_vocabs:
            raise ValueError("--vocab is one for both sides; leave --separate-vocabs out")
        if self.case == "lower" and self.vocab_kind in (None, "bytes"):
            raise ValueError(
                "--case lower is for --vocab-kind wordpiece or words: bytes keep the case"
            )
        return self

    def _refuse_options_of_new(self) -> None:
        """Refuse what only a new model can be told."""
        given = [f"--{name.replace('_', '-')}" for name in OF_NEW if getattr(self, name)]
        given += [f"--set {name}" for name in self.model_settings]
        if given:
            new = " or ".join(registry.new_names(find_trained(self.task).contract))
            raise ValueError(f"{given[0]} is for a new {new}, not for {self.model}")

    @model_validator(mode="after")
    def _task_fits(self) -> "FinetuneSettings":
        task = find_trained(self.task)
        known = [metric for metrics in task.selectable.values() for metric in metrics]
        for name in sorted(task.unused):
            if getattr(self, name) != type(self)._default(name):
                option = f"--{name.replace('_', '-')}"
                raise ValueError(f"{option} means nothing to {self.task}: leave it out")
        if self.dev_target and not self.dev:
            raise ValueError("--dev-target goes with --dev: the sources of its lines")
        if self.target and self.dev and not self.dev_target:
            raise ValueError(
                "--target names the targets of --train: name those of --dev with --dev-target"
            )
        if self.select is not None and self.select not in known:
            raise ValueError(
                f"--select {self.select} is no metric of {self.task}; "
                f"there are: {', '.join(dict.fromkeys(known))}"
            )
        for other in trained_tasks().values():
            for name, what in other.options.items():
                if getattr(self, name) and name not in task.options:
                    option = f"--{name.replace('_', '-')}"
                    raise ValueError(f"{option} is for {what}; leave it out of {self.task}")
        return self
