"""Value compaction: what is still needed of a run of value segments is written once more.

Bytes go straight to long-term storage, through an import session; the ledger gets two commits: of
the imported segments, and of the manifest that names them. Heads are not written: a place that is
gone is found again by its SQN.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from siltstone.container.models.imports import ImportTicket
from siltstone.container.models.segments import (
    AttributeIs,
    Condition,
    Operation,
    Put,
    Remove,
    SetAttribute,
    VersionIs,
)
from siltstone.core.errors import (
    ConditionFailedError,
    CorruptDataError,
    SiltstoneError,
)
from siltstone.objects.changes import DeleteRequest, name_text
from siltstone.objects.compaction_plan import CompactionView, PlannedSegment, UnreadableSegmentError
from siltstone.objects.ledger import manifest_of
from siltstone.objects.records.head import decode_head
from siltstone.objects.records.keys import (
    STATE,
    head_key,
    manifest_key,
    task_key,
)
from siltstone.objects.records.space_rows import (
    ManifestRow,
    ValueStatus,
    decode_state,
    encode_manifest_row,
    encode_task,
)
from siltstone.objects.records.value_record import RecordHeader
from siltstone.objects.scores import RUN_MAX, best_run, without
from siltstone.objects.segment_copies import CopyOrder, Rest, SegmentCopies, WrittenSegment
from siltstone.objects.space_names import FATE_ATTRIBUTE, SegmentFate
from siltstone.objects.value_segments import RollLimits
from siltstone.objects.value_tasks import delete_unnamed, free_number
from siltstone.objects.value_uses import ValueUses

if TYPE_CHECKING:
    from siltstone.objects.batches import BatchWriter
    from siltstone.objects.space_parts import SpaceParts
    from siltstone.store.handles.async_table import AsyncTableSnapshot

_log = logging.getLogger(__name__)


class DroppedObject(NamedTuple):
    """An object whose value was damaged or gone, and that was deleted for that.

    Attributes:
        tag: of its kind.
        bucket: of the object.
        key: its name in the bucket.
        sqn: number of the change whose value it was.
    """

    tag: str
    bucket: str
    key: str
    sqn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What one value compaction did.

    Attributes:
        run: numbers of the value segments that were compacted; none when none was worth it.
        made: numbers of those that took their place.
        read_bytes: bytes of the records of the run.
        written_bytes: bytes that were written to long-term storage.
        records: how many records the run had.
        kept: how many of them there are now, with those that lost their value.
        kept_bytes: bytes of these.
        unreadable: numbers of value segments that are worth it and were left as they are, since
            what is needed of them is damaged or gone.
        dropped: objects that were deleted, since their values are damaged or gone; only where that
            was accepted.
    """

    run: tuple[int, ...] = ()
    made: tuple[int, ...] = ()
    read_bytes: int = 0
    written_bytes: int = 0
    records: int = 0
    kept: int = 0
    kept_bytes: int = 0
    unreadable: tuple[int, ...] = ()
    dropped: tuple[DroppedObject, ...] = ()


class ValueCompaction:
    """One value compaction of an open keyspace.

    Args:
        space: the keyspace.
        batches: gives numbers to segments.
        ledger: as it is compacted by.
        limits: when a value segment is full.
        waste_retention_s: how long what was replaced stays at least.
    """

    def __init__(
        self,
        space: SpaceParts,
        batches: BatchWriter,
        ledger: AsyncTableSnapshot,
        limits: RollLimits,
        *,
        waste_retention_s: float = 0.0,
    ) -> None:
        self._waste_retention_s = waste_retention_s
        self._space = space
        self._batches = batches
        self._ledger = ledger
        self._limits = limits
        self._store = space.store
        self._names = space.names
        self._uses = ValueUses(space, ledger)

    async def run(
        self,
        copies: SegmentCopies,
        run_max: int = RUN_MAX,
        *,
        accept_loss: bool = False,
        skip: Collection[int] = (),
    ) -> CompactionReport:
        """Compact the run that is worth most, if any is, of those that can be read.

        Args:
            copies: writes the new segments.
            run_max: most neighbouring segments of the run, at least 1.
            accept_loss: delete objects whose values are damaged or gone, and go on. A segment of
                which the headers cannot be read is left as it is all the same: nothing tells
                which objects it ends.
            skip: numbers of segments that are known to be unreadable.

        Raises:
            CorruptDataError: rows are damaged; nothing was changed.
            ChunkError: long-term storage refused, or did not answer; nothing was changed.
            ConditionFailedError: something else changed the value segments; nothing was changed.
            OutcomeUnknownError: the log failed; it may or may not have taken place.
        """
        manifest = await manifest_of(self._ledger.scan, where=self._names.name)
        uses = await self._uses.of(manifest)
        unreadable = {row.number for row in manifest if row.number in skip}
        while True:
            best = best_run(without(uses, unreadable), run_max=run_max)
            chosen = {use.number for use in best}
            if not chosen:
                return CompactionReport(unreadable=tuple(sorted(unreadable)))
            run = [row for row in manifest if row.number in chosen]
            try:
                report = await self._compacted(copies, manifest, run, accept_loss=accept_loss)
            except UnreadableSegmentError as error:
                # Each pass leaves out one more, so this ends.
                unreadable.add(error.number)
                _log.warning("keyspace %s is not compacted whole: %s", self._names.name, error)
            else:
                return replace(report, unreadable=tuple(sorted(unreadable)))

    async def _compacted(
        self,
        copies: SegmentCopies,
        manifest: Sequence[ManifestRow],
        run: Sequence[ManifestRow],
        *,
        accept_loss: bool,
    ) -> CompactionReport:
        view = self._uses.view(manifest, run)
        as_of = await self._sqn() - 1
        planned = await self._planned(view, run)
        numbers = [await self._number() for _ in planned]
        rest = view.rest if accept_loss else None
        rows, lost = await self._write(copies, planned, numbers, as_of, rest)
        dropped = [each for header in lost for each in await self._drop(header)]
        await self._switch(run, rows)
        return CompactionReport(
            run=tuple(row.number for row in run),
            made=tuple(row.number for row in rows),
            read_bytes=sum(row.length for row in run),
            written_bytes=sum(row.footer_end for row in rows),
            records=sum(row.records for row in run),
            kept=sum(row.records for row in rows),
            kept_bytes=sum(row.length for row in rows),
            dropped=tuple(dropped),
        )

    async def _number(self) -> int:
        """The number of a new segment."""
        number = await self._batches.number()
        await free_number(self._space, number)
        return number

    async def _drop(self, header: RecordHeader) -> list[DroppedObject]:
        """Delete an object whose value is lost, unless it was changed meanwhile."""
        key = header.key
        request = DeleteRequest(key=key, expected=header.sqn)
        try:
            sqn = await self._batches.delete(request)
        except ConditionFailedError:
            return []
        if sqn is None:
            return []
        found = DroppedObject(
            name_text(key.tag), name_text(key.bucket), name_text(key.key), header.sqn
        )
        _log.warning("an object was dropped, its value is lost: %s", found)
        return [found]

    async def _sqn(self) -> int:
        found = await self._ledger.get(STATE)
        if found is None:
            raise CorruptDataError("keyspace has no state", where=self._names.name)
        return decode_state(found.value, where=self._names.name).next_sqn

    # --- planning ---------------------------------------------------------------------------------

    async def _planned(
        self, view: CompactionView, run: Sequence[ManifestRow]
    ) -> list[PlannedSegment]:
        planned = [PlannedSegment()]
        for row in run:
            async for page in self._uses.headers(row):
                for found in page:
                    header = found.header
                    row_key = head_key(header.key)
                    seen = await self._ledger.get(row_key)
                    head = None if seen is None else decode_head(seen.value, where=row_key.hex())
                    after = view.fate(header, head)
                    if after is None:
                        continue
                    last = planned[-1]
                    if last.notes and self._is_full(last):
                        last = PlannedSegment()
                        planned.append(last)
                    if after == header:
                        last.copy(row.number, found)
                    else:
                        last.write(after)
                await asyncio.sleep(0)
        return [each for each in planned if each.notes]

    def _is_full(self, planned: PlannedSegment) -> bool:
        return planned.length >= self._limits.length or len(planned.notes) >= self._limits.records

    # --- writing ----------------------------------------------------------------------------------

    async def _write(
        self,
        copies: SegmentCopies,
        planned: Sequence[PlannedSegment],
        numbers: Sequence[int],
        as_of: int,
        rest: Rest | None,
    ) -> tuple[list[ManifestRow], list[RecordHeader]]:
        """Import the new segments; return their rows, and the headers whose values are lost."""
        if not planned:
            return [], []
        names = tuple(self._names.value_segment(number) for number in numbers)
        ticket = await self._store.open_import(names[0], names[0])
        order = CopyOrder(
            ticket=ticket, planned=tuple(planned), names=names, as_of=as_of, rest=rest
        )
        try:
            copied = await copies.write(order)
            outputs = [each.output for each in copied if each.output is not None]
            if outputs:
                await self._store.commit_import(ticket, outputs)
            else:
                await self._abort(ticket)
        except BaseException:
            await asyncio.shield(self._abort(ticket))
            raise
        rows = [
            _made_row(number, each, as_of)
            for number, each in zip(numbers, copied, strict=True)
            if each.output is not None
        ]
        return rows, [header for each in copied for header in each.lost]

    async def _abort(self, ticket: ImportTicket) -> None:
        try:
            await self._store.abort_import(ticket)
        except SiltstoneError:
            return  # it expires by itself

    async def _switch(self, run: Sequence[ManifestRow], made: Sequence[ManifestRow]) -> None:
        """Let the manifest name the new segments; the old ones are to be deleted."""
        ledger = self._names.ledger
        conditions: list[Condition] = []
        operations: list[Operation] = []
        not_before_s = 0
        if self._waste_retention_s:
            now_s = max(0.0, self._store.environment.time())
            not_before_s = ceil(now_s + self._waste_retention_s)
        for row in run:
            key = manifest_key(row.first_sqn)
            seen = await self._ledger.get(key)
            conditions.append(VersionIs(ledger, key, None if seen is None else seen.version))
            operations.append(Remove(ledger, key))
            operations.append(Put(ledger, task_key(row.number), encode_task(not_before_s)))
            operations.append(self._says(row.number, SegmentFate.REPLACED))
        for row in made:
            # It may be about to be deleted, where this keyspace was closed and opened meanwhile.
            segment = self._names.value_segment(row.number)
            conditions.append(AttributeIs(segment, FATE_ATTRIBUTE, None))
            operations.append(self._says(row.number, SegmentFate.NAMED))
        operations += [
            Put(ledger, manifest_key(row.first_sqn), encode_manifest_row(row)) for row in made
        ]
        try:
            await self._store.commit(operations, conditions)
        except ConditionFailedError:
            await delete_unnamed(self._space)
            raise
        await self._space.manifest.now()

    def _says(self, number: int, fate: SegmentFate) -> Operation:
        """What a rebuild needs to know of a segment when the manifest is lost."""
        return SetAttribute(self._names.value_segment(number), FATE_ATTRIBUTE, fate.value)


def _made_row(number: int, copied: WrittenSegment, as_of: int) -> ManifestRow:
    """The row of a segment that was written."""
    written = copied.records
    return ManifestRow(
        number=number,
        status=ValueStatus.SEALED,
        first_sqn=written.notes[0].sqn,
        last_sqn=written.notes[-1].sqn,
        length=written.length,
        records=len(written.notes),
        footer_end=copied.footer_end,
        as_of=as_of,
        kept=written.kept,
    )
