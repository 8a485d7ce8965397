"""Files that appear whole or not at all, in a folder that several workers fill at a time.

A draft is locked as long as its writer lives, and its name says on which machine. Later writers to
the folder there remove drafts of writers that died. On other machines a day has to pass.
"""

from __future__ import annotations

import fcntl
import os
import platform
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Final
from zlib import crc32

from siltstone.core.posix import SystemFileCalls, make_folder, sync_folder

DRAFT_PREFIX: Final = "."
"""Names that begin so are skipped by readers of a folder of Parquet."""

DRAFT_SUFFIX: Final = ".draft"
DRAFT_KEPT_S: Final = 86_400.0
"""A draft that was not touched for this long belongs to no living writer."""

_NONCE_DIGITS: Final = 24
_NAME_BYTES_MAX: Final = 64


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield an empty file to write what shall become ``path`` to; see ``publish``.

    It is gone at the end, and so are those that killed writers of ``path`` left here.
    """
    make_folder(SystemFileCalls(), str(path.parent))
    _remove_left(path.parent.glob(f"{escape(_beginning(path))}*{DRAFT_SUFFIX}"))
    nonce = uuid.uuid4().hex[:_NONCE_DIGITS]
    draft = path.with_name(f"{_beginning(path)}{nonce}{DRAFT_SUFFIX}")
    with draft.open("xb") as file:
        try:
            with suppress(OSError):  # where there are no locks a draft is kept for a day
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            # A writer that looked at it before the lock has removed it.
            draft.touch()
            yield draft
        finally:
            draft.unlink(missing_ok=True)


def is_left(path: Path) -> bool:
    """Whether ``path`` was published by a writer that was killed before its draft was gone."""
    left = path.parent.glob(f"{escape(_beginning(path))}*{DRAFT_SUFFIX}")
    return any(draft.samefile(path) and not _is_locked(draft) for draft in left)


def _is_locked(draft: Path) -> bool:
    with draft.open("r+b") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _beginning(path: Path) -> str:
    """How the names of drafts of ``path`` begin here.

    A long name is replaced by its digest: file systems take 255 bytes, some of them 143.
    """
    name = os.fsencode(path.name)
    told = path.name if len(name) <= _NAME_BYTES_MAX else sha256(name).hexdigest()[:_NAME_BYTES_MAX]
    return f"{DRAFT_PREFIX}{told}.{_machine()}"


def _machine() -> str:
    """Eight digits that stand for this machine."""
    return f"{crc32(platform.node().encode()):08x}"


def _remove_left(drafts: Iterable[Path]) -> int:
    """Remove those drafts of this machine whose writers are gone; return how many."""
    count = 0
    for draft in drafts:
        with suppress(OSError), draft.open("r+b") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()
            count += 1
    return count


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


def publish_over(draft: Path, path: Path) -> None:
    """Let a draft become ``path``, durably, in place of what is there."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_folder(SystemFileCalls(), str(path.parent))


def remove_old_drafts(folder: Path, now_s: float) -> int:
    """Remove drafts of writers that died; return how many."""
    count = _remove_left(folder.glob(f"**/{DRAFT_PREFIX}*.{_machine()}*{DRAFT_SUFFIX}"))
    for draft in folder.glob(f"**/{DRAFT_PREFIX}*{DRAFT_SUFFIX}"):
        try:
            if draft.stat().st_mtime < now_s - DRAFT_KEPT_S:
                draft.unlink()
                count += 1
        except FileNotFoundError:
            continue
    return count
