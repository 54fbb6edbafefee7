"""Whether this machine gains from bf16; it is tried in a process of its own, because a wrong instruction ends the process."""

import subprocess
import sys
from pathlib import Path

ABLE = {"avx512_bf16", "amx_bf16"}  # without one of them bf16 is emulated, and slower
GAIN = 1.5  # what a product must take longer in fp32 for bf16 to be worth its rounding: then a step takes some 1.2 times as long
TRIAL = """
import time, torch
from firth.nn.linear import product
def best(dtype):
    x, w = torch.randn(1024, 512).to(dtype), torch.randn(512, 512).to(dtype)
    times = []
    for _ in range(8):
        begun = time.perf_counter()
        product(x, w)
        times.append(time.perf_counter() - begun)
    return min(times)
print(best(torch.float32) / best(torch.bfloat16))
"""


def gains_from_bf16() -> bool:
    """Try it, if the processor says that it can."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\nflags")[2].partition("\n")[0].split())
    except OSError:
        return False
    if not flags & ABLE:
        return False
    trial = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    return trial.returncode == 0 and float(trial.stdout) > GAIN
