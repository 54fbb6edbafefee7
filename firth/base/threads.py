"""The number of threads that this process should use, and how it keeps its memory."""

import ctypes
import os
from pathlib import Path

# glibc's names for mallopt's parameters.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


def available() -> int:
    """Return the smallest of cores, CPU affinity and cgroup quota, at least 1."""
    counts = [os.cpu_count() or 1]
    if hasattr(os, "sched_getaffinity"):
        counts.append(len(os.sched_getaffinity(0)))
    quota = _cgroup_quota(Path("/sys/fs/cgroup"))
    if quota is not None:
        counts.append(int(quota))
    return max(1, min(counts))


def usual() -> int:
    """Return this process's part of the available cores, at most OMP_NUM_THREADS."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    part = max(1, available() // processes)
    limit = _openmp_limit(os.environ.get("OMP_NUM_THREADS", ""))
    # torchrun sets 1 where it starts several processes and nobody has set anything.
    if limit is None or (limit == 1 and processes > 1):
        return part
    return min(part, limit)


def _openmp_limit(value: str) -> int | None:
    """Return the threads that OMP_NUM_THREADS allows; None if it is unset or no such number.

    Of a list, which has a number for each level of nested loops, the first counts.
    """
    try:
        first = int(value.split(",", maxsplit=1)[0])
    except ValueError:
        return None
    return first if first > 0 else None


def _cgroup_quota(root: Path) -> float | None:
    """Read the CPU quota of version 2 (cpu.max) or version 1 (cpu.cfs_*), in cores."""
    try:
        limit, period = (root / "cpu.max").read_text().split()
        if limit == "max":
            return None
        return int(limit) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        pass  # not version 2

    try:
        quota = int((root / "cpu/cpu.cfs_quota_us").read_text())
        if quota <= 0:
            return None
        return quota / int((root / "cpu/cpu.cfs_period_us").read_text())
    except (OSError, ValueError, ZeroDivisionError):
        return None


def keep_heap() -> None:
    """Tell glibc to keep freed memory for the next tensor.

    By default each large tensor is mapped anew and its pages are cleared again by the kernel: some
    160,000 page faults and 8 % of the time over a thousand texts. Other C libraries have no mallopt
    and are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_THRESHOLD, 1 << 30)
    mallopt(M_TRIM_THRESHOLD, 1 << 30)
