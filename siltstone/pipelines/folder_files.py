"""Files that appear whole or not at all, in a folder that several workers fill at a time."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from siltstone.core.posix import SystemFileCalls, make_folder, sync_folder

DRAFT_PREFIX: Final = "."
"""Names that begin so are passed over by whoever reads a folder of Parquet."""

DRAFT_SUFFIX: Final = ".draft"
DRAFT_KEPT_S: Final = 86_400.0
"""A draft that was not touched for so long belongs to nobody who lives."""


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield where to write what shall become ``path``; see ``publish``. It is gone at the end."""
    make_folder(SystemFileCalls(), str(path.parent))
    draft = path.with_name(f"{DRAFT_PREFIX}{path.name}.{uuid.uuid4().hex}{DRAFT_SUFFIX}")
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def publish(draft: Path, path: Path) -> bool:
    """Let a draft become ``path``, durably; false if that exists, which then stays as it is."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    sync_folder(SystemFileCalls(), str(path.parent))
    return True


def remove_old_drafts(folder: Path, now_s: float) -> int:
    """Remove drafts of writers that died; return how many."""
    count = 0
    for draft in folder.glob(f"**/{DRAFT_PREFIX}*{DRAFT_SUFFIX}"):
        try:
            if draft.stat().st_mtime < now_s - DRAFT_KEPT_S:
                draft.unlink()
                count += 1
        except FileNotFoundError:
            continue
    return count
