"""The bytes of a range, from chunks and from what travelled with the task; verified by sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkNotFoundError, LostDataError
from siltstone.core.storage.block_reads import read_blocks, read_exactly
from siltstone.core.storage.optional_verbs import piece_bytes
from siltstone.pipelines.window import ChunkRun, Window

READ_BYTES: Final = MIB
"""Read and split at a time: small enough to stay in the cache between the two."""

FAR_READ_BYTES: Final = 8 * MIB
"""Read and split at a time from a service across a network, where each read is a request."""

READ_BYTES_MAX: Final = 64 * MIB
LOOK_UPS_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferStretch:
    """Some bytes inside a buffer, which belongs to the receiver.

    Attributes:
        buffer: holds them, and other bytes around them.
        begin: index of the first.
        end: index after the last.
    """

    buffer: bytearray
    begin: int
    end: int

    def view(self, begin: int, end: int) -> memoryview:
        """The bytes between two indexes of the buffer."""
        return memoryview(self.buffer)[begin:end]


class ByteSource:
    """Reads a range of a segment from its window, and finds a new window when that is not enough.

    Args:
        storage: long-term storage; stays the caller's.
        window: where the bytes were when the read was planned.
        look_up: gives a window that begins at an offset, as things are now.
        read_bytes: about how many bytes a read gives; more of a service that is far away.
        stop: reading ends here, as if the segment did; ``None`` means that it ends there itself.
        one_buffer: every read gives the same buffer, so what it gave before is gone.
    """

    def __init__(
        self,
        storage: ChunkStorage,
        window: Window,
        look_up: Callable[[int], Window],
        *,
        read_bytes: int = READ_BYTES,
        stop: int | None = None,
        one_buffer: bool = False,
    ) -> None:
        self._stop = stop
        self._buffer = bytearray() if one_buffer else None
        self._read_bytes = max(read_bytes, piece_bytes(storage, FAR_READ_BYTES))
        self._storage = storage
        self._window = window
        self._look_up = look_up

    def read(self, kept: bytes, offset: int) -> BufferStretch:
        """Return ``kept`` and after it bytes from ``offset`` on, at least one of them.

        The more is kept, the more is read. So a line longer than one read costs no more than a few
        copies of its bytes.

        Args:
            kept: bytes from before ``offset`` that belong to what follows.
            offset: in the segment, below its end.

        Raises:
            CorruptDataError: a block does not match its sum, twice.
            LostDataError: a chunk is gone, and the store still says that the bytes are in it.
            SegmentTruncatedError: the chunk is gone since the bytes were truncated.
            SegmentNotFoundError: the chunk is gone since the segment was deleted.
            ChunkError: long-term storage did not answer.
        """
        gone: ChunkNotFoundError | None = None
        for _ in range(LOOK_UPS_MAX):
            if not self._window.start <= offset < self._window.end:
                self._window = self._look_up(offset)
            if offset >= self._window.tail_offset:
                return self._from_tail(kept, offset)
            run = self._window.run_at(offset)
            if gone is not None and run.chunk == gone.chunk:
                break
            try:
                return self._from_chunk(run, kept, offset)
            except ChunkNotFoundError as error:
                # Truncated, deleted or merged since the planning, or lost: the store knows.
                gone = error
                self._window = self._look_up(offset)
        assert gone is not None, "only a chunk that is gone leads to another look-up"
        raise LostDataError("chunk does not exist any more", where=gone.chunk) from gone

    def _from_tail(self, kept: bytes, offset: int) -> BufferStretch:
        begin = offset - self._window.tail_offset
        part = memoryview(self._window.tail)[begin : begin + self._length(kept, offset)]
        buffer = bytearray(len(kept) + len(part))
        buffer[: len(kept)] = kept
        buffer[len(kept) :] = part
        return BufferStretch(buffer=buffer, begin=0, end=len(buffer))

    def _from_chunk(self, run: ChunkRun, kept: bytes, offset: int) -> BufferStretch:
        if not run.sums:
            return self._unverified(run, kept, offset)
        blocks = run.blocks_at(offset, self._length(kept, offset))
        # The first block may begin before ``offset``; once it is verified that part is free.
        lead = blocks.offset - blocks.start
        begin = max(len(kept), lead)
        start = begin - lead
        buffer_end = start + blocks.end - blocks.start
        buffer = self._room(buffer_end)
        with memoryview(buffer) as view:
            read_blocks(self._storage, blocks, view[start:buffer_end])
            view[begin - len(kept) : begin] = kept
        length = blocks.length if self._stop is None else min(blocks.length, self._stop - offset)
        return BufferStretch(buffer=buffer, begin=begin - len(kept), end=begin + length)

    def _unverified(self, run: ChunkRun, kept: bytes, offset: int) -> BufferStretch:
        """Bytes in place that have no sums."""
        length = min(self._length(kept, offset), run.end - offset)
        buffer = bytearray(len(kept) + length)
        with memoryview(buffer) as view:
            view[: len(kept)] = kept
            read_exactly(
                self._storage, run.chunk, run.chunk_offset + offset - run.start, view[len(kept) :]
            )
        return BufferStretch(buffer=buffer, begin=0, end=len(buffer))

    def _room(self, length: int) -> bytearray:
        """A buffer of at least this many bytes; fresh memory costs as much as reading."""
        if self._buffer is None:
            return bytearray(length)
        if len(self._buffer) < length:
            self._buffer = bytearray(length)
        return self._buffer

    def _length(self, kept: bytes, offset: int) -> int:
        length = min(max(self._read_bytes, len(kept)), READ_BYTES_MAX)
        return length if self._stop is None else min(length, self._stop - offset)
