"""Exact reads of what proves itself, such as the records of keyspaces."""

from __future__ import annotations

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.storage.block_reads import read_exactly
from siltstone.pipelines.window import Window


def read_window(storage: ChunkStorage, window: Window, start: int, end: int) -> bytearray:
    """Read exactly the bytes ``[start, end)`` of a window, without comparing blocks with sums.

    For records that prove themselves.

    Raises:
        ChunkNotFoundError: a chunk is gone.
        LostDataError: a chunk is shorter than it was.
        ChunkError: long-term storage did not answer.
    """
    data = bytearray(end - start)
    view = memoryview(data)
    position = start
    while position < min(end, window.tail_offset):
        run = window.run_at(position)
        stop = min(end, run.end)
        part = view[position - start : stop - start]
        read_exactly(storage, run.chunk, run.chunk_offset + position - run.start, part)
        position = stop
    if position < end:
        tail = window.tail[position - window.tail_offset : end - window.tail_offset]
        view[position - start :] = tail
    return data
