"""Segments as files: objects of ``io`` that read and append; positions are offsets."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from siltstone.container.reads.same_segment import same_segment
from siltstone.core.bytes_like import byte_view
from siltstone.core.errors import OffsetError, SegmentSealedError
from siltstone.store.handles.streams import PIECE_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer as AnyBuffer

    from siltstone.container.models.segments import SegmentInfo
    from siltstone.core.constants import Buffer


class FileBytes(Protocol):
    """What a file asks of the segment whose bytes it shows: these verbs of ``Segment``."""

    @property
    def name(self) -> str:
        """The segment's name."""
        ...

    @property
    def append_bytes_max(self) -> int:
        """Most bytes of one append."""
        ...

    def info(self) -> SegmentInfo:
        """Return what is acknowledged of the segment."""
        ...

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> int:
        """Fill ``buffer`` from ``offset``; return the count of bytes."""
        ...

    def append(self, data: Buffer) -> int:
        """Append ``data``, durably; return where it begins."""
        ...


class SegmentReader(io.RawIOBase):
    """Reads a segment; wrapped in ``io.BufferedReader`` by ``Segment.open``.

    Beyond the end there is nothing to read, as in any file; below the start a read raises
    ``SegmentTruncatedError``. When the segment was deleted it raises ``SegmentNotFoundError``, even
    if another one has its name.

    Args:
        segment: which.
        moment: gives another object once something changed, and the name may be another one's.
    """

    def __init__(self, segment: FileBytes, moment: Callable[[], object]) -> None:
        super().__init__()
        self._segment = segment
        self._moment_of = moment
        self._moment = moment()
        info = segment.info()
        self._segment_id = info.segment_id
        self._offset = info.start_offset
        self.name = segment.name

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to an offset, from the beginning, from here or from the acknowledged end."""
        self._check_open()
        if whence == os.SEEK_CUR:
            offset += self._offset
        elif whence == os.SEEK_END:
            offset += self._info().length
        elif whence != os.SEEK_SET:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        if offset < 0:
            raise ValueError(f"negative seek position {offset}")
        self._offset = offset
        return offset

    def readinto(self, buffer: AnyBuffer, /) -> int:
        """Fill ``buffer`` from the position on."""
        self._check_open()
        view = memoryview(buffer).cast("B")
        if not len(view):
            return 0
        try:
            count = self._segment.read_into(self._offset, view)
        except OffsetError:  # a file that was left beyond its end has no more bytes, and no error
            count = 0
        moment = self._moment_of()
        if moment is not self._moment:
            self._info()
            self._moment = moment
        self._offset += count
        return count

    def _info(self) -> SegmentInfo:
        return same_segment(self._segment_id, self._segment.info())

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


class SegmentWriter(io.BufferedIOBase):
    """Appends what is written. Durable after ``flush`` or ``close``.

    After a failed append nothing more is appended: the failure is raised by every later ``write``
    and ``flush``, and what was not yet appended is dropped. So no byte is appended twice.

    Attributes:
        appended_length: bytes that are durable for certain.
    """

    def __init__(self, segment: FileBytes) -> None:
        super().__init__()
        self._segment = segment
        self._buffer = bytearray()
        self._failure: BaseException | None = None
        self._closing = False
        self.appended_length = 0
        self.name = segment.name
        # If this raises, the interpreter closes what was made until here.
        info = segment.info()
        if info.sealed:
            raise SegmentSealedError("the segment is sealed", segment=segment.name)
        self._piece_bytes = min(PIECE_BYTES, segment.append_bytes_max)
        self._end = info.length

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The offset after the last byte that was written, if nothing else appends."""
        return self._end + len(self._buffer)

    def write(self, data: AnyBuffer, /) -> int:
        """Take ``data``; append whole pieces at once, the rest with ``flush`` or ``close``."""
        self._check_usable()
        view = byte_view(data)
        count = len(view)
        while view:
            room = self._piece_bytes - len(self._buffer)
            if not self._buffer and len(view) >= self._piece_bytes:
                self._append(view[:room])
            else:
                self._buffer += view[:room]
                if len(self._buffer) == self._piece_bytes:
                    self._append_buffer()
            view = view[room:]
        return count

    def flush(self) -> None:
        """Return when everything that was written is durable."""
        if self.closed:
            raise ValueError("flush of closed file")
        if self._closing:
            return
        self._check_usable()
        self._append_buffer()

    def close(self) -> None:
        """Flush and close. After a failure that was raised before, only close. Idempotent."""
        if self.closed:
            return
        try:
            if self._failure is None:
                self._append_buffer()
        finally:
            self._closing = True
            super().close()

    def _append_buffer(self) -> None:
        if self._buffer:
            data, self._buffer = self._buffer, bytearray()
            self._append(data)

    def _append(self, data: bytearray | memoryview) -> None:
        try:
            self._end = self._segment.append(data) + len(data)
        except BaseException as error:
            self._failure = error
            raise
        self.appended_length += len(data)

    def _check_usable(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if self._failure is not None:
            raise self._failure
