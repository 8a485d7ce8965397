"""Facts about the machine that figures depend on."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from statistics import median

from siltstone.store.blocking.background_loop import new_event_loop

SYNCS = 200


def facts(folder: Path) -> dict[str, str]:
    """Return what is known of the machine, and measure its ``fdatasync`` in ``folder``."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": _processor(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "event loop": _loop(),
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": _file_system(folder),
        "fdatasync of 4 KiB": _fdatasync(folder),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def _loop() -> str:
    loop = new_event_loop()
    loop.close()
    return type(loop).__module__.partition(".")[0]


def _file_system(folder: Path) -> str:
    """The type of the mount that holds ``folder``: the one with the longest path to it."""
    place = folder.resolve()
    found = ("unknown", Path("/"))
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, target, kind, *_ = line.split(" ")
        mount = Path(target.replace("\\040", " "))
        if place.is_relative_to(mount) and len(mount.parts) >= len(found[1].parts):
            found = (kind, mount)
    return found[0]


def _fdatasync(folder: Path) -> str:
    """Median and extremes of syncs of one block that was written before."""
    path = folder / "fdatasync"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    taken = []
    try:
        block = os.urandom(4096)
        for _ in range(SYNCS):
            os.pwrite(fd, block, 0)
            start = time.perf_counter()
            os.fdatasync(fd)
            taken.append((time.perf_counter() - start) * 1e3)
    finally:
        os.close(fd)
        path.unlink()
    return f"{median(taken):.2f} ms (min {min(taken):.2f}, max {max(taken):.2f})"
