"""Whether the records of value segments are what was written, and what the heads say.

Each record is read and compared with its sums and with the head of its object, and each footer with
the records. Where a record is damaged, those next to it are read one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from siltstone.container.models.segments import Finding
from siltstone.core.constants import Buffer
from siltstone.core.environment import Pool
from siltstone.core.errors import CorruptDataError, FormatError, OffsetError
from siltstone.objects.object_views import NoteLoss, forget_loss, lost
from siltstone.objects.records.footer import (
    TRAILER_BYTES,
    decode_directory,
    decode_piece,
    decode_trailer,
    encode_footer,
    key_hash,
    note_of,
)
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import (
    HEAD,
    ObjectKey,
    after_prefix,
    decode_head_key,
    doubtful_key,
    head_key,
)
from siltstone.objects.records.space_rows import ManifestRow, ValueStatus
from siltstone.objects.records.value_record import RecordHeader, ValueKind, decode_record
from siltstone.objects.row_check import damage, object_text
from siltstone.objects.value_log import PIECE_BYTES, FoundHeader, scan
from siltstone.store.handles.async_table import value_pages
from siltstone.store.handles.self_checked import read_checked

if TYPE_CHECKING:
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.handles.async_segment import AsyncSegment
    from siltstone.store.handles.async_table import AsyncTableSnapshot

_POOL: Final = Pool(name="siltstone-record-check", threads=1)
_UNREADABLE: Final = (CorruptDataError, FormatError, OffsetError)


class RecordCheck:
    """Reads value segments, in the order of their SQNs, and compares them with the ledger.

    Args:
        store: of the keyspace.
        names: of the keyspace.
        ledger: at one moment.
        progress: told how many bytes of records were read.
        whole: numbers of the value segments whose records have been read already, all of them, by
            ``headers_of`` and ``record_problem``, and found whole. They are not read again.
        recalc: tags of which a function may have made the index, so that records have another.
        note: told the objects whose values are lost.
    """

    def __init__(
        self,
        store: AsyncStore,
        names: SpaceNames,
        ledger: AsyncTableSnapshot,
        progress: Callable[[int], None],
        whole: Collection[int] = (),
        recalc: Collection[bytes] = (),
        note: NoteLoss = forget_loss,
    ) -> None:
        self._recalc = recalc
        self._note_loss = note
        self._store = store
        self._names = names
        self._ledger = ledger
        self._progress = progress
        self._whole = whole
        self._headless: dict[ObjectKey, int] = {}
        """Objects without a head that have a record, and so need a newer one that ends them."""
        self._is_whole = True

    async def segment(self, row: ManifestRow, length: int, heads: int) -> AsyncIterator[Finding]:
        """Yield what is wrong with the records of a value segment, and with its footer.

        Args:
            row: of the segment.
            length: bytes of its records.
            heads: how many objects have a change of it.

        Raises:
            SegmentNotFoundError, SegmentTruncatedError: it is gone.
            ChunkError: long-term storage refused, or did not answer.
        """
        segment = self._store.segment(self._names.value_segment(row.number))
        footer, found, problem = await self._headers(segment, row, length)
        if problem is not None:
            yield problem
        is_whole, seen, matched = problem is None, set[int](), 0
        for group in record_groups(found):
            is_read = row.number in self._whole
            for each, reason in (
                [(each, "") for each in group] if is_read else await self._read(segment, group)
            ):
                header = each.header
                head = await self._head(header.key)
                seen.add(header.sqn)
                matched += head is not None and head.sqn == header.sqn
                is_whole = is_whole and not reason
                for finding in self._compared(row, each, head, reason):
                    yield finding
            self._progress(sum(each.header.record_length for each in group))
            await asyncio.sleep(0)
        for finding in self._order(row, found):
            yield finding
        if is_whole and footer and not await self._is_footer(row, found, footer):
            yield damage(segment.name, "its footer is not that of its records")
        if matched != heads:
            async for finding in self._missing(row, seen):
                yield finding

    def miss(self) -> None:
        """Note that records of a segment were not seen: what ended an object may be among them."""
        self._is_whole = False

    async def end(self) -> AsyncIterator[Finding]:
        """Yield what has a record and no head, after the last segment, if all records were seen."""
        if not self._is_whole:
            return
        for key, sqn in self._headless.items():
            hashed = key_hash(key)
            if await self._ledger.get(doubtful_key(hashed)) is not None:
                continue  # a rebuild did not take it for what it is
            if await self._ledger.get(doubtful_key(hashed, key)) is not None:
                continue
            yield damage(object_text(self._names, key), "it has a record and no head", sqn=sqn)

    # --- what a segment has -----------------------------------------------------------------------

    async def _headers(
        self, segment: AsyncSegment, row: ManifestRow, length: int
    ) -> tuple[bytes, list[FoundHeader], Finding | None]:
        """The footer, the headers by which the records are found, and what is wrong with them.

        The footer of a sealed segment tells them; those of others, or where it is damaged, follow
        from the records, up to the first that is damaged.
        """
        problem = None
        if row.status is ValueStatus.SEALED:
            try:
                footer = await segment.read(length, row.footer_end - length)
                return footer, headers_of(footer, length, where=segment.name), None
            except _UNREADABLE as error:
                problem = damage(segment.name, f"its footer is damaged: {error}")
        found, end = [], 0
        try:
            async for each in scan(segment, 0, length):
                found.append(each)
                end = each.offset + _length(each)
        except _UNREADABLE as error:
            self.miss()
            text = f"no record can be told apart from here on: {error}"
            problem = damage(segment.name, text, offset=end)
        return b"", found, problem

    async def _read(
        self, segment: AsyncSegment, group: Sequence[FoundHeader]
    ) -> list[tuple[FoundHeader, str]]:
        """Read neighbours; return each with what is wrong, empty for nothing."""
        start = group[0].offset
        try:
            data = await segment.read(start, group[-1].offset + _length(group[-1]) - start)
        except _UNREADABLE:  # a block is damaged: not all of its records need be
            return [(each, await self._read_one(segment, each)) for each in group]
        view = memoryview(data)
        return [
            (each, record_problem(each, view[each.offset - start :][: _length(each)], segment.name))
            for each in group
        ]

    async def _read_one(self, segment: AsyncSegment, each: FoundHeader) -> str:
        check = partial(_verified, each, where=segment.name)
        try:
            await read_checked(segment, each.offset, _length(each), check)
        except _UNREADABLE as error:
            return str(error)
        return ""

    async def _head(self, key: ObjectKey) -> Head | None:
        """The head of an object; one that cannot be decoded was told when rows were compared."""
        row_key = head_key(key)
        found = await self._ledger.get(row_key)
        if found is None:
            return None
        try:
            return decode_head(found.value, where=row_key.hex())
        except (CorruptDataError, FormatError):
            return None

    # --- what is compared -------------------------------------------------------------------------

    def _compared(
        self, row: ManifestRow, each: FoundHeader, head: Head | None, reason: str
    ) -> Iterator[Finding]:
        header = each.header
        where = object_text(self._names, header.key)
        if head is None:
            self._note(header)
        elif head.sqn < header.sqn:
            yield damage(where, "its head is older than a record", sqn=header.sqn, head=head.sqn)
        if head is None or head.sqn != header.sqn:
            if reason:
                text = f"a record that nothing reads is damaged: {reason} sqn={header.sqn}"
                yield Finding(severity="warning", where=where, message=text)
            return
        if reason:
            self._note_loss(header.key, lost(header.key, head, where, reason))
            yield damage(where, f"its value is lost: {reason}", sqn=header.sqn)
        elif header.kind is not ValueKind.STANDARD:
            yield damage(where, "its record has no value", sqn=header.sqn)
        elif not _is_same(header, head) or not self._has_index(header, head):
            yield damage(where, "head and record differ", sqn=header.sqn)
        if head.number == row.number and (head.offset, head.length) != (each.offset, _length(each)):
            yield damage(where, "its record is elsewhere", offset=each.offset, head=head.offset)

    def _has_index(self, header: RecordHeader, head: Head) -> bool:
        """Whether the index of a head is that of its record, where it has to be."""
        return header.key.tag in self._recalc or header.entries == head.entries

    def _note(self, header: RecordHeader) -> None:
        """Note an object that has no head. What expired went without a record."""
        if header.kind is ValueKind.STANDARD and not header.expires_s:
            self._headless[header.key] = header.sqn
        elif header.kind is not ValueKind.KEY_DELTA:
            self._headless.pop(header.key, None)

    def _order(self, row: ManifestRow, found: Sequence[FoundHeader]) -> Iterator[Finding]:
        """What is wrong with the SQNs of a segment, and with what its row says of them."""
        where = self._names.value_segment(row.number)
        sqns = [each.header.sqn for each in found]
        if any(second <= first for first, second in pairwise(sqns)):
            yield damage(where, "its records are not in the order of their changes")
        if row.status is ValueStatus.ACTIVE:
            if sqns and sqns[0] < row.first_sqn:
                yield damage(where, "its records begin with another change", sqn=sqns[0])
        elif sqns and (len(sqns), sqns[0], sqns[-1]) != (row.records, row.first_sqn, row.last_sqn):
            yield damage(where, "its records are not those that the manifest says", count=len(sqns))

    async def _is_footer(
        self, row: ManifestRow, found: Sequence[FoundHeader], footer: bytes
    ) -> bool:
        notes = [note_of(each.raw, each.header) for each in found]
        where = self._names.value_segment(row.number)
        call = partial(encode_footer, notes, start=row.length, as_of=row.as_of, where=where)
        try:
            return await self._store.environment.run_blocking(_POOL, call) == footer
        except CorruptDataError:
            return False

    async def _missing(self, row: ManifestRow, seen: set[int]) -> AsyncIterator[Finding]:
        """The objects whose change belongs to a segment that has no such record."""
        last = None if row.status is ValueStatus.ACTIVE else row.last_sqn
        async for page in value_pages(self._ledger, HEAD, after_prefix(HEAD)):
            for row_key, value in page:
                try:
                    key = decode_head_key(row_key)
                    head = decode_head(value, where=row_key.hex())
                except (CorruptDataError, FormatError):
                    continue  # it was told when rows were compared
                is_here = head.sqn >= row.first_sqn and (last is None or head.sqn <= last)
                if is_here and head.sqn not in seen and not await self._is_there(row, key, head):
                    where = object_text(self._names, key)
                    text = f"its value is lost: {self._names.value_segment(row.number)} lacks it"
                    self._note_loss(key, lost(key, head, where, text))
                    yield damage(where, text, sqn=head.sqn)
            await asyncio.sleep(0)

    async def _is_there(self, row: ManifestRow, key: ObjectKey, head: Head) -> bool:
        """Whether the record of an object can be read, although those before it cannot."""
        if head.number != row.number:
            return False
        segment = self._store.segment(self._names.value_segment(row.number))
        check = partial(_check_record_of, key, head.sqn, where=segment.name)
        try:
            await read_checked(segment, head.offset, head.length, check)
        except (*_UNREADABLE, FormatError):
            return False
        return True


def headers_of(footer: bytes, start: int, *, where: str) -> list[FoundHeader]:
    """The headers that a footer has, which begins at ``start``. Raises ``CorruptDataError``."""
    trailer = decode_trailer(footer[-TRAILER_BYTES:], where=where)
    begin = trailer.directory - start
    pieces = decode_directory(footer[begin : begin + trailer.length], where=where)
    return [
        FoundHeader(*each)
        for piece in pieces
        for each in decode_piece(
            piece, footer[piece.offset - start : piece.end - start], where=where
        )
    ]


def record_groups(found: Sequence[FoundHeader]) -> Iterator[list[FoundHeader]]:
    """Neighbours that are read at once."""
    group: list[FoundHeader] = []
    size = 0
    for each in found:
        if group and size + _length(each) > PIECE_BYTES:
            yield group
            group, size = [], 0
        group.append(each)
        size += _length(each)
    if group:
        yield group


def _length(each: FoundHeader) -> int:
    return each.header.record_length


def record_problem(each: FoundHeader, data: Buffer, where: str) -> str:
    """What is wrong with the bytes of a record; empty for nothing."""
    try:
        _verified(each, data, where=where)
    except (CorruptDataError, FormatError) as error:
        return str(error)
    return ""


def _verified(each: FoundHeader, data: Buffer, *, where: str) -> None:
    """Raise ``CorruptDataError`` unless ``data`` is the whole record of this header."""
    header, _ = decode_record(data, where=where)
    if header != each.header:
        raise CorruptDataError("record differs from its footer", where=where, at=each.offset)


def _check_record_of(key: ObjectKey, sqn: int, data: Buffer, *, where: str) -> None:
    """Raise ``CorruptDataError`` unless ``data`` is the whole record of this change."""
    header, _ = decode_record(data, where=where)
    if (header.key, header.sqn) != (key, sqn):
        raise CorruptDataError("record of another change", where=where, sqn=header.sqn)


def _is_same(header: RecordHeader, head: Head) -> bool:
    """Whether a head says what its record does, but for the index."""
    return (
        header.previous,
        header.size,
        header.value_hash,
        header.modified_ms,
        header.expires_s,
        header.metadata,
        header.large,
    ) == (
        head.previous,
        head.size,
        head.value_hash,
        head.modified_ms,
        head.expires_s,
        head.metadata,
        head.large,
    )
