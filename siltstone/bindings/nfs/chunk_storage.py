"""Chunk storage in a folder, by POSIX calls alone.

What makes it safe: a name is taken by ``O_EXCL``; bytes go to a verified end and are synced before
they are acknowledged; so is every folder between a new chunk and the root. A chunk that is
seen as a whole or not at all is written as a draft, which then gets the name by a link; no other
verb has temporary files.
"""

from __future__ import annotations

import os
import stat as modes
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from siltstone.bindings.nfs.errors import FULL, Effect, chunk_error, translated
from siltstone.bindings.nfs.kept_files import KeptFiles
from siltstone.bindings.nfs.lists import (
    LITTER,
    LITTER_BEGINS,
    PLAIN,
    Range,
    chunk_stat,
    seen,
    walk,
)
from siltstone.bindings.nfs.tree import RACES_MAX, Tree, is_blocked, is_missing
from siltstone.bindings.nfs.whole_creates import WholeCreator
from siltstone.core.chunk_arguments import (
    check_buffers,
    check_chunk_name,
    check_listing,
    check_offset,
    check_target,
    check_whole,
    require,
)
from siltstone.core.chunk_storage import UNLIMITED, Buffer, Capabilities, ChunkStat
from siltstone.core.constants import MIB
from siltstone.core.drafts import is_reserved
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkNameError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.posix import FileCalls, SystemFileCalls, read_fully
from siltstone.core.storage.durable_writes import write_durably, write_stream_durably
from siltstone.core.storage.key_locks import NameLocks
from siltstone.core.storage.optional_verbs import ReadNow, checked_pieces

KEPT_BYTES_MAX = MIB
"""A reader of more than this, and of all of a chunk at a time, does not come back to it."""
CAPABILITIES = Capabilities(
    append=True,
    seal=True,
    used_space=True,
    free_space=True,
    streams=True,
    overwrite=True,
    whole=True,
)
WRITE_BITS = modes.S_IWUSR | modes.S_IWGRP | modes.S_IWOTH


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A chunk's name, taken apart."""

    name: str
    parents: tuple[bytes, ...]
    leaf: bytes

    @property
    def key(self) -> bytes:
        return b"/".join((*self.parents, self.leaf))


def _place_of(name: str, key: bytes) -> _Place:
    *parents, leaf = key.split(b"/")
    return _Place(name=name, parents=tuple(parents), leaf=leaf)


class NfsChunkStorage:
    """A ``ChunkStorage`` whose chunks are the regular files below one folder.

    A key is the path below the folder, so a chunk's name cannot be a folder of another's. Links,
    pipes and what an NFS client leaves over (``.nfs…``) are no chunks. A write checks the end
    under a lock of this process; between processes the epoch in a chunk's name keeps writers apart.

    An NFS client knows names and attributes from memory. So what is asked for is opened, which lets
    it ask its server, and a name that seems to be missing is looked up again in a fresh folder.

    Args:
        path: the root folder; made with its parents by the first ``create``.
        calls: the file calls, replaced in tests.
    """

    def __init__(self, path: str | os.PathLike[str], *, calls: FileCalls | None = None) -> None:
        self._calls = calls or SystemFileCalls()
        self._tree = Tree(os.fspath(path), self._calls)
        self._whole = WholeCreator(self._tree, self._calls)
        self._locks = NameLocks()
        self._kept = KeptFiles(self._calls)

    @property
    def capabilities(self) -> Capabilities:
        """Append, seal, used and free space; no concat, since it would be a copy."""
        return CAPABILITIES

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Take the name with ``O_EXCL``; sync the file, then each folder up to the root."""
        place = self._place(name, "create")
        check_buffers(buffers)
        self._create(place, lambda fd: write_durably(self._calls, fd, buffers, 0))

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        """Create a chunk with bytes as they come; see ``StreamedCreates``."""
        place = self._place(name, "create")
        if length < 1:
            raise ValueError("a chunk has one byte at least")
        checked = checked_pieces(length, pieces)
        self._create(place, lambda fd: write_stream_durably(self._calls, fd, checked, 0))

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Sync a draft, link it to the name, and sync each folder up to the root."""
        place = self._place(name, "create")
        check_whole(buffers, CAPABILITIES)
        self._whole.create(name, place.parents, place.leaf, buffers)

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """Remove the drafts that whole creates left; see ``Leftovers``. One listing of a folder."""
        self._tree.check_open()
        check_listing(prefix, "")
        return self._whole.sweep(prefix, time.time() - age_s)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write at the end that ``fstat`` tells, and sync."""
        self._put(name, "write", offset, buffers)

    def overwrite(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write at the end or before it, and sync."""
        self._put(name, "overwrite", offset, buffers)

    def _put(self, name: str, operation: str, offset: int, buffers: Sequence[Buffer]) -> None:
        place = self._place(name, operation)
        check_offset(offset)
        check_buffers(buffers)
        with self._changing(place, operation, os.O_WRONLY) as (fd, status):
            if not status.st_mode & WRITE_BITS:
                raise ChunkAccessDeniedError("chunk is sealed", chunk=name, operation=operation)
            end = status.st_size
            if offset > end or (offset < end and operation == "write"):
                raise ChunkOffsetError(chunk=name, operation=operation, expected=end, actual=offset)
            with translated(name, operation, Effect.BEGUN):
                write_durably(self._calls, fd, buffers, offset)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """Read until the buffer is full or the file ends."""
        key = self._key(name, "read_into")
        check_offset(offset)
        check_target(buffer)
        fd = self._tree.open_file(key, os.O_RDONLY | PLAIN)
        if fd is None:
            place = _place_of(name, key)
            with self._opened(place, "read_into") as (fd, status), translated(name, "read_into"):
                return self._read(name, fd, status, offset, buffer)
        try:
            with translated(name, "read_into"):
                return self._read(name, fd, self._calls.fstat(fd), offset, buffer)
        finally:
            # Nothing was written through it, so its closing tells nothing.
            with suppress(OSError):
                self._calls.close(fd)

    def _read(
        self,
        name: str,
        fd: int,
        status: os.stat_result,
        offset: int,
        buffer: memoryview | bytearray,
    ) -> int:
        length = status.st_size
        if not modes.S_ISREG(status.st_mode):
            raise _not_found(name, "read_into")
        if offset > length:
            raise ChunkOffsetError(
                chunk=name, operation="read_into", expected=length, actual=offset
            )
        # A caller that asks for no more than there is need not be told that this is the end.
        view = memoryview(buffer)[: length - offset]
        count = read_fully(self._calls, fd, view, offset)
        if len(buffer) <= KEPT_BYTES_MAX or len(buffer) < length:
            self._kept.keep(name, fd, status.st_nlink)
        return count

    def immediate_reads(self) -> ReadNow:
        """Of chunks that were read shortly before, what the kernel has in memory."""
        return self._kept.read

    def stat(self, name: str) -> ChunkStat:
        """Open the file to ask, which lets an NFS client ask its server."""
        with self._opened(self._place(name, "stat"), "stat") as (_, status):
            return chunk_stat(name, status)

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """Walk the folders in order; in memory are the names of one folder for each level."""
        self._tree.check_open()
        wanted = Range(*check_listing(prefix, start_after))
        return self._listed(prefix, wanted)

    def delete(self, name: str) -> None:
        """Remove the name, sync its folder, and drop the folders that became empty.

        A chunk that goes between the look at it and its removal is missing, by this call or by
        another client: the outcome is unknown.
        """
        place = self._place(name, "delete")
        self._kept.forget(name)
        with (
            self._locks.hold(place.key),
            translated(name, "delete"),
            self._tree.folders(place.parents) as chain,
        ):
            status = self._tree.fresh(
                lambda: self._calls.stat(place.leaf, dir_fd=chain[-1]), chain[-1]
            )
            if not modes.S_ISREG(status.st_mode):
                raise _not_found(name, "delete")
            with translated(name, "delete", Effect.ONE_CALL):
                try:
                    self._calls.unlink(place.leaf, dir_fd=chain[-1])
                except FileNotFoundError as error:
                    # An NFS client that asks a restarted server again gets this answer for its own
                    # removal; or another process was faster.
                    raise _not_found(name, "delete", Outcome.UNKNOWN) from error
                # A reader that came before the removal may keep the file after the look above.
                self._kept.forget(name)
            with translated(name, "delete", Effect.BEGUN):
                self._calls.fsync(chain[-1])
            self._tree.prune(chain, place.parents)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """Not supported: a file system would copy the bytes."""
        self._tree.check_open()
        require("concat", able=CAPABILITIES.concat)

    def seal(self, name: str) -> None:
        """Clear the write bits; ``write`` checks them, so that they bind the super-user as well."""
        place = self._place(name, "seal")
        with self._changing(place, "seal", os.O_RDONLY) as (fd, status):
            mode = modes.S_IMODE(status.st_mode) & ~WRITE_BITS
            with translated(name, "seal", Effect.ONE_CALL):
                self._calls.fchmod(fd, mode)
            with translated(name, "seal", Effect.BEGUN):
                self._calls.fsync(fd)

    def used_space(self) -> int:
        """The lengths of all chunks, added up: a walk over the whole tree, so call it rarely."""
        return sum(found.length for found in self.list())

    def free_space(self) -> int:
        """What the file system lets a plain user write; some network ones do not tell."""
        with translated("", "free_space"), self._tree.folders(()) as chain:
            sizes = self._calls.fstatvfs(chain[-1])
        return sizes.f_bavail * sizes.f_frsize if sizes.f_blocks else UNLIMITED

    def uri_of(self, name: str) -> str:
        """The path of the file, for machines that have the share at the same place."""
        check_chunk_name(name, "uri_of")
        return f"file://{self._tree.path}/{name}"

    def close(self) -> None:
        """Close the root folder when the calls in progress are done."""
        self._kept.close()
        self._tree.close()

    def _place(self, name: str, operation: str) -> _Place:
        return _place_of(name, self._key(name, operation))

    def _key(self, name: str, operation: str) -> bytes:
        self._tree.check_open()
        key = check_chunk_name(name, operation)
        if LITTER_BEGINS in key and any(LITTER.fullmatch(part) for part in key.split(b"/")):
            raise ChunkNameError("name is reserved by NFS clients", chunk=name, operation=operation)
        if is_reserved(name):
            raise ChunkNameError("name is reserved for drafts", chunk=name, operation=operation)
        return key

    def _create(self, place: _Place, write: Callable[[int], None]) -> None:
        for _ in range(RACES_MAX):
            if self._created(place, write):
                return
        raise ChunkUnavailableError(
            "the folder is removed again and again", chunk=place.name, operation="create"
        )

    def _created(self, place: _Place, write: Callable[[int], None]) -> bool:
        """Create once; ``False`` when the folder was removed under us and nothing was done."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with self._tree.folders(place.parents, make=True) as chain:
                try:
                    fd = self._calls.open(place.leaf, flags, 0o666, dir_fd=chain[-1])
                except FileNotFoundError:
                    return False
                except OSError as error:
                    raise chunk_error(
                        error, chunk=place.name, operation="create", effect=Effect.ONE_CALL
                    ) from error
                try:
                    self._fill(fd, write)
                    self._tree.sync(chain)
                except OSError as error:
                    raise self._undone(error, place, chain[-1]) from error
        except FileNotFoundError:
            return False
        except OSError as error:
            if is_blocked(error):
                raise ChunkNameError(
                    "a part of the name is no folder", chunk=place.name, operation="create"
                ) from error
            raise chunk_error(
                error, chunk=place.name, operation="create", effect=Effect.NONE
            ) from error
        return True

    def _fill(self, fd: int, write: Callable[[int], None]) -> None:
        try:
            write(fd)
        finally:
            # NFS may tell of a full disk only here, so a failing close is a failing create.
            self._calls.close(fd)

    def _undone(self, error: OSError, place: _Place, folder: int) -> ChunkError:
        """Give the room of a chunk that did not fit back, and tell what is known of the create.

        Only a full disk is cleaned up after, where the bytes would keep it full. The create did not
        happen if the removal is durable; in all other cases that is unknown.
        """
        failed = chunk_error(error, chunk=place.name, operation="create", effect=Effect.BEGUN)
        if error.errno not in FULL:
            return failed
        try:
            self._calls.unlink(place.leaf, dir_fd=folder)
            self._calls.fsync(folder)
        except OSError:
            return failed
        failed.outcome = Outcome.NOT_APPLIED
        return failed

    @contextmanager
    def _changing(
        self, place: _Place, operation: str, flags: int
    ) -> Iterator[tuple[int, os.stat_result]]:
        with (
            self._locks.hold(place.key),
            self._opened(place, operation, flags) as opened,
        ):
            yield opened

    @contextmanager
    def _opened(
        self, place: _Place, operation: str, flags: int = os.O_RDONLY
    ) -> Iterator[tuple[int, os.stat_result]]:
        """Yield descriptor and attributes of a chunk; anything but a regular file is not found."""
        with translated(place.name, operation), self._tree.folders(place.parents) as chain:
            fd = self._tree.fresh(
                lambda: self._calls.open(place.leaf, flags | PLAIN, dir_fd=chain[-1]), chain[-1]
            )
        try:
            with translated(place.name, operation):
                status = self._calls.fstat(fd)
            if not modes.S_ISREG(status.st_mode):
                raise _not_found(place.name, operation)
            yield fd, status
        except BaseException:
            # The first failure tells the outcome; one of closing must not hide it.
            with suppress(OSError):
                self._calls.close(fd)
            raise
        effect = Effect.NONE if flags == os.O_RDONLY else Effect.BEGUN
        with translated(place.name, operation, effect):
            self._calls.close(fd)

    def _listed(self, prefix: str, wanted: Range) -> Iterator[ChunkStat]:
        base = wanted.prefix[: wanted.prefix.rfind(b"/") + 1]
        parts = base.split(b"/")[:-1]
        if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
            return  # No key has such a part.
        with translated(prefix, "list"):
            try:
                with self._tree.folders(parts) as chain:
                    folder = self._calls.open(b".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=chain[-1])
            except OSError as error:
                if is_missing(error):
                    return
                raise
            for fd, leaf, key in walk(self._calls, folder, base, wanted):
                status = seen(self._calls, leaf, fd)
                if status is not None and modes.S_ISREG(status.st_mode):
                    yield chunk_stat(key.decode("utf-8"), status)
                    self._tree.check_open()


def _not_found(
    name: str, operation: str, outcome: Outcome = Outcome.NOT_APPLIED
) -> ChunkNotFoundError:
    return ChunkNotFoundError("no such chunk", chunk=name, operation=operation, outcome=outcome)
