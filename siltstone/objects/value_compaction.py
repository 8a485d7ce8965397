"""Value compaction: what is still needed of a run of value segments is written once more.

Bytes go straight to long-term storage, through an import session; the ledger gets two commits: of
the imported segments, and of the manifest that names them. Heads are not written: a place that is
gone is found again by its SQN.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from siltstone.container.models.imports import ImportOutput, ImportTicket
from siltstone.container.models.segments import Operation, Put, Remove, VersionIs
from siltstone.core.constants import MIB
from siltstone.core.environment import Pool
from siltstone.core.errors import (
    ConditionFailedError,
    CorruptDataError,
    SegmentNotFoundError,
    SiltstoneError,
)
from siltstone.objects.compaction_plan import CompactionView, PlannedSegment
from siltstone.objects.ledger import manifest_of
from siltstone.objects.records.footer import encode_footer
from siltstone.objects.records.head import decode_head
from siltstone.objects.records.keys import (
    HEAD,
    STATE,
    TASK,
    head_key,
    manifest_key,
    number_of_task,
    task_key,
)
from siltstone.objects.records.space_rows import (
    ManifestRow,
    ValueStatus,
    decode_state,
    decode_task,
    encode_manifest_row,
    encode_task,
)
from siltstone.objects.records.value_record import ValueKind
from siltstone.objects.scores import RUN_MAX, ValueUse, best_run
from siltstone.objects.value_segments import RollLimits
from siltstone.store.handles.async_table import pages_of
from siltstone.store.handles.import_writer import ImportWriter

if TYPE_CHECKING:
    from siltstone.objects.batches import BatchWriter
    from siltstone.objects.space_parts import SpaceParts
    from siltstone.store.handles.async_table import AsyncTableSnapshot
    from siltstone.store.handles.import_writer import ImportTarget

READ_BYTES: Final = 4 * MIB
"""Read at a time, and held in memory."""

_POOL: Final = Pool(name="siltstone-value-compaction", threads=1)


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
    """

    run: tuple[int, ...] = ()
    made: tuple[int, ...] = ()
    read_bytes: int = 0
    written_bytes: int = 0
    records: int = 0
    kept: int = 0
    kept_bytes: int = 0


class ValueCompaction:
    """One value compaction of an open keyspace.

    Args:
        space: the keyspace.
        batches: gives numbers to segments.
        ledger: as it is compacted by.
        limits: when a value segment is full.
    """

    def __init__(
        self,
        space: SpaceParts,
        batches: BatchWriter,
        ledger: AsyncTableSnapshot,
        limits: RollLimits,
    ) -> None:
        self._space = space
        self._batches = batches
        self._ledger = ledger
        self._limits = limits
        self._store = space.store
        self._names = space.names

    async def run(self, target: ImportTarget, run_max: int = RUN_MAX) -> CompactionReport:
        """Compact the run that is worth most, if any is.

        Args:
            target: takes the new bytes.
            run_max: most neighbouring segments of the run, at least 1.

        Raises:
            CorruptDataError, LostDataError: a record that is needed is damaged or gone; nothing
                was changed.
            ChunkError: long-term storage refused, or did not answer; nothing was changed.
            ConditionFailedError: something else changed the value segments; nothing was changed.
            OutcomeUnknownError: the log failed; it may or may not have taken place.
        """
        await delete_unnamed(self._space)  # what one before made without knowing its outcome
        manifest = await manifest_of(self._ledger.scan, where=self._names.name)
        uses = await self._uses(manifest)
        chosen = {use.number for use in best_run(uses, run_max=run_max)}
        if not chosen:
            return CompactionReport()
        run = [row for row in manifest if row.number in chosen]
        as_of = await self._sqn() - 1
        planned = await self._planned(manifest, run)
        numbers = [await self._batches.number() for _ in planned]
        rows = await self._write(target, planned, numbers, as_of)
        await self._switch(run, [row for row, _ in rows])
        return CompactionReport(
            run=tuple(row.number for row in run),
            made=tuple(numbers),
            read_bytes=sum(row.length for row in run),
            written_bytes=sum(size for _, size in rows),
            records=sum(row.records for row in run),
            kept=sum(row.records for row, _ in rows),
            kept_bytes=sum(row.length for row, _ in rows),
        )

    async def _sqn(self) -> int:
        found = await self._ledger.get(STATE)
        if found is None:
            raise CorruptDataError("keyspace has no state", where=self._names.name)
        return decode_state(found.value, where=self._names.name).next_sqn

    # --- choosing ---------------------------------------------------------------------------------

    async def _uses(self, manifest: Sequence[ManifestRow]) -> list[list[ValueUse]]:
        """How much of each segment is needed, in groups of neighbours that may be compacted."""
        firsts = [row.first_sqn for row in manifest]
        live = [0] * len(manifest)
        async for page in pages_of(self._ledger, HEAD, bytes((HEAD[0] + 1,))):
            for row_key, found in page:
                head = decode_head(found.value, where=row_key.hex())
                live[bisect_right(firsts, head.sqn) - 1] += head.length
            await asyncio.sleep(0)
        groups: list[list[ValueUse]] = [[]]
        for row, size in zip(manifest, live, strict=True):
            if row.status is ValueStatus.SEALED and await self._is_flushed(row):
                needed = min(row.length, size + await self._kept(row, manifest))
                groups[-1].append(ValueUse(row.number, row.length, needed))
            else:
                groups.append([])
        return [group for group in groups if group]

    async def _kept(self, row: ManifestRow, manifest: Sequence[ManifestRow]) -> int:
        """Bytes of the records without a value that compaction would keep again."""
        view = self._view(manifest, [row])
        if not view.may_free(row):
            return row.kept
        size = 0
        async for page in self._space.values.headers(row, row.length):
            for header in (each.header for each in page):
                if header.kind is not ValueKind.STANDARD and view.fate(header, None) is not None:
                    size += header.record_length
        return size

    def _view(self, manifest: Sequence[ManifestRow], run: Sequence[ManifestRow]) -> CompactionView:
        others = tuple(row for row in manifest if row not in run)
        return CompactionView(tags=self._space.space.tags, others=others)

    async def _is_flushed(self, row: ManifestRow) -> bool:
        info = await self._store.segment(self._names.value_segment(row.number)).info()
        return info.flushed_length >= row.footer_end

    # --- planning ---------------------------------------------------------------------------------

    async def _planned(
        self, manifest: Sequence[ManifestRow], run: Sequence[ManifestRow]
    ) -> list[PlannedSegment]:
        view = self._view(manifest, run)
        planned = [PlannedSegment()]
        for row in run:
            async for page in self._space.values.headers(row, row.length):
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
        target: ImportTarget,
        planned: Sequence[PlannedSegment],
        numbers: Sequence[int],
        as_of: int,
    ) -> list[tuple[ManifestRow, int]]:
        """Import the new segments; return their rows, with the bytes that each has."""
        if not planned:
            return []
        names = [self._names.value_segment(number) for number in numbers]
        ticket = await self._store.open_import(names[0], names[0])
        try:
            outputs, rows = [], []
            for each, number, name in zip(planned, numbers, names, strict=True):
                output, end = await self._imported(target, ticket, each, name, as_of)
                outputs.append(output)
                row = ManifestRow(
                    number=number,
                    status=ValueStatus.SEALED,
                    first_sqn=each.notes[0].sqn,
                    last_sqn=each.notes[-1].sqn,
                    length=each.length,
                    records=len(each.notes),
                    footer_end=end,
                    as_of=as_of,
                    kept=each.kept,
                )
                rows.append((row, end))
            await self._store.commit_import(ticket, outputs)
        except BaseException:
            await asyncio.shield(self._abort(ticket))
            raise
        return rows

    async def _abort(self, ticket: ImportTicket) -> None:
        try:
            await self._store.abort_import(ticket)
        except SiltstoneError:
            return  # it expires by itself

    async def _imported(
        self,
        target: ImportTarget,
        ticket: ImportTicket,
        planned: PlannedSegment,
        name: str,
        as_of: int,
    ) -> tuple[ImportOutput, int]:
        run = partial(self._store.environment.run_blocking, _POOL)
        writer = ImportWriter(target, ticket, partition=0, attempt=0)
        for part in planned.parts:
            if isinstance(part, bytes):
                writer.write(part)
                continue
            segment = self._store.segment(self._names.value_segment(part.number))
            for start in range(part.start, part.end, READ_BYTES):
                data = await segment.read(start, min(READ_BYTES, part.end - start))
                await run(partial(writer.write, data))
        footer = await run(
            partial(encode_footer, planned.notes, start=planned.length, as_of=as_of, where=name)
        )
        await run(partial(writer.write, footer))
        chunks = await run(writer.finish)
        return ImportOutput(segment=name, chunks=chunks), planned.length + len(footer)

    async def _switch(self, run: Sequence[ManifestRow], made: Sequence[ManifestRow]) -> None:
        """Let the manifest name the new segments; the old ones are to be deleted."""
        ledger = self._names.ledger
        conditions = []
        operations: list[Operation] = []
        for row in run:
            key = manifest_key(row.first_sqn)
            seen = await self._ledger.get(key)
            conditions.append(VersionIs(ledger, key, None if seen is None else seen.version))
            operations.append(Remove(ledger, key))
            operations.append(Put(ledger, task_key(row.number), encode_task(0)))
        operations += [
            Put(ledger, manifest_key(row.first_sqn), encode_manifest_row(row)) for row in made
        ]
        try:
            await self._store.commit(operations, conditions)
        except ConditionFailedError:
            await delete_unnamed(self._space)
            raise
        await self._space.manifest.now()


async def do_tasks(space: SpaceParts) -> int:
    """Delete value segments that no snapshot needs any longer; return how many those were.

    Raises:
        SiltstoneError: the store refused, or did not answer; what is left is done later.
    """
    count = 0
    table = space.store.table(space.names.ledger)
    async for row_key, found in table.scan(TASK, bytes((TASK[0] + 1,))):
        not_before_s = decode_task(found.value, where=row_key.hex())
        # Asked for each task: a compaction may add some while others are being done.
        oldest = space.snapshots.oldest
        is_needed = oldest is not None and oldest < found.version
        if is_needed or space.store.environment.time() < not_before_s:
            continue
        await _delete(space, number_of_task(row_key))
        await table.remove(row_key)
        count += 1
    return count


async def delete_unnamed(space: SpaceParts) -> int:
    """Delete value segments that a compaction made and that the manifest never named.

    Raises:
        SiltstoneError: the store refused, or did not answer.
    """
    state = await space.ledger.state()
    manifest = await space.manifest.now()
    if state is None:
        raise CorruptDataError("keyspace has no state", where=space.names.name)
    table = space.store.table(space.names.ledger)
    tasks = [number_of_task(key) async for key, _ in table.scan(TASK, bytes((TASK[0] + 1,)))]
    known = {*manifest.numbers, *tasks}
    found = [info.name async for info in space.store.list(space.names.values)]
    numbers = [number for name in found if (number := space.names.number_of(name)) is not None]
    unnamed = [each for each in numbers if each not in known and each < state.state.next_number]
    for number in unnamed:
        await _delete(space, number)
    return len(unnamed)


async def _delete(space: SpaceParts, number: int) -> None:
    try:
        await space.store.segment(space.names.value_segment(number)).delete()
    except SegmentNotFoundError:
        return
