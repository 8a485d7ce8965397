"""Reading ahead of sequential readers, across chunks, within a budget of bytes.

Bytes of a segment never change, so what was read ahead stays right for ever; whether it may still
be shown is asked anew for each read. Reading ahead costs a copy, so it is done only while storage
is slow: over a page cache it would halve the speed. Used on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from siltstone.core.errors import SiltstoneError
from siltstone.core.operations.pieces import Room
from siltstone.core.words import MIB

PIECES_MAX = 8
"""Most pieces ahead of one reader; it begins with one, and each further read doubles them."""

STREAMS_MAX = 64
"""Most readers that are followed at a time; the one not seen for longest is forgotten."""

_SLOW_CALL_S = 0.002
_SLOW_BYTE_S = 1 / (4 * 1024 * MIB)

_SLOW_READS_MIN = 3
"""Reads in a row that show quick storage to have become slow: a single late answer says nothing."""

Fetch = Callable[[int, int, memoryview], Awaitable[None]]
"""Reads verified bytes: segment, offset, and where they go."""

PieceEnd = Callable[[int, int, int], int]
"""Cuts: segment, where a piece begins, the flushed length; returns where the piece ends."""


@dataclass(slots=True)
class _Piece:
    """Bytes ``[start, end)`` of a segment on their way; the task ends with ``None`` on an error.

    ``readers`` wait for it, or copy out of it.
    """

    start: int
    end: int
    task: asyncio.Task[memoryview | None]
    readers: int = 0


@dataclass(slots=True)
class Stream:
    """One sequential reader: the pieces ahead of it, in order, and how many there may be."""

    pieces: deque[_Piece] = field(default_factory=deque)
    window: int = 0


class ReadAhead:
    """What is read ahead for all readers of one segment storage.

    Args:
        fetch: reads.
        piece_end: cuts what is to be read.
        budget_bytes: most bytes held or on their way; 0 reads nothing ahead.
    """

    def __init__(self, fetch: Fetch, piece_end: PieceEnd, budget_bytes: int) -> None:
        self._fetch = fetch
        self._piece_end = piece_end
        self._room = Room()
        self._budget = budget_bytes
        self._held = 0
        self._slow_reads = _SLOW_READS_MIN - 1  # the first read tells
        self._streams: OrderedDict[tuple[int, int], Stream] = OrderedDict()
        self._tasks: set[asyncio.Task[memoryview | None]] = set()

    @property
    def held_bytes(self) -> int:
        """Bytes read ahead and not taken yet, those on their way and spare memory included."""
        return self._held + self._room.spare_bytes

    def measured(self, length: int, elapsed_s: float) -> None:
        """Note how long storage took for so many bytes."""
        slow = elapsed_s > _SLOW_CALL_S + length * _SLOW_BYTE_S
        self._slow_reads = self._slow_reads + 1 if slow else 0

    def follow(self, segment_id: int, offset: int, end: int, flushed: int) -> Stream | None:
        """Note a read of ``[offset, end)`` and read on behind it, if it continues another.

        Args:
            segment_id: the segment.
            offset: where the read begins.
            end: where it ends.
            flushed: nothing behind it is read ahead.

        Returns:
            The reader, to ``take`` from; ``None`` when nothing is ahead.
        """
        if not self._budget or end <= offset:
            return None
        stream = self._streams.pop((segment_id, offset), None)
        if stream is None:
            stream = Stream()
        elif self._slow_reads >= _SLOW_READS_MIN:
            stream.window = min(PIECES_MAX, max(1, 2 * stream.window))
            self._extend(stream, segment_id, end, flushed)
        if (other := self._streams.pop((segment_id, end), None)) is not None:
            self._drop(other)  # two readers at one place can not be told apart any more
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
                found = await self._wait(piece)
                if found is None:
                    self._drop(stream)
                    break
                stop = min(end, piece.end)
                part = found[position - piece.start : stop - piece.start]
                view[position - offset : stop - offset] = part
                position = stop
            if piece.end > position:
                break
            if stream.pieces and stream.pieces[0] is piece:
                stream.pieces.popleft()
                self._release(piece)
                self._reuse(piece)
        return position - offset

    @staticmethod
    async def _wait(piece: _Piece) -> memoryview | None:
        piece.readers += 1
        try:
            return await asyncio.shield(piece.task)
        finally:
            piece.readers -= 1

    def _reuse(self, piece: _Piece) -> None:
        """Keep the memory of a piece that was taken, unless somebody else still waits for it."""
        if not self._held or piece.readers or not piece.task.done() or piece.task.cancelled():
            return
        self._room.give_back(piece.task.result())

    async def close(self) -> None:
        """Forget everything, read nothing ahead from now on, and wait for what is on its way."""
        self._budget = 0
        while self._streams:
            self._forget_oldest()
        await asyncio.gather(*self._tasks)

    def _extend(self, stream: Stream, segment_id: int, end: int, flushed: int) -> None:
        """Start reading pieces until the window is full, the segment ends or the budget is used."""
        pieces = stream.pieces
        start = max(end, pieces[-1].end) if pieces else end
        ahead = sum(piece.end > end for piece in pieces)
        while ahead < stream.window and start < flushed:
            stop = self._piece_end(segment_id, start, flushed)
            view = self._room.spare(stop - start)
            if not self._make_room(stop - start):
                self._room.give_back(view)
                break
            self._held += stop - start
            task = asyncio.create_task(self._read(segment_id, start, stop, view))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            pieces.append(_Piece(start, stop, task))
            start, ahead = stop, ahead + 1

    async def _read(
        self, segment_id: int, start: int, stop: int, spare: memoryview | None
    ) -> memoryview | None:
        view = memoryview(bytearray(stop - start)) if spare is None else spare
        try:
            await self._fetch(segment_id, start, view)
        except SiltstoneError:
            return None  # whoever wants these bytes reads them himself, and gets the error
        return view

    def _make_room(self, length: int) -> bool:
        """Forget readers not seen for long until ``length`` bytes fit; whether they do."""
        if self.held_bytes + length > self._budget:
            self._room.clear()
        while self._held + length > self._budget and self._streams:
            self._forget_oldest()
        return self._held + length <= self._budget

    def _forget_oldest(self) -> None:
        _, stream = self._streams.popitem(last=False)
        self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        stream.window = 0
        while stream.pieces:
            self._release(stream.pieces.popleft())

    def _release(self, piece: _Piece) -> None:
        """Give the bytes of a piece back to the budget, once nothing writes to them any more."""

        def release(_: object) -> None:
            self._held -= piece.end - piece.start
            if not self._held:
                self._room.clear()

        if piece.task.done():
            release(None)
        else:
            piece.task.add_done_callback(release)
