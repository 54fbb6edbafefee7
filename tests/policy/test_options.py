"""An option is declared once, each new one is a decision, and a wrong one is refused at once."""

import inspect
import json
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic_core import PydanticUndefined

from firth.base.settings import Settings
from firth.cli.main import COMMANDS, make_app
from firth.cli.options import only_set
from firth.cli.settings import (
    SETTINGS,
    AlignSettings,
    CheckSettings,
    ConvertSettings,
    EmbedSettings,
    EvaluateSettings,
    GlueSettings,
    NeighboursSettings,
    PredictSettings,
    ViewSettings,
    VocabSettings,
)
from firth.recipes.options import FinetuneOptions, PretrainOptions
from firth.recipes.settings import FinetuneSettings, PretrainSettings

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("options.txt")
HEAVY = ("torch", "numpy", "tokenizers", "scipy")


def commands() -> dict[str, Any]:
    """Every command with its options, as typer has them."""
    return typer.main.get_command(make_app(COMMANDS)).commands  # type: ignore[attr-defined,no-any-return]


def listed() -> Iterator[str]:
    """The options of every command, with their defaults."""
    for name, command in commands().items():
        yield name
        for parameter in command.params:
            typed = " ".join([*parameter.opts, *parameter.secondary_opts])
            default = "required" if parameter.required else repr(parameter.default)
            earlier = "  (earlier name)" if getattr(parameter, "hidden", False) else ""
            yield f"    {typed:24} {default}{earlier}"
        for key in sorted(only_set(SETTINGS[name])):
            yield f"    --set {key}="


def test_a_new_option_is_a_decision() -> None:
    command = "python -m tests.policy.test_options > tests/policy/options.txt"
    found = "".join(f"{line}\n" for line in listed())
    assert found == LISTED.read_text(), f"if that is meant: {command}"


def test_every_option_has_help_and_every_command_an_example() -> None:
    for name, command in commands().items():
        assert f"Example: firth {name}" in command.help
        for parameter in command.params:
            assert getattr(parameter, "hidden", False) or parameter.help, (name, parameter.name)
        assert command.params[-1].opts == ["--debug"]


def plain(kind: Any) -> Any:
    """A type without what only the command line reads, and with a path as a string."""
    arguments = [plain(one) for one in typing.get_args(kind) if one is not Path]
    if typing.get_origin(kind) is typing.Annotated:
        return arguments[0]
    if typing.get_origin(kind) in (typing.Union, type(int | None)):
        return typing.Union[tuple(arguments)]  # noqa: UP007
    return kind


@pytest.mark.parametrize(
    ("options", "known", "positional"),
    [
        (PretrainOptions, PretrainSettings, {"corpus", "out"}),
        (FinetuneOptions, FinetuneSettings, {"task", "model", "train", "out"}),
    ],
)
def test_an_editor_knows_every_option(
    options: type, known: type[Settings], positional: set[str]
) -> None:
    hints = typing.get_type_hints(options)
    if known is PretrainSettings:
        assert hints.pop("text") == str | None  # another name of `field`
    assert set(hints) == set(known.model_fields) - positional
    for name, hint in hints.items():
        if name != "missing":  # one word, too
            assert plain(hint) == plain(known.model_fields[name].annotation), name


def functions() -> list[tuple[Callable[..., Any], type[Settings], set[str]]]:
    """The Python function of a command, its settings, and the options that only the command has."""
    from firth.verbs.align import align
    from firth.verbs.check import check
    from firth.verbs.convert import convert
    from firth.verbs.curves import curves
    from firth.verbs.embed import embed
    from firth.verbs.evaluate import evaluate
    from firth.verbs.glue import glue
    from firth.verbs.neighbours import neighbours
    from firth.verbs.predict import predict
    from firth.verbs.projector import projector
    from firth.verbs.report import report
    from firth.verbs.view import example, gradients, view
    from firth.verbs.vocab import vocab

    of_a_file = ("field", "encoding", "form")
    of_examples = ("data", "target", "second", "label", "missing", "long")
    of_all = ("words", "as_json", "example")
    of_a_text = ("pair", "with_model")
    of_runs = ("follow", "port")
    of_points = ("projector", "sought", "axes")
    return [
        (align, AlignSettings, {"as_json"}),
        (check, CheckSettings, {"as_json"}),
        (convert, ConvertSettings, {"as_json"}),
        (embed, EmbedSettings, set()),
        (evaluate, EvaluateSettings, {"as_json"}),
        (glue, GlueSettings, {"as_json"}),
        (neighbours, NeighboursSettings, {"analogy", "similarity", "as_json"}),
        (predict, PredictSettings, {"as_lines"}),
        (
            curves,
            ViewSettings,
            {*of_all, *of_a_text, *of_a_file, *of_runs, *of_points, *of_examples, "threads"},
        ),
        (
            projector,
            ViewSettings,
            {*of_all, *of_a_text, *of_runs, *of_examples, "projector", "sought"},
        ),
        (report, ViewSettings, {*of_all, *of_a_text, *of_runs, *of_points, "field"}),
        (
            example,
            ViewSettings,
            {*of_all, *of_a_text, *of_a_file, *of_runs, *of_points, *of_examples},
        ),
        (gradients, ViewSettings, {*of_all, *of_a_text, *of_runs, *of_points, *of_examples}),
        (view, ViewSettings, {*of_all, *of_a_file, *of_runs, *of_points, *of_examples}),
        (vocab, VocabSettings, {"as_json"}),
    ]


def test_a_function_has_the_options_of_its_command() -> None:
    for function, known, own in functions():
        signature = inspect.signature(function, eval_str=True).parameters
        keywords = {
            name: parameter
            for name, parameter in signature.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }
        if function.__name__ in ("vocab", "report"):
            del keywords["text"]  # another name of `field`
        if function.__name__ == "predict":
            del keywords["orders"]  # which the command sets by --json
        if function.__name__ == "projector":
            del keywords["words"]  # which the command has as one string with commas
        fields = {
            name: field
            for name, field in known.model_fields.items()
            if name not in own and (name not in signature or name in keywords)
        }
        assert set(fields) == set(keywords), function
        for name, field in fields.items():
            default = field.get_default(call_default_factory=True)
            assert default is not PydanticUndefined
            given = keywords[name].default
            assert (list(given) if isinstance(given, tuple) else given) == default, name


WRONG = {
    "finetune": "Missing",
    "finetune sort --model m --train t -o o": "'sort' is not one of",
    "finetune clasify --model m --train t -o o": "'translate'; did you mean 'classify'?",
    "pretrain text -o o --steps 3 --model wrod2vec": "did you mean 'word2vec'?",
    "finetune classify --model m --train t -o o --epochs 0": "--epochs: Input should be greater",
    "finetune classify --model m --train t -o o --epoch 3": "No such option: --epoch",
    "finetune classify --model m --train t -o o --top 1 --features -1": "say one of them",
    "finetune classify --model m --train t -o o --head bilstm": "is for the layers of --features",
    "finetune classify --model m --train t -o o --features 0 --head lstm": "--head",
    "finetune classify --model m --train t -o o --steps 3 --epochs 1": "say one of them",
    "finetune classify --model m --train t -o o --folds 5 --seeds 2": "leave --dev and --seeds out",
    "finetune classify --model m --train t -o o --rate high": "--rate",
    "finetune classify --model m --train t -o o --clip 0": "--clip: Input should be greater",
    "finetune regress --model m --train t -o o --balance": "is for classes",
    "finetune tag --model m --train t -o o --select pearson": "is no metric of tag",
    "glue data --model m -o o --steps 3 --epochs 1": "say one of them",
    "glue data --model m -o o --tasks rte,imdb": "there is no task 'imdb' to measure; there are:",
    "glue data --model m -o o --tasks rte,mprc": "no task 'mprc' to measure; did you mean 'MRPC'?",
    "pretrain text -o o": "say how long to train",
    "pretrain text -o o --model ngram --steps 3": "an n-gram counts its text once",
    "pretrain text -o o --steps 3 --set depht=3": "did you mean 'depth'?",
    "pretrain text -o o --steps 3 --set depth": "--set takes key=value",
    "pretrain text -o o --steps 3 --model rnn --set heads=3": "rnn has no setting 'heads'",
    "pretrain text -o o --steps 3 --model gpt --set causal=true": "causal is for a new bert",
    "pretrain text -o o --steps 3 --config no-such.toml": "no-such.toml can't be read",
    "check data.csv --task sort": "'sort' is not one of",
    "convert ckpt -o o --case upper": "'upper' is not one of",
    "convert v.txt -o v --format gensim": "'gensim' is not one of",
    "embed m --pool sum": "'sum' is not one of",
    "evaluate m --long whole": "'whole' is not one of",
    "evaluate nowhere.jsonl": "'nowhere.jsonl' is no file; name one with --data",
    "neighbours v a b --analogy": "--analogy takes three words, a b c; there are 2",
    "neighbours v a --similarity": "--similarity takes two words; there are 1",
    "neighbours v a b c --analogy --similarity": "say one of them",
    "neighbours v a --top 0": "--top",
    "neighbours v a b --similarity --by network": "are for neighbours of words alone",
    "align a b -o map": "--dictionary",
    "predict m --top 0": "--top",
    "predict m --target-precision 1": "--target-precision: Input should be less than 1",
    "view m text --threads 0": "--threads",
    "view m.run --follow --port 70000": "--port",
    "view m.run --follow -o page.html": "--follow serves the page",
    "view m.run --follow --pair text": "--pair is for one model and a text",
    "view --follow": "which run?",
    "view --example bnak": "there is no example 'bnak'; did you mean 'bank'?",
    "demo --minutes 100": "--minutes",
}
MISSING = {
    "finetune classify --model m --train t -o o": "there is no model folder 'm'",
    "evaluate m --data nowhere.jsonl": "there is no file 'nowhere.jsonl'",
    "evaluate m --data .": "there is no model folder 'm'",
    "pretrain nowhere.txt -o o --steps 3": "there is no file 'nowhere.txt'",
    "pretrain . -o o --steps 3 --dev nowhere.txt": "there is no file 'nowhere.txt'",
    "pretrain . -o o --steps 3 --init m": "there is no model folder 'm'",
}
PROGRAM = f"""
import contextlib, io, json, sys, time
from firth.cli.main import main
found = []
for call in json.load(sys.stdin):
    sys.argv, said, begun = ["firth", *call.split()], io.StringIO(), time.process_time()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        main()
    found.append([said.getvalue(), time.process_time() - begun])
print(json.dumps([found, [name for name in {HEAVY} if name in sys.modules]]))
"""


@pytest.mark.parametrize("calls", [WRONG, MISSING], ids=["wrong", "missing"])
def test_a_wrong_call_is_refused_at_once(calls: dict[str, str], tmp_path: Path) -> None:
    """Within a second of the processor's time each, the first of which imports; without torch."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(list(calls)),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
    )
    answers, heavy = json.loads(ended.stdout)
    for (call, complaint), (said, seconds) in zip(calls.items(), answers, strict=True):
        assert complaint in said, (call, said)
        assert said.startswith("firth: ")
        assert said.count("\n") == 1, (call, said)
        assert seconds < 1, call
    # Files are opened by what numpy is part of.
    assert heavy == ([] if calls is WRONG else ["numpy"])
    assert not list(tmp_path.iterdir())


if __name__ == "__main__":
    assert set(SETTINGS) == set(COMMANDS)
    print("\n".join(listed()))
