"""What changes the state of a segment: create, seal, truncate, delete, rename, register a writer.

Each is a change of rows in one table update, acknowledged without waiting for long-term storage.
The segment flusher follows.

Making tables. Their contents change by commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from siltstone.container.commit.appender import Appender
from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.commit.repeats import confirm_acknowledged
from siltstone.container.commit.tombstones import remember, renamed_before
from siltstone.container.flush.write_through_hooks import WriteThrough
from siltstone.container.models.segments import (
    WriterInfo,
    check_attribute,
    check_limits,
    writer_info,
)
from siltstone.container.state.open_segment import OpenSegment, WriterMemory
from siltstone.core.constants import check_segment_name
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    OffsetError,
    SegmentExistsError,
    SegmentNotFoundError,
    TableExistsError,
)
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind
from siltstone.core.records.tombstone import Tombstone
from siltstone.core.records.writer_row import WriterRow
from siltstone.metadata.changes import (
    put_attributes,
    put_counter,
    put_name,
    put_new_state,
    put_state,
    put_table,
    put_task,
    put_writer,
    remove_name,
    remove_tombstone,
    remove_writer,
)
from siltstone.metadata.rows import WRITERS_MAX

WRITER_NAME_BYTES_MAX = 256
NewSegment = tuple[int, int]
"""A segment that was just made: its id, and when that was, in milliseconds since 1970."""

RELIEF_PARALLEL = 256
"""Truncations and deletions at a time: they do not wait for back-pressure, so this bounds them."""


class SegmentVerbs:
    """State changes of the segments of one container.

    Args (the others are parts of this owner):
        wake: called when the segment flusher or the task runner has something new to do.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        appender: Appender,
        environment: Environment,
        write_through: WriteThrough,
        wake: Callable[[], None],
    ) -> None:
        self._pipeline = pipeline
        self._appender = appender
        self._environment = environment
        self._replica = pipeline.replica
        self._rows = pipeline.replica.rows
        self._wake = wake
        # The id of the next segment, for as long as nothing is assigned or acknowledged.
        self._next_id: tuple[object, int] = (None, 0)
        self._relief = asyncio.Semaphore(RELIEF_PARALLEL)
        self._write_through = write_through

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self._environment.time() * 1000)

    async def create(
        self, name: str, *, exist_ok: bool, attributes: Mapping[str, str] | None = None
    ) -> NewSegment | None:
        """Make an empty segment with ``attributes``; return it, ``None`` if it was there.

        A new one is not opened: that would read what is known here.

        Raises:
            SegmentExistsError: it exists, unless ``exist_ok``; its attributes stay as they are.
            AttributeLimitError: too many attributes, or too long ones.
        """
        check_segment_name(name)
        for key, value in (attributes or {}).items():
            if value is None:
                raise TypeError("a new segment's attributes have values")
            check_attribute(key, value)
        if attributes:
            check_limits(name, attributes)
        rows = self._rows
        if rows.pending_find(name) is None:
            moment = rows.tables.moment
            if not self._pipeline.admits:
                await self._pipeline.admit_update()
            if self._write_through.hooks.adoption is not None and rows.pending_find(name) is None:
                attributes = {
                    **(attributes or {}),
                    **await self._write_through.hooks.check_new(name),
                }
            # The name is still free if nothing has changed meanwhile.
            if rows.tables.moment is moment or rows.pending_find(name) is None:
                new, made = self._make(name, attributes)
                await made
                return new
        await confirm_acknowledged(self._pipeline, lambda: rows.find(name) is not None)
        if not exist_ok and self._replica.find(name) is not None:
            raise SegmentExistsError("segment exists", segment=name)
        return None

    def _make(
        self, name: str, attributes: Mapping[str, str] | None
    ) -> tuple[NewSegment, asyncio.Future[int]]:
        rows = self._rows
        tables = rows.tables
        moment, segment_id = self._next_id
        if tables.moment is not moment:
            segment_id = rows.pending_counter(CounterKind.SEGMENT_ID)
        created_ms = self.now_ms()
        entries = [
            put_counter(CounterKind.SEGMENT_ID, segment_id + 1),
            put_name(name, segment_id),
            put_new_state(segment_id, name, created_ms),
            *self._write_through.hooks.new_rows(segment_id, name),
        ]
        if attributes:
            entries.append(put_attributes(segment_id, attributes))
        if rows.pending_tombstone(name) is not None:
            entries.append(remove_tombstone(name))
        made = self._pipeline.promise(self._pipeline.assign(entries, relief=False))
        self._next_id = (tables.moment, segment_id + 1)
        return (segment_id, created_ms), made

    async def seal(self, name: str) -> OpenSegment:
        """Let a segment take no more bytes. Idempotent. Its flush is not waited for."""
        admitted = False
        while True:
            segment = await self._appender.existing(name)
            state = self._pending_state(segment)
            if state.sealed_length is not None or (admitted and segment.held is None):
                break
            if segment.held is not None:
                await segment.held.wait()
            else:
                await self._pipeline.admit_update()
                admitted = True
        if state.sealed_length is not None:
            await confirm_acknowledged(
                self._pipeline, lambda: segment.state.sealed_length is not None
            )
            return segment
        segment.stop_appends()
        sealed = replace(state, sealed_length=segment.assigned)
        await self._state_change(segment, [put_state(sealed)], relief=False)
        self._write_through.hooks.on_sealed(sealed)
        return segment

    async def truncate(self, name: str, offset: int) -> None:
        """Let the readable range begin at ``offset``; at or below the start it does nothing.

        Raises:
            OffsetError: ``offset`` lies beyond the end.
        """
        async with self._relief:
            await self._truncate(name, offset)

    async def _truncate(self, name: str, offset: int) -> None:
        segment = await self._appender.existing(name)
        state = self._pending_state(segment)
        if offset > segment.assigned:
            expected = segment.assigned
            await self._pipeline.barrier()
            raise OffsetError(
                "truncation beyond the end", segment=name, expected=expected, actual=offset
            )
        if offset <= state.start_offset:
            await self._pipeline.barrier()
            return
        await self.cut(segment, state, offset)

    async def cut(self, segment: OpenSegment, state: SegmentState, offset: int) -> None:
        """Let the readable range begin at ``offset``.

        The change is assigned before anything is awaited: what ``offset`` was chosen by still holds
        then.

        Args:
            segment: exists.
            state: its pending state.
            offset: above its start, not above its length.
        """
        task = Task(
            due_ms=0, kind=TaskKind.TRIM_SEGMENT, subject=segment.segment_id, dropped_version=0
        )
        entries = [put_state(replace(state, start_offset=offset)), put_task(task)]
        await self._state_change(segment, entries, relief=True)
        self._wake()

    async def delete(self, name: str) -> None:
        """Let a segment be gone. Its name may be used again at once; its chunks go later."""
        async with self._relief:
            await self._delete(name)

    async def _delete(self, name: str) -> None:
        segment = await self._appender.existing(name)
        state = self._pending_state(segment)
        segment.stop_appends()
        if self._replica.by_name.get(name) is segment:
            del self._replica.by_name[name]
        entries = deletion_entries(state)
        await self._state_change(segment, entries, relief=True)
        self._wake()

    async def rename(self, name: str, new_name: str) -> OpenSegment:
        """Give a segment another name of the same container; everything else of it stays.

        For a week a repeat succeeds, as long as the segment has that name.

        Raises:
            SegmentNotFoundError: there is no such segment.
            SegmentExistsError: the new name is taken; nothing was changed.
            SegmentNameError: no segment can have the new name.
        """
        check_segment_name(new_name)
        if not renamed_before(self._rows, name, new_name):
            await self._pipeline.admit_update()
            try:
                return await self._rename(name, new_name)
            except SegmentNotFoundError:
                if not renamed_before(self._rows, name, new_name):
                    raise
        rows, segment_id = self._rows, self._rows.pending_find(new_name)
        await confirm_acknowledged(self._pipeline, lambda: rows.find(new_name) == segment_id)
        return await self._appender.existing(new_name)

    async def _rename(self, name: str, new_name: str) -> OpenSegment:
        while True:
            segment = await self._appender.existing(name)
            # A concat has composed its transaction with the names that both segments had.
            if segment.held is not None:
                await segment.held.wait()
            elif segment.joining:
                await segment.changed()
            elif self._rows.pending_find(new_name) is None:
                break
            else:
                await self._pipeline.barrier()
                if self._replica.find(new_name) is not None:
                    raise SegmentExistsError("segment exists", segment=new_name)
        self._write_through.refuse("rename a segment", segment)
        state = self._pending_state(segment)
        entries = [
            remove_name(name),
            put_name(new_name, segment.segment_id),
            put_state(replace(state, name=new_name)),
            *remember(self._renamed(state), self._replica.tables),
        ]
        if self._rows.pending_tombstone(new_name) is not None:
            entries.append(remove_tombstone(new_name))
        # An append by the old name has to wait from now on, and then finds nothing.
        segment.stop_appends()
        self._replica.by_name.pop(name, None)
        await self._state_change(segment, entries, relief=False)
        return segment

    def _renamed(self, state: SegmentState) -> Tombstone:
        """What is left under the name that a segment gives up."""
        return Tombstone(
            name=state.name,
            source_id=state.segment_id,
            target_id=state.segment_id,
            offset=0,
            length=0,
            made_ms=self.now_ms(),
        )

    async def register_writer(self, name: str, writer: str) -> WriterInfo:
        """Return the living writer of this name, or make it with a number that was never used.

        What refuses appends, such as a seal, refuses only new writers.
        """
        if not isinstance(writer, str):
            raise TypeError(f"a writer's name is a str, not {type(writer).__name__}")
        raw = writer.encode("utf-8")
        if not 1 <= len(raw) <= WRITER_NAME_BYTES_MAX or b"\0" in raw:
            raise ValueError("a writer's name is 1 to 256 bytes of UTF-8 without NUL")
        known = await self._known_writer(name, writer)
        if known is not None:
            return known
        await self._pipeline.admit_update()
        segment = await self._appender.writable(name)
        known = await self._known_writer(name, writer)
        if known is not None:
            return known
        writers = self._replica.writers(segment)
        number = self._rows.pending_counter(CounterKind.WRITER_NUMBER)
        row = WriterRow(
            segment_id=segment.segment_id, number=number, name=writer, used_ms=self.now_ms()
        )
        entries = [put_counter(CounterKind.WRITER_NUMBER, number + 1), *put_writer(row)]
        if len(writers) >= WRITERS_MAX:
            idle = min((known.row for known in writers.values()), key=partial(_idleness, segment))
            entries.extend(remove_writer(idle))
            del writers[idle.number]
        writers[number] = WriterMemory(row)
        await self._state_change(segment, entries, relief=False)
        return writer_info(row)

    async def _known_writer(self, name: str, writer: str) -> WriterInfo | None:
        """What is acknowledged of the living writer of this name; ``None`` if there is none."""
        segment = self._replica.find(name)
        if segment is None:
            return None
        number = self._rows.pending_writer_number(segment.segment_id, writer)
        if number is None or number not in self._replica.writers(segment):
            return None
        with segment.in_use():
            before = self._replica.writers(segment)[number].row
            await confirm_acknowledged(
                self._pipeline, lambda: self._rows.writer(segment.segment_id, number) is not None
            )
            if before.offset + before.length <= segment.length:
                return writer_info(before)
            # Tier 1 had no room for its newest append, which did not take place.
            return writer_info(self._replica.acknowledged_writers(segment)[number])

    def _pending_state(self, segment: OpenSegment) -> SegmentState:
        state = self._rows.pending_state(segment.segment_id)
        if state is None or state.deleted:
            raise SegmentNotFoundError("no such segment", segment=segment.name)
        return state

    async def _state_change(
        self, segment: OpenSegment, entries: list[TableEntry], *, relief: bool
    ) -> None:
        with segment.in_use():
            await self._pipeline.update(entries, relief=relief)


def _idleness(segment: OpenSegment, row: WriterRow) -> tuple[bool, int]:
    """Least for the writer that is idle the longest. The time of a use is set at its flush."""
    used_since = row.sequence >= 0 and row.offset + row.length > segment.flushed
    return used_since, row.used_ms


def deletion_entries(state: SegmentState) -> list[TableEntry]:
    """The entries that delete a segment: name, state, attributes, a task for its other rows."""
    task = Task(due_ms=0, kind=TaskKind.REMOVE_SEGMENT, subject=state.segment_id)
    return [
        remove_name(state.name),
        put_state(replace(state, deleted=True)),
        put_attributes(state.segment_id, {}),
        put_task(task),
    ]


class TableVerbs:
    """Creates the tables of one container."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._rows = pipeline.replica.rows

    async def create(self, table: str, *, exist_ok: bool, reserved: bool = False) -> None:
        """Make an empty table; names of tables follow the rules of segment names.

        Args:
            table: its name.
            exist_ok: an existing one is fine.
            reserved: its name is one that no application can give.

        Raises:
            TableExistsError: there is one, unless ``exist_ok``.
        """
        if not reserved:
            check_segment_name(table)
        if not await self._exists(table):
            await self._pipeline.admit_update()
            if not await self._exists(table):
                await self._make(table)
                return
        if not exist_ok:
            raise TableExistsError("table exists", table=table)

    async def _exists(self, table: str) -> bool:
        if self._rows.pending_table_id(table) is None:
            return False
        await confirm_acknowledged(self._pipeline, lambda: self._rows.table_id(table) is not None)
        return True

    async def _make(self, table: str) -> None:
        table_id = self._rows.pending_counter(CounterKind.TABLE_ID)
        entries = [put_counter(CounterKind.TABLE_ID, table_id + 1), put_table(table, table_id)]
        await self._pipeline.update(entries, relief=False)
