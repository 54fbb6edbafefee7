"""Whether this machine gains from bf16.

It is tried in a process of its own, because a wrong instruction ends the process.
"""

import subprocess
import sys
from pathlib import Path

ABLE = {"avx512_bf16", "amx_bf16"}  # without one of them bf16 is emulated, and slower
# What a product must take longer in fp32 for bf16 to be worth its rounding: a step then takes some
# 1.2 times as long.
GAIN = 1.5
CPU = Path("/proc/cpuinfo")
TRIAL = """
import sys, time, torch
from firth.nn.linear import product
torch.set_num_threads(1)  # several wait for each other where the machine is busy
rows, weight = torch.randn(1024, 512), torch.randn(512, 512)
problems = [(rows, weight), (rows.bfloat16(), weight.bfloat16())]
best = [float("inf")] * 2
for turn in range(100):
    begun = time.perf_counter()
    product(*problems[turn % 2])
    best[turn % 2] = min(best[turn % 2], time.perf_counter() - begun)
sys.stdout.write(str(best[0] / best[1]))
"""


def gains_from_bf16() -> bool:
    """Try it, if the processor says that it can."""
    try:
        about = CPU.read_text(encoding="utf-8")
    except OSError:
        return False
    _, _, rest = about.partition("\nflags")
    flags = rest.partition("\n")[0].split()
    if not ABLE.intersection(flags):
        return False
    command = [sys.executable, "-c", TRIAL]
    trial = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return trial.returncode == 0 and float(trial.stdout) > GAIN
