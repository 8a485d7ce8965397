"""What value compaction makes of the records of a run of segments. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from siltstone.core.errors import (
    CorruptDataError,
    OffsetError,
    SegmentNotFoundError,
    SegmentTruncatedError,
    SiltstoneError,
)
from siltstone.objects.records.footer import HeaderNote, note_of
from siltstone.objects.records.head import Head
from siltstone.objects.records.space_rows import ManifestRow, Strategy
from siltstone.objects.records.value_record import RecordHeader, ValueKind, encode_header
from siltstone.objects.value_log import FoundHeader

UNREADABLE: Final = (CorruptDataError, OffsetError, SegmentNotFoundError, SegmentTruncatedError)
"""What a read of a value segment raises whose bytes are damaged or gone."""


class UnreadableSegmentError(Exception):
    """What is needed of a value segment is damaged or gone.

    Attributes:
        number: of the segment.
    """

    def __init__(self, number: int, reason: SiltstoneError) -> None:
        super().__init__(f"value segment {number}: {reason}")
        self.number = number


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """Bytes of a value segment that are copied as they are.

    Attributes:
        number: of the segment.
        start: where they begin in it.
        end: where they end.
    """

    number: int
    start: int
    end: int


@dataclass(slots=True)
class PlannedSegment:
    """A value segment that compaction is to write.

    Attributes:
        parts: ranges and headers, in order.
        notes: of all records.
        length: bytes of the records.
        kept: bytes of those that have no value.
    """

    parts: list[CopiedRange | bytes] = field(default_factory=list)
    notes: list[HeaderNote] = field(default_factory=list)
    length: int = 0
    kept: int = 0

    def copy(self, number: int, found: FoundHeader) -> None:
        """Take a record as it is."""
        end = found.offset + found.header.record_length
        self.take(CopiedRange(number, found.offset, end), note_of(found.raw, found.header))
        self._keep(found.header)

    def write(self, header: RecordHeader) -> None:
        """Take a record that is its header alone."""
        raw = encode_header(header)
        self.take(raw, note_of(raw, header))
        self._keep(header)

    def take(self, part: CopiedRange | bytes, note: HeaderNote) -> None:
        """Take a record, of which ``kept`` says nothing."""
        last = self.parts[-1] if self.parts else None
        if (
            isinstance(part, CopiedRange)
            and isinstance(last, CopiedRange)
            and (last.number, last.end) == (part.number, part.start)
        ):
            self.parts[-1] = CopiedRange(part.number, last.start, part.end)
        else:
            self.parts.append(part)
        self.notes.append(note)
        self.length += note.record_length

    def _keep(self, header: RecordHeader) -> None:
        if header.kind is not ValueKind.STANDARD:
            self.kept += header.record_length


def cut_plan(planned: PlannedSegment, size: int) -> Iterator[PlannedSegment]:
    """Cut a plan between records, into plans whose records follow one another.

    Args:
        planned: what is cut.
        size: bytes of each at most, unless it is one record. Of none ``kept`` is told.
    """
    found = PlannedSegment()
    notes = iter(planned.notes)
    for part in planned.parts:
        position = part.start if isinstance(part, CopiedRange) else 0
        end = part.end if isinstance(part, CopiedRange) else len(part)
        while position < end:
            note = next(notes)
            if found.notes and found.length + note.record_length > size:
                yield found
                found = PlannedSegment()
            stop = position + note.record_length
            found.take(
                CopiedRange(part.number, position, stop) if isinstance(part, CopiedRange) else part,
                note,
            )
            position = stop
    if found.notes:
        yield found


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionView:
    """What is known when a run is compacted.

    Attributes:
        tags: strategy of each tag.
        others: the value segments that are not in the run.
    """

    tags: Mapping[str, Strategy]
    others: tuple[ManifestRow, ...]

    def fate(self, header: RecordHeader, head: Head | None) -> RecordHeader | None:
        """The header of what stays of a record; ``None`` when nothing does.

        Args:
            header: of the record.
            head: of its object in the snapshot that is compacted by; ``None`` if it has none.
        """
        retains = self._strategy(header) is Strategy.RETAIN
        if head is not None and head.sqn == header.sqn:
            return header
        if header.kind is ValueKind.STANDARD and head is None and header.expires_s:
            # Its head may have been removed without a record when it expired, whatever the clock
            # says by now: neither it nor older ones are to return.
            stays = retains or self._has_older(header.sqn)
            return _without_value(header, ValueKind.TOMBSTONE) if stays else None
        if header.kind is ValueKind.TOMBSTONE:
            return header if retains or self._has_older(header.sqn) else None
        return _without_value(header, ValueKind.KEY_DELTA) if retains else None

    def rest(self, header: RecordHeader) -> RecordHeader | None:
        """The header of what stays of a record whose value is lost; ``None`` when nothing does."""
        retains = self._strategy(header) is Strategy.RETAIN
        return _without_value(header, ValueKind.KEY_DELTA) if retains else None

    def may_free(self, row: ManifestRow) -> bool:
        """Whether what compaction kept of a segment without a value may be needless by now."""
        return bool(row.kept) and not self._has_older(row.first_sqn)

    def _strategy(self, header: RecordHeader) -> Strategy:
        return self.tags.get(header.key.tag.decode(), Strategy.RECOVR)

    def _has_older(self, sqn: int) -> bool:
        """Whether a segment may have an older record of the object, which a rebuild would find."""
        return any(row.first_sqn < sqn and row.as_of < sqn for row in self.others)


def _without_value(header: RecordHeader, kind: ValueKind) -> RecordHeader:
    return header._replace(kind=kind, stored=0, large=None)
