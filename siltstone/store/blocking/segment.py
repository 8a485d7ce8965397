"""A segment as blocking applications hold it: the verbs of ``AsyncSegment``, and files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Literal, overload

from siltstone.core.bytes_like import as_bytes
from siltstone.store.blocking.background_loop import awaited
from siltstone.store.blocking.files import SegmentReader, SegmentWriter
from siltstone.store.blocking.stream_append import append_stream
from siltstone.store.blocking.writer import BufferedWriter, Writer
from siltstone.store.handles.arguments import check_range
from siltstone.store.handles.async_buffered_writer import BUFFER_BYTES
from siltstone.store.handles.async_segment import moment_of, place_of

if TYPE_CHECKING:
    from datetime import datetime
    from typing import SupportsIndex

    from siltstone.container.models.check import ChunkState
    from siltstone.container.models.segments import ChunkInfo, SegmentInfo, WriterInfo
    from siltstone.core.bytes_like import BytesLike
    from siltstone.store.blocking.background_loop import BackgroundLoop
    from siltstone.store.handles.async_buffered_writer import AsyncBufferedWriter, OnDurable
    from siltstone.store.handles.async_segment import AsyncSegment
    from siltstone.store.handles.streams import StreamProgress

READ_BUFFER_BYTES = 2**20
"""Read at a time by a file: one request of long-term storage, four blocks with a sum."""


class Segment:
    """A handle to a segment, for any thread. Making one does no I/O. See ``AsyncSegment``."""

    __slots__ = ("_loop", "_segment")

    def __init__(self, loop: BackgroundLoop, segment: AsyncSegment) -> None:
        self._loop = loop
        self._segment = segment

    @property
    def name(self) -> str:
        """The segment's name."""
        return self._segment.name

    def __repr__(self) -> str:
        return f"Segment({self.name!r})"

    @property
    def append_bytes_max(self) -> int:
        """Most bytes of one append: what fits in one frame of the log."""
        return self._segment.append_bytes_max

    def append(self, data: BytesLike, *, expected_offset: SupportsIndex | None = None) -> int:
        """Append ``data``, durably; return where it begins. See ``AsyncSegment.append``."""
        call = partial(self._segment.append, as_bytes(data), expected_offset=expected_offset)
        return self._loop.run(awaited(call))

    def append_many(
        self, records: Sequence[BytesLike], *, expected_offset: SupportsIndex | None = None
    ) -> int:
        """Append all ``records`` as one commit; return the offset of the first."""
        call = partial(self._segment.append_many, records, expected_offset=expected_offset)
        return self._loop.run(awaited(call))

    def append_from(
        self, stream: BinaryIO, *, progress: Callable[[StreamProgress], None] | None = None
    ) -> StreamProgress:
        """Append a stream to its end, in constant memory. See ``AsyncSegment.append_from``.

        The stream is read by this thread. What arrives on a raw, unbuffered stream is appended as
        it arrives.
        """
        return append_stream(self._loop, self._segment, stream, progress)

    def writer(self, name: str) -> Writer:
        """Register the exactly-once writer ``name``, or return the living one.

        See ``AsyncSegment.writer``.
        """
        return Writer(self._loop, self._loop.run(self._segment.writer(name)))

    def writers(self) -> list[WriterInfo]:
        """Return the exactly-once writers, with how far each has come, by name."""
        return self._loop.run(self._segment.writers())

    def buffered(
        self, *, buffer_bytes: SupportsIndex = BUFFER_BYTES, on_durable: OnDurable | None = None
    ) -> BufferedWriter:
        """Return a writer that takes small events at once. See ``AsyncSegment.buffered``.

        ``on_durable`` is called on a thread of the store.
        """

        async def make() -> AsyncBufferedWriter:
            return self._segment.buffered(buffer_bytes=buffer_bytes, on_durable=on_durable)

        return BufferedWriter(self._loop, self._loop.run(make()))

    def read(self, offset: SupportsIndex, length: SupportsIndex) -> bytes:
        """Return up to ``length`` bytes from ``offset``. See ``AsyncSegment.read``."""
        self._loop.check_caller()
        offset, length = check_range(offset, length)
        place = place_of(self._segment, offset, length)
        if place is not None:
            buffer = bytearray(length)
            if place.read_all(offset, memoryview(buffer), self._loop.second.share):
                return bytes(buffer)
        return self._loop.run(self._segment.read(offset, length))

    def read_into(self, offset: SupportsIndex, buffer: BytesLike) -> int:
        """Fill ``buffer`` from ``offset``; return the count of bytes. Raises like ``read``."""
        self._loop.check_caller()
        view = memoryview(buffer).cast("B")
        offset, _ = check_range(offset, len(view))
        place = place_of(self._segment, offset, len(view))
        if place is not None and place.read_all(offset, view, self._loop.second.share):
            return len(view)
        return self._loop.run(self._segment.read_into(offset, buffer))

    def follow(self, offset: SupportsIndex = 0) -> Iterator[bytes]:
        """Yield bytes as they are acknowledged; end when the segment is sealed and drained."""
        return self._loop.iterate(lambda: self._segment.follow(offset), batch=1)

    @overload
    def open(self, mode: Literal["rb"] = "rb") -> io.BufferedReader: ...
    @overload
    def open(self, mode: Literal["ab"]) -> SegmentWriter: ...
    def open(self, mode: str = "rb") -> io.BufferedReader | SegmentWriter:
        """Open the segment as a file; positions are the segment's offsets.

        ``rb`` starts at the first readable offset and sees what is appended meanwhile. ``ab``
        appends what is written, in pieces of up to 4 MiB; it is durable after ``flush`` or
        ``close``. If the segment is deleted, reading ends with ``SegmentNotFoundError``, also where
        another one has its name by then.

        Raises:
            SegmentNotFoundError: there is no such segment.
            SegmentSealedError: opened for appending, and it is sealed.
            ReadOnlyError: opened for appending in a read-only store.
            ValueError: another mode; for text wrap the file in ``io.TextIOWrapper``.
        """
        if mode == "rb":
            return io.BufferedReader(
                SegmentReader(self, partial(moment_of, self._segment)),
                buffer_size=READ_BUFFER_BYTES,
            )
        if mode == "ab":
            return SegmentWriter(self)
        raise ValueError(f"mode is 'rb' or 'ab', not {mode!r}")

    def info(self) -> SegmentInfo:
        """Return what is acknowledged of the segment."""
        return self._loop.run(self._segment.info())

    def offset_at(self, time: datetime | float) -> int:
        """Return where to begin so as to miss nothing appended since. See ``AsyncSegment``."""
        return self._loop.run(self._segment.offset_at(time))

    def set_attributes(
        self,
        changes: Mapping[str, str | None],
        *,
        expected: Mapping[str, str | None] | None = None,
    ) -> int:
        """Set or remove attributes, all or none. See ``AsyncSegment.set_attributes``."""
        return self._loop.run(self._segment.set_attributes(changes, expected=expected))

    def rename(self, new_name: str) -> Segment:
        """Give the segment another name; returns a new handle. See ``AsyncSegment.rename``."""
        return Segment(self._loop, self._loop.run(self._segment.rename(new_name)))

    def chunks(self, start: SupportsIndex = 0) -> Iterator[ChunkInfo]:
        """Yield where the flushed bytes from offset ``start`` on lie, in order."""
        return self._loop.iterate(lambda: self._segment.chunks(start))

    def examine(self, start: SupportsIndex = 0, *, deep: bool = False) -> Iterator[ChunkState]:
        """Yield the same with what long-term storage has of each. See ``AsyncSegment.examine``."""
        return self._loop.iterate(lambda: self._segment.examine(start, deep=deep), batch=1)

    def flush(self) -> None:
        """Move what is acknowledged to long-term storage, and the metadata that says so."""
        self._loop.run(self._segment.flush())

    def seal(self) -> SegmentInfo:
        """Let the segment take no more bytes, for ever."""
        return self._loop.run(self._segment.seal())

    def truncate(self, offset: SupportsIndex) -> None:
        """Drop the bytes below ``offset`` for ever."""
        self._loop.run(self._segment.truncate(offset))

    def concat(self, source: Segment | str) -> int:
        """Append the sealed ``source`` to this segment; return where its bytes begin.

        See ``AsyncSegment.concat``.
        """
        name = source.name if isinstance(source, Segment) else source
        return self._loop.run(self._segment.concat(name))

    def delete(self) -> None:
        """Remove the segment."""
        self._loop.run(self._segment.delete())
