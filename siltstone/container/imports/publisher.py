"""The end of an import: one transaction by which segments get what a session brought.

Few bytes for segments that are there are appended like any others, in one frame with the row of
the session. All else is built as hidden segments first; the transaction gives them names, or joins
them to the segments of these names, all of them or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from siltstone.container.changes.committer import Committer
from siltstone.container.changes.segment_changes import deletion_entries
from siltstone.container.commit.appender import Appender
from siltstone.container.commit.concat_guard import ConcatGuard
from siltstone.container.commit.owner_context import OwnerContext
from siltstone.container.flush.segment_flusher import SegmentFlusher
from siltstone.container.imports.hidden_segments import HiddenSegments
from siltstone.container.models.imports import (
    ImportedChunk,
    ImportMode,
    ImportOutput,
    ReplacedIs,
)
from siltstone.container.state.open_segment import OpenSegment
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    AppendTooLargeError,
    BackPressureError,
    ConditionFailedError,
    CorruptDataError,
    SegmentExistsError,
    SegmentNotFoundError,
)
from siltstone.core.records.import_row import ImportedPart, ImportRow
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind
from siltstone.core.storage.block_sums import extend_sums
from siltstone.metadata.changes import (
    put_attributes,
    put_name,
    put_state,
    put_task,
    remove_name,
    remove_tombstone,
)
from siltstone.metadata.time_index import joined_times
from siltstone.segments.concat import CONCAT_EXTENTS_MAX
from siltstone.segments.concat_staging import Joining
from siltstone.segments.packing_segment_storage import PackingSegmentStorage

SMALL_BYTES = MIB
"""Up to this many bytes are appended: a chunk for each small batch would be many small chunks."""
ATTEMPTS_MAX = 10
"""How often a commit begins again because segments came and went meanwhile."""

Closing = Callable[[Sequence[ImportedPart]], list[TableEntry]]
"""Gives the entries that close the session, with where its bytes are."""


class _ChangedError(Exception):
    """A segment of one of the names came or went since it was looked at."""


class Publisher:
    """Carries out the commits of import sessions of one container, one at a time.

    Args (the others are parts of this owner):
        on_joined: called with the id of a segment that got extents.
        on_garbage: called when hidden segments are to be removed.
    """

    def __init__(
        self,
        context: OwnerContext,
        appender: Appender,
        committer: Committer,
        segments: PackingSegmentStorage,
        segment_flusher: SegmentFlusher,
        joins: ConcatGuard,
        hidden: HiddenSegments,
        *,
        on_joined: Callable[[int], None],
        on_garbage: Callable[[], None],
    ) -> None:
        pipeline = context.pipeline
        self._pipeline = pipeline
        self._replica = pipeline.replica
        self._rows = pipeline.replica.rows
        self._appender = appender
        self._committer = committer
        self._segments = segments
        self._storage = context.storage
        self._segment_flusher = segment_flusher
        self._joins = joins
        self._hidden = hidden
        self._environment = context.environment
        self._deadline_s = context.settings.append_deadline_s
        self._on_joined = on_joined
        self.on_garbage = on_garbage

    async def publish(
        self, row: ImportRow, outputs: Sequence[ImportOutput], closing: Closing
    ) -> tuple[ImportedPart, ...]:
        """Give all segments what they get, and close the session, in one transaction.

        Raises what ``Imports.commit`` raises.
        """
        if not row.parts and not row.adoption and self._all_small(outputs):
            try:
                return await self._append(outputs, closing)
            except (SegmentNotFoundError, AppendTooLargeError):
                pass  # deleted meanwhile: it is made again; or the log has small files
        row = await self._hidden.build(row, outputs, self._now_ms())
        for attempt in range(ATTEMPTS_MAX):
            try:
                return await self._publish(row, outputs, closing)
            except _ChangedError as error:
                if attempt == ATTEMPTS_MAX - 1:
                    names = ",".join(output.segment for output in outputs)
                    raise BackPressureError(
                        "segments were made and deleted again and again", segments=names
                    ) from error
                await self._pipeline.settled()
        raise AssertionError("the last attempt returns or raises")

    def _now_ms(self) -> int:
        return int(self._environment.time() * 1000)

    # --- few bytes --------------------------------------------------------------------------------

    def _all_small(self, outputs: Sequence[ImportOutput]) -> bool:
        if sum(output.length for output in outputs) > SMALL_BYTES:
            return False
        return all(
            output.mode is ImportMode.APPEND and self._rows.pending_find(output.segment) is not None
            for output in outputs
        )

    async def _append(
        self, outputs: Sequence[ImportOutput], closing: Closing
    ) -> tuple[ImportedPart, ...]:
        appends = [(output.segment, await self._bytes_of(output)) for output in outputs]
        parts: tuple[ImportedPart, ...] = ()

        def entries(places: Sequence[tuple[int, int]]) -> list[TableEntry]:
            nonlocal parts
            parts = tuple(
                ImportedPart(name=name, segment_id=number, offset=offset, length=len(data))
                for (name, data), (number, offset) in zip(appends, places, strict=True)
            )
            return closing(parts)

        await self._committer.append_with(appends, entries)
        return parts

    async def _bytes_of(self, output: ImportOutput) -> bytes:
        return b"".join([await self._read(chunk) for chunk in output.chunks])

    async def _read(self, chunk: ImportedChunk) -> bytes:
        data = await self._storage.read_all(chunk.name, chunk.length)
        if len(data) != chunk.length or tuple(extend_sums([data], 0, 0)) != chunk.sums:
            raise CorruptDataError("imported chunk does not match its sums", where=chunk.name)
        return bytes(data)

    # --- hidden segments --------------------------------------------------------------------------

    async def _publish(
        self, row: ImportRow, outputs: Sequence[ImportOutput], closing: Closing
    ) -> tuple[ImportedPart, ...]:
        chunks = sum(len(output.chunks) for output in outputs)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._deadline_s) as deadline:
                    joinings: dict[int, Joining] = {}
                    replaced: dict[str, OpenSegment] = {}
                    # In one order, so that no two that hold several segments wait for each other.
                    for output, part in sorted(_pairs(row, outputs), key=lambda p: p[0].segment):
                        if output.mode is ImportMode.REPLACE:
                            old = await stack.enter_async_context(self._kept(output.segment))
                            replaced.update({} if old is None else {output.segment: old})
                        elif output.mode is ImportMode.APPEND:
                            held = self._held(output.segment, part.segment_id)
                            target = await stack.enter_async_context(held)
                            if target is not None:
                                joining = await self._prepare(target, part, chunks)
                                joinings[part.segment_id] = joining
                    # From here on the outcome is the transaction's, however long that takes.
                    deadline.reschedule(None)
                    return await self._commit(row, outputs, joinings, replaced, closing)
            except TimeoutError as error:
                raise BackPressureError(
                    "segments could not be held long enough for an import",
                    session=row.name,
                    deadline_s=self._deadline_s,
                ) from error

    @asynccontextmanager
    async def _kept(self, name: str) -> AsyncIterator[OpenSegment | None]:
        """The segment that is to be replaced, in memory; ``None`` when there is none."""
        try:
            old = await self._appender.existing(name)
        except SegmentNotFoundError:
            yield None
            return
        try:
            with old.in_use():
                yield old
        finally:
            if self._pipeline.failure is None:
                self._replica.recompute(old)

    @asynccontextmanager
    async def _held(self, name: str, source_id: int) -> AsyncIterator[OpenSegment | None]:
        """The segment that is to be joined, paused; ``None`` when there is none."""
        if self._rows.pending_find(name) is None:
            yield None
            return
        try:
            target = await self._appender.writable(name)
        except SegmentNotFoundError as error:
            raise _ChangedError from error
        async with self._joins.standing_still(target, source_id):
            yield target

    async def _prepare(self, target: OpenSegment, part: ImportedPart, chunks: int) -> Joining:
        """Flush the target; place the hidden extents if one transaction does not take them all."""
        joining = Joining(
            target_id=target.segment_id,
            source_id=part.segment_id,
            offset=target.length,
            start=0,
            hidden=True,
        )
        if not part.length:
            return joining
        await self._pipeline.settled()
        await self._segment_flusher.flush(target)
        await self._joins.clear(target.segment_id)
        if chunks > CONCAT_EXTENTS_MAX:
            await self._joins.place(joining)
        return joining

    async def _commit(
        self,
        row: ImportRow,
        outputs: Sequence[ImportOutput],
        joinings: dict[int, Joining],
        replaced: dict[str, OpenSegment],
        closing: Closing,
    ) -> tuple[ImportedPart, ...]:
        done: list[ImportedPart] = []
        moving = [
            joinings[p.segment_id] for p in row.parts if p.length and p.segment_id in joinings
        ]

        def entries() -> list[TableEntry]:
            """All of it as it is now; called when the transaction is assigned."""
            done.clear()
            found: list[TableEntry] = []
            for output, part in _pairs(row, outputs):
                joining = joinings.get(part.segment_id)
                place, some = self._ending(output, part, joining, replaced.get(output.segment))
                done.append(place)
                found += some
            self._give_up(replaced)
            return found + closing(done)

        try:
            if moving:
                await self._segments.publish(moving, entries)
            else:
                await self._pipeline.update(entries(), relief=False)
        except (SegmentExistsError, ConditionFailedError):
            await self._pipeline.barrier()
            raise
        for joining in moving:
            self._on_joined(joining.target_id)
        self.on_garbage()
        return tuple(done)

    def _ending(
        self,
        output: ImportOutput,
        part: ImportedPart,
        joining: Joining | None,
        old: OpenSegment | None,
    ) -> tuple[ImportedPart, list[TableEntry]]:
        """Where the bytes of one output are afterwards, and the entries that make it so."""
        found = self._rows.pending_find(output.segment)
        if joining is not None:
            if found != joining.target_id:
                raise _ChangedError
            place = replace(part, segment_id=joining.target_id, offset=joining.offset)
            target = self._rows.pending_state(joining.target_id)
            start = 0 if target is None else target.start_offset
            times = self._times(joining.target_id, joining.offset, part.length, start)
            return place, [_removal(part), *times]
        part = replace(part, offset=output.start)
        if found is None:
            return part, self._naming(output, part)
        if output.mode is ImportMode.CREATE:
            raise SegmentExistsError("segment exists", segment=output.segment)
        if output.mode is ImportMode.APPEND:
            raise _ChangedError
        state = self._rows.pending_state(found)
        if old is None or state is None or found != old.segment_id:
            raise _ChangedError
        _check_replaced(output, old)
        attributes = self._rows.pending_attributes(found)
        entries = [each for each in deletion_entries(state) if each != remove_name(state.name)]
        entries += self._naming(output, part)
        if attributes:
            entries.append(put_attributes(part.segment_id, attributes))
        return part, entries

    def _naming(self, output: ImportOutput, part: ImportedPart) -> list[TableEntry]:
        """The entries by which a hidden segment becomes one that is seen."""
        state = SegmentState(
            segment_id=part.segment_id,
            name=output.segment,
            start_offset=output.start,
            sealed_length=output.end if output.is_sealed else None,
            created_ms=self._now_ms(),
        )
        entries = [put_name(output.segment, part.segment_id), put_state(state)]
        entries += self._times(part.segment_id, output.start, part.length, output.start)
        if self._rows.pending_tombstone(output.segment) is not None:
            entries.append(remove_tombstone(output.segment))
        if output.attributes:
            entries.append(put_attributes(part.segment_id, output.attributes))
        return entries

    def _times(self, segment_id: int, begin: int, length: int, start: int) -> list[TableEntry]:
        tables = self._replica.tables
        return joined_times(tables, segment_id, begin, length, self._now_ms(), start)

    def _give_up(self, replaced: dict[str, OpenSegment]) -> None:
        """Let no caller append to segments whose deletion is being assigned."""
        for name, old in replaced.items():
            old.stop_appends()
            if self._replica.by_name.get(name) is old:
                del self._replica.by_name[name]


def _check_replaced(output: ImportOutput, old: OpenSegment) -> None:
    """Refuse to take away bytes that the caller does not know of, also those in flight."""
    current = ReplacedIs(segment=output.segment, segment_id=old.segment_id, length=old.assigned)
    if output.replaced not in (None, current):
        raise ConditionFailedError(
            "segment was appended to, or made again, since it was to be replaced",
            condition=output.replaced,
            current=current,
        )


def _pairs(
    row: ImportRow, outputs: Sequence[ImportOutput]
) -> Iterator[tuple[ImportOutput, ImportedPart]]:
    return zip(outputs, row.parts, strict=True)


def _removal(part: ImportedPart) -> TableEntry:
    """The task that removes what is left of a hidden segment."""
    return put_task(Task(due_ms=0, kind=TaskKind.REMOVE_SEGMENT, subject=part.segment_id))
