"""The new value segments of a compaction, and what writes them: this process, or a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from siltstone.container.models.imports import ImportOutput, ImportTicket
from siltstone.objects.compaction_plan import PlannedSegment
from siltstone.objects.records.value_record import RecordHeader
from siltstone.objects.segment_copy import SegmentCopy
from siltstone.store.handles.import_writer import ImportTarget, ImportWriter

if TYPE_CHECKING:
    from siltstone.objects.space_parts import SpaceParts

Rest = Callable[[RecordHeader], RecordHeader | None]
"""Says what stays of a record whose value is lost, by its header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOrder:
    """What is to be written.

    Attributes:
        ticket: of the import session that takes it.
        planned: the records of each new segment, at least one.
        names: of the new segments.
        as_of: the newest SQN that was looked at.
        rest: what stays of a record whose value is lost; ``None`` when such a record makes its
            segment unreadable.
    """

    ticket: ImportTicket
    planned: tuple[PlannedSegment, ...]
    names: tuple[str, ...]
    as_of: int
    rest: Rest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSegment:
    """What became of one of them.

    Attributes:
        output: what is to be imported; ``None`` when all of its records are lost.
        records: those that were written.
        footer_end: where its footer ends.
        lost: headers of the records whose values are damaged or gone.
    """

    output: ImportOutput | None
    records: PlannedSegment
    footer_end: int
    lost: tuple[RecordHeader, ...]


class SegmentCopies(Protocol):
    """Writes the new segments of a compaction. It commits nothing."""

    async def write(self, order: CopyOrder) -> list[WrittenSegment]:
        """Write all of them; return each, in their order.

        Raises:
            UnreadableSegmentError: a record is damaged or gone, and nothing was said of that.
            ChunkError: long-term storage refused, or did not answer.
        """
        ...


MakeCopies = Callable[["SpaceParts", ImportTarget], SegmentCopies]
"""Makes what writes the segments of a compaction of a keyspace; the target is open as long."""


class OwnCopies:
    """Writes them in this process, one after the other.

    Args:
        space: the keyspace.
        target: takes the bytes.
        gives_way: wait, for some time, while changes wait for long-term storage.
    """

    def __init__(self, space: SpaceParts, target: ImportTarget, *, gives_way: bool = False) -> None:
        self._space = space
        self._target = target
        self._gives_way = gives_way

    async def write(self, order: CopyOrder) -> list[WrittenSegment]:
        """See ``SegmentCopies``."""
        return [
            await self._one(order, planned, name)
            for planned, name in zip(order.planned, order.names, strict=True)
        ]

    async def _one(self, order: CopyOrder, planned: PlannedSegment, name: str) -> WrittenSegment:
        writer = ImportWriter(self._target, order.ticket, partition=0, attempt=0)
        copy = SegmentCopy(self._space, writer, order.rest, gives_way=self._gives_way)
        await copy.records(planned)
        records = copy.written
        records.kept += planned.kept
        output, footer_end = None, 0
        if records.notes:
            footer_end = await copy.footer(records, name, order.as_of)
            output = ImportOutput(segment=name, chunks=await copy.finish())
        return WrittenSegment(
            output=output, records=records, footer_end=footer_end, lost=tuple(copy.lost)
        )
