"""The value log as it is read: one record by its head, or the headers of a segment in order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from siltstone.core.constants import MIB
from siltstone.core.errors import CorruptDataError
from siltstone.objects.object_views import lost, value_of_record
from siltstone.objects.records.footer import (
    TRAILER_BYTES,
    FooterPiece,
    decode_directory,
    decode_piece,
    decode_trailer,
)
from siltstone.objects.records.space_rows import ManifestRow, ValueStatus
from siltstone.objects.records.value_record import (
    FIXED_BYTES,
    RecordHeader,
    decode_header,
    header_length,
)

if TYPE_CHECKING:
    from siltstone.objects.names import SpaceNames
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.handles.async_segment import AsyncSegment

PIECE_BYTES: Final = 4 * MIB
"""Read at a time where records follow one another."""

SCANNED_MAX: Final = 1_000
"""Headers that are given at a time where there is no footer."""

DIRECTORIES_MAX: Final = 64
"""Directories of footers that are kept: each has up to about half a MiB."""


class ValueLog:
    """Reads the value segments of one keyspace."""

    def __init__(self, store: AsyncStore, names: SpaceNames) -> None:
        self._store = store
        self._names = names
        self._directories: OrderedDict[int, tuple[FooterPiece, ...]] = OrderedDict()

    async def value(self, key: ObjectKey, head: Head) -> bytes:
        """Read the value that a head names.

        Raises:
            LostObjectError: the bytes are damaged, gone, or not that record.
            SegmentNotFoundError, SegmentTruncatedError: the segment is gone.
            ChunkError: long-term storage refused, or did not answer.
        """
        segment = self._segment(head.number)
        try:
            record = await segment.read(head.offset, head.length)
        except CorruptDataError as error:
            raise lost(key, head, segment.name, str(error)) from error
        return value_of_record(key, head, record, where=segment.name)

    async def headers(
        self, row: ManifestRow, length: int
    ) -> AsyncIterator[list[tuple[int, RecordHeader]]]:
        """Yield the headers of a segment, each with the offset of its record, some at a time.

        Args:
            row: of the segment.
            length: bytes of its records.

        Raises:
            CorruptDataError: footer or records are damaged.
            ChunkError: long-term storage refused, or did not answer.
        """
        segment = self._segment(row.number)
        if row.status is ValueStatus.SEALED:
            for piece in await self._directory(segment, row):
                data = await segment.read(piece.offset, piece.end - piece.offset)
                yield list(decode_piece(piece, data, where=segment.name))
            return
        found = []
        async for offset, _, header in scan(segment, 0, length):
            found.append((offset, header))
            if len(found) == SCANNED_MAX:
                yield found
                found = []
        yield found

    async def _directory(self, segment: AsyncSegment, row: ManifestRow) -> tuple[FooterPiece, ...]:
        found = self._directories.get(row.number)
        if found is None:
            start = row.footer_end - TRAILER_BYTES
            end = await segment.read(start, TRAILER_BYTES)
            trailer = decode_trailer(end, where=segment.name)
            data = await segment.read(trailer.directory, trailer.length)
            found = decode_directory(data, where=segment.name)
            self._directories[row.number] = found
            if len(self._directories) > DIRECTORIES_MAX:
                self._directories.popitem(last=False)
        else:
            self._directories.move_to_end(row.number)
        return found

    def _segment(self, number: int) -> AsyncSegment:
        return self._store.segment(self._names.value_segment(number))


async def scan(
    segment: AsyncSegment, start: int, end: int
) -> AsyncIterator[tuple[int, bytes, RecordHeader]]:
    """Yield the headers of the records between two offsets where records begin, in order.

    Each comes with the offset of its record, and as the bytes that it was decoded from.

    Raises:
        CorruptDataError: there is no record where one should begin.
        ChunkError: long-term storage did not answer.
    """
    data = b""
    base = position = start
    while position < end:
        needed = FIXED_BYTES
        if position + needed <= base + len(data):
            needed = header_length(data, position - base, where=segment.name)
        if position + needed > base + len(data):
            if position + needed > end:
                raise CorruptDataError("record is cut", where=segment.name, at=position)
            base = position
            data = await segment.read(base, min(max(PIECE_BYTES, needed), end - base))
            continue
        raw = data[position - base : position - base + needed]
        header = decode_header(raw, where=segment.name)
        yield position, raw, header
        position += header.record_length
    if position != end:
        raise CorruptDataError("records end elsewhere", where=segment.name, at=position, end=end)
