"""Large frames go to the disk past the page cache.

A large frame is never read again unless its owner dies. Through the page cache it would be copied
into pages that the file had not had before, and to find and clear these costs more processor than
all else that an append does, most of all where a virtual machine gives free memory back.

The disk takes whole blocks at block borders, from memory that begins at a page. So a frame is
copied there after the bytes that share its first block, with zeros up to the end of its last one.
Those bytes are the end of the frame before, and those zeros are there already: no byte of the file
changes but the frame's.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Final

from siltstone.core.constants import FRAME_BYTES_MAX, KIB
from siltstone.core.errors import LogError
from siltstone.core.records.frame import EncodedFrame
from siltstone.tier1.file.errors import NO_DIRECT
from siltstone.tier1.file.folder import BLOCK_BYTES, LogFolder, OpenFile, read_at
from siltstone.tier1.file.names import FileKey

DIRECT_BYTES_MIN: Final = 256 * KIB
"""Smallest frame that is written so. Below it there is nothing to gain, and a follower of the
log finds it in memory."""


class DirectWriter:
    """Writes large frames of one epoch. Not thread-safe.

    ``write`` raises ``OSError`` besides what it says; after any of these the files must not be used
    again.
    """

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder
        self._calls = folder.calls
        self._memory: memoryview | None = None
        self._is_refused = False
        self._key: FileKey | None = None
        self._fd = -1
        self._end = 0
        """Where the frame ended that was written last; the rest of its last block leads memory."""

    def write(self, file: OpenFile, frame: EncodedFrame, offset: int) -> bool:
        """Write ``frame`` at ``offset``, not durable yet; return False to have it written again.

        That is so where the file system cannot write past the page cache. All bytes of the file
        from ``offset`` on must be zeros.

        Raises:
            LogError: the write was cut short.
        """
        head = offset % BLOCK_BYTES
        start = offset - head
        end = head + frame.size
        length = -(-end // BLOCK_BYTES) * BLOCK_BYTES
        if start + length > file.size or not self._open(file):
            return False
        memory = self._filled(file, frame, offset, head)
        memory[end:length] = bytes(length - end)
        try:
            count = self._calls.pwritev(self._fd, [memory[:length]], start)
        except OSError as error:
            if error.errno not in NO_DIRECT:
                raise
            self._is_refused = True
            return False
        if count != length:
            raise LogError("a write was cut short", path=self._folder.path)
        rest = end % BLOCK_BYTES
        memory[:rest] = memory[end - rest : end]
        self._end = offset + frame.size
        return True

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        fd, self._fd, self._key, self._end = self._fd, -1, None, 0
        if fd >= 0:
            self._calls.close(fd)

    def _filled(self, file: OpenFile, frame: EncodedFrame, offset: int, head: int) -> memoryview:
        """The memory with the bytes that share the first block, and the frame after them."""
        memory = self._memory
        if memory is None:
            memory = self._memory = _memory()
        if head and self._end != offset:
            memory[:head] = read_at(self._calls, file.fd, offset - head, head)
        self._end = 0
        position = head
        for buffer in frame.buffers:
            end = position + len(buffer)
            memory[position:end] = buffer
            position = end
        return memory

    def _open(self, file: OpenFile) -> bool:
        """Open the file a second time, once; return whether that went well."""
        if self._is_refused:
            return False
        if self._key != file.key:
            self.close()
            self._key = file.key
            # Nothing is lost by a failure: the frame is written the other way then.
            with suppress(OSError):
                flags = os.O_RDWR | os.O_DIRECT
                fd = self._calls.open(self._folder.file(file.key.name), flags)
                if self._is(fd, file.fd):
                    self._fd = fd
                else:  # The folder is another one, and this owner is fenced.
                    self._calls.close(fd)
        return self._fd >= 0

    def _is(self, fd: int, other: int) -> bool:
        try:
            return os.path.samestat(self._calls.fstat(fd), self._calls.fstat(other))
        except OSError:
            return False


def _memory() -> memoryview:
    """Memory for the largest frame, of large pages if there are any: few pieces for the disk."""
    memory = mmap.mmap(-1, FRAME_BYTES_MAX + 2 * BLOCK_BYTES)
    with suppress(OSError):  # a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)
