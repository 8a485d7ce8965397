"""Chunk storage in a folder of HDFS.

What makes it safe: the NameNode gives a name to one client; bytes are added by the holder of the
lease, which looks at the length meanwhile; what is acknowledged was synced on the DataNodes, and
the file is closed again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from siltstone.bindings.hdfs.calls import Turn
from siltstone.bindings.hdfs.errors import translated
from siltstone.bindings.hdfs.lists import chunk_stat, list_chunks
from siltstone.bindings.hdfs.reads import read_range
from siltstone.bindings.hdfs.service import Service
from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.bindings.hdfs.web import look_at_web, room_told
from siltstone.bindings.hdfs.whole_creates import create_whole, sweep_drafts
from siltstone.bindings.hdfs.writes import WRITE_BITS, append, change, create, make_closed
from siltstone.core.chunk_arguments import (
    check_buffers,
    check_listing,
    check_offset,
    check_target,
    check_whole,
    require,
)
from siltstone.core.chunk_storage import UNLIMITED, Buffer, Capabilities, ChunkStat
from siltstone.core.errors import ChunkNotFoundError, SettingsError
from siltstone.core.remote.deadline import DeadlineError
from siltstone.core.remote.remote_chunk_storage import RemoteChunkStorage, after_look
from siltstone.core.remote.target import Target
from siltstone.core.storage.key_locks import NameLocks

if TYPE_CHECKING:
    from hdfs_native import ContentSummary

COPIES: Final = 3
"""Of each block, where there is nothing yet to tell by; what the NameNode does by itself."""


def open_folder(settings: HdfsSettings) -> HdfsChunkStorage:
    """Return the chunk storage of a folder, after one look at it and one at WebHDFS.

    Raises:
        SettingsError: ``path`` is a file, or ``webhdfs`` is no WebHDFS.
        ChunkError: the service refused, or did not answer.
    """
    storage = HdfsChunkStorage(settings)
    return after_look(storage, storage.look)


class HdfsChunkStorage(RemoteChunkStorage):
    """A ``ChunkStorage`` whose chunks are the files below one folder.

    A key is the path below the folder, so a chunk's name cannot be a folder of another's. One
    client serves all threads of a process; it is of no use in a process that was forked, and can
    not be pickled.

    Args:
        settings: NameNode, folder and the rest; nothing is sent before the first call.

    Attributes:
        service: the folder, for the other parts of the binding.
    """

    def __init__(self, settings: HdfsSettings) -> None:
        self.service = Service(settings)
        # No concat: that of HDFS removes its sources.
        able = Capabilities(
            append=settings.unsafe_append,
            seal=True,
            used_space=True,
            free_space=True,
            offset_checked=settings.unsafe_append,
            whole=True,
        )
        super().__init__(self.service, able)
        self._settings = settings
        self._locks = NameLocks()

    def __repr__(self) -> str:
        settings = self._settings
        return f"HdfsChunkStorage(namenode={settings.namenode!r}, path={settings.path!r})"

    def uri_of(self, name: str) -> str:
        """See ``Addresses``."""
        return f"{self._settings.namenode}{self.service.key(name, 'uri_of')}"

    def look(self) -> None:
        """See ``open_folder``."""
        deadline = self.service.deadline(0)

        def call(turn: Turn) -> bool:
            with translated("", "stat"):
                try:
                    return bool((self.service.client.get_file_info(self._settings.path)).isdir)
                except FileNotFoundError:
                    return True

        if not self.service.run(call, deadline, "", "stat"):
            raise SettingsError(f"hdfs.path: {self._settings.path} is no folder")
        try:
            wrong = look_at_web(self._settings, deadline)
        except DeadlineError as error:
            raise self.service.late("", "stat", changes=False) from error
        if wrong is not None:
            raise SettingsError(f"hdfs.webhdfs: {wrong}")

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Take the name, write, sync, and close."""
        path = self.service.key(name, "create")
        length = check_buffers(buffers)
        target = self._target(name, path, "create", length)
        change(
            self.service,
            target,
            lambda turn, hand: create(turn, hand, self.service, target, buffers, length),
        )

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Write a draft, sync, close, and rename it."""
        path = self.service.key(name, "create")
        length = check_whole(buffers, self.capabilities)
        create_whole(self.service, self._target(name, path, "create", length), buffers, length)

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """Remove the drafts that whole creates left; see ``Leftovers``."""
        self.service.check_open()
        check_listing(prefix, "")
        return sweep_drafts(self.service, prefix, time.time() - age_s)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """Take the lease, look at the length, write, sync, and close."""
        path = self.service.key(name, "write")
        require("append", able=self.capabilities.append)
        check_offset(offset)
        length = check_buffers(buffers)
        with self._locks.hold(path.encode()):
            target = self._target(name, path, "write", length)
            change(
                self.service,
                target,
                lambda turn, hand: append(
                    turn, hand, self.service, target, offset, buffers, length
                ),
            )

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """From the DataNodes; by WebHDFS what is being written, or when that is done."""
        path = self.service.key(name, "read_into")
        check_offset(offset)
        check_target(buffer)
        view = memoryview(buffer).cast("B") if len(buffer) else memoryview(b"")
        return read_range(self.service, name, path, offset, view)

    def stat(self, name: str) -> ChunkStat:
        """What the NameNode knows."""
        path = self.service.key(name, "stat")

        def call(turn: Turn) -> ChunkStat:
            with translated(name, "stat"):
                return chunk_stat(name, self.service.info(path))

        return self.service.run(call, self.service.deadline(0), name, "stat")

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """Walk the folders in order; in memory are the names of one folder for each level."""
        self.service.check_open()
        check_listing(prefix, start_after)
        return list_chunks(self.service, prefix, start_after)

    def delete(self, name: str) -> None:
        """Remove the file, and the folders that became empty."""
        path = self.service.key(name, "delete")
        with self._locks.hold(path.encode()):
            self.service.run(
                lambda _: self._deleted(name, path),
                self.service.deadline(0),
                name,
                "delete",
                changes=True,
            )

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """Not supported: the service would remove the sources."""
        self.service.check_open()
        require("concat", able=self.capabilities.concat)

    def seal(self, name: str) -> None:
        """Clear the write bits, then close the file to a writer that still has it open.

        ``write`` looks at the bits, so that they bind the super-user as well.
        """
        path = self.service.key(name, "seal")

        def call(turn: Turn) -> None:
            with translated(name, "seal"):
                status = self.service.info(path)
            with translated(name, "seal", changes=True):
                self.service.client.set_permission(path, status.permission & ~WRITE_BITS)
            with translated(name, "seal", changes=True, is_begun=True):
                make_closed(turn, self.service, path)

        with self._locks.hold(path.encode()):
            self.service.run(call, self.service.deadline(0), name, "seal", changes=True)

    def used_space(self) -> int:
        """The lengths of all files of the folder, as the NameNode adds them up; one copy counts."""
        self.service.check_open()
        summary = self._summary("used_space")
        return 0 if summary is None else int(summary.length)

    def free_space(self) -> int:
        """What the quota of the folder leaves, and by WebHDFS what the DataNodes have room for.

        Each byte takes as much room as there are copies. Without both, nothing tells a limit.
        """
        self.service.check_open()
        summary = self._summary("free_space")
        copies = self._settings.replication or COPIES
        rooms = []
        if summary is not None:
            if summary.length:
                copies = max(1, round(summary.space_consumed / summary.length))
            if 0 <= summary.space_quota <= UNLIMITED:
                rooms.append(max(0, summary.space_quota - summary.space_consumed))
        try:
            room = room_told(self._settings, self.service.deadline(0))
        except DeadlineError as error:
            raise self.service.late("", "free_space", changes=False) from error
        if room is not None:
            rooms.append(room)
        return min(rooms) // copies if rooms else UNLIMITED

    def _summary(self, operation: str) -> ContentSummary | None:
        """What the NameNode says of the whole folder; ``None`` when it is not there."""

        def call(turn: Turn) -> ContentSummary | None:
            with translated("", operation):
                try:
                    return self.service.client.get_content_summary(self._settings.path)
                except FileNotFoundError:
                    return None

        return self.service.run(call, self.service.deadline(0), "", operation)

    def _deleted(self, name: str, path: str) -> None:
        client = self.service.client
        with translated(name, "delete"):
            self.service.info(path)
        with translated(name, "delete", changes=True):
            if not client.delete(path, False):
                raise ChunkNotFoundError("no such chunk", chunk=name, operation="delete")
        self.service.unclosed.discard(path)
        self._pruned(path)

    def _pruned(self, path: str) -> None:
        """Drop the folders that became empty, up to the own one. A failure does no harm.

        The NameNode has no call for folders alone. A chunk with the very name of the folder, made
        between the look and the call, would be lost, but no such names are made.
        """
        client, folder = self.service.client, path.rpartition("/")[0]
        while folder.startswith(self.service.folder):
            try:
                if not (client.get_file_info(folder)).isdir:
                    return
                if not client.delete(folder, False):
                    return
            except Exception:  # noqa: BLE001 - most often it is not empty
                return
            folder = folder.rpartition("/")[0]

    def _target(self, name: str, path: str, operation: str, length: int) -> Target:
        deadline = self.service.deadline(length)
        return Target(name=name, key=path, operation=operation, deadline=deadline)
