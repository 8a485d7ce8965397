"""Records of a new value segment: ranges of old ones are read and written, then a footer.

Bytes are compared by blocks, as by any read. Where a block is damaged or gone, its records are read
one by one: those that match their own sums are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from siltstone.container.models.imports import ImportedChunk
from siltstone.core.constants import MIB, Buffer
from siltstone.core.environment import Pool
from siltstone.core.errors import CorruptDataError
from siltstone.objects.compaction_plan import (
    UNREADABLE,
    CopiedRange,
    PlannedSegment,
    UnreadableSegmentError,
)
from siltstone.objects.records.footer import HeaderNote, encode_footer
from siltstone.objects.records.value_record import RecordHeader, decode_header, encode_value_sum
from siltstone.store.handles.import_writer import ImportWriter
from siltstone.store.handles.self_checked import read_checked
from siltstone.store.system_table import is_pressed

if TYPE_CHECKING:
    from siltstone.objects.space_parts import SpaceParts

READ_BYTES: Final = 4 * MIB
"""Read at a time, and held in memory; more for a record that is larger."""

WAIT_S: Final = 1.0
WAITS_MAX: Final = 60
"""A minute for each piece: it ends, however long others are in need, and is little next to them."""

_POOL: Final = Pool(name="siltstone-value-compaction", threads=1)


class SegmentCopy:
    """Writes records of one new value segment, all of them or some that follow one another.

    Args:
        space: the keyspace.
        writer: takes the bytes.
        rest: says what stays of a record whose value is lost, by its header; ``None`` when such a
            record makes its segment unreadable.
        gives_way: wait, for some time, while changes wait for long-term storage.

    Attributes:
        written: the records that are written so far. ``kept`` is of those that lost their value.
        lost: headers of the records whose values are damaged or gone.
    """

    def __init__(
        self,
        space: SpaceParts,
        writer: ImportWriter,
        rest: Callable[[RecordHeader], RecordHeader | None] | None,
        *,
        gives_way: bool = False,
    ) -> None:
        self._gives_way = gives_way
        self._space = space
        self._writer = writer
        self._rest = rest
        self._run = partial(space.store.environment.run_blocking, _POOL)
        self.written = PlannedSegment()
        self.lost: list[RecordHeader] = []

    async def records(self, planned: PlannedSegment) -> None:
        """Write the records of a plan.

        Raises:
            UnreadableSegmentError: a record is damaged or gone, and nothing was said of that.
            ChunkError: long-term storage refused, or did not answer.
        """
        position = 0
        for part in planned.parts:
            if isinstance(part, bytes):
                await self._take(part, [planned.notes[position]])
                position += 1
                continue
            for piece, notes in pieces(part, planned.notes, position):
                await self._wait()
                await self._copy(piece, notes)
                position += len(notes)

    async def footer(self, records: PlannedSegment, name: str, as_of: int) -> int:
        """Write the footer of all records of a segment, at least one; return where it ends.

        Args:
            records: the records.
            name: of the segment.
            as_of: the newest SQN that was looked at.

        Raises ``ChunkError``.
        """
        start = records.length
        encode = partial(encode_footer, records.notes, start=start, as_of=as_of, where=name)
        footer = await self._run(encode)
        await self._run(partial(self._writer.write, footer))
        return start + len(footer)

    async def finish(self) -> tuple[ImportedChunk, ...]:
        """Make all that was written durable; return the chunks. Raises ``ChunkError``."""
        return await self._run(self._writer.finish)

    async def _wait(self) -> None:
        store, ledger = self._space.store, self._space.names.ledger
        for _ in range(WAITS_MAX if self._gives_way else 0):
            if not is_pressed(store, ledger):
                return
            await store.environment.sleep(WAIT_S)

    async def _take(self, data: bytes, notes: Sequence[HeaderNote]) -> None:
        await self._run(partial(self._writer.write, data))
        self.written.notes += notes
        self.written.length += len(data)

    async def _copy(self, piece: CopiedRange, notes: Sequence[HeaderNote]) -> None:
        segment = self._space.store.segment(self._space.names.value_segment(piece.number))
        try:
            data = await segment.read(piece.start, piece.end - piece.start)
            if len(data) != piece.end - piece.start:
                raise CorruptDataError("value segment is cut", where=segment.name, at=piece.start)
        except UNREADABLE:
            await self._copy_each(piece, notes)
        else:
            await self._take(data, notes)

    async def _copy_each(self, piece: CopiedRange, notes: Sequence[HeaderNote]) -> None:
        segment = self._space.store.segment(self._space.names.value_segment(piece.number))
        offset = piece.start
        for note in notes:
            check = partial(whole_record, note.raw, where=segment.name)
            try:
                data = await read_checked(segment, offset, note.record_length, check)
            except UNREADABLE as error:
                if self._rest is None:
                    raise UnreadableSegmentError(piece.number, error) from error
                await self._lose(decode_header(note.raw, where=segment.name))
            else:
                await self._take(data, [note])
            offset += note.record_length

    async def _lose(self, header: RecordHeader) -> None:
        self.lost.append(header)
        assert self._rest is not None, "else it is an error"
        stays = self._rest(header)
        if stays is not None:
            before = len(self.written.parts)
            self.written.write(stays)
            (raw,) = self.written.parts[before:]
            assert isinstance(raw, bytes), "a header"
            await self._run(partial(self._writer.write, raw))


def pieces(
    part: CopiedRange, notes: Sequence[HeaderNote], first: int
) -> list[tuple[CopiedRange, Sequence[HeaderNote]]]:
    """Cut a range between records, into pieces that are read at a time.

    Args:
        part: the range.
        notes: of the records of all parts.
        first: index of the note of the first record of this one.
    """
    found = []
    start = position = part.start
    begun = index = first
    while position < part.end:
        length = notes[index].record_length
        if index > begun and position + length - start > READ_BYTES:
            found.append((CopiedRange(part.number, start, position), notes[begun:index]))
            start, begun = position, index
        position += length
        index += 1
    found.append((CopiedRange(part.number, start, position), notes[begun:index]))
    return found


def whole_record(raw: bytes, data: Buffer, *, where: str) -> bytes:
    """Return the record with this header, which is the footer's, and with the value in ``data``.

    Raises:
        CorruptDataError: the value is not whole, or does not match its sum.
    """
    rest = bytes(memoryview(data)[len(raw) :])
    if len(rest) != decode_header(raw, where=where).record_length - len(raw):
        raise CorruptDataError("record is cut", where=where)
    if rest and encode_value_sum(rest[:-4]) != rest[-4:]:
        raise CorruptDataError("value does not match its sum", where=where)
    return raw + rest
