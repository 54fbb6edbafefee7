"""Threads: the smallest of cores, affinity, cgroup quota and OMP_NUM_THREADS, at least one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firth.base import threads


@pytest.fixture(autouse=True)
def _no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)


def make(root: Path, **contents: str) -> Path:
    """A false cgroup root; `cpu_max` is version 2's file, `quota` and `period` are version 1's."""
    names = {
        "cpu_max": "cpu.max",
        "quota": "cpu/cpu.cfs_quota_us",
        "period": "cpu/cpu.cfs_period_us",
    }
    (root / "cpu").mkdir()
    for key, text in contents.items():
        (root / names[key]).write_text(text)
    return root


@pytest.mark.parametrize(
    ("contents", "cores"),
    [
        ({}, None),
        ({"cpu_max": "max 100000\n"}, None),
        ({"cpu_max": "200000 100000\n"}, 2.0),
        ({"cpu_max": "50000 100000\n"}, 0.5),
        ({"cpu_max": "150000 50000\n"}, 3.0),
        ({"quota": "-1\n", "period": "100000\n"}, None),
        ({"quota": "400000\n", "period": "100000\n"}, 4.0),
        ({"quota": "25000\n", "period": "50000\n"}, 0.5),
        ({"quota": "400000\n"}, None),
        ({"cpu_max": "300000 100000\n", "quota": "100000\n", "period": "100000\n"}, 3.0),
        ({"cpu_max": "what is this\n"}, None),
        ({"cpu_max": "\n"}, None),
        ({"cpu_max": "100000 0\n"}, None),
        ({"quota": "100000\n", "period": "0\n"}, None),
        ({"cpu_max": "nonsense\n", "quota": "100000\n", "period": "50000\n"}, 2.0),
    ],
)
def test_the_quota_is_read_from_either_version(
    tmp_path: Path, contents: dict[str, str], cores: float | None
) -> None:
    assert threads._cgroup_quota(make(tmp_path, **contents)) == cores


@pytest.mark.parametrize(
    ("cores", "affinity", "quota", "expected"),
    [
        (8, 8, None, 8),
        (8, 3, None, 3),
        (8, 8, 2.0, 2),
        (8, 8, 2.9, 2),
        (8, 8, 0.5, 1),
        (8, 1, 4.0, 1),
        (2, 4, 6.0, 2),
        (None, 4, None, 1),
    ],
)
def test_the_smallest_counts(
    monkeypatch: pytest.MonkeyPatch,
    cores: int | None,
    affinity: int,
    quota: float | None,
    expected: int,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(affinity)), raising=False)
    monkeypatch.setattr(threads, "_cgroup_quota", lambda root: quota)
    assert threads.available() == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3", 3),
        (" 2 ", 2),
        ("1", 1),
        ("16", 8),
        ("4,2", 4),
        ("", 8),
        ("0", 8),
        ("-2", 8),
        ("two", 8),
        ("²", 8),
        ("9" * 5000, 8),
    ],
)
def test_openmp_sets_an_upper_limit(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: int
) -> None:
    eight_cores(monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert threads.usual() == expected


@pytest.mark.parametrize(
    ("value", "processes", "expected"),
    [(None, 2, 4), ("1", 2, 4), ("3", 2, 3), ("6", 2, 4), ("3", 16, 1), ("1", 1, 1)],
)
def test_processes_share_the_cores(
    monkeypatch: pytest.MonkeyPatch, value: str | None, processes: int, expected: int
) -> None:
    eight_cores(monkeypatch)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    if value is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert threads.usual() == expected


def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine have eight cores and no quota."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(threads, "_cgroup_quota", lambda root: None)


def test_a_system_without_affinity_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    monkeypatch.setattr(threads, "_cgroup_quota", lambda root: None)
    assert threads.available() == 5


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_affinity_is_kept() -> None:
    one = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    program = f"{one}; from firth.base.threads import available; print(available())"
    run = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert run.stdout == "1\n"


def test_keeping_the_heap_is_harmless_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    threads.keep_heap()
    threads.keep_heap()

    def absent(name: object) -> object:
        raise OSError("no such library")

    monkeypatch.setattr(threads.ctypes, "CDLL", absent)
    threads.keep_heap()
    monkeypatch.setattr(threads.ctypes, "CDLL", lambda name: object())
    threads.keep_heap()
