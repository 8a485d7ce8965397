"""Where fetched programs are kept: outside the checkout, by name and pin.

``SILTSTONE_CACHE`` names the folder; by default it is ``siltstone`` in the user's cache folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """The folder of everything that is kept, existing or not."""
    named = os.environ.get("SILTSTONE_CACHE")
    if named:
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "siltstone"


def program_folder(name: str, pin: str) -> Path:
    """The folder of one program in one version; it exists only when it is complete."""
    return cache_folder() / "services" / f"{name}-{pin}"


def install(name: str, pin: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of a program; let ``make`` fill an empty one if there is none yet.

    It appears by a rename, when it is complete. If several processes want the same one at the same
    time, one makes it and the others wait.
    """
    folder = program_folder(name, pin)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        half = f".{folder.name}."
        # Only the holder of the lock makes these, so an existing one was left by one that died.
        for leftover in folder.parent.glob(f"{half}*"):
            shutil.rmtree(leftover)
        scratch = Path(tempfile.mkdtemp(prefix=half, dir=folder.parent))
        try:
            make(scratch)
            scratch.chmod(0o755)
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder
