"""Whether this machine gains from bf16; it is tried in a process of its own, because a wrong instruction ends the process."""

import subprocess
import sys
from pathlib import Path

ABLE = {"avx512_bf16", "amx_bf16"}  # without one of them bf16 is emulated, and slower
GAIN = 1.5  # what a product must take longer in fp32 for bf16 to be worth its rounding: then a step takes some 1.2 times as long
TRIAL = """
import time, torch
from firth.nn.linear import product
torch.set_num_threads(1)  # several wait for each other where the machine is busy
problems = [(torch.randn(1024, 512).to(dtype), torch.randn(512, 512).to(dtype)) for dtype in (torch.float32, torch.bfloat16)]
best = [float("inf")] * 2
for turn in range(100):
    begun = time.perf_counter()
    product(*problems[turn % 2])
    best[turn % 2] = min(best[turn % 2], time.perf_counter() - begun)
print(best[0] / best[1])
"""


def gains_from_bf16() -> bool:
    """Try it, if the processor says that it can."""
    try:
        flags = set(
            Path("/proc/cpuinfo")
            .read_text(encoding="utf-8")
            .partition("\nflags")[2]
            .partition("\n")[0]
            .split()
        )
    except OSError:
        return False
    if not flags & ABLE:
        return False
    command = [sys.executable, "-c", TRIAL]
    trial = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    return trial.returncode == 0 and float(trial.stdout) > GAIN
