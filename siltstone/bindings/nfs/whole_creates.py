"""Making a chunk that is seen with all its bytes or not at all: a draft gets the name by a link.

The draft is synced before it is linked, and the chunk's folder after it, so the name is durable
with the bytes. Whatever fails before the link had no effect. What a caller that died leaves is a
draft, which is no chunk, or a second name of the chunk in the folder of drafts, which does no harm.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from siltstone.bindings.nfs.errors import Effect, chunk_error, translated
from siltstone.bindings.nfs.lists import seen
from siltstone.bindings.nfs.tree import RACES_MAX, Tree, is_blocked, is_missing
from siltstone.core.constants import Buffer
from siltstone.core.drafts import DRAFTS, draft_name, is_draft_below
from siltstone.core.errors import CapabilityError, ChunkNameError, ChunkUnavailableError
from siltstone.core.posix import FileCalls
from siltstone.core.storage.durable_writes import write_durably

_FOLDER: Final = (DRAFTS.encode(),)
_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)
"""What a file system without hard links answers to one, or two file systems in one folder."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """Bytes that are durable and have no name yet.

    Attributes:
        name: in the folder of drafts.
        folder: a descriptor of that folder.
        file: device and inode, which tell the file from every other.
    """

    name: str
    folder: int
    file: tuple[int, int]


class WholeCreator:
    """Makes whole chunks below one root, and removes the drafts that are left. Thread-safe.

    Args:
        tree: the root.
        calls: the file calls.
    """

    def __init__(self, tree: Tree, calls: FileCalls) -> None:
        self._tree = tree
        self._calls = calls

    def create(
        self, name: str, parents: Sequence[bytes], leaf: bytes, buffers: Sequence[Buffer]
    ) -> None:
        """See ``WholeCreates``.

        Args:
            name: of the chunk.
            parents: the parts of its path but the last.
            leaf: the last part.
            buffers: its bytes.

        Raises:
            CapabilityError: the file system has no hard links.
        """
        try:
            for _ in range(RACES_MAX):
                with self._tree.folders(_FOLDER, make=True) as chain:
                    if self._created(name, parents, leaf, buffers, chain[-1]):
                        return
        except OSError as error:
            if is_missing(error):
                raise ChunkUnavailableError(
                    "the folder of drafts cannot be used",
                    chunk=name,
                    operation="create",
                    path=f"{self._tree.path}/{DRAFTS}",
                ) from error
            raise chunk_error(error, chunk=name, operation="create", effect=Effect.NONE) from error
        raise ChunkUnavailableError(
            "the folder of drafts is removed again and again", chunk=name, operation="create"
        )

    def sweep(self, prefix: str, before_s: float) -> int:
        """Remove drafts for chunks below ``prefix`` that were last written to before a time.

        Their folder goes when it is empty.

        Args:
            prefix: as of a listing.
            before_s: seconds since 1970.

        Returns:
            How many were removed.
        """
        count = 0
        with translated(prefix, "sweep_leftovers", Effect.BEGUN):
            try:
                with self._tree.folders(_FOLDER) as chain:
                    for entry in list(self._calls.scandir(chain[-1])):
                        if is_draft_below(entry.name, prefix):
                            count += self._swept(entry.name, chain[-1], before_s)
                    # A create that finds it gone makes it again.
                    self._tree.prune(chain, _FOLDER)
            except OSError as error:
                if not is_missing(error):
                    raise
        return count

    def _created(
        self,
        name: str,
        parents: Sequence[bytes],
        leaf: bytes,
        buffers: Sequence[Buffer],
        drafts: int,
    ) -> bool:
        """Create once; ``False`` when the folder of drafts is gone and nothing was done."""
        told = draft_name(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            fd = self._calls.open(told, flags, 0o666, dir_fd=drafts)
        except FileNotFoundError:
            return False
        try:
            draft = _Draft(told, drafts, self._written(fd, buffers))
            for _ in range(RACES_MAX):
                if self._linked(name, parents, leaf, draft):
                    return True
                self._check_kept(name, draft)
        finally:
            # Nothing depends on it: one that stays is swept.
            with suppress(OSError):
                self._calls.unlink(told, dir_fd=drafts)
        raise ChunkUnavailableError(
            "the folder is removed again and again", chunk=name, operation="create"
        )

    def _swept(self, draft: str, folder: int, before_s: float) -> bool:
        try:
            if self._calls.stat(draft, dir_fd=folder).st_mtime > before_s:
                return False
            self._calls.unlink(draft, dir_fd=folder)
        except FileNotFoundError:
            return False  # Its create has ended, or another sweep was faster.
        return True

    def _written(self, fd: int, buffers: Sequence[Buffer]) -> tuple[int, int]:
        """Make a draft durable; return what tells its file from every other."""
        try:
            write_durably(self._calls, fd, buffers, 0)
            status = self._calls.fstat(fd)
        finally:
            # NFS may tell of a full disk only here, so a failing close is a failing create.
            self._calls.close(fd)
        return status.st_dev, status.st_ino

    def _linked(self, name: str, parents: Sequence[bytes], leaf: bytes, draft: _Draft) -> bool:
        """Give the draft its name; ``False`` when a folder is gone and nothing was done."""
        try:
            with self._tree.folders(parents, make=True) as chain:
                try:
                    self._calls.link(
                        draft.name, leaf, src_dir_fd=draft.folder, dst_dir_fd=chain[-1]
                    )
                except FileNotFoundError:
                    return False
                except OSError as error:
                    self._check_ours(error, name, leaf, chain[-1], draft)
                with translated(name, "create", Effect.BEGUN):
                    self._tree.sync(chain)
        except FileNotFoundError:
            return False
        except OSError as error:
            if is_blocked(error):
                raise ChunkNameError(
                    "a part of the name is no folder", chunk=name, operation="create"
                ) from error
            raise chunk_error(error, chunk=name, operation="create", effect=Effect.NONE) from error
        return True

    def _check_ours(
        self, error: OSError, name: str, leaf: bytes, folder: int, draft: _Draft
    ) -> None:
        """Raise what a link that failed means, unless the name leads to our own file.

        The answer of a link that took place may be lost; one that is sent again then finds the name
        taken, by itself.
        """
        if error.errno in _NO_LINKS:
            raise CapabilityError(
                "the file system makes no hard links, which whole creates need",
                chunk=name,
                path=self._tree.path,
                errno=errno.errorcode[error.errno],
            ) from error
        is_taken = error.errno == errno.EEXIST
        try:
            status = self._tree.fresh(lambda: self._looked_at(leaf, folder), folder)
        except FileNotFoundError:
            status = None
        except OSError as failed:
            if is_taken:
                # By another client, or by this very link: only the look could have told.
                raise chunk_error(
                    failed, chunk=name, operation="create", effect=Effect.BEGUN
                ) from error
            status = None
        if status is None or (status.st_dev, status.st_ino) != draft.file:
            raise chunk_error(
                error, chunk=name, operation="create", effect=Effect.ONE_CALL
            ) from error

    def _looked_at(self, leaf: bytes, folder: int) -> os.stat_result:
        status = seen(self._calls, leaf, folder)
        if status is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return status

    def _check_kept(self, name: str, draft: _Draft) -> None:
        """Make sure that it was not the draft that was missing."""
        try:
            self._calls.stat(draft.name, dir_fd=draft.folder)
        except FileNotFoundError as error:
            raise ChunkUnavailableError(
                "the draft of the chunk was swept meanwhile", chunk=name, operation="create"
            ) from error
