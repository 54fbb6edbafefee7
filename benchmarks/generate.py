"""Writing on with a small GPT-2: Firth against transformers' `generate` with its cache, in one run.

Both have the same random weights and prompts and must write the same tokens; rounds are interleaved and the best of each counts.
    python -m benchmarks.generate [--quick] [--json] [--threads 2]
"""

import argparse
import itertools
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.contender import Contender, answering, peak_memory, timed
from benchmarks.table import Row, show
from firth.families.gpt import FAMILY, GptSettings
from firth.folders.weights import to_theirs
from firth.models.gpt import Gpt
from firth.models.search import Beam, Greedy, decode

os.environ["HF_HUB_OFFLINE"] = "1"
SIZES = {
    "width": 256,
    "depth": 4,
    "heads": 8,
    "inner": 1024,
    "vocab": 50257,
    "length": 1024,
    "start": 50256,
}
OURS, THEIRS = "ours", "transformers"


class Job(NamedTuple):
    """What is asked for."""

    name: str
    lengths: tuple[int, ...]  # of the prompts
    beams: int
    goal: float | None


JOBS = {
    "one": Job("greedy, 1 prompt of 32", (32,), 1, 1.5),
    "eight": Job("greedy, 8 prompts of 32", (32,) * 8, 1, 1.5),
    "ragged": Job("greedy, 8 prompts of 4 to 60", tuple(range(4, 64, 8)), 1, 1.5),
    "beams": Job("4 beams, 1 prompt of 32", (32,), 4, None),
}
Writer = Callable[[Job, int], np.ndarray]  # the new tokens, a row each


def prompts(job: Job) -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randint(SIZES["start"], (length,), generator=generator).tolist()
        for length in job.lengths
    ]


def network() -> Gpt:
    """Weights wide enough that tokens differ in likelihood by more than rounding."""
    torch.manual_seed(0)
    return Gpt(GptSettings(**SIZES, spread=0.1)).eval().requires_grad_(False)


def firth() -> Writer:
    model = network()

    def write(job: Job, tokens: int) -> np.ndarray:
        how = Greedy() if job.beams == 1 else Beam(job.beams)
        return np.array([found[0].ids for found in decode(model, prompts(job), how, most=tokens)])

    return write


def transformers() -> Writer:
    from transformers import GPT2Config, GPT2LMHeadModel

    made = network()
    config = FAMILY.write(made.settings, "continue") | {
        "eos_token_id": None,
        "pad_token_id": 0,
    }
    model = GPT2LMHeadModel(GPT2Config(**config)).eval()
    state = {
        f"transformer.{name}": tensor
        for name, tensor in to_theirs(FAMILY.layout, made.state_dict()).items()
    }
    assert not model.load_state_dict(state, strict=False).unexpected_keys

    def write(job: Job, tokens: int) -> np.ndarray:
        rows = prompts(job)
        longest = max(job.lengths)
        ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
        options = {
            "max_new_tokens": tokens,
            "num_beams": job.beams,
            "do_sample": False,
            "use_cache": True,
        }
        return model.generate(ids, attention_mask=mask, **options)[:, longest:].numpy()

    return write


CONTENDERS = {OURS: firth, THEIRS: transformers}


def serve(name: str, tokens: int, threads: int) -> None:
    """Answer the questions of the comparing process, one a line."""
    answers = answering()
    torch.set_num_threads(threads)
    write = CONTENDERS[name]()
    for line in sys.stdin:
        what, _, rest = line.strip().partition(" ")
        if what == "memory":
            answer = peak_memory()
        elif what == "save":
            job, path = rest.split(" ", 1)
            answer = float(np.save(path, write(JOBS[job], tokens)) is None)
        else:
            answer = timed(lambda what=what: write(JOBS[what], tokens))
        print(answer, file=answers, flush=True)


def compare(tokens: int, rounds: int, threads: int) -> list[Row]:
    """Run both in turn, round after round, and keep the best of each."""
    options = "--tokens", str(tokens), "--threads", str(threads)
    both = {name: Contender("benchmarks.generate", name, *options) for name in CONTENDERS}
    with tempfile.TemporaryDirectory() as folder:
        for key, job in JOBS.items():  # which also warms up
            for name, contender in both.items():
                contender.ask(f"save {key} {folder}/{name}.npy")
            mine, theirs = (np.load(Path(folder) / f"{name}.npy") for name in both)
            assert np.array_equal(mine, theirs), f"{job.name}: other tokens"
    best = dict.fromkeys(itertools.product(JOBS, both), float("inf"))
    for _ in range(rounds):
        for (key, name), seconds in best.items():
            best[key, name] = min(seconds, both[name].ask(key))
    rows = []
    for key, job in JOBS.items():
        mine, theirs = (tokens * len(job.lengths) / best[key, name] for name in both)
        rows.append(Row(job.name, mine, theirs, THEIRS, mine / theirs, "tokens/s", job.goal))
    mine, theirs = (contender.ask("memory") for contender in both.values())
    rows.append(Row("peak memory", mine, theirs, THEIRS, theirs / mine, "MB", 1.0))
    return rows


def main() -> None:
    """Run the comparison."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer rounds")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument(
        "--tokens", type=int, default=128, help="to be written after each prompt"
    )
    arguments.add_argument("--contender", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    if options.contender:
        serve(options.contender, options.tokens, options.threads)
        return
    if not options.json:
        sizes = (
            f"width {SIZES['width']}, {SIZES['depth']} layers, a vocabulary of {SIZES['vocab']:,}"
        )
        machine = f"{options.threads} threads, {torch.backends.cpu.get_cpu_capability()}"
        print(
            f"{options.tokens} new tokens a prompt; {sizes}; {machine}; the best of interleaved rounds, a process each"
        )
    show(compare(options.tokens, 3 if options.quick else 9, options.threads), options.json)


if __name__ == "__main__":
    main()
