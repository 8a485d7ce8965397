"""A range of bytes in blocks of one size, independent of chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy
import pyarrow

from siltstone.pipelines.byte_source import BufferStretch
from siltstone.pipelines.event_starts import Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRun:
    """Blocks one after the other, at least one, of one size except for the last.

    Attributes:
        base: offset in the segment of the first one.
        view: their bytes.
        block_bytes: of each.
    """

    base: int
    view: memoryview
    block_bytes: int

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-len(self.view) // self.block_bytes)

    @property
    def offsets(self) -> Numbers:
        """Where each begins in the segment."""
        return self.base + self.block_bytes * numpy.arange(self.count, dtype=numpy.int64)


def read_block_runs(
    read: Callable[[bytes, int], BufferStretch], start: int, stop: int, block_bytes: int
) -> Iterator[BlockRun]:
    """Yield ``[start, stop)`` in blocks from ``start`` on; the last may be shorter.

    Args:
        read: see ``ByteSource.read``.
        start: first offset.
        stop: end of the range.
        block_bytes: of each block.
    """
    offset, kept = start, b""
    while offset < stop:
        stretch = read(kept, offset)
        position = offset - len(kept)
        have = min(stretch.end - stretch.begin, stop - position)
        offset = position + have
        whole = have if offset == stop else have // block_bytes * block_bytes
        if whole:
            view = stretch.view(stretch.begin, stretch.begin + whole)
            yield BlockRun(base=position, view=view, block_bytes=block_bytes)
        kept = bytes(stretch.view(stretch.begin + whole, stretch.begin + have))


def block_values(run: BlockRun, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return the blocks of ``run`` as an array of ``kind``, over the bytes where they are."""
    offsets = numpy.arange(run.count + 1, dtype=numpy.int64) * run.block_bytes
    offsets[-1] = len(run.view)
    buffers = [None, pyarrow.py_buffer(offsets.astype(numpy.int32)), pyarrow.py_buffer(run.view)]
    return pyarrow.Array.from_buffers(kind, run.count, buffers)
