"""The value log as it is read: one record by its head, or the headers of a segment in order."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from siltstone.core.constants import MIB
from siltstone.core.errors import (
    CorruptDataError,
    OffsetError,
    SegmentNotFoundError,
    SegmentTruncatedError,
)
from siltstone.objects.errors import LostObjectError
from siltstone.objects.large_values import LargeValues
from siltstone.objects.manifest import Manifest
from siltstone.objects.object_views import lost, value_of_record
from siltstone.objects.records.footer import (
    TRAILER_BYTES,
    FooterPiece,
    decode_directory,
    decode_piece,
    decode_trailer,
)
from siltstone.objects.records.head import is_large
from siltstone.objects.records.space_rows import ManifestRow, ValueStatus
from siltstone.objects.records.value_record import (
    FIXED_BYTES,
    RecordHeader,
    check_change,
    decode_header,
    header_length,
)
from siltstone.store.handles.self_checked import read_checked, read_checked_now

if TYPE_CHECKING:
    from siltstone.objects.records.head import Head, HeadFields
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.handles.async_segment import AsyncSegment

T = TypeVar("T")

PIECE_BYTES: Final = 4 * MIB
"""Read at a time where records follow one another."""

SCANNED_MAX: Final = 1_000
"""Headers that are given at a time where there is no footer."""

DIRECTORIES_MAX: Final = 64
"""Directories of footers that are kept: each has up to about half a MiB."""

PIECES_MAX: Final = 256
"""Pieces of footers of which the places of records are kept: each has some hundred."""


HANDLES_MAX: Final = 1_024
"""Handles of value segments that are kept; then all are made again."""


class FoundHeader(NamedTuple):
    """A header of a value segment.

    Attributes:
        offset: of its record, in the segment.
        raw: its bytes.
        header: what they say.
    """

    offset: int
    raw: bytes
    header: RecordHeader


class ValueLog:
    """Reads the value segments of one keyspace.

    Attributes:
        large: reads its large values.
    """

    def __init__(self, store: AsyncStore, names: SpaceNames) -> None:
        self.large = LargeValues(store, names)
        self._store = store
        self._names = names
        self._handles: dict[int, AsyncSegment] = {}
        self._directories: OrderedDict[int, tuple[FooterPiece, ...]] = OrderedDict()
        self._places: OrderedDict[tuple[int, int], dict[int, int]] = OrderedDict()

    async def value(self, key: ObjectKey, head: Head, manifest: Manifest) -> bytes:
        """Read the value of an object.

        Args:
            key: of the object.
            head: of the object; where it says that the record is may have been compacted away.
            manifest: as it was when the head was, or later as long as the object is the same.

        Raises:
            LostObjectError: the bytes are damaged, gone, or not that record.
            SegmentNotFoundError, SegmentTruncatedError: the segment is gone.
            ChunkError: long-term storage refused, or did not answer.
        """
        if head.large is not None:
            return await self.large.whole(key, head, head.large)
        check = partial(value_of_record, key, head)
        return await self._checked(key, head, manifest, head.length, check)

    async def check_header(self, key: ObjectKey, head: Head, manifest: Manifest) -> None:
        """Compare the header of the record of an object with its head. Raises like ``value``."""
        check = partial(check_change, key, head.sqn, head.value_hash)
        await self._checked(key, head, manifest, head.header_length, check)

    async def _checked(
        self,
        key: ObjectKey,
        head: Head,
        manifest: Manifest,
        length: int,
        check: Callable[..., T],
    ) -> T:
        """What ``check`` makes of the first bytes of the record of an object. See ``value``."""
        number, offset = head.number, head.offset
        try:
            if number not in manifest.numbers:
                number, offset = await self._place(head.sqn, manifest)
            segment = self._segment(number)
            return await read_checked(segment, offset, length, partial(check, where=segment.name))
        except LostObjectError:
            raise
        except (CorruptDataError, OffsetError) as error:
            raise lost(key, head, self._names.value_segment(number), str(error)) from error

    def value_now(self, key: ObjectKey, row: bytes, fields: HeadFields) -> tuple[bytes] | None:
        """``value`` on any thread, of a row and its fields; ``None`` when only that can tell."""
        if is_large(row):
            return None
        segment = self._segment(fields[2])
        check = partial(value_of_record, key, fields, where=segment.name)
        try:
            return read_checked_now(segment, fields[3], fields[4], check)
        except (OffsetError, SegmentNotFoundError, SegmentTruncatedError):
            return None  # its record is elsewhere by now

    async def _place(self, sqn: int, manifest: Manifest) -> tuple[int, int]:
        """Number of the segment and offset of a record, found by its SQN."""
        row = manifest.row_of(sqn)
        if row is None or row.status is not ValueStatus.SEALED:
            raise SegmentNotFoundError("no value segment has this SQN", segment=self._names.values)
        segment = self._segment(row.number)
        pieces = await self._directory(segment, row)
        piece = bisect_right([each.first_sqn for each in pieces], sqn) - 1
        found = self._places.get((row.number, piece))
        if found is None:
            headers = await self._piece(segment, pieces[piece])
            found = {each.header.sqn: each.offset for each in headers}
            self._places[row.number, piece] = found
            if len(self._places) > PIECES_MAX:
                self._places.popitem(last=False)
        else:
            self._places.move_to_end((row.number, piece))
        if sqn not in found:  # the object was changed, and the segment compacted, since then
            raise SegmentNotFoundError("value segment has no such SQN", segment=segment.name)
        return row.number, found[sqn]

    async def headers(self, row: ManifestRow, length: int) -> AsyncIterator[list[FoundHeader]]:
        """Yield the headers of a segment, in order, some at a time.

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
                yield await self._piece(segment, piece)
            return
        found = []
        async for each in scan(segment, 0, length):
            found.append(each)
            if len(found) == SCANNED_MAX:
                yield found
                found = []
        yield found

    async def _piece(self, segment: AsyncSegment, piece: FooterPiece) -> list[FoundHeader]:
        data = await segment.read(piece.offset, piece.end - piece.offset)
        return [FoundHeader(*each) for each in decode_piece(piece, data, where=segment.name)]

    async def _directory(self, segment: AsyncSegment, row: ManifestRow) -> tuple[FooterPiece, ...]:
        found = self._directories.get(row.number)
        if found is None:
            end = await segment.read(row.footer_end - TRAILER_BYTES, TRAILER_BYTES)
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
        """The value segment of this number. On any thread."""
        found = self._handles.get(number)
        if found is None:
            found = self._store.segment(self._names.value_segment(number))
            if len(self._handles) >= HANDLES_MAX:
                self._handles = {}
            self._handles[number] = found
        return found


async def scan(segment: AsyncSegment, start: int, end: int) -> AsyncIterator[FoundHeader]:
    """Yield the headers of the records between two offsets where records begin, in order.

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
        yield FoundHeader(position, raw, header)
        position += header.length_after(needed)
    if position != end:
        raise CorruptDataError("records end elsewhere", where=segment.name, at=position, end=end)
