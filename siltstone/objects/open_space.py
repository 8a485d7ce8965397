"""An open keyspace: what its handles share. There is one for each open store and name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from siltstone.container.models.health import HealthReason
from siltstone.core.bounded_calls import off_loop
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.constants import MIB
from siltstone.core.errors import ClosedError, FencedError, ReadOnlyError, SiltstoneError
from siltstone.objects.batch import PutResult
from siltstone.objects.batches import BatchWriter
from siltstone.objects.compaction_plan import UNREADABLE
from siltstone.objects.compaction_schedule import CompactionSchedule
from siltstone.objects.errors import CompactionBusyError, RebuildingError
from siltstone.objects.expiry import reap
from siltstone.objects.head_checks import HeadChecks
from siltstone.objects.large_tasks import do_large_tasks
from siltstone.objects.ledger import manifest_of
from siltstone.objects.moment import Moment
from siltstone.objects.records.space_rows import ValueStatus
from siltstone.objects.scores import RUN_MAX, best_run
from siltstone.objects.segment_copies import MakeCopies, OwnCopies, SegmentCopies
from siltstone.objects.snapshots import FOLD_TTL_S
from siltstone.objects.space_parts import SpaceParts
from siltstone.objects.space_setup import FoundSpace
from siltstone.objects.value_compaction import CompactionReport, ValueCompaction
from siltstone.objects.value_segments import RollLimits, ValueSegments
from siltstone.objects.value_tasks import delete_unnamed, do_tasks
from siltstone.objects.value_uses import ValueUses
from siltstone.store.own_target import own_target
from siltstone.store.system_table import tell_health

if TYPE_CHECKING:
    from siltstone.store.settings.objects_section import ObjectsSection


_log = logging.getLogger(__name__)

UPKEEP_EVERY_S: Final = 60.0
"""What nothing needs takes room a minute longer; what has expired is invisible meanwhile."""


class OpenSpace(AsyncClosing):
    """What the handles of a keyspace share. Used on the loop of its store.

    Args:
        parts: of the keyspace.
        found: what it was when it was opened.
        limits: when a value segment is full.
        settings: how keyspaces are used.
        forget: called once it was closed.

    Attributes:
        parts: of the keyspace.
        checks: compares heads with their records.
        limits: when a value segment is full, and which values are segments of their own.
        closed: whether it was closed.
        rebuilt: whether that was for a rebuild of its ledger.
    """

    def __init__(
        self,
        parts: SpaceParts,
        found: FoundSpace,
        limits: RollLimits,
        settings: ObjectsSection,
        forget: Callable[[OpenSpace], None],
    ) -> None:
        self.parts = parts
        self._forget = forget
        has_records = parts.space.head_only is None
        self.checks = HeadChecks(parts, settings.head_checks if has_records else 0, self._begin)
        self._settings = settings
        self.closed = False
        self.limits = limits
        self.rebuilt = False
        self._compacting = False
        self._switching = asyncio.Lock()
        self._schedule = CompactionSchedule(parts, settings, self._compact_by_itself, self._look)
        self._untell = tell_health(parts.store, parts.names.ledger, self._reasons)
        self._tasks: set[asyncio.Task[None]] = set()
        self._puts: set[asyncio.Future[PutResult]] = set()
        self._batches: BatchWriter | None = None
        self._run: asyncio.Task[None] | None = None
        if parts.store.read_only:
            return
        self._segments = segments = ValueSegments(parts.store, parts.names, limits, self._begin)
        self._batches = BatchWriter(parts.store, parts.names, parts.ledger, segments, parts.meter)
        self._run = asyncio.get_running_loop().create_task(self._batches.run())
        self._begin(self._keep_up(self._batches))
        if has_records:
            self._begin(self._schedule.run())
        for row in found.manifest:
            if row.status is ValueStatus.ROLLING:
                segments.finish(row)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def keep(self, put: asyncio.Future[PutResult]) -> None:
        """Let a put of a large value come to its end, also when this is closed meanwhile."""
        self._puts.add(put)
        put.add_done_callback(self._ended)

    def _ended(self, put: asyncio.Future[PutResult]) -> None:
        self._puts.discard(put)
        if not put.cancelled():
            put.exception()  # a caller that went away has heard it

    async def compact(
        self,
        run_max: int = RUN_MAX,
        *,
        accept_loss: bool = False,
        skip: Collection[int] = (),
        gives_way: bool = False,
        make: MakeCopies | None = None,
    ) -> CompactionReport:
        """Compact the value segments that are worth most, once. See ``ValueCompaction.run``.

        ``make`` makes what writes the new segments; ``None`` means that this process does.

        Raises:
            CompactionBusyError: one is running.
        """
        batches, parts = self.batches, self.parts
        parts.check_values("value compaction")
        self.check_not_compacting()
        self._compacting = True
        making = self._compaction(batches, make or partial(OwnCopies, gives_way=gives_way))
        try:
            async with self._switching, making as (compaction, copies):
                report = await compaction.run(copies, run_max, accept_loss=accept_loss, skip=skip)
            await self._do_tasks()
        except SiltstoneError:
            parts.meter.compacted("failed")
            raise
        finally:
            self._compacting = False
        parts.meter.compacted("done" if report.run else "needless")
        self._schedule.reported(report)
        return report

    def check_not_compacting(self) -> None:
        """Raise ``CompactionBusyError`` while a value compaction is running."""
        if self._compacting:
            name = self.parts.names.name
            raise CompactionBusyError("a value compaction is running", keyspace=name)

    async def sealed(self) -> tuple[Moment, Moment, dict[int, SiltstoneError]]:
        """Return moments before and after all that was acknowledged is in segments with footers.

        And by their numbers the segments without one, since damage keeps it from being written.

        The active segment is rolled. No compaction goes on meanwhile: one that looks at changes
        after the roll would drop what these replace, and the second moment has not got these. The
        first one keeps large values that such changes replace. Both are to be released.

        Raises what a put raises, and why a footer could not be written, but for damage.
        """
        damaged: dict[int, SiltstoneError] = {}
        batches, parts = self.batches, self.parts
        before = Moment(parts, await parts.snapshots.take(FOLD_TTL_S))
        try:
            async with self._switching:
                found = await parts.ledger.state()
                has_records = found is not None and found.state.records > 0
                if found is not None and has_records:
                    self._segments.end(found.state.number)
                rows = (await parts.manifest.now()).rows
                if has_records or any(row.status is ValueStatus.ROLLING for row in rows):
                    # It comes after the roll, also after one that took effect and has no answer
                    # yet: until then nothing here knows that its segment waits for a footer.
                    await batches.number()
                for row in (await parts.manifest.now()).rows:
                    try:
                        while not await self._segments.has_footer(row.number):
                            self.check_open()
                    except UNREADABLE as error:
                        damaged[row.number] = error
                return before, Moment(parts, await parts.snapshots.take(FOLD_TTL_S)), damaged
        except BaseException:
            before.release()
            raise

    @asynccontextmanager
    async def _compaction(
        self, batches: BatchWriter, make: MakeCopies
    ) -> AsyncIterator[tuple[ValueCompaction, SegmentCopies]]:
        parts = self.parts
        # What one before made without knowing its outcome. It also waits for commits of one that
        # was cancelled, which may have changed the manifest just now.
        await delete_unnamed(parts)
        held = await parts.snapshots.take(FOLD_TTL_S)
        try:
            target = await own_target(parts.store)
            try:
                compaction = ValueCompaction(
                    parts,
                    batches,
                    held.taken,
                    self.limits,
                    waste_retention_s=self._settings.waste_retention,
                )
                yield compaction, make(parts, target)
            finally:
                await off_loop(target.close)
        finally:
            held.release()

    async def _compact_by_itself(self, skip: Collection[int]) -> CompactionReport:
        return await self.compact(skip=skip, gives_way=True)

    async def _look(self) -> bool:
        """Whether a compaction is worth it."""
        held = await self.parts.snapshots.take(FOLD_TTL_S)
        try:
            manifest = await manifest_of(held.taken.scan, where=self.parts.names.name)
            return bool(best_run(await ValueUses(self.parts, held.taken).of(manifest)))
        finally:
            held.release()

    def _reasons(self) -> Iterator[HealthReason]:
        """What to know of the keyspace."""
        yield from self._schedule.reasons()
        if self.parts.losses.current(self.parts.ledger):
            yield HealthReason.OBJECTS_LOST

    async def _do_tasks(self) -> None:
        """Delete what no snapshot needs any longer; what fails is done in a minute."""
        try:
            await do_tasks(self.parts)
        except SiltstoneError as error:
            _log.warning("old values of keyspace %s: %s", self.parts.names.name, error)

    async def _keep_up(self, batches: BatchWriter) -> None:
        """Remove what has expired, and what compactions left, once a minute, until cancelled."""
        parts = self.parts
        while True:
            await parts.store.environment.sleep(UPKEEP_EVERY_S)
            try:
                self._schedule.reaped(await reap(parts.store, parts.names, batches))
                await do_tasks(parts)
                await do_large_tasks(parts)
            except FencedError:
                return
            except SiltstoneError as error:  # a container that is closed may be open again soon
                _log.warning("upkeep of keyspace %s: %s", parts.names.name, error)

    async def reap(self) -> int:
        """Remove what has expired; return how many objects that were."""
        return await reap(self.parts.store, self.parts.names, self.batches)

    @property
    def batches(self) -> BatchWriter:
        """What takes changes.

        Raises:
            ReadOnlyError: the store was opened read-only.
            ClosedError: it was closed.
        """
        self.check_open()
        if self._batches is None:
            raise ReadOnlyError("the store was opened read-only", keyspace=self.parts.names.name)
        return self._batches

    @cached_property
    def record_value_max(self) -> int:
        """Most bytes of a value that is in a record; the rest of that takes less than 1 MiB."""
        frame = self.parts.store.segment(self.parts.names.value_segment(1)).append_bytes_max
        return min(self.limits.value, max(frame // 2, frame - MIB))

    def check_open(self) -> None:
        """Raise ``ClosedError`` once it was closed, ``RebuildingError`` if for a rebuild."""
        if self.rebuilt:
            raise RebuildingError(
                "the keyspace was rebuilt: open it again", keyspace=self.parts.names.name
            )
        if self.closed:
            raise ClosedError("the keyspace was closed")

    async def close(self) -> None:
        """Settle every request that was taken, and end. Idempotent."""
        if self._puts and not self.closed:
            await asyncio.wait(list(self._puts))
        self.closed = True
        self._untell()
        self.parts.snapshots.end()
        for task in self._tasks:
            task.cancel()
        if self._batches is not None and self._run is not None:
            self._batches.stop()
            await asyncio.wait([self._run])
        tasks = list(self._tasks)  # with those that the last requests began, such as a footer
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self.parts.meter.close()
        self._forget(self)
