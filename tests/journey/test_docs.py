"""What the pages show is what happens: their commands and their Python run, and print what the page prints.

A page's blocks run in order in an empty folder that holds a small `my-bert/`. Python whose first line is a comment with
the name of a file is saved as that file. A page may leave out the end of a number or a
part of the output with `...`; a comment behind `print(...)` is what it prints.
"""

import doctest
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch

from firth import plugins
from firth.families import registry as families
from firth.tasks import registry as tasks
from tests.journey.command import run

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
PAGES_WITH_EXAMPLES = (
    "align",
    "answer",
    "check",
    "choice",
    "convert",
    "embed",
    "env",
    "evaluate",
    "finetune",
    "folder",
    "glue",
    "language",
    "neighbours",
    "plugins",
    "predict",
    "pretrain",
    "python",
    "recipes",
    "services",
    "story",
    "vectors",
    "view",
    "vocab",
)
# Other commands of a page that are run: they make and show small files and need nothing installed.
TOOLS = ("cat", "cp", "head", "ls", "mkdir", "printf", "rm", "wc")
SENTENCES = (
    "paris is the capital of france .",
    "rome is the capital of italy .",
    "stockholm is the capital of sweden .",
    "the cat sat on the mat .",
    "the dog slept on the sofa .",
    "we drank tea in the garden .",
)


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    text: str


class Step(NamedTuple):
    """A command of a console block and what the page shows after it."""

    command: str
    shown: str


def blocks(page: str) -> list[Block]:
    """The console and Python blocks of a page, in order."""
    return [
        Block(*found)
        for found in re.findall(r"^```(console|python)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ]


def steps(block: str) -> list[Step]:
    """The commands of a console block."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert not parts[0], f"a console block begins with output: {parts[0]!r}"
    return [Step(*part.partition("\n")[::2]) for part in parts[1:]]


def same(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, `...` standing for anything; progress is printed on slow machines only."""
    lasting = re.sub(r"^training: .* left\n", "", printed, flags=re.MULTILINE)
    return doctest.OutputChecker().check_output(shown, lasting, doctest.ELLIPSIS)


class Reader:
    """Somebody who types what a page says, in one process so that torch is imported once."""

    def __init__(self) -> None:
        self.code = 0
        self.names: dict[str, Any] = {}

    def follow(self, page: str) -> int:
        """Run a page and compare; return how many commands and programs there were."""
        count = 0
        for block in blocks(page):
            if block.kind == "python":
                self.python(block.text)
                count += 1
                continue
            commands = steps(block.text)
            for number, (command, shown) in enumerate(commands, 1):
                printed = self.shell(command)
                assert same(shown, printed), (
                    f"$ {command}\n--- shown\n{shown}--- printed\n{printed}"
                )
                asked = number < len(commands) and commands[number].command == "echo $?"
                assert self.code == 0 or asked, (
                    f"$ {command}\n{printed}ended with exit code {self.code}"
                )
            count += len(commands)
        return count

    def shell(self, command: str) -> str:
        """Run one command and return what it printed."""
        if command == "echo $?":
            code, self.code = self.code, 0
            return f"{code}\n"
        words = shlex.split(command, comments=True)
        if words[0] == "firth":
            self.code, printed = firth(words[1:])
            return printed
        assert words[0] in TOOLS, f"{words[0]} is not a command that a page may use"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command], check=True, capture_output=True, text=True
        )
        return done.stdout

    def python(self, program: str) -> None:
        """Run a program in the names of those before it and compare what it prints with its comments."""
        file = re.match(r"# (\w+\.py)\n", program)
        if file:
            Path(file[1]).write_text(program)
            return
        shown = "".join(
            f"{line}\n" for line in re.findall(r"^ *print\(.*\)  # (.*)$", program, re.MULTILINE)
        )
        screen = io.StringIO()
        with redirect_stdout(screen):
            exec(program, self.names)
        assert same(shown, screen.getvalue()), f"{program}--- printed\n{screen.getvalue()}"


def firth(words: list[str]) -> tuple[int, str]:
    """Run the command line in this process; a word `<` gives it the next word's file to read."""
    source = b""
    if "<" in words:
        at = words.index("<")
        source = Path(words[at + 1]).read_bytes()
        words = words[:at] + words[at + 2 :]
    with fresh_registries():
        ended = run(*words, stdin=source)
    return ended.code, ended.out + ended.err


@contextmanager
def fresh_registries() -> Iterator[None]:
    """Forget afterwards what was registered, as if it had been in a process of its own."""
    with (
        mock.patch.dict(tasks._registered),
        mock.patch.dict(families._known),
        mock.patch.object(plugins, "_read", set()),
    ):
        yield


@pytest.fixture(scope="module")
def my_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT of transformers' making that has learnt six sentences by heart."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    folder = tmp_path_factory.mktemp("models")
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *sorted({word for line in SENTENCES for word in line.split()}),
    ]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"))
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    with torch.random.fork_rng(), one_thread():
        torch.manual_seed(0)
        model = BertForMaskedLM(
            BertConfig(vocab_size=len(words), max_position_embeddings=64, **sizes)
        ).eval()
        learn(model, torch.tensor(tokenizer(list(SENTENCES))["input_ids"]), tokenizer.mask_token_id)
    model.save_pretrained(folder / "my-bert")
    tokenizer.save_pretrained(folder / "my-bert")
    return folder / "my-bert"


@contextmanager
def one_thread() -> Iterator[None]:
    """More than one would wait for each other, with tensors as small as these."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def learn(model: Any, lines: torch.Tensor, mask: int, rounds: int = 120) -> None:
    """MaskedObjective every two words of each line and learn to name them."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    pairs = torch.combinations(torch.arange(1, lines.shape[1] - 1), with_replacement=True)
    places = pairs.repeat(len(lines), 1)
    whole = lines.repeat_interleave(len(pairs), 0)
    rows = whole.scatter(1, places, mask)
    for _ in range(rounds):
        logits = model(input_ids=rows).logits
        torch.nn.functional.cross_entropy(logits[rows == mask], whole[rows == mask]).backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("name", PAGES_WITH_EXAMPLES)
def test_a_page_is_true(
    name: str, my_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my-bert").symlink_to(my_bert)
    with fresh_registries():
        assert Reader().follow(PAGES[name]) >= 1
    for module in [path.stem for path in tmp_path.glob("*.py")]:
        sys.modules.pop(module, None)


def test_other_pages_show_no_commands_of_firth() -> None:
    for name, page in PAGES.items():
        if name not in (
            *PAGES_WITH_EXAMPLES,
            "demo",
        ):  # the demo's page stands beside the demo's own test
            commands = [
                step.command
                for block in blocks(page)
                if block.kind == "console"
                for step in steps(block.text)
            ]
            assert not [command for command in commands if command.startswith("firth")], (
                f"{name}.md is not run"
            )


def options(verb: str) -> set[str]:
    """The options that `firth VERB --help` lists."""
    code, printed = firth([verb, "--help"])
    assert code == 0
    return set(re.findall(r"--[a-z][a-z-]*", printed)) - {"--help"}


@pytest.mark.parametrize(
    "verb",
    [
        "align",
        "check",
        "convert",
        "demo",
        "embed",
        "env",
        "evaluate",
        "finetune",
        "glue",
        "neighbours",
        "predict",
        "pretrain",
        "view",
        "vocab",
    ],
)
def test_a_page_lists_every_option(verb: str) -> None:
    first_cells = re.findall(r"^\| (`-[^|]*) \|", PAGES[verb], re.MULTILINE)
    told = set(re.findall(r"--[a-z-]+", " ".join(first_cells)))
    assert told == options(verb)


def test_a_wrong_page_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for page in (
        "```console\n$ firth env --json\nsomething else\n```\n",
        "```console\n$ firth embed minilm nowhere.txt\n...\n```\n",
        "```console\n$ shutdown now\n```\n",
        "```python\nprint(1)  # 2\n```\n",
    ):
        with pytest.raises(AssertionError):
            Reader().follow(page)
