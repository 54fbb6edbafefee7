"""Call the command line as a person does: in this process, or in one of its own."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from firth.cli.main import main

ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


def run(*words: object, stdin: bytes = b"") -> Ended:
    """Run `firth` with these words in this process, with streams that are files and not a terminal."""
    streams = {
        name: io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")
        for name, data in (("stdin", stdin), ("stdout", b""), ("stderr", b""))
    }
    code: object = None
    with mock.patch.multiple(sys, argv=["firth", *map(str, words)], **streams):
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int), f"the command ended with {code!r}"
    out, err = (streams[name] for name in ("stdout", "stderr"))
    out.flush()
    err.flush()
    return Ended(code, out.buffer.getvalue().decode("utf-8"), err.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]


def spawn(
    *words: object, stdin: bytes = b"", before: str = "", seconds: float = 120, **environment: str
) -> Ended:
    """Run `firth` in a process of its own; `before` is Python that runs there first."""
    program = f"{before}\nfrom firth.cli.main import main\nmain()"
    command = [sys.executable, *(["-c", program] if before else ["-m", "firth"]), *map(str, words)]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )
    return Ended(ended.returncode, ended.stdout.decode("utf-8"), ended.stderr.decode("utf-8"))


def listing(folder: Path) -> dict[str, bytes | None]:
    """Every name below a folder with the bytes of the files, to see that nothing was left or changed."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
