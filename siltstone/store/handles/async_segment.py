"""A segment as asyncio applications hold it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from siltstone.container.models.segments import AttributeIs, SetAttribute
from siltstone.container.reads.same_segment import same_segment
from siltstone.core.environment import Pool
from siltstone.segments.page_cache_reads import NEAR_BYTES_MAX
from siltstone.store.handles.arguments import (
    check_offset,
    check_range,
    check_stream,
    check_time_ms,
    common_container,
)
from siltstone.store.handles.async_buffered_writer import (
    BUFFER_BYTES,
    AsyncBufferedWriter,
    OnDurable,
)
from siltstone.store.handles.async_writer import AsyncWriter
from siltstone.store.handles.container_slot import Handle
from siltstone.store.handles.streams import PIECE_BYTES, DurableAppends, StreamProgress, read_some

if TYPE_CHECKING:
    from datetime import datetime
    from typing import SupportsIndex

    from siltstone.container.models.check import ChunkState
    from siltstone.container.models.segments import ChunkInfo, SegmentInfo, WriterInfo
    from siltstone.core.bytes_like import BytesLike
    from siltstone.segments.page_cache_reads import ReadPlace
    from siltstone.store.handles.container_slot import ContainerSlot
    from siltstone.store.handles.segment_home import SegmentHome

FOLLOW_BYTES: Final = 2**20
"""Most bytes that one step of ``follow`` gives: enough for speed, little for memory."""

FOLLOW_WAIT_S: Final = 30.0
"""A follower asks again after this time, so that no wait is without an end."""

PAGE_COUNT: Final = 1000
EXAMINED_COUNT: Final = 64
"""Chunks of one look, each a call to long-term storage or many."""

_STREAMS: Final = Pool(name="siltstone-streams", threads=8)


class AsyncSegment(Handle):
    """A handle to a segment. Making one does no I/O, so the segment need not exist.

    A handle is for the loop of its store. It stays usable when the store opens a container again.
    """

    __slots__ = ("_name", "_slot", "_store")

    def __init__(self, store: SegmentHome, slot: ContainerSlot, name: str) -> None:
        self._store = store
        self._slot = slot
        self._name = name
        super().__init__(slot)

    @property
    def name(self) -> str:
        """The segment's name."""
        return self._name

    def __repr__(self) -> str:
        return f"AsyncSegment({self._name!r})"

    @property
    def append_bytes_max(self) -> int:
        """Most bytes of one append: what fits in one frame of the log."""
        return self._container.frame_data_max

    def append(
        self, data: BytesLike, *, expected_offset: SupportsIndex | None = None
    ) -> asyncio.Future[int]:
        """Append ``data``; the awaited result is where it begins, given as soon as it is durable.

        The bytes are taken by the call, awaited or not: many appends can be on their way without a
        task for each. They begin in the order of their calls, unless one of them has to wait for
        room or for a concat. Cancelling frees the caller; the append may still take place. No bytes
        at all write nothing: the result is the current length.

        Args:
            data: at most what fits in one frame of the log; whatever has a buffer, such as arrays
                of numpy, of which the bytes in memory are taken.
            expected_offset: append only if the length is exactly this; ``None`` means whatever it
                is.

        Raises, when awaited:
            SegmentNotFoundError: there is no such segment.
            SegmentSealedError: it takes no more bytes.
            OffsetError: the length is not ``expected_offset``; nothing was appended.
            AppendTooLargeError: cut the data, or use ``append_from``.
            BackPressureError: no room before the deadline; nothing was appended.
            OutcomeUnknownError: the log failed; the bytes may or may not be there.
            FencedError: another owner took over; this store can no longer be used.
        """
        return self._container.append(self._name, data, expected_offset)

    def append_many(
        self, records: Sequence[BytesLike], *, expected_offset: SupportsIndex | None = None
    ) -> asyncio.Future[int]:
        """Append all ``records`` as one commit, contiguous; the result is where the first begins.

        Otherwise like ``append``.
        """
        return self._container.append_many(self._name, records, expected_offset)

    async def append_from(
        self, stream: BinaryIO, *, progress: Callable[[StreamProgress], None] | None = None
    ) -> StreamProgress:
        """Append a stream to its end in several appends, in constant memory.

        The appends are not one commit: those of others may stand between them.

        Args:
            stream: read on a thread.
            progress: called after each append that is durable.

        Raises:
            PartialAppendError: an append failed after others were durable; says how far it came.
        """
        check_stream(stream)
        environment = self._store.environment
        size = min(PIECE_BYTES, self.append_bytes_max)
        appended = DurableAppends(self._name, progress)

        def read() -> asyncio.Task[bytes]:
            return asyncio.ensure_future(
                environment.run_blocking(_STREAMS, lambda: read_some(stream, size))
            )

        with appended.telling():
            piece = await read()
            while piece:
                ahead = read()
                try:
                    appended.add(await self.append(piece), len(piece))
                except BaseException:
                    ahead.cancel()  # the stream may never give another byte
                    raise
                piece = await ahead
        return appended.progress

    async def writer(self, name: str) -> AsyncWriter:
        """Register the exactly-once writer ``name``, or return the living one of that name.

        Raises:
            SegmentSealedError: the segment is sealed, and has no writer of that name. Other
                conditions that refuse appends also refuse new writers, and only new ones.
        """
        info = await self._container.register_writer(self._name, name)
        return AsyncWriter(self._slot, self._name, info)

    async def writers(self) -> list[WriterInfo]:
        """Return the exactly-once writers that are known, with how far each has come, by name.

        All that was acknowledged before the call is in it. A store that was opened read-only can
        ask, too. Raises ``SegmentNotFoundError``.
        """
        return await self._container.writers(self._name)

    def buffered(
        self, *, buffer_bytes: SupportsIndex = BUFFER_BYTES, on_durable: OnDurable | None = None
    ) -> AsyncBufferedWriter:
        """Return a writer that takes small events at once and appends them in batches.

        Does no I/O; the writer's first ``flush`` reports what refuses appends.

        Args:
            buffer_bytes: most bytes that wait in it; a ``write`` waits while there are as many.
            on_durable: called on the store's loop with the events of each append that is durable,
                in their order. It returns soon and calls nothing that blocks. If it raises, that is
                a failure of the writer.
        """
        bound = check_offset(buffer_bytes, what="buffer_bytes")
        if bound < 1:
            raise ValueError("buffer_bytes must be at least 1")
        return AsyncBufferedWriter(self, buffer_bytes=bound, on_durable=on_durable)

    async def read(self, offset: SupportsIndex, length: SupportsIndex) -> bytes:
        """Return up to ``length`` bytes from ``offset``: fewer only at the end, ``b""`` at the end.

        Raises:
            SegmentNotFoundError: there is no such segment.
            SegmentTruncatedError: ``offset`` lies below the start of the readable range.
            OffsetError: ``offset`` lies beyond the end.
            ValueError: a negative number, or more than 1 GiB.
            CorruptDataError: the bytes are not what was written; ``LostDataError``: not there.
            ChunkError: long-term storage refused, or did not answer.
        """
        offset, length = check_range(offset, length)
        place = place_of(self, offset, length)
        if place is not None and length <= NEAR_BYTES_MAX:
            buffer = bytearray(length)
            if place.read(offset, buffer):
                return bytes(buffer)
        return await self._container.read(self._name, offset, length)

    async def read_into(self, offset: SupportsIndex, buffer: BytesLike) -> int:
        """Fill ``buffer`` from ``offset`` and return the count of bytes. Raises like ``read``."""
        view = buffer if type(buffer) is bytearray else memoryview(buffer).cast("B")
        offset, length = check_range(offset, len(view))
        place = place_of(self, offset, length)
        if place is not None and length <= NEAR_BYTES_MAX and place.read(offset, view):
            return length
        return await self._container.read_into(self._name, offset, memoryview(view))

    async def follow(self, offset: SupportsIndex = 0) -> AsyncIterator[bytes]:
        """Yield bytes from ``offset`` on as they are acknowledged; end when sealed and drained.

        Raises:
            SegmentNotFoundError: there is no such segment, or it was deleted meanwhile, whether or
                not its name is used again.
            SegmentTruncatedError: the next byte was truncated.
            OffsetError: ``offset`` lies beyond the end at the start.
        """
        offset = check_offset(offset)
        if offset > (info := await self._container.info(self._name)).length:
            await self._container.read(self._name, offset, 1)  # raises what read raises
        segment_id = info.segment_id
        while True:
            while offset < info.length:
                data = await self._container.read(
                    self._name, offset, min(FOLLOW_BYTES, info.length - offset)
                )
                same_segment(segment_id, await self._container.info(self._name))
                offset += len(data)
                yield data
            if info.sealed:
                return
            now = await self._container.wait_for_length(self._name, offset, FOLLOW_WAIT_S)
            info = same_segment(segment_id, now)

    async def info(self) -> SegmentInfo:
        """Return what is acknowledged of the segment. Raises ``SegmentNotFoundError``."""
        return await self._container.info(self._name)

    async def offset_at(self, time: datetime | float) -> int:
        """Return where to begin so as to miss nothing that was appended at ``time`` or later.

        Every byte appended at or after ``time`` lies at or beyond the returned offset, which is a
        place where an append ends, or the first readable offset. Up to 1 MiB of what was appended
        in the 10 s before the first such byte may lie beyond it too; more only where one commit to
        the log is larger. It is the length when all is older. Bytes that a concat brought were
        appended when it was done. Times are those of the clocks of the owners; a byte whose time is
        in the future by the clock here was appended before those that follow.

        Args:
            time: seconds since 1970, or a datetime with a time zone.

        Raises:
            SegmentNotFoundError: there is no such segment.
            ValueError: a datetime without a time zone, or before 1970.
        """
        return await self._container.offset_at(self._name, check_time_ms(time))

    async def set_attributes(
        self,
        changes: Mapping[str, str | None],
        *,
        expected: Mapping[str, str | None] | None = None,
    ) -> int:
        """Set or remove attributes, all or none, and return the table version that did.

        A segment has up to 32 attributes, with up to 4,096 bytes of UTF-8 in all keys and values.
        ``info`` shows them. They go when the segment is deleted, and stay when it is renamed.

        Args:
            changes: key to value; ``None`` removes it. A key is not empty and holds no ``=``.
            expected: key to the value that it must have now; ``None`` means it must be absent.

        Raises:
            ConditionFailedError: an attribute has another value; nothing was changed.
            AttributeLimitError: there would be too many, or too long ones.
            SegmentNotFoundError: there is no such segment, or it was deleted.
        """
        operations = [SetAttribute(self._name, key, value) for key, value in changes.items()]
        conditions = [AttributeIs(self._name, *item) for item in (expected or {}).items()]
        if not operations:
            raise ValueError("nothing to change")
        return (await self._container.commit(operations, conditions)).version

    async def rename(self, new_name: str) -> AsyncSegment:
        """Give the segment another name, at once, and return a handle by that name.

        Bytes, attributes and writers stay; handles by the old name no longer find it. Both names
        must belong to one container, as names with the same ``{tag}`` do. Files that hold its bytes
        keep the name under which they were begun. Retention rules go by names, so from now on those
        of the new one hold. A repeat within a week succeeds, as long as nothing else has the old
        name and the segment has the new one.

        Raises:
            SegmentNotFoundError: there is no such segment.
            SegmentExistsError: the new name is taken; nothing was changed.
            SeveralContainersError: the new name belongs to another container.
            SegmentNameError: no segment can have the new name.
        """
        self._store._check_changeable(new_name)
        renamed = self._store.segment(new_name)
        common_container([self._name, new_name], self._store.container_count)
        await self._container.rename(self._name, new_name)
        return renamed

    async def chunks(self, start: SupportsIndex = 0) -> AsyncIterator[ChunkInfo]:
        """Yield where the flushed bytes from offset ``start`` on lie, in order.

        Raises:
            SegmentNotFoundError: there is no such segment, or it was deleted between two pages.
        """
        start = check_offset(start, what="start")
        segment_id, first = (await self.info()).segment_id, start
        while True:
            page = await self._container.chunks(self._name, start, PAGE_COUNT)
            if start > first:
                same_segment(segment_id, await self.info())
            for chunk in page:
                yield chunk
            if len(page) < PAGE_COUNT:
                return
            start = page[-1].start + page[-1].length

    async def examine(
        self, start: SupportsIndex = 0, *, deep: bool = False
    ) -> AsyncIterator[ChunkState]:
        """Yield the same with what long-term storage has of each chunk; ``deep`` reads it all.

        Raises:
            SegmentNotFoundError: there is no such segment, or it was deleted between two pages.
            ChunkError: long-term storage did not answer.
        """
        start = check_offset(start, what="start")
        segment_id, first = (await self.info()).segment_id, start
        while True:
            page = await self._container.examine(self._name, start, EXAMINED_COUNT, deep=deep)
            if start > first:
                same_segment(segment_id, await self.info())
            for state in page:
                yield state
            if len(page) < EXAMINED_COUNT:
                return
            start = page[-1].info.start + page[-1].info.length

    async def flush(self) -> None:
        """Move what is acknowledged to long-term storage, and the metadata that says so."""
        await self._container.flush(self._name)

    async def seal(self) -> SegmentInfo:
        """Let the segment take no more bytes, for ever. Repeating it changes nothing."""
        return await self._container.seal(self._name)

    async def truncate(self, offset: SupportsIndex) -> None:
        """Drop the bytes below ``offset`` for ever. At or below the start it changes nothing."""
        await self._container.truncate(self._name, check_offset(offset))

    async def concat(self, source: AsyncSegment | str) -> int:
        """Put the bytes of the sealed ``source`` after this segment's and remove the source.

        Existing bytes do not move, however many there are; readers see all of them at once. Appends
        to this segment wait meanwhile, up to ``deadlines.append``. Returns the offset where the
        source's bytes begin; a repeat within a week returns the same.

        Raises:
            SegmentNotSealedError: seal the source first.
            SegmentSealedError: this segment is sealed.
            BackPressureError: it took too long; nothing was joined, both are as they were.
            SeveralContainersError: the two are in different containers.
        """
        name = source.name if isinstance(source, AsyncSegment) else source
        self._store._check_changeable(name)
        common_container([self._name, name], self._store.container_count)
        return await self._container.concat(self._name, name)

    async def delete(self) -> None:
        """Remove the segment. Its name may be used again. Raises ``SegmentNotFoundError``."""
        await self._container.delete(self._name)


def place_of(segment: AsyncSegment, offset: int, length: int) -> ReadPlace | None:
    """Where ``length`` bytes lie, if something near them was read shortly before; on any thread.

    Raises what ``AsyncSegment.read`` raises when nothing can be read.
    """
    return segment._container.place(segment._name, offset, offset + length)


def moment_of(segment: AsyncSegment) -> object:
    """Another object once a segment may have become another one; on any thread.

    Raises what ``AsyncSegment.read`` raises when nothing can be read.
    """
    return segment._container.moment()
