"""The peer of durable appends: what a pipeline must do, without anything that a store adds.

It batches, joins, checksums, writes with ``pwritev`` and syncs, with a future for each append and
one thread for the file. There are no segments, no fence, no frames, no back-pressure, no flush, and
no bound: what is left is the cost of Python, of the loop and of the disk.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crc32c import crc32c

FILE_BYTES = 64 * 2**20


class BarePipeline:
    """Appends to ``file``, on ``loop``."""

    def __init__(self, file: PlainFile, loop: asyncio.AbstractEventLoop) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bare-pipeline")
        self._loop = loop
        self._create_future = self._loop.create_future
        self._end = 0
        self._is_sending = False
        self._parts: list[bytes] = []
        self._futures: list[asyncio.Future[int]] = []
        self._offsets: list[int] = []

    def append(self, data: bytes) -> asyncio.Future[int]:
        """Append; the future gets the offset as soon as the bytes are durable."""
        offset = self._end
        self._end = offset + len(data)
        self._parts.append(data)
        self._offsets.append(offset)
        future = self._create_future()
        self._futures.append(future)
        if not self._is_sending:
            self._is_sending = True
            # Not at once: appends in the same turn of the loop join the batch.
            self._loop.call_soon(self._send)
        return future

    def _send(self) -> None:
        parts, self._parts = self._parts, []
        futures, self._futures = self._futures, []
        offsets, self._offsets = self._offsets, []
        written = self._loop.run_in_executor(self._thread, self._write, parts)

        def acknowledge(done: asyncio.Future[None]) -> None:
            done.result()
            for future, offset in zip(futures, offsets, strict=True):
                if not future.done():
                    future.set_result(offset)
            if self._parts:
                self._send()
            else:
                self._is_sending = False

        written.add_done_callback(acknowledge)

    def _write(self, parts: list[bytes]) -> None:
        data = b"".join(parts)
        header = len(data).to_bytes(4, "little") + crc32c(data).to_bytes(4, "little")
        self._file.write([header, data])

    def __enter__(self) -> BarePipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()


class PlainFile:
    """A preallocated file that is written from its start to its end, and then again.

    Args:
        path: must not exist.
        overwrite: every block was written before, so a sync has only data to write, and the disk
            gives its maximum. Otherwise blocks are only reserved, as in a log that does not reuse
            its files; the file system notes the first write of each.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._overwrite = overwrite
        self._position = 0
        self._reserve()
        if overwrite:
            zeros = bytes(2**20)
            for position in range(0, FILE_BYTES, len(zeros)):
                os.pwrite(self._fd, zeros, position)
            os.fsync(self._fd)

    def write(self, buffers: list[bytes]) -> None:
        """Write ``buffers`` after the last written bytes, durably."""
        size = sum(map(len, buffers))
        if self._position + size > FILE_BYTES:
            self._position = 0
            if not self._overwrite:
                os.ftruncate(self._fd, 0)
                self._reserve()
        if os.pwritev(self._fd, buffers, self._position) != size:
            raise OSError("a write was cut short")
        os.fdatasync(self._fd)
        self._position += size

    def _reserve(self) -> None:
        os.posix_fallocate(self._fd, 0, FILE_BYTES)
        os.fsync(self._fd)

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
