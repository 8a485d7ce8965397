"""Value compaction of a keyspace as a job: workers write records once more, the owner decides.

The owner of the store chooses value segments, says what is written of them, and makes all commits,
as in a compaction by one process. Workers read ranges of records, compared with the sums of their
blocks, and write chunks of an import session. What they do not find whole the owner reads itself,
so that only this side says what is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.container.models.imports import ImportedChunk, ImportOutput
from siltstone.core.constants import MIB
from siltstone.core.errors import SegmentNotFoundError
from siltstone.objects.async_keyspaces import compact_space
from siltstone.objects.compaction_plan import CopiedRange, PlannedSegment, cut_plan
from siltstone.objects.records.value_record import RecordHeader
from siltstone.objects.segment_copies import CopyOrder, WrittenSegment
from siltstone.objects.segment_copy import SegmentCopy
from siltstone.pipelines.callers_thread import CallersThread
from siltstone.pipelines.store_view import PIN_TTL_S
from siltstone.pipelines.value_copy_work import (
    DAMAGED,
    ValueCopyItem,
    ValueCopyWork,
    chunks_of,
)
from siltstone.pipelines.window import cut_window
from siltstone.pipelines.work import OK, Executor, PipelineError, packed
from siltstone.store.handles.import_writer import ImportTarget, ImportWriter
from siltstone.store.handles.pinned_segments import held_segments
from siltstone.store.store import parts_of

if TYPE_CHECKING:
    from siltstone.container.state.segment_map import SegmentMap
    from siltstone.objects.space_parts import SpaceParts
    from siltstone.objects.value_compaction import CompactionReport
    from siltstone.store.store import Store

ITEM_BYTES: Final = 32 * MIB
"""Of the records of an item. It becomes a chunk, which a worker holds in memory."""

Came = dict[int, tuple[ImportedChunk, ...]]
"""Chunks by the number of their item."""


def compact_keyspace(
    path: Path | str,
    store: Store,
    name: str,
    executor: Executor,
    *,
    rate: int | None = None,
    accept_loss: bool = False,
    item_bytes: int = ITEM_BYTES,
    progress: Callable[[int, int], None] = lambda _, __: None,
) -> Generator[CompactionReport]:
    """Compact the values of a keyspace, run by run, until none is worth it.

    Each run is what ``Keyspace.compact`` does, with the same outcome. What was compacted stays so
    when the job ends early; a run that did not end changes nothing.

    Args:
        path: the settings file of the store, as workers find it.
        store: the same, open for writing; it may be at work meanwhile.
        name: of the keyspace.
        executor: where records are read and written.
        rate: bytes a second that workers read and write at most; ``None`` means no limit.
        accept_loss: as for ``Keyspace.compact``.
        item_bytes: of the records of an item at most, unless it is one record; at least 1.
        progress: called with the bytes of records that workers have done since the job began, and
            those of all runs that have begun.

    Yields:
        A report of each run, at last one without a run.

    Raises:
        PipelineError: a worker could not begin at all, ended unexpectedly, or could not write; the
            run changed nothing.
        CompactionBusyError: a compaction of this keyspace is running.
        KeyspaceNotFoundError: there is none of this name.
        UnsupportedError: it has heads only.
        ReadOnlyError: the store was opened read-only.
        CorruptDataError, ChunkError, OutcomeUnknownError, FencedError: as ``Keyspace.compact``.
    """
    loop, opened = parts_of(store)
    job = _Job(
        store=str(Path(path).absolute()),
        uuid=store.uuid,
        executor=executor,
        rate=rate,
        item_bytes=item_bytes,
        progress=_Sums(progress),
    )
    while True:
        thread = CallersThread()
        make = partial(WorkerCopies, job, thread)
        work = compact_space(opened, name, make, accept_loss=accept_loss)
        report = thread.wait_for(loop.submit(work))
        yield report
        if not report.run:
            return


class _Sums:
    """What is done, and what there is to do, of all runs of a job."""

    def __init__(self, told: Callable[[int, int], None]) -> None:
        self._told = told
        self._done = 0
        self._total = 0

    def begin(self, length: int) -> None:
        """Some more is to be done."""
        self._total += length

    def add(self, length: int) -> None:
        """Some more is done."""
        self._done += length
        self._told(self._done, self._total)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What all runs of a job have in common.

    Attributes:
        store: the settings file, as workers find it.
        uuid: of the store.
        executor: where items are done.
        rate: bytes a second; ``None`` for no limit.
        item_bytes: of the records of an item.
        progress: told the bytes of items.
    """

    store: str
    uuid: str
    executor: Executor
    rate: int | None
    item_bytes: int
    progress: _Sums


class WorkerCopies:
    """Writes the new segments of a compaction by workers; see ``SegmentCopies``.

    Args:
        job: what is the same for all.
        thread: makes the calls of the executor.
        space: the keyspace.
        target: takes what this side writes: footers, and what workers did not find whole.
    """

    def __init__(
        self, job: _Job, thread: CallersThread, space: SpaceParts, target: ImportTarget
    ) -> None:
        self._job = job
        self._thread = thread
        self._space = space
        self._target = target

    async def write(self, order: CopyOrder) -> list[WrittenSegment]:
        """See ``SegmentCopies``.

        Raises:
            PipelineError: an item could not be done.
        """
        # It takes a moment, as there are so many records, and the loop has others to serve.
        cuts = await self._thread.run(partial(_cuts, order, self._job.item_bytes))
        plans = [plan for cut in cuts for plan in cut]
        async with self._maps(plans) as maps:
            items = [
                found
                for number, plan in enumerate(plans)
                if (found := _item(order, number, plan, maps)) is not None
            ]
            came = await self._thread.run(partial(self._run, items)) if items else {}
        made, first = [], 0
        for planned, cut, name in zip(order.planned, cuts, order.names, strict=True):
            made.append(await self._joined(order, planned, cut, first, came, name))
            first += len(cut)
        return made

    @asynccontextmanager
    async def _maps(self, plans: Sequence[PlannedSegment]) -> AsyncIterator[dict[int, SegmentMap]]:
        """Where the value segments lie that are read, by their numbers, those that are there."""
        numbers = {
            part.number for plan in plans for part in plan.parts if not isinstance(part, bytes)
        }
        names, ends = {}, {}
        for number in sorted(numbers):
            segment = self._space.store.segment(self._space.names.value_segment(number))
            try:
                info = await segment.info()
            except SegmentNotFoundError:
                continue  # what is gone is told when this side looks for it
            if not info.start_offset:
                names[segment.name], ends[segment.name] = number, info.flushed_length
        one = self._space.store.segment(self._space.names.value_segment(1))  # all are in one place
        async with held_segments(one, ends, PIN_TTL_S) as maps:
            yield {names[name]: found for name, found in maps.items()}

    def _run(self, items: Sequence[ValueCopyItem]) -> Came:
        """Let workers do the items; return what came of those that they found whole."""
        job = self._job
        work = ValueCopyWork(
            store=job.store,
            uuid=job.uuid,
            chunk_bytes=self._target.chunk_bytes_max,
            rate=job.rate,
        )
        job.progress.begin(sum(item.length for item in items))
        came: Came = {}
        with closing(job.executor.run(work, packed(items, job.executor.workers))) as outcomes:
            for outcome in outcomes:
                if outcome.status == OK:
                    number, chunks = chunks_of(outcome)
                    came[number] = chunks
                elif outcome.status != DAMAGED:
                    raise PipelineError(f"a worker could not write values: {outcome.message}")
                job.progress.add(outcome.length)
        return came

    async def _joined(
        self,
        order: CopyOrder,
        planned: PlannedSegment,
        cut: Sequence[PlannedSegment],
        first: int,
        came: Came,
        name: str,
    ) -> WrittenSegment:
        """Put a segment together, of what came and of what this side writes now."""
        records = PlannedSegment(kept=planned.kept)
        chunks: list[ImportedChunk] = []
        lost: list[RecordHeader] = []
        for number, plan in enumerate(cut, first):
            made, written = came.get(number), plan
            if made is None:
                copy = self._copy(order, number)
                await copy.records(plan)
                made, written = await copy.finish(), copy.written
                lost += copy.lost
            elif sum(chunk.length for chunk in made) != plan.length:
                raise PipelineError("not all that was copied came back", segment=name)
            chunks += made
            records.notes += written.notes
            records.length += written.length
            records.kept += written.kept
        if not records.notes:
            return WrittenSegment(output=None, records=records, footer_end=0, lost=tuple(lost))
        copy = self._copy(order, first)
        footer_end = await copy.footer(records, name, order.as_of)
        chunks += await copy.finish()
        return WrittenSegment(
            output=ImportOutput(segment=name, chunks=tuple(chunks)),
            records=records,
            footer_end=footer_end,
            lost=tuple(lost),
        )

    def _copy(self, order: CopyOrder, number: int) -> SegmentCopy:
        """What writes records, or a footer, on this side."""
        writer = ImportWriter(self._target, order.ticket, partition=number, attempt=1)
        return SegmentCopy(self._space, writer, order.rest)


def _cuts(order: CopyOrder, size: int) -> list[list[PlannedSegment]]:
    return [list(cut_plan(each, size)) for each in order.planned]


def _item(
    order: CopyOrder, number: int, plan: PlannedSegment, maps: dict[int, SegmentMap]
) -> ValueCopyItem | None:
    """The item of some records; ``None`` where workers cannot read all that it needs."""
    ends: dict[int, tuple[int, int]] = {}
    for part in plan.parts:
        if isinstance(part, CopiedRange):
            start, _ = ends.get(part.number, (part.start, 0))
            ends[part.number] = start, part.end
    if any(
        number not in maps or end > maps[number].info.flushed_length
        for number, (_, end) in ends.items()
    ):
        return None
    return ValueCopyItem(
        ticket=order.ticket,
        number=number,
        parts=tuple(plan.parts),
        length=plan.length,
        windows={each: cut_window(maps[each], start, end) for each, (start, end) in ends.items()},
    )
