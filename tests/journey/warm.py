"""A process that has imported everything and starts `firth` by forking, so that a run costs what the run costs.

Nothing here has run a parallel region or holds a thread when it forks, so that a child is as good as a fresh process.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.journey.command import ROOT, Ended

PATIENCE = 120.0  # seconds that a run may take
# Python for `before`: the clock counts the time of the processor, so that a busy machine changes
# nothing; the last line of standard output says how much of it the run took. The age of the process
# is counted so too, or what the machine did for others before the run would be taken off its time.
# What waits keeps the true clock, which goes on while it sleeps.
PROCESSOR_CLOCK = """
import os, queue, subprocess, threading, time
import firth.base.clock
time.monotonic = time.perf_counter = time.process_time
firth.base.clock._process_age = time.process_time
leave = os._exit
def tell(code):
    os.write(1, f"{time.process_time()}\\n".encode())
    leave(code)
os._exit = tell
"""


class Started:
    """A run of `firth` in a process group of its own."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid, self.folder = pid, folder
        self.begun = time.monotonic()

    def signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    @property
    def running(self) -> bool:
        """Whether it hasn't ended."""
        return not (self.folder / f"{self.pid}.code").exists()

    def wait(self, seconds: float = PATIENCE) -> Ended:
        """Its exit code (below 0: the signal that ended it) and what it wrote."""
        end = time.monotonic() + seconds
        while self.running:
            if time.monotonic() > end:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                raise AssertionError(
                    f"process {self.pid} didn't end within {seconds} s: {self.err}"
                )
            time.sleep(0.005)
        return Ended(int((self.folder / f"{self.pid}.code").read_text()), self.out, self.err)

    @property
    def out(self) -> str:
        """What it wrote to standard output so far."""
        return (self.folder / f"{self.pid}.out").read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        """What it wrote to standard error so far."""
        return (self.folder / f"{self.pid}.err").read_text(encoding="utf-8")


class Warm:
    """Starts runs; one for a whole session of tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> "Warm":
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        one = {
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONPATH": paths,
        }
        command = [sys.executable, "-m", "tests.journey.warm", str(self.folder)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env={**os.environ, **one}, **pipes)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.communicate()

    def start(
        self,
        *words: object,
        before: str = "",
        streams: dict[int, str] | None = None,
        **environment: str,
    ) -> Started:
        """Start `firth` with these words; `before` is Python that runs there first, `streams` are files by their numbers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {
            "words": list(map(str, words)),
            "before": before,
            "environment": environment,
            "streams": streams or {},
        }
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return Started(int(self.process.stdout.readline()), self.folder)

    def run(self, *words: object, before: str = "", **environment: str) -> Ended:
        """Start it and wait for its end."""
        return self.start(*words, before=before, **environment).wait()


def serve(folder: Path) -> None:
    """Fork a child for each line read, say its number at once, and put down how it ended when it has."""
    import torch
    import torch._dynamo  # optimizers import it when they are first used
    import torch.distributed
    import torch.nn.parallel

    import firth.cli.settings
    import firth.verbs.embed
    import firth.verbs.evaluate
    import firth.verbs.finetune
    import firth.verbs.glue
    import firth.verbs.predict
    import firth.verbs.pretrain
    import firth.verbs.view  # noqa: F401
    from firth.text.marks import with_marks

    torch.set_num_threads(1)
    with_marks([(0, 1)], "é")  # collects the marks of Unicode, once for all runs

    def reap(number: int, frame: object) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                fresh = folder / f".{ended[0]}.code"
                fresh.write_text(str(os.waitstatus_to_exitcode(ended[1])))
                fresh.rename(folder / f"{ended[0]}.code")

    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            _be_firth(folder, json.loads(line))
        for kind in ("out", "err"):
            (folder / f"{pid}.{kind}").touch()
        print(pid, flush=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _be_firth(folder: Path, asked: dict[str, Any]) -> None:
    os.setpgid(0, 0)
    for number, kind in ((1, "out"), (2, "err")):
        os.dup2(
            os.open(folder / f"{os.getpid()}.{kind}", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
            number,
        )
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in asked["streams"].items():
        mode = os.O_WRONLY | os.O_CREAT if int(number) else os.O_RDONLY
        os.dup2(os.open(path, mode | os.O_NOCTTY), int(number))
    os.environ.update(asked["environment"])
    sys.argv = ["firth", *asked["words"]]
    code: Any = 70
    try:
        exec(asked["before"], {})
        from firth.cli.main import main

        main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # taking apart all that was imported would take longer than the run


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
    os._exit(0)
