"""Whatever is wrong with a call, a text or a folder: one clear sentence, the right exit code, and nothing half-written."""

import errno
import gzip
import io
import json
import os
import pickle
import random
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from firth.base.errors import InputError
from firth.folders.find import check_sums
from firth.folders.read import load
from firth.folders.write import save
from tests.conftest import count
from tests.journey.command import Ended, listing, run, spawn
from tests.journey.warm import Warm
from tests.unit.folders import Folder, sound_folders, write


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models gain nothing from a second thread, and two threads on a busy machine wait for each other."""
    monkeypatch.setattr("firth.cli.options.usual", lambda: 1)


def refused(ended: Ended, *said: str, code: int = 2) -> None:
    """One sentence on standard error and nothing else anywhere."""
    assert ended.out == ""
    assert re.fullmatch(r"firth: [^\n]{10,2010}\n", ended.err), ended.err
    assert "Traceback" not in ended.err
    assert "defect" not in ended.err
    assert ended.code == code, ended
    for words in said:
        assert words in ended.err, f"{words!r} is not in {ended.err!r}"


@pytest.fixture(scope="module")
def sound() -> dict[str, Folder]:
    return sound_folders()


@pytest.fixture
def model(sound: dict[str, Folder], tmp_path: Path) -> Path:
    """A folder with a head for hidden words, very small."""
    return write(tmp_path / "model", sound["masked"])


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("the cat .\na [MASK] b\n")
    return path


# The call


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["embd"], "embd"),
        (["--embed"], "--embed"),
        (["embed"], "model"),
        (["embed", "minilm", "--pol", "mean"], "--pol"),
        (["embed", "minilm", "--pool", "median"], "'mean', 'cls', 'max', 'words', 'none'"),
        (["embed", "minilm", "--combine", "mix"], "concat"),
        (["embed", "minilm", "--long", "ignore"], "slide"),
        (["embed", "minilm", "--threads", "0"], "--threads"),
        (["embed", "minilm", "--threads", "many"], "--threads"),
        (["embed", "minilm", "--layers"], "--layers"),
        (["embed", "minilm", "-", "more"], "more"),
        (["predict", "minilm", "--top", "0"], "--top"),
        (["predict", "minilm", "--top", "1001"], "--top"),
        (["env", "x"], "x"),
        (["embed", "minilm", "-o", "vectors.csv"], ".npy, .jsonl or .parquet"),
        (["embed", "minilm", "-o", "vectors"], ".npy, .jsonl or .parquet"),
    ],
)
def test_a_wrong_call(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(run(*words), said)
    assert listing(tmp_path) == {}


def test_a_wrong_call_of_a_process() -> None:
    refused(spawn("embd"), "No such command 'embd'")
    refused(spawn("embed", "absent/"), "absent/")
    shown = spawn()
    assert (shown.code, shown.err) == (2, "")
    assert "embed" in shown.out


def test_debug_shows_where(tmp_path: Path) -> None:
    for words in (
        ["embed", tmp_path / "absent", "--debug"],
        ["--debug", "embed", tmp_path / "absent"],
        ["embd", "--debug"],
    ):
        ended = run(*words)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith("Traceback (most recent call last):")
        assert re.fullmatch(r"firth: [^\n]+", ended.err.splitlines()[-1])


def test_a_defect_is_called_one_and_is_one_sentence_too(
    model: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("first line\nsecond line")

    monkeypatch.setattr("firth.verbs.embed.embed", fail)
    ended = run("embed", model, texts)
    assert (ended.code, ended.out) == (1, "")
    assert (
        ended.err
        == "firth: ZeroDivisionError: first line second line (this is a defect; --debug shows where)\n"
    )


# The folder


@pytest.mark.parametrize("verb", ["embed", "predict"])
def test_a_folder_that_is_none(verb: str, texts: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    before = listing(tmp_path)
    out = ["-o", tmp_path / "out.jsonl"]
    refused(run(verb, tmp_path / "absent", texts, *out), "there is no model folder", "minilm")
    refused(run(verb, texts, texts, *out), "but a file", f"firth convert {texts} -o NEW")
    refused(run(verb, "x" * 5000, texts, *out), "there is no model folder")
    refused(run(verb, "", texts, *out))
    refused(run(verb, tmp_path / "empty", texts, *out), "empty")
    assert listing(tmp_path) == before


@pytest.mark.parametrize("name", ["texts.txt", "rows.csv", "rows.jsonl", "rows.json"])
def test_a_file_without_rows_is_said(name: str, model: Path, tmp_path: Path) -> None:
    empty = tmp_path / name
    empty.write_bytes(b"")
    for verb in ("embed", "predict"):
        for source in (empty, "-"):
            ended = run(verb, model, source)
            assert (ended.code, ended.out) == (0, "")
            assert ended.err.startswith("note: ")
            assert "holds no rows: there is nothing to" in ended.err
    checked = run("check", empty)
    assert checked.code == 2
    assert "holds no rows" in checked.out + checked.err


def test_a_vocabulary_that_does_not_fit_the_weights(
    sound: dict[str, Folder], texts: Path, tmp_path: Path
) -> None:
    page = json.loads(sound["masked"]["tokenizer.json"])
    page["model"]["vocab"]["word"] = len(page["model"]["vocab"])
    folder = write(
        tmp_path / "large", {**sound["masked"], "tokenizer.json": json.dumps(page).encode()}
    )
    refused(run("embed", folder, texts), "large", "15 pieces where the weights have 14")
    longer = {name: data for name, data in sound["masked"].items() if name != "tokenizer.json"}
    longer["vocab.txt"] = longer["vocab.txt"] + b"word\n"
    refused(
        run("embed", write(tmp_path / "longer", longer), texts),
        "longer",
        "15 pieces where the weights have 14",
    )
    config = {**json.loads(sound["masked"]["config.json"]), "vocab_size": 15}
    folder = write(
        tmp_path / "config", {**sound["masked"], "config.json": json.dumps(config).encode()}
    )
    refused(
        run("embed", folder, texts),
        "model.safetensors",
        "word_embeddings.weight has shape [14, 8] where config.json asks for [15, 8]",
    )


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_truncated_file(
    name: str, sound: dict[str, Folder], texts: Path, tmp_path: Path, seed: int
) -> None:
    data = sound["masked"][name]
    for number, at in enumerate(
        [0, 1, 7, 8, 9, len(data) - 1, *random.Random(seed).sample(range(len(data)), 6)]
    ):
        folder = write(tmp_path / f"model{number}", {**sound["masked"], name: data[:at]})
        refused(run("embed", folder, texts, "-o", tmp_path / "out.npy"), name)
    assert not (tmp_path / "out.npy").exists()


def test_any_flipped_bit_of_a_saved_folder_is_found(model: Path, tmp_path: Path, seed: int) -> None:
    saved = save(load(model), tmp_path / "saved")
    check_sums(saved)
    draw = random.Random(seed)
    files = sorted(path for path in saved.rglob("*") if path.is_file())
    assert {"config.json", "model.safetensors", "tokenizer.json", "firth.json", "README.md"} <= {
        path.name for path in files
    }
    for path in files:
        data = path.read_bytes()
        share = (
            count(8 * len(data)) if path.name == "firth.json" else 60
        )  # nothing else vouches for that one
        bits = draw.sample(range(8 * len(data)), share)
        for bit in bits:
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            with pytest.raises(InputError, match=re.escape(str(saved))):
                load(saved)
        path.write_bytes(data)
    load(saved)


def test_a_flipped_bit_is_said(model: Path, texts: Path, tmp_path: Path) -> None:
    saved = save(load(model), tmp_path / "saved")
    data = bytearray((saved / "model.safetensors").read_bytes())
    data[-9] ^= 1
    (saved / "model.safetensors").write_bytes(data)
    refused(run("embed", saved, texts), "model.safetensors was changed or damaged", "sha256")
    (saved / "firth.json").unlink()
    assert run("embed", saved, texts).code == 0  # without the sums it can't be known


class Canary:
    """What a pickle would run if it were opened: making a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.path,)


def zipped(payload: bytes) -> bytes:
    """The archive that torch.save writes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", payload)
        archive.writestr("archive/version", "3\n")
    return file.getvalue()


def pickles(canary: Path) -> dict[str, bytes]:
    """Payloads in every protocol, bare, in torch's archive, and dressed up."""
    found = {}
    for protocol in range(6):
        small = pickle.dumps(Canary(canary), protocol)
        found[f"protocol {protocol}"] = small
        found[f"protocol {protocol} in a zip"] = zipped(small)
        found[f"protocol {protocol} with a table"] = pickle.dumps(
            {"weight": [0.0] * 1000, "canary": Canary(canary)}, protocol
        )
    buffer = io.BytesIO()
    torch.save({"weight": torch.zeros(3), "canary": Canary(canary)}, buffer)
    found["torch"] = buffer.getvalue()
    buffer = io.BytesIO()
    torch.save(
        {"weight": torch.zeros(3), "canary": Canary(canary)},
        buffer,
        _use_new_zipfile_serialization=False,
    )
    found["old torch"] = buffer.getvalue()
    return found


NAMES = ["pytorch_model.bin", "model.safetensors", "weights.pt", "model.pkl", "flair.model"]
OTHERS = [
    "config.json",
    "tokenizer.json",
    "vocab.txt",
    "modules.json",
    "firth.json",
    "model.safetensors.index.json",
]


def test_a_pickle_is_never_opened(sound: dict[str, Folder], texts: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    pickle.loads(pickle.dumps(Canary(canary), 4))
    assert canary.exists()  # the payload is live
    canary.unlink()
    tried = 0
    for kind, payload in pickles(canary).items():
        modern = not kind.startswith(("protocol 0", "protocol 1")) or "zip" in kind
        for name in NAMES:
            bare = {
                key: data for key, data in sound["masked"].items() if key != "model.safetensors"
            }
            folder = write(tmp_path / f"model{tried}", {**bare, name: payload})
            ended = run("embed", folder, texts, "-o", tmp_path / "out.npy")
            said = (
                ["is a pickle", "weights_only=True"] if modern else []
            )  # the two oldest kinds have no mark of their own
            refused(ended, folder.name, *said)
            assert not canary.exists(), (kind, name)
            tried += 1
    for name in OTHERS:
        payload = pickle.dumps(Canary(canary), 4)
        folder = write(
            tmp_path / f"model{tried}",
            {**{k: v for k, v in sound["old"].items() if k != name}, name: payload},
        )
        if name == "model.safetensors.index.json":
            (folder / "model.safetensors").unlink()
        refused(run("embed", folder, texts), name)
        assert not canary.exists(), name
        tried += 1
    assert tried >= 50
    print(f"{tried} pickles")


def test_a_pickle_beside_the_weights_is_left_alone(
    sound: dict[str, Folder], texts: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    folder = write(
        tmp_path / "model",
        {
            **sound["masked"],
            "pytorch_model.bin": pickle.dumps(Canary(canary)),
            "optimizer.pt": zipped(b"x"),
        },
    )
    assert run("embed", folder, texts).code == 0
    assert not canary.exists()


def test_the_advice_for_a_pickle_works(
    sound: dict[str, Folder], texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shlex
    import subprocess
    import sys

    from safetensors.torch import load as unpack

    bare = {key: data for key, data in sound["masked"].items() if key != "model.safetensors"}
    folder = write(tmp_path / "model", bare)
    torch.save(unpack(sound["masked"]["model.safetensors"]), folder / "pytorch_model.bin")
    said = run("embed", folder, texts).err
    command = shlex.split(said.partition("convert it with: ")[2])
    assert command[:2] == ["python", "-c"]
    subprocess.run([sys.executable, *command[1:]], cwd=folder, check=True)
    assert run("embed", folder, texts).code == 0


# The text


def test_a_text_with_nul_bytes(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "nul.txt"
    source.write_bytes(b"the cat\nthe\0cat\n")
    before = listing(tmp_path)
    refused(run("embed", model, source, "-o", tmp_path / "out.npy"), "nul.txt", "NUL")
    refused(run("embed", model, source), "NUL")
    refused(run("embed", model, "-", stdin=source.read_bytes()), "NUL")
    refused(run("predict", model, source), "NUL")
    assert listing(tmp_path) == before


def test_a_text_that_is_not_utf_8(tmp_path: Path, model: Path) -> None:
    source = tmp_path / "old.txt"
    source.write_bytes("Sörmjölet får en ny påse, för övrigt är det gott\n".encode("latin-1") * 20)
    before = listing(tmp_path)
    refused(run("embed", model, source, "-o", tmp_path / "out.npy"), "old.txt", "--encoding cp1252")
    assert listing(tmp_path) == before
    told = run("embed", model, source, "--encoding", "latin-1")
    assert told.code == 0, told.err
    assert (
        json.loads(told.out.split("\n")[0])["text"]
        == "Sörmjölet får en ny påse, för övrigt är det gott"
    )
    refused(
        run("embed", model, source, "--encoding", "latin-one-and-a-half"), "latin-one-and-a-half"
    )


def test_an_input_that_is_not_there(model: Path, tmp_path: Path) -> None:
    before = listing(tmp_path)
    out = tmp_path / "out.jsonl"
    for verb in ("embed", "predict"):
        refused(run(verb, model, tmp_path / "absent.txt", "-o", out), "absent.txt")
        refused(run(verb, model, tmp_path / "absent.jsonl.gz", "-o", out), "absent.jsonl.gz")
        refused(run(verb, model, tmp_path, "-o", out), str(tmp_path))
    refused(run("embed", model, "x" * 5000, "-o", out))
    assert listing(tmp_path) == before


PACKED = gzip.compress(b"the cat\n" * 1000)
DAMAGED = {
    "an object without an end": ("a.jsonl", b'{"text": "a"}\n{"text": \n'),
    "a list": ("a.jsonl", b'{"text": "a"}\n[1]\n'),
    "a number": ("a.jsonl", b'{"text": "a"}\n{"text": 3}\n'),
    "another field": ("a.jsonl", b'{"text": "a"}\n{"other": "b"}\n'),
    "depth": ("a.jsonl", b'{"text": "a"}\n{"text": ' + b"[" * 100_000 + b"\n"),
    "gzip cut short": ("a.txt.gz", PACKED[:-20]),
    "gzip with noise": ("a.txt.gz", PACKED[:20] + b"\xff" * 50),
    "zstandard with noise": ("a.txt.zst", b"\x28\xb5\x2f\xfd" + b"\xff" * 50),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_an_input_that_is_damaged(kind: str, model: Path, tmp_path: Path) -> None:
    name, data = DAMAGED[kind]
    (tmp_path / name).write_bytes(data)
    before = listing(tmp_path)
    said = [name, ":2"] if name == "a.jsonl" else [name]
    refused(run("embed", model, tmp_path / name, "-o", tmp_path / "out.npy"), *said)
    assert listing(tmp_path) == before


def test_a_pipe_without_a_writer_is_not_waited_for(warm: Warm, model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    alarm = "import signal; signal.alarm(60)"
    refused(warm.run("embed", model, tmp_path / "pipe.txt", before=alarm), "pipe.txt")


# The output


@pytest.mark.parametrize("name", ["out.npy", "out.jsonl", "out.parquet"])
def test_an_output_that_cannot_be(name: str, model: Path, texts: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.npy").mkdir()
    before = listing(tmp_path)
    refused(run("embed", model, texts, "-o", texts / name), name, "can't be written")
    refused(
        run("embed", model, texts, "-o", tmp_path / ("x" * 300 + name)), name, "can't be written"
    )
    refused(
        run("embed", model, texts, "-o", tmp_path / "folder.npy", "--force"),
        "folder.npy is a folder",
    )
    assert listing(tmp_path) == before


def test_a_folder_that_may_not_be_written(
    model: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    if os.access(
        locked, os.W_OK
    ):  # a superuser may write anywhere, so its rights are taken away by hand
        true_access = os.access
        monkeypatch.setattr(
            os,
            "access",
            lambda path, mode, **options: (
                Path(path) != locked and true_access(path, mode, **options)
            ),
        )
    refused(
        run("embed", model, texts, "-o", locked / "out.npy"),
        "out.npy can't be written",
        "read-only",
    )
    assert listing(locked) == {}


def test_a_folder_that_is_not_there_is_made(model: Path, texts: Path, tmp_path: Path) -> None:
    assert run("embed", model, texts, "-o", tmp_path / "new/er/out.npy").code == 0
    assert listing(tmp_path / "new").keys() == {"er", "er/out.npy"}
    texts.write_bytes(b"a\0b\n")
    before = listing(tmp_path)
    refused(run("embed", model, texts, "-o", tmp_path / "other/er/out.npy"), "NUL")
    assert listing(tmp_path) == before  # and is not, if there is nothing to put into it


FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"


@pytest.mark.parametrize("name", ["out.npy", "out.jsonl", "out.parquet"])
def test_a_disk_that_fills_up(name: str, warm: Warm, model: Path, tmp_path: Path) -> None:
    draw = random.Random(0)
    source = tmp_path / "texts.txt"
    source.write_text(
        "".join(
            " ".join(draw.choices(["the", "cat", "a", "b", "cs"], k=9)) + "\n" for _ in range(1200)
        )
    )
    old = tmp_path / name
    old.write_bytes(b"old")
    before = listing(tmp_path)
    refused(
        warm.run("embed", model, source, "-o", old, "--force", before=FULL),
        f"{name} can't be written",
        "File too large",
        code=1,
    )
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["model.safetensors", "tokenizer.json", "config.json", "firth.json"]
)
def test_a_disk_that_fills_up_while_a_model_is_saved(
    name: str, model: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = load(model)
    save(bundle, tmp_path / "saved")
    before = listing(tmp_path)
    true_write = Path.write_text

    def write_text(self: Path, data: str, *arguments: Any, **options: Any) -> int:
        if self.name == name:
            true_write(self, data[: len(data) // 2], *arguments, **options)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return true_write(self, data, *arguments, **options)

    def save_file(tensors: object, path: Path, **options: Any) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", write_text)
    if name == "model.safetensors":
        monkeypatch.setattr("firth.folders.write.save_file", save_file)
    for target in ("saved", "new"):
        with pytest.raises(
            Exception, match=rf"{target} can't be written: No space left on device"
        ) as caught:
            save(bundle, tmp_path / target, force=True)
        assert caught.value.exit_code == 1
        assert listing(tmp_path) == before


def test_a_real_limit_stops_the_weights(warm: Warm, model: Path, tmp_path: Path) -> None:
    before = listing(tmp_path)
    program = "\n".join(
        [
            "import resource, sys",
            "resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, 3_000))",
            "from firth.base.errors import FirthError",
            "from firth.folders.read import load\nfrom firth.folders.write import save",
            f"try: save(load({str(model)!r}), {str(tmp_path / 'saved')!r})",
            "except FirthError as error: print(type(error).__name__, error); sys.exit(7)",
        ]
    )
    ended = warm.run(before=program)
    assert ended.code == 7, ended.err
    assert re.match(r"FirthError .*saved can't be written: .*", ended.out)
    assert listing(tmp_path) == before


def test_a_reader_who_leaves_is_no_error(model: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    source = tmp_path / "texts.txt"
    source.write_text("the cat .\n" * 3000)
    command = [sys.executable, "-m", "firth", "embed", str(model), str(source)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["text"] == "the cat ."
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 141)


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no device that is always full"
)
def test_a_screen_that_cannot_be_written(model: Path, texts: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "firth", "embed", str(model), str(texts)]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            cwd=Path(__file__).parents[2],
            text=True,
        )
    assert (ended.returncode, ended.stderr) == (
        1,
        "firth: standard output: No space left on device\n",
    )


def test_a_person_who_stops_it(
    model: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = listing(tmp_path)

    def stream(*arguments: object, **options: object) -> Any:
        yield torch.zeros(8).numpy()
        raise KeyboardInterrupt

    monkeypatch.setattr("firth.predictor.Predictor.stream", stream)
    for name in ("out.npy", "out.jsonl", "out.parquet"):
        assert run("embed", model, texts, "-o", tmp_path / name) == (3, "", "firth: stopped\n")
    assert listing(tmp_path) == before


def test_names_in_a_folder_cannot_write_on_the_screen(
    sound: dict[str, Folder], texts: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load as unpack
    from safetensors.torch import save as pack

    tensors = unpack(sound["masked"]["model.safetensors"])
    tensors["evil\n\x1b[31mfirth: all is well"] = torch.zeros(1)
    folder = write(tmp_path / "model", {**sound["masked"], "model.safetensors": pack(tensors)})
    ended = run("embed", folder, texts)
    assert ended.code == 0
    assert re.fullmatch(r"note: [ -~]+: weights in the folder but not used: [ -~]+\n", ended.err)


def test_a_header_cut_in_the_middle_is_not_half_a_file(
    sound: dict[str, Folder], texts: Path, tmp_path: Path
) -> None:
    data = sound["masked"]["model.safetensors"]
    (length,) = struct.unpack("<Q", data[:8])
    folder = write(tmp_path / "model", {**sound["masked"], "model.safetensors": data[: 8 + length]})
    refused(
        run("embed", folder, texts),
        "model.safetensors is damaged",
        f"it has {8 + length} bytes where its header says {len(data)}",
    )
