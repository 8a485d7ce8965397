"""The folder of a reader's own index: next to the owner's, to link its files, else temporary.

A reader that was killed leaves its folder; the next one on the machine removes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from siltstone.core.storage.first_look import first_look

PREFIX = "reader-"


def make_reader_folder(index_folder: Path) -> Path:
    """Make an empty folder for one reader of the container whose owner uses ``index_folder``.

    Raises:
        StoreError: the place of the index does not answer.
    """
    parent = index_folder.parent
    try:
        first_look(parent, lambda: parent.mkdir(parents=True, exist_ok=True))
        _remove_left_behind(parent)
        return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))
    except OSError:
        # A reader needs no right to write where the owner does.
        return Path(tempfile.mkdtemp(prefix=f"siltstone-{PREFIX}"))


def _remove_left_behind(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not _lives(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
