"""Tasks: what truncation and deletion leave to do, and the deletion of unreferenced chunks.

A chunk is deleted only when its deletion was stated in the log by this epoch, the table log on
long-term storage covers the version that dropped it, its delay has passed and no pin is older.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from siltstone.container.commit.concat_guard import ConcatGuard
from siltstone.container.commit.owner_context import OwnerContext
from siltstone.container.commit.tombstones import is_due
from siltstone.container.flush.segment_flusher import SegmentFlusher
from siltstone.container.flush.write_through_hooks import WriteThrough
from siltstone.container.garbage.bulk_delete import delete_chunks, delete_in_order
from siltstone.container.garbage.task_dates import (
    LONGEST_MS,
    TOLERANCE_MS,
    DateLooks,
    dated_now,
    is_misdated,
)
from siltstone.container.reads.pin_watch import PinWatch
from siltstone.container.state.backoff import Backoff, Failures, woken
from siltstone.core.errors import (
    ChunkError,
    CorruptDataError,
    StorageSuspendedError,
)
from siltstone.core.metrics import GARBAGE
from siltstone.core.records.adoption_row import AdoptionRow
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import CURSORS, Task, TaskKind, TaskStage
from siltstone.metadata.adoption_rows import pending_adoption
from siltstone.metadata.changes import (
    put_task,
    remove_chunk,
    remove_state,
    remove_task,
    remove_time,
    remove_tombstone,
    remove_writer,
)
from siltstone.metadata.time_index import OFFSET_END, times_below
from siltstone.segments.segment_storage import ChunkedSegmentStorage

logger = logging.getLogger(__name__)

WRITERS_PER_SLICE = 400
RETRY_MS = 60_000
"""Wait after the first failed attempt; it doubles with each further one."""
RETRY_MS_MAX = 3_600_000
TOGETHER = frozenset((TaskKind.REMOVE_SEGMENT, TaskKind.FORGET_TOMBSTONE))
"""Each is about a segment or a name of its own: many of them share the frames of the log."""
TOGETHER_MAX = 64
ALONE = frozenset(TaskKind) - TOGETHER - CURSORS - {TaskKind.DELETE_CHUNK}
NEVER_MS = 2**62
"""Due time of a task that was set aside for a person."""
KEPT_MS = NEVER_MS + 1
"""Due time of a task that waits until an adoption is finalised."""


class ImportTasks(Protocol):
    """The tasks of import sessions."""

    async def carry_out(self, task: Task) -> None:
        """Carry out what is due."""
        ...

    async def redate(self, task: Task) -> bool:
        """Give a task and its session the current date if a clock that was ahead dated them.

        Returns false when it has to be tried again.
        """
        ...


class Collector:
    """Carries out the tasks of one owned container.

    Attributes:
        backoff: why it last failed.
        lock: held while tasks are carried out.

    Args (the others are parts of this owner):
        imports: carries out tasks of import sessions.
        awake: set when there may be something to do.
        on_trimmed: called with the id of a segment whose dead extents are gone.
        suspended: whether it should rest.
    """

    def __init__(
        self,
        context: OwnerContext,
        pins: PinWatch,
        segments: ChunkedSegmentStorage,
        segment_flusher: SegmentFlusher,
        joins: ConcatGuard,
        write_through: WriteThrough,
        imports: ImportTasks,
        awake: asyncio.Event,
        *,
        on_trimmed: Callable[[int], None],
        suspended: Callable[[], bool],
    ) -> None:
        self._write_through = write_through
        self._pins = pins
        self._joins = joins
        pipeline, environment = context.pipeline, context.environment
        self._pipeline = pipeline
        self._replica = pipeline.replica
        self._rows = pipeline.replica.rows
        self._segments = segments
        self._storage = context.storage
        self._segment_flusher = segment_flusher
        self._environment = environment
        self._settings = context.settings
        self._fence = context.fence
        self._imports = imports
        self._awake = awake
        self._on_trimmed = on_trimmed
        self.lock = asyncio.Lock()
        self.backoff = Backoff(environment, suspended)
        self._metrics = context.storage.metrics
        self._date_looks = DateLooks(environment)

    def wake(self) -> None:
        """Look at once for something to do."""
        self._awake.set()

    async def run(self) -> None:
        """Carry out due tasks until cancelled."""
        while True:
            await self.backoff.rest()
            with self.backoff.attempt(logger, "garbage collection"):
                await self.collect()
            if self.backoff.pausing:
                await self._environment.sleep(self.backoff.remaining_s)
            await woken(self._awake, self._settings.garbage_interval_s)

    async def collect(self) -> int:
        """Carry out every task that is due and allowed; return how many chunks were deleted.

        A task that fails does not keep another one from its turn. It stays, and comes again.

        Raises:
            ChunkError, CorruptDataError, StorageFullError: the first failure, after the round.
            LogError: this owner has ended, and nothing more was done.
        """
        deleted = 0
        after: Task | None = None
        failures = Failures()
        async with self.lock:
            if self._date_looks.due():
                await self._redate()
            while tasks := self._rows.tasks(self._now_ms(), after=after):
                after = tasks[-1]
                chunks = [task for task in tasks if task.kind is TaskKind.DELETE_CHUNK]
                together = [task for task in tasks if task.kind in TOGETHER]
                for task in tasks:
                    if task.kind in ALONE:
                        with failures.kept():
                            await self._carry_out(task)
                for first in range(0, len(together), TOGETHER_MAX):
                    some = together[first : first + TOGETHER_MAX]
                    await self._carry_out_together(some, failures)
                with failures.kept():
                    deleted += await self._delete(chunks, failures)
        failures.raise_first()
        return deleted

    async def _carry_out_together(self, tasks: Sequence[Task], failures: Failures) -> None:
        async def one(task: Task) -> None:
            with failures.kept():
                await self._carry_out(task)

        for error in await asyncio.gather(*map(one, tasks), return_exceptions=True):
            if error is not None:
                raise error

    async def _carry_out(self, task: Task) -> None:
        if task.kind is TaskKind.TRIM_SEGMENT:
            await self._trim(task)
        elif task.kind is TaskKind.REMOVE_SEGMENT:
            await self._remove(task)
        elif task.kind is TaskKind.UNDO_CONCAT:
            await self._joins.undo(task)
        elif task.kind is TaskKind.CLOSE_IMPORT:
            await self._imports.carry_out(task)
        else:
            assert task.kind is TaskKind.FORGET_TOMBSTONE, "every kind has its branch"
            await self._forget(task)

    async def _redate(self) -> None:
        """Give the current date to tasks that a clock which was ahead made."""
        now_ms = self._now_ms()
        delay_ms = max(int(self._settings.garbage_delay_s * 1000), RETRY_MS_MAX)
        longest_ms = {TaskKind.DELETE_CHUNK: delay_ms, **LONGEST_MS}
        after = Task(due_ms=now_ms + TOLERANCE_MS, kind=TaskKind.DELETE_CHUNK, subject=0)
        count = 0
        for tasks in self._rows.task_pages(NEVER_MS - 1, after):
            for task in tasks:
                if task.kind is TaskKind.CLOSE_IMPORT:
                    if not await self._imports.redate(task):
                        self._date_looks.again()
                elif is_misdated(task, now_ms, longest_ms.get(task.kind, 0)):
                    entries = dated_now(task, now_ms, self._rows, self._replica.tables)
                    await self._pipeline.update(entries)
                    count += 1
            await asyncio.sleep(0)
        if count:
            logger.warning(
                "a clock was ahead: %d tasks would have waited for it and have the date of now",
                count,
            )

    async def replay(self) -> int:
        """Give every task that was set aside new attempts, due at once; return how many."""
        count = 0
        before = Task(due_ms=NEVER_MS - 1, kind=TaskKind.DELETE_CHUNK, subject=2**64 - 1)
        async with self.lock:
            while failed := self._rows.tasks(NEVER_MS, after=before):
                now_ms = self._now_ms()
                entries: list[TableEntry] = []
                for task in failed:
                    again = replace(
                        task, due_ms=now_ms, stage=TaskStage.OPEN, attempts=0, reason=""
                    )
                    entries += [remove_task(task), put_task(again)]
                await self._pipeline.update(entries)
                count += len(failed)
        self.wake()
        return count

    def _now_ms(self) -> int:
        return int(self._environment.time() * 1000)

    # --- rows of segments -------------------------------------------------------------------------

    async def _trim(self, task: Task) -> None:
        """Drop the extents below a segment's start, and the task with the last of them."""
        while True:
            state = self._rows.state(task.subject)
            if state is None or state.deleted:
                break
            start = state.start_offset
            if start > self._replica.flushed_length(task.subject):
                segment = self._replica.open(task.subject)
                if segment is not None:
                    await self._segment_flusher.pass_over(segment)
            keep_last = self._write_through.hooks.writes(task.subject)
            if not await self._segments.trim(task.subject, start, keep_last=keep_last):
                continue
            await self._forget_times(task.subject, start)
            # Nothing is awaited from here until the task goes: a later truncation uses the same.
            pending = self._rows.pending_state(task.subject)
            if pending is None or pending.deleted or pending.start_offset == start:
                break
            await self._pipeline.settled()
        await self._pipeline.update([remove_task(task)])
        self._on_trimmed(task.subject)

    async def _remove(self, task: Task) -> None:
        """Remove every row of a deleted segment, the state and the task last."""
        segment_id = task.subject
        if self._rows.state(segment_id) is not None:
            if self._has_no_more(segment_id):
                rest = (remove_state(segment_id), remove_task(task))
                while not await self._segments.remove(segment_id, extra=rest):
                    pass
                return
            while not await self._segments.remove(segment_id):
                pass
            while writers := self._rows.writers(segment_id, WRITERS_PER_SLICE):
                await self._pipeline.update(
                    [entry for row in writers for entry in remove_writer(row)]
                )
            await self._forget_times(segment_id, OFFSET_END)
        ended = await self._write_through.hooks.on_deleted(segment_id)
        await self._pipeline.update([remove_state(segment_id), remove_task(task), *ended])

    def _has_no_more(self, segment_id: int) -> bool:
        """Whether a deleted segment has only what lies in chunks: nothing adds to it any more."""
        return (
            not self._write_through.hooks.writes(segment_id)
            and not self._rows.writers(segment_id, 1)
            and not times_below(self._replica.tables, segment_id, OFFSET_END)
        )

    async def _forget_times(self, segment_id: int, below: int) -> None:
        """Remove the rows of the time index below an offset, in slices."""
        while rows := times_below(self._replica.tables, segment_id, below):
            await self._pipeline.update([remove_time(row) for row in rows])

    async def _forget(self, task: Task) -> None:
        entries = [remove_task(task)]
        tombstone = self._rows.pending_tombstone(task.name)
        if tombstone is not None and is_due(tombstone, task):
            entries.append(remove_tombstone(task.name))
        await self._pipeline.update(entries)

    # --- chunks -----------------------------------------------------------------------------------

    async def _delete(self, tasks: Sequence[Task], failures: Failures) -> int:
        """State the deletion of chunks, wait for the acknowledgement, then delete them."""
        if not tasks:
            return 0
        covered = self._replica.table_flushed
        pin = await self._pins.oldest(self._replica.tables.lineage)
        allowed = [
            task
            for task in tasks
            if task.dropped_version <= covered and (pin is None or task.dropped_version <= pin)
        ]
        if not allowed:
            return 0
        await self._fence.check()
        entries: list[TableEntry] = []
        stated: list[Task] = []
        in_order: dict[str, None] = {}
        for task in allowed:
            chunk = self._rows.pending_chunk(task.subject)
            if chunk is not None and chunk.references:
                wrong = CorruptDataError(
                    "I17: a chunk with a deletion task is referenced", where=chunk.name
                )
                # One contradiction must not keep all other garbage for ever.
                entries += self._set_aside(task, str(wrong))
                failures.add(wrong)
                continue
            if chunk is not None and chunk.in_place:
                adoption = pending_adoption(self._replica.tables, chunk.session_id)
                if not self._write_through.lets_go(adoption):
                    entries += self._kept(task, chunk, adoption)
                    continue
                # Its rows stay until it is gone: an object of this name may come again.
                if adoption is not None and not adoption.finalised:
                    in_order[task.name] = None  # a layout that others read has no gaps
            elif chunk is not None:
                entries += remove_chunk(chunk)
            stated.append(replace(task, stage=TaskStage.STATED))
            entries.append(put_task(stated[-1]))
        # Stated in every epoch: an older epoch's statement gives this one no right to destroy.
        await self._pipeline.update(entries)
        if not stated:
            return 0
        errors = await delete_in_order(self._storage, list(in_order))
        together = [task.name for task in stated if task.name not in in_order]
        errors.update(await delete_chunks(self._storage, together))
        outcome = [(task, errors.get(task.name)) for task in stated]
        await self._pipeline.update([entry for pair in outcome for entry in self._after(*pair)])
        failed = [error for _, error in outcome if error is not None]
        for error in failed:
            failures.add(error)
        return len(outcome) - len(failed)

    def _after(self, task: Task, error: ChunkError | None) -> list[TableEntry]:
        """The entries that follow a deletion: the task is done, or comes again later."""
        if error is None:
            self._metrics.add(GARBAGE, 1, "deleted")
            in_place = self._rows.pending_chunk(task.subject)
            return [remove_task(task), *(remove_chunk(in_place) if in_place else ())]
        if isinstance(error, StorageSuspendedError):
            # Nothing was attempted.
            self._metrics.add(GARBAGE, 1, "not_sent")
            wait_ms = RETRY_MS
            return [remove_task(task), put_task(replace(task, due_ms=self._now_ms() + wait_ms))]
        attempts = task.attempts + 1
        failed = replace(task, attempts=attempts, reason=str(error))
        if attempts >= self._settings.garbage_attempts:
            return self._set_aside(failed, str(error))
        self._metrics.add(GARBAGE, 1, "retried")
        wait_ms = min(RETRY_MS_MAX, RETRY_MS * 2 ** (attempts - 1))
        return [remove_task(task), put_task(replace(failed, due_ms=self._now_ms() + wait_ms))]

    def _kept(self, task: Task, chunk: Chunk, adoption: AdoptionRow | None) -> list[TableEntry]:
        """The entries that leave an object in place where it is.

        An object that a session never gave to a visible segment is forgotten: nothing owns it.
        """
        self._metrics.add(GARBAGE, 1, "kept")
        if adoption is None:
            return [remove_task(task), *remove_chunk(chunk)]
        return [remove_task(task), put_task(replace(task, stage=TaskStage.KEPT, due_ms=KEPT_MS))]

    def _set_aside(self, task: Task, reason: str) -> list[TableEntry]:
        """The entries that keep a task for a person."""
        self._metrics.add(GARBAGE, 1, "set_aside")
        logger.error("chunk cannot be deleted: chunk=%s %s", task.name, reason)
        kept = replace(task, stage=TaskStage.FAILED, due_ms=NEVER_MS, reason=reason)
        return [remove_task(task), put_task(kept)]
