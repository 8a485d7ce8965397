"""An open keyspace: what its handles share. There is one for each open store and name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from siltstone.container.models.health import HealthReason
from siltstone.core.bounded_calls import off_loop
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.constants import MIB
from siltstone.core.errors import ClosedError, FencedError, ReadOnlyError, SiltstoneError
from siltstone.objects.batches import BatchWriter, PutResult
from siltstone.objects.compaction_schedule import CompactionSchedule
from siltstone.objects.errors import CompactionBusyError, RebuildingError
from siltstone.objects.expiry import reap
from siltstone.objects.head_checks import HeadChecks
from siltstone.objects.large_tasks import do_large_tasks
from siltstone.objects.ledger import Ledger, manifest_of
from siltstone.objects.losses import Losses
from siltstone.objects.manifest import LiveManifest
from siltstone.objects.moment import Moment
from siltstone.objects.records.space_rows import ValueStatus
from siltstone.objects.scores import RUN_MAX, best_run
from siltstone.objects.snapshots import FOLD_TTL_S, LedgerSnapshots
from siltstone.objects.space_meter import SpaceMeter
from siltstone.objects.space_parts import SpaceParts
from siltstone.objects.space_removal import RemovedKeyspace, remove_space
from siltstone.objects.space_setup import FoundSpace, find_space, make_space
from siltstone.objects.value_compaction import (
    CompactionReport,
    ValueCompaction,
    delete_unnamed,
    do_tasks,
)
from siltstone.objects.value_log import ValueLog
from siltstone.objects.value_segments import RollLimits, ValueSegments
from siltstone.objects.value_uses import ValueUses
from siltstone.store.own_settings import keyspace_settings, metrics_of
from siltstone.store.own_target import own_target
from siltstone.store.system_table import close_before, tell_health

if TYPE_CHECKING:
    from siltstone.objects.records.space_rows import Space
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.handles.import_writer import ImportTarget
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
    ) -> None:
        self.parts = parts
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
    ) -> CompactionReport:
        """Compact the value segments that are worth most, once. See ``ValueCompaction.run``.

        Raises:
            CompactionBusyError: one is running.
        """
        batches, parts = self.batches, self.parts
        parts.check_values("value compaction")
        self.check_not_compacting()
        self._compacting = True
        making = self._compaction(batches, gives_way=gives_way)
        try:
            async with self._switching, making as (compaction, target):
                report = await compaction.run(target, run_max, accept_loss=accept_loss, skip=skip)
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

    async def sealed(self) -> tuple[Moment, Moment]:
        """Return moments before and after all that was acknowledged is in segments with footers.

        The active segment is rolled. No compaction goes on meanwhile: one that looks at changes
        after the roll would drop what these replace, and the second moment has not got these. The
        first one keeps large values that such changes replace. Both are to be released.

        Raises what a put raises, and why a footer could not be written.
        """
        batches, parts = self.batches, self.parts
        before = Moment(parts, await parts.snapshots.take(FOLD_TTL_S))
        try:
            async with self._switching:
                found = await parts.ledger.state()
                if found is not None and found.state.records:
                    self._segments.end(found.state.number)
                    await batches.number()  # it comes after the roll
                for row in (await parts.manifest.now()).rows:
                    while not await self._segments.has_footer(row.number):
                        self.check_open()
                return before, Moment(parts, await parts.snapshots.take(FOLD_TTL_S))
        except BaseException:
            before.release()
            raise

    @asynccontextmanager
    async def _compaction(
        self, batches: BatchWriter, *, gives_way: bool
    ) -> AsyncIterator[tuple[ValueCompaction, ImportTarget]]:
        parts = self.parts
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
                    gives_way=gives_way,
                )
                yield compaction, target
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

    @property
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
        opened = _open.get(self.parts.store)  # which would keep the store in memory
        if opened is not None and opened.spaces.get(self.parts.names.name) is self:
            del opened.spaces[self.parts.names.name]


class _OpenSpaces:
    """The open keyspaces of one store."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.spaces: dict[str, OpenSpace] = {}


_open: WeakKeyDictionary[AsyncStore, _OpenSpaces] = WeakKeyDictionary()


async def new_space(store: AsyncStore, names: SpaceNames, space: Space) -> None:
    """Make a keyspace. Raises what ``make_space`` raises."""
    async with _open.setdefault(store, _OpenSpaces()).lock:
        await make_space(store, names, space)


async def destroy_space(store: AsyncStore, names: SpaceNames) -> RemovedKeyspace:
    """Close a keyspace if it is open in this store, and remove it.

    Raises:
        KeyspaceNotFoundError: there never was one of this name.
        CompactionBusyError: a value compaction of it is running.
        ReadOnlyError: the store was opened read-only.
    """
    if store.read_only:
        raise ReadOnlyError("the store was opened read-only", keyspace=names.name)
    opened = _open.setdefault(store, _OpenSpaces())
    async with opened.lock:
        space = opened.spaces.get(names.name)
        if space is not None:
            space.check_not_compacting()
            await space.close()
        return await remove_space(store, names)


def snapshots_of(store: AsyncStore, names: SpaceNames) -> LedgerSnapshots:
    """What takes snapshots of a ledger, which need not be one of a keyspace that opens.

    Where the keyspace is open in this store, it keeps the value segments that they need.
    """
    space = _open.setdefault(store, _OpenSpaces()).spaces.get(names.name)
    return LedgerSnapshots(store.table(names.ledger)) if space is None else space.parts.snapshots


@asynccontextmanager
async def space_closed(store: AsyncStore, names: SpaceNames) -> AsyncIterator[None]:
    """Close a keyspace of a store, and keep it from being opened until the end of the block."""
    opened = _open.setdefault(store, _OpenSpaces())
    async with opened.lock:
        space = opened.spaces.get(names.name)
        if space is not None and not space.closed:
            space.rebuilt = True
            await space.close()
        yield


async def open_space(
    store: AsyncStore,
    names: SpaceNames,
    limits: RollLimits | None = None,
    settings: ObjectsSection | None = None,
) -> OpenSpace:
    """Return the open keyspace of a store, which all its handles share.

    Args:
        store: of the keyspace; it closes the keyspace before it closes itself.
        names: of the keyspace.
        limits: when a value segment is full, if it is not open yet; ``None`` is the default.
        settings: how keyspaces are used, likewise; ``None`` means by the settings of the store.

    Raises what ``find_space`` raises.
    """
    opened = _open.setdefault(store, _OpenSpaces())
    async with opened.lock:
        space = opened.spaces.get(names.name)
        if space is None or space.closed:
            found = await find_space(store, names)
            ledger = Ledger(store, names)
            settings = settings or keyspace_settings(store)
            meter = SpaceMeter(metrics_of(store, names.ledger), names.name)
            parts = SpaceParts(
                store=store,
                names=names,
                space=found.space,
                ledger=ledger,
                manifest=LiveManifest(ledger, found.manifest),
                values=ValueLog(store, names),
                snapshots=LedgerSnapshots(store.table(names.ledger)),
                losses=Losses(names.name, meter, missing=settings.lost == "missing"),
                meter=meter,
            )
            limits = limits or RollLimits(length=settings.value_segment)
            space = OpenSpace(parts, found, limits, settings)
            close_before(store, space)
            if not store.read_only:
                try:
                    await delete_unnamed(parts)
                    await do_large_tasks(parts)
                except BaseException:
                    await space.close()
                    raise
            opened.spaces[names.name] = space
        return space
