"""How many CPUs this process may use: of its affinity, and of the quotas of its control groups."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path


def _groups(root: Path) -> Iterator[tuple[Path, bool]]:
    """The folders of the process's control groups and of those around them; True: of version 2."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = ([*line.split(":", 2), "", ""])[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        path = top / group.lstrip("/")
        while path.is_relative_to(top):
            yield path, not controllers
            path = path.parent


def _quota(folder: Path, is_second: bool) -> float:
    """CPUs; infinity where none is set."""
    try:
        if is_second:
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        cpus = float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):  # "max" is none
        return math.inf
    return cpus if cpus > 0 else math.inf


def least_cpus(allowed: int, root: Path) -> int:
    """The least of `allowed` and of the quotas, rounded up. root: what /proc and /sys are in."""
    quotas = [_quota(*each) for each in _groups(root)]
    return max(1, min([allowed, *(math.ceil(each) for each in quotas if each < math.inf)]))


@functools.cache
def usable_cpus() -> int:
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        allowed = os.cpu_count() or 1
    return least_cpus(allowed, Path("/"))
