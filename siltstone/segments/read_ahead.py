"""Reading ahead of sequential readers, across chunks, within a budget of bytes.

Bytes of a segment never change, so what was read ahead stays right for ever; whether it may still
be shown is asked again for each read. Reading ahead costs a copy, so it is done only while storage
is slow: over a page cache it would halve the speed. A machine that is slow itself takes long for
bytes of its page cache too, so it asks whether they are there before it reads ahead. Many bytes are
copied without holding up the other threads of the interpreter. Here it is also decided where what
is read ahead is cut, and which memory it is read into. Used on the event loop only, but for
``quick`` and ``wants``.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from siltstone.core.constants import BLOCK_BYTES, MIB
from siltstone.core.errors import SiltstoneError
from siltstone.core.records.extent import Extent

PIECE_BYTES = 12 * MIB
"""What is read ahead at a time; the last piece of a chunk takes up to twice as much with it.

A request costs the processor of either side as much as some 2 MiB, so larger pieces cost less; and
five of these are ahead where the budget is 64 MiB, which keeps the connections busy.
"""

_SPARE_MAX = 4
_EXTENTS_MAX = 64
"""A piece of this many short chunks ends, whatever its length."""


def piece_end(floor: Callable[[int], Extent | None], start: int, end: int) -> int:
    """Where a piece that begins at ``start`` ends, so that chunks are read by few calls.

    It ends at a border of blocks of its chunk, or where the chunk ends: a block that belonged to
    two pieces would be read twice. A chunk of n pieces takes n calls, never one more for its rest.

    Args:
        floor: gives the extent with the greatest start that is not above an offset.
        start: offset in the segment.
        end: the piece ends there at the latest; above ``start``.
    """
    goal, position = start + PIECE_BYTES, start
    for _ in range(_EXTENTS_MAX):
        extent = floor(position)
        if position >= end or extent is None or extent.end <= position:
            break
        if extent.end >= goal + PIECE_BYTES:
            if position > start:
                break  # a long chunk has pieces of its own
            shift = extent.chunk_offset - extent.start
            position = (goal + shift) // BLOCK_BYTES * BLOCK_BYTES - shift
            break
        position = extent.end
        if position >= goal:
            break
    return min(end, position) if position > start else min(end, goal)


class Room:
    """Memory of pieces that were taken: fresh memory costs as much as reading into it."""

    def __init__(self) -> None:
        self._spare: list[memoryview] = []

    @property
    def spare_bytes(self) -> int:
        """Bytes that are kept and not in use yet."""
        return sum(map(len, self._spare))

    def spare(self, length: int) -> memoryview | None:
        """Memory with anything in it: the least with ``length`` bytes, if less than twice as much.

        The last piece of a chunk is longer than others, and its memory is good for them as well.
        """
        sizes = [
            (len(view), index)
            for index, view in enumerate(self._spare)
            if length <= len(view) <= 2 * length
        ]
        return self._spare.pop(min(sizes)[1]) if sizes else None

    def give_back(self, view: memoryview) -> None:
        """Keep memory that nothing reads any more, rather than what was given back before."""
        self._spare.append(view)
        del self._spare[:-_SPARE_MAX]

    def shrink(self, length: int) -> None:
        """Keep at most this many bytes, of what was given back last."""
        while self.spare_bytes > length:
            del self._spare[0]

    def clear(self) -> None:
        """Keep nothing."""
        self._spare.clear()


_ALOUD_MAX: Final = BLOCK_BYTES
"""Fewer bytes are copied in less time than another thread would need to wake up."""


def copy(target: memoryview, source: memoryview) -> None:
    """Copy ``source`` to ``target``, which is as long; both are of bytes and writable.

    An assignment of slices does the same, but nothing else of this process runs meanwhile: reads of
    other threads are paused for as long as it takes to copy some MiB.

    Raises:
        ValueError: the lengths differ.
    """
    length = len(source)
    if length <= _ALOUD_MAX or len(target) != length:
        target[:] = source
        return
    kind = ctypes.c_char * length
    ctypes.memmove(kind.from_buffer(target), kind.from_buffer(source), length)


PIECES_MAX = 8
"""Most pieces ahead of one reader."""

AHEAD_SHARE = 2
"""A reader is thought to continue this many times as far as it has come, at least for a piece."""

STREAMS_MAX = 64
"""Most readers that are followed at a time; the one not seen for longest is forgotten."""

_SLOW_CALL_S = 0.002
_SLOW_BYTE_S = 1 / (4 * 1024 * MIB)
"""A read alone that takes longer is slow. Reads at the same time share the machine."""

_QUICK_SHARE = 0.4
"""A read that takes less than this share of what is slow is quick; one between tells nothing."""

_SLOW_READS_MIN = 3
"""Slow reads without a quick one that show storage to be slow: one late answer says nothing."""

Fetch = Callable[[int, int, memoryview], Awaitable[None]]
"""Reads verified bytes: segment, offset, and where they go."""

PieceEnd = Callable[[int, int, int], int]
"""Cuts: segment, where a piece begins, the flushed length; returns where the piece ends."""

InMemory = Callable[[int, int], bool]
"""Whether this machine has the byte of a segment at an offset in memory; asks without waiting."""


@dataclass(slots=True)
class _Piece:
    """Bytes ``[start, end)`` of a segment on their way; the task ends with ``None`` on an error.

    ``memory`` is at least as long. ``readers`` wait for it, or copy out of it.
    """

    start: int
    end: int
    memory: memoryview
    task: asyncio.Task[memoryview | None]
    readers: int = 0


@dataclass(slots=True)
class Stream:
    """One sequential reader: the pieces ahead of it, in order, and how many there may be.

    ``read`` is how many bytes it has read in order. ``unsent`` says that the loop may not have come
    to the tasks of the last pieces yet.
    """

    pieces: deque[_Piece] = field(default_factory=deque)
    read: int = 0
    unsent: bool = False


class ReadAhead:
    """What is read ahead for all readers of one segment storage.

    Args:
        fetch: reads.
        piece_end: cuts what is to be read.
        in_memory: tells what needs no reading ahead.
        budget_bytes: most bytes held or on their way; 0 reads nothing ahead.
    """

    def __init__(
        self, fetch: Fetch, piece_end: PieceEnd, in_memory: InMemory, budget_bytes: int
    ) -> None:
        self._fetch = fetch
        self._piece_end = piece_end
        self._in_memory = in_memory
        self._room = Room()
        self._budget = budget_bytes
        self._held = 0
        self._fetching = 0
        self._slow_reads = _SLOW_READS_MIN - 1  # the first read tells
        self._streams: OrderedDict[tuple[int, int], Stream] = OrderedDict()
        self._tasks: set[asyncio.Task[memoryview | None]] = set()

    @property
    def held_bytes(self) -> int:
        """Bytes read ahead and not taken yet, those on their way and spare memory included."""
        return self._held + self._room.spare_bytes

    def begin(self) -> int:
        """Note that storage is read, until ``end``; return how many reads are under way."""
        self._fetching += 1
        return self._fetching

    def end(self) -> None:
        """Note that a read of storage is over."""
        self._fetching -= 1

    def measured(self, length: int, elapsed_s: float, beside: int = 1) -> None:
        """Note how long ``length`` bytes took, with ``beside`` reads under way at first.

        Reading ahead makes each read later, and must not be taken for slow storage.
        """
        slow_s = (_SLOW_CALL_S + length * _SLOW_BYTE_S) * max(beside, self._fetching)
        if elapsed_s > slow_s:
            self._slow_reads += 1
        elif elapsed_s < slow_s * _QUICK_SHARE:
            self._slow_reads = 0

    def quick(self) -> None:
        """Note a read that took no waiting; on any thread."""
        self._slow_reads = 0

    def wants(self, segment_id: int, offset: int) -> bool:
        """Whether a read should be told to ``follow``; asked by any thread.

        While storage is quick nothing new is read ahead, but what was may be held still.
        """
        if self._slow_reads >= _SLOW_READS_MIN:
            return True
        return self._held > 0 and (segment_id, offset) in self._streams

    def follow(self, segment_id: int, offset: int, end: int, flushed: int) -> Stream | None:
        """Note a read of ``[offset, end)`` and read on after it, if it continues another.

        Args:
            segment_id: the segment.
            offset: where the read begins.
            end: where it ends.
            flushed: nothing beyond it is read ahead.

        Returns:
            The reader, to ``take`` from; ``None`` when nothing is ahead.
        """
        if not self._budget or end <= offset:
            return None
        stream = self._streams.pop((segment_id, offset), None)
        if stream is None:
            stream = Stream(read=end - offset)
        else:
            stream.read += end - offset
            if self._slow_reads >= _SLOW_READS_MIN:
                self._extend(stream, segment_id, end, flushed)
        if (other := self._streams.pop((segment_id, end), None)) is not None:
            self._drop(other)  # two readers at one place cannot be told apart any more
        self._streams[segment_id, end] = stream
        if len(self._streams) > STREAMS_MAX:
            self._forget_oldest()
        return stream if stream.pieces else None

    async def take(self, stream: Stream, offset: int, view: memoryview) -> int:
        """Copy what is ahead from ``offset`` on; return how many bytes, maybe none."""
        position, end = offset, offset + len(view)
        while stream.pieces and position < end:
            piece = stream.pieces[0]
            if piece.start <= position < piece.end:
                found = await self._wait(stream, piece)
                if found is None:
                    self._drop(stream)
                    break
                stop = min(end, piece.end)
                part = found[position - piece.start : stop - piece.start]
                copy(view[position - offset : stop - offset], part)
                position = stop
            if piece.end > position:
                break
            if stream.pieces and stream.pieces[0] is piece:
                stream.pieces.popleft()
                self._release(piece)
                self._reuse(piece)
        return position - offset

    @staticmethod
    async def _wait(stream: Stream, piece: _Piece) -> memoryview | None:
        piece.readers += 1
        try:
            if stream.unsent and piece.task.done():
                # What was begun is sent first: storage is idle for as long as this thread copies.
                await asyncio.sleep(0)
            stream.unsent = False
            return await asyncio.shield(piece.task)
        finally:
            piece.readers -= 1

    def _reuse(self, piece: _Piece) -> None:
        """Keep the memory of a piece that was taken, unless another reader still waits for it."""
        if not self._held or piece.readers or not piece.task.done() or piece.task.cancelled():
            return
        self._room.give_back(piece.memory)

    async def close(self) -> None:
        """Forget everything, read nothing ahead from now on, and wait for what is on its way."""
        self._budget = 0
        while self._streams:
            self._forget_oldest()
        await asyncio.gather(*self._tasks)

    def _extend(self, stream: Stream, segment_id: int, end: int, flushed: int) -> None:
        """Start reading until enough is ahead, the segment ends or the budget is used."""
        pieces, wanted = stream.pieces, end + AHEAD_SHARE * stream.read
        start = max(end, pieces[-1].end) if pieces else end
        ahead = sum(piece.end > end for piece in pieces)
        while start < flushed and (not ahead or (ahead < PIECES_MAX and start < wanted)):
            stop = self._piece_end(segment_id, start, flushed)
            # Beyond what a kernel reads ahead: bytes there are in memory for another reason.
            if self._in_memory(segment_id, min(flushed, stop + PIECE_BYTES) - 1):
                self.quick()
                break
            memory = self._memory(stop - start)
            if memory is None:
                break
            self._held += len(memory)
            task = asyncio.create_task(self._read(segment_id, start, memory[: stop - start]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            pieces.append(_Piece(start, stop, memory, task))
            stream.unsent = True
            start, ahead = stop, ahead + 1

    async def _read(self, segment_id: int, start: int, view: memoryview) -> memoryview | None:
        try:
            await self._fetch(segment_id, start, view)
        except SiltstoneError:
            return None  # the reader that wants these bytes reads them itself, and gets the error
        return view

    def _memory(self, length: int) -> memoryview | None:
        """Memory of at least this many bytes, if the budget has it.

        For that, readers that were not seen for long are forgotten.
        """
        spare = self._room.spare(length)
        size = length if spare is None else len(spare)
        while self._held + size > self._budget and self._streams:
            self._forget_oldest()
        left = self._budget - self._held - size
        if left >= 0:
            self._room.shrink(left)
            return memoryview(bytearray(length)) if spare is None else spare
        if spare is not None:
            self._room.give_back(spare)
        return None

    def _forget_oldest(self) -> None:
        _, stream = self._streams.popitem(last=False)
        self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        stream.read = 0
        while stream.pieces:
            self._release(stream.pieces.popleft())

    def _release(self, piece: _Piece) -> None:
        """Give the bytes of a piece back to the budget, once nothing writes to them any more."""

        def release(_: object) -> None:
            self._held -= len(piece.memory)
            if not self._held:
                self._room.clear()

        if piece.task.done():
            release(None)
        else:
            piece.task.add_done_callback(release)
