"""A writer of many small events as asyncio applications hold it."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from siltstone.core.bytes_like import as_bytes
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.constants import MIB
from siltstone.core.errors import ClosedError
from siltstone.store.handles.event_buffer import BufferedWriteError, DurableEvents, EventBuffer
from siltstone.store.handles.streams import PIECE_BYTES
from siltstone.store.handles.unpicklable import LivingHandle

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo
    from siltstone.core.bytes_like import BytesLike

BUFFER_BYTES: Final = 32 * MIB
"""Most that waits in a writer by default: some tenths of a second at full speed."""

OnDurable = Callable[[DurableEvents], None]


class AppendedSegment(Protocol):
    """What a writer asks of the segment it appends to: these verbs of ``AsyncSegment``."""

    @property
    def name(self) -> str:
        """The segment's name."""
        ...

    @property
    def append_bytes_max(self) -> int:
        """Most bytes of one append."""
        ...

    def append(self, data: bytes, /) -> Awaitable[int]:
        """Append ``data``; the awaited result is where it begins, once it is durable."""
        ...

    async def info(self) -> SegmentInfo:
        """Return what is acknowledged of the segment."""
        ...


class AsyncBufferedWriter(LivingHandle, AsyncClosing):
    """Takes events at once and appends them in batches, in their order, as fast as the log goes.

    An event is durable when a ``flush`` after it returned, or when ``on_durable`` was called with
    it; until then a crash loses it. What is written while a batch is on its way to the log goes
    with the next one. After a failed append nothing more is appended: every later ``write`` and
    ``flush`` raises ``BufferedWriteError``, ``pending`` has what is not durable, and the
    application decides, with a new writer, what of it to write again.

    Close it before its store. ``AsyncSegment.buffered`` makes one.
    """

    def __init__(
        self, segment: AppendedSegment, *, buffer_bytes: int, on_durable: OnDurable | None
    ) -> None:
        self._segment = segment
        self._on_durable = on_durable
        self._loop = asyncio.get_running_loop()
        self._sending: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None
        self._told = False
        self.buffer = EventBuffer(
            segment.name,
            bound_bytes=buffer_bytes,
            batch_bytes=PIECE_BYTES,
            event_bytes_max=segment.append_bytes_max,
            wake=self._wake,
        )

    def __repr__(self) -> str:
        written, durable = self.written_count, self.durable_count
        return f"AsyncBufferedWriter({self._segment.name!r}, {written=}, {durable=})"

    def __del__(self) -> None:
        if self._failure is not None and not self._told:
            told = f"no call told of this failure: {self._error()}"
            warnings.warn(told, ResourceWarning, stacklevel=1, source=self)

    @property
    def segment(self) -> str:
        """Name of the segment."""
        return self._segment.name

    @property
    def written_count(self) -> int:
        """Events that were taken; the number of the next one."""
        return self.buffer.written_count

    @property
    def durable_count(self) -> int:
        """Events that are durable: those whose number is below it."""
        return self.buffer.durable_count

    def pending(self) -> list[bytes]:
        """Return the events that are not durable for certain, in their order."""
        return self.buffer.pending()

    async def write(self, event: BytesLike) -> int:
        """Take ``event`` and return its number, from 0 on; wait only while the buffer is full.

        Args:
            event: at most what fits in one append. The bytes are appended as they are, so a reader
                must find by itself where an event ends.

        Raises:
            AppendTooLargeError: no append can hold it; it was not taken.
            BufferedWriteError: an append before it failed; it was not taken.
            ClosedError: the writer was closed.
        """
        data = as_bytes(event, what="an event")
        while (number := self.buffer.add(data)) is None:
            await self.wait_for_room(len(data))
        return number

    async def wait_for_room(self, size: int) -> None:
        """Return when an event of ``size`` bytes may be taken, or will be refused."""
        await self._until(lambda: self.buffer.has_room(size))

    async def flush(self) -> int:
        """Return when every event that was written before is durable.

        Returns:
            The segment's offset after the last durable event; the segment's length when nothing was
            written.

        Raises:
            BufferedWriteError: an append failed, so perhaps not all of them are durable.
        """
        count = self.written_count
        await self._until(lambda: self.durable_count >= count)
        end = self.buffer.end
        return (await self._segment.info()).length if end is None else end

    async def close(self) -> None:
        """Take no more events, and flush. Idempotent.

        Raises:
            BufferedWriteError: an append failed, and no call has reported it before.
        """
        if self._failure is None:
            self.buffer.refuse(lambda: ClosedError("the writer was closed"))
        if not self._told:
            await self._until(lambda: self.durable_count >= self.written_count)

    def close_behind_store(self) -> None:
        """``close`` when the store was closed before, and its loop: nothing is appended any more.

        Raises:
            BufferedWriteError: not all events are durable, and no call has reported it before.
        """
        if self._failure is None and self.durable_count < self.written_count:
            self._fail(ClosedError("the store was closed before the writer"))
        if self._failure is None:
            self.buffer.refuse(lambda: ClosedError("the writer was closed"))
        elif not self._told:
            raise self._refusal()

    async def _until(self, done: Callable[[], bool]) -> None:
        while True:
            if self._failure is not None:
                raise self._refusal()
            if done():
                return
            await self._changed.wait()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._start)
        except RuntimeError as error:  # the loop was closed
            self._fail(error)

    def _start(self) -> None:
        # It outlives the call that wrote, so no task group can hold it; close() waits for it.
        self._sending = self._loop.create_task(self._send())

    async def _send(self) -> None:
        try:
            while (events := self.buffer.take()) is not None:
                offset = await self._segment.append(b"".join(events))
                durable = self.buffer.landed(offset)
                if self._on_durable is not None:
                    self._on_durable(durable)
                self._tell_waiting()
        except BaseException as error:
            self._fail(error)
            self._tell_waiting()
            if not isinstance(error, Exception):
                raise

    def _tell_waiting(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self.buffer.refuse(self._refusal)

    def _refusal(self) -> BufferedWriteError:
        self._told = True
        return self._error()

    def _error(self) -> BufferedWriteError:
        cause = self._failure
        assert cause is not None, "only a failure is told of"
        error = BufferedWriteError(
            segment=self.segment,
            durable_count=self.durable_count,
            end=self.buffer.end,
            cause=cause,
        )
        error.__cause__ = cause
        return error
