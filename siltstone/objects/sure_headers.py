"""Headers of a value segment of which parts may be damaged: each is certain, or in a gap.

The footer is read, and where it is damaged the records themselves. Bytes are compared with the sums
in them, so damage takes away what it is about and no more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from siltstone.core.constants import KIB, Buffer
from siltstone.core.errors import (
    CorruptDataError,
    OffsetError,
    SegmentNotFoundError,
    SegmentTruncatedError,
)
from siltstone.objects.records.footer import (
    TRAILER_BYTES,
    FooterPiece,
    Trailer,
    decode_directory,
    decode_piece,
    decode_trailer,
)
from siltstone.objects.records.value_record import FIXED_BYTES, decode_header, header_length
from siltstone.objects.value_log import FoundHeader, scan
from siltstone.store.handles.self_checked import read_checked

if TYPE_CHECKING:
    from siltstone.store.handles.async_segment import AsyncSegment

HEADER_GUESS: Final = 4 * KIB
"""Read of a record at first where its neighbours are damaged; few headers are longer."""

PAGE_COUNT: Final = 1_000
"""Headers that are given at a time where there is no footer."""

GONE: Final = (CorruptDataError, SegmentNotFoundError, SegmentTruncatedError, OffsetError)
"""What a read raises where bytes are damaged or gone; ``LostDataError`` is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderGap:
    """Records of a segment that neither its footer nor they themselves tell of.

    Attributes:
        after_sqn: they have SQNs above this one,
        last_sqn: and at most this one.
        hashes: ``key_hash`` of each of their objects; ``None`` when that is unknown, too.
        reason: what cannot be read.
    """

    after_sqn: int
    last_sqn: int
    hashes: tuple[int, ...] | None
    reason: str


async def read_trailer(segment: AsyncSegment, end: int) -> Trailer:
    """Read the end of a footer. Raises what is in ``GONE``, and ``FormatError``."""
    if end < TRAILER_BYTES:
        raise CorruptDataError("footer is cut", where=segment.name)
    check = partial(decode_trailer, where=segment.name)
    return await read_checked(segment, end - TRAILER_BYTES, TRAILER_BYTES, check)


async def read_directory(segment: AsyncSegment, trailer: Trailer) -> tuple[FooterPiece, ...]:
    """Read the directory of a footer. Raises what is in ``GONE``."""
    check = partial(decode_directory, where=segment.name)
    return await read_checked(segment, trailer.directory, trailer.length, check)


async def footer_headers(
    segment: AsyncSegment, *, footer_end: int, length: int, after_sqn: int, last_sqn: int
) -> AsyncIterator[list[FoundHeader] | HeaderGap]:
    """Yield the headers of a segment that has a footer, in order, some at a time, and its gaps.

    Args:
        segment: which one.
        footer_end: where its footer ends.
        length: bytes of its records.
        after_sqn: only headers of SQNs above this one are wanted.
        last_sqn: of the last record.

    Raises:
        FormatError: a newer version wrote it.
        ChunkError: long-term storage refused, or did not answer.
    """
    try:
        trailer = await read_trailer(segment, footer_end)
        pieces = await read_directory(segment, trailer)
    except GONE:
        async for found in records_between(
            segment, 0, length, after_sqn=after_sqn, last_sqn=last_sqn, hashes=None
        ):
            yield found
        return
    firsts = [*(piece.first_sqn for piece in pieces[1:]), last_sqn + 1]
    places = [*(piece.record for piece in pieces[1:]), length]
    for piece, next_sqn, end in zip(pieces, firsts, places, strict=True):
        if next_sqn - 1 <= after_sqn:
            continue
        check = partial(_piece, piece, where=segment.name)
        try:
            headers = await read_checked(segment, piece.offset, piece.end - piece.offset, check)
        except GONE:
            async for found in records_between(
                segment,
                piece.record,
                end,
                after_sqn=after_sqn,
                last_sqn=next_sqn - 1,
                hashes=piece.hashes,
            ):
                yield found
        else:
            yield _after(headers, after_sqn)


async def bare_headers(
    segment: AsyncSegment, *, length: int, after_sqn: int, last_sqn: int
) -> AsyncIterator[list[FoundHeader] | HeaderGap]:
    """Yield the headers of a segment without a footer. Otherwise like ``footer_headers``."""
    page: list[FoundHeader] = []
    end, newest = 0, after_sqn
    try:
        async for each in scan(segment, 0, length):
            end = each.offset + each.header.length_after(len(each.raw))
            if each.header.sqn > after_sqn:
                page.append(each)
                newest = each.header.sqn
            if len(page) == PAGE_COUNT:
                yield page
                page = []
    except GONE:
        yield page
        async for found in records_between(
            segment, end, length, after_sqn=newest, last_sqn=last_sqn, hashes=None
        ):
            yield found
    else:
        yield page


async def records_between(
    segment: AsyncSegment,
    start: int,
    end: int,
    *,
    after_sqn: int,
    last_sqn: int,
    hashes: Sequence[int] | None,
) -> AsyncIterator[list[FoundHeader] | HeaderGap]:
    """Yield headers from the records themselves, one read for each; no value is read.

    Args:
        segment: which one.
        start: where the first record begins.
        end: where the last one ends.
        after_sqn: only headers of SQNs above this one are wanted.
        last_sqn: of the last record.
        hashes: ``key_hash`` of each record, if they are known.
    """
    page: list[FoundHeader] = []
    position, count, newest = start, 0, after_sqn
    while position < end:
        try:
            found = await header_at(segment, position, end)
        except GONE as error:
            yield page
            left = None if hashes is None else tuple(hashes[count:])
            yield HeaderGap(after_sqn=newest, last_sqn=last_sqn, hashes=left, reason=str(error))
            return
        count += 1
        position += found.header.record_length
        if found.header.sqn > after_sqn:
            page.append(found)
            newest = found.header.sqn
        if len(page) == PAGE_COUNT:
            yield page
            page = []
    yield page


async def header_at(segment: AsyncSegment, offset: int, end: int) -> FoundHeader:
    """Read the header of the record that begins at ``offset``, and ends by ``end``.

    Raises:
        CorruptDataError: there is none.
    """
    length = min(HEADER_GUESS, end - offset)
    check = partial(_header, offset=offset, where=segment.name)
    found = await read_checked(segment, offset, length, check)
    if isinstance(found, int):
        if found > end - offset:
            raise CorruptDataError("record is cut", where=segment.name, at=offset)
        found = await read_checked(segment, offset, found, check)
    if isinstance(found, int) or found.header.record_length > end - offset:
        raise CorruptDataError("record is cut", where=segment.name, at=offset)
    return found


def _header(data: Buffer, *, offset: int, where: str) -> FoundHeader | int:
    """The header that some bytes begin with; or how long it is, if there are too few."""
    view = memoryview(data)
    if len(view) < FIXED_BYTES:
        raise CorruptDataError("record is cut", where=where, at=offset)
    length = header_length(view, 0, where=where)
    if length > len(view):
        return length
    raw = bytes(view[:length])
    return FoundHeader(offset, raw, decode_header(raw, where=where))


def _piece(piece: FooterPiece, data: Buffer, *, where: str) -> list[FoundHeader]:
    return [FoundHeader(*each) for each in decode_piece(piece, data, where=where)]


def _after(headers: list[FoundHeader], sqn: int) -> list[FoundHeader]:
    if not headers or headers[0].header.sqn > sqn:
        return headers
    return headers[bisect_left(headers, sqn + 1, key=lambda each: each.header.sqn) :]
