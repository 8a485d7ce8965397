"""The sweep: chunks that a crash left, pins and file manifests that expired long ago.

A sweep lists closed epochs and gives every chunk that nothing names a task. It deletes no chunk
itself: the collector states and deletes it like any other garbage, so a fenced owner destroys
nothing. System files have rules of their own, see ``siltstone.journal.retention``.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, replace

from siltstone.container.commit.owner_context import OwnerContext
from siltstone.container.garbage.collector import Collector
from siltstone.container.garbage.import_sweep import ImportSweep, look_at_imports
from siltstone.container.garbage.manifest_expiry import expired_manifests
from siltstone.container.garbage.sweep_plan import (
    Known,
    SweepPage,
    epoch_under,
    findings,
    plan_epochs,
    plan_page,
)
from siltstone.container.models.garbage import SweepFinding
from siltstone.container.reads.pin_watch import PinWatch
from siltstone.container.reads.pins import FoundPin, look_at_pins
from siltstone.container.state.backoff import Backoff
from siltstone.core.chunk_names import claim_file, data_prefix, import_prefix, system_prefix
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkError,
    ChunkNotFoundError,
    CorruptDataError,
)
from siltstone.core.records.claim import decode_claim
from siltstone.core.records.epoch_row import EpochRow
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.piece import ControlKind
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.listings import listed
from siltstone.core.storage.optional_verbs import LEFTOVER_S
from siltstone.journal.retention import is_system_file
from siltstone.metadata.changes import put_epoch, put_task, remove_task
from siltstone.metadata.rows import Rows

logger = logging.getLogger(__name__)

PAGE = 1_000
"""Names that one request lists."""
START_S = 300.0
"""A store that is open only for a moment has other things to do."""
ROUND_S = 24 * 3600.0
FAILED_S = 3600.0
PIN_KEPT_MS = 7 * 24 * 3600 * 1000
"""An expired pin or file manifest stays this long, for a person who wonders why something went."""
CLAIM_BYTES_MAX = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepScope:
    """What a sweep works on, for an owner as for a reader.

    Attributes:
        container: its index.
        epoch: the newest epoch, which is not closed.
        rows_now: gives what there is now: a reader may start again between two pages, and the
            earlier index is closed then.
        storage: long-term storage.
        environment: gives the time.
        pins: which of them promise something, and the clock of long-term storage.
    """

    container: int
    epoch: int
    rows_now: Callable[[], Rows]
    storage: AsyncChunkStorage
    environment: Environment
    pins: PinWatch

    @property
    def rows(self) -> Rows:
        """What there is now; not to be kept over an ``await``."""
        return self.rows_now()

    async def page(self, start_after: str, *, all_epochs: bool) -> SweepPage:
        """List the next page of data chunks and plan it."""
        stats = await self.storage.list(data_prefix(self.container), start_after, PAGE)
        known = Known(
            container=self.container,
            epoch=self.epoch,
            next_chunk_id=self.rows.pending_counter(CounterKind.CHUNK_ID),
            chunk=lambda chunk_id: self.rows.pending_chunk(chunk_id) or self.rows.chunk(chunk_id),
            epoch_row=self.rows.epoch,
            now_s=0.0,
            all_epochs=all_epochs,
        )
        full = len(stats) == PAGE
        page = plan_page(stats, known, full=full)
        if not page.young:
            return page
        # Storage is asked for its time only where that matters.
        return plan_page(stats, replace(known, now_s=await self.pins.clock.now_s()), full=full)

    def waiting(self, page: SweepPage) -> set[int]:
        """Chunk ids among the old ones of ``page`` that a task is to delete already."""
        wanted = {unnamed.chunk_id for unnamed in page.old}
        found: set[int] = set()
        for tasks in self.rows.task_pages() if wanted else ():
            found |= {t.subject for t in tasks if t.kind is TaskKind.DELETE_CHUNK} & wanted
        return found


async def look(ground: SweepScope, *, all_epochs: bool) -> AsyncIterator[SweepFinding]:
    """Yield what a sweep would find, and change nothing.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    cursor: str | None = ""
    while cursor is not None:
        page = await ground.page(cursor, all_epochs=all_epochs)
        for finding in findings(page, ground.waiting(page)):
            yield finding
        cursor = page.cursor
    imports = look_at_imports(
        ground.container, lambda: ground.rows.tables, ground.storage, ground.environment
    )
    async for finding in imports:
        yield finding
    async for finding in foreign_system_files(ground):
        yield finding
    for finding in await _expired(ground):
        yield finding


async def foreign_system_files(ground: SweepScope) -> AsyncIterator[SweepFinding]:
    """Yield what lies among the system files and is not one."""
    async for stat in listed(ground.storage, system_prefix(ground.container)):
        if not is_system_file(stat.name, ground.container):
            yield SweepFinding.of("foreign", stat, "not the name of a system file")


async def _expired(ground: SweepScope) -> list[SweepFinding]:
    """Pins and file manifests that promised something once, and pins that never did."""
    clock, now_s = ground.pins.clock, ground.environment.time()
    findings = []
    for found in await look_at_pins(ground.storage, ground.container):
        storage_now_s = await clock.now_s()
        if isinstance(found, FoundPin):
            if found.over_ms(storage_now_s, now_s) > PIN_KEPT_MS:
                findings.append(_pin(found.name, found.length, "it expired more than 7 days ago"))
        elif 0 < found.modified_s * 1000 < int(storage_now_s * 1000) - PIN_KEPT_MS:
            findings.append(_pin(found.name, found.length, "it was begun more than 7 days ago"))
    return findings + await expired_manifests(
        ground.storage, ground.container, PIN_KEPT_MS, clock, now_s
    )


def _pin(name: str, length: int, reason: str) -> SweepFinding:
    return SweepFinding(kind="pin", name=name, length=length, modified_ms=0, reason=reason)


class Sweeper:
    """Sweeps one owned container, a page at a time, in the background and on request."""

    def __init__(
        self,
        context: OwnerContext,
        ground: SweepScope,
        collector: Collector,
        lineage: bytes,
        imports: ImportSweep,
        suspended: Callable[[], bool],
    ) -> None:
        self._ground = ground
        self._imports = imports
        self._pipeline = context.pipeline
        self._collector = collector
        self._settings = context.settings
        self._fence = context.fence
        self._lineage = lineage
        self._environment = ground.environment
        self.backoff = Backoff(ground.environment, suspended)

    async def run(self) -> None:
        """Sweep round after round until cancelled, with the settings' count of listings an hour.

        A round that an earlier owner began continues where that one stopped.
        """
        pause_s = 3600.0 / self._settings.sweep_requests_hour
        await self._environment.sleep(START_S)
        while True:
            await self.backoff.rest()
            with self.backoff.attempt(logger, "sweep"):
                await self._check_ours()
                while await self._step(self._task()):
                    await self._environment.sleep(pause_s)
                    await self.backoff.rest()
                await self._finish()
            failed = self.backoff.error is not None
            await self._environment.sleep(FAILED_S if failed else ROUND_S)

    async def sweep(self, *, all_epochs: bool) -> AsyncIterator[SweepFinding]:
        """Carry out a whole round now; yield what it finds once that is on record.

        Raises:
            ChunkError: long-term storage did not answer; what was yielded is on record.
            CorruptDataError: long-term storage is not the one that was claimed.
            FencedError: a newer owner took over.
        """
        await self._check_ours()
        cursor: str | None = ""
        listing: int | None = None
        while cursor is not None:
            page = await self._ground.page(cursor, all_epochs=all_epochs)
            waiting = self._ground.waiting(page)
            entries = self._entries(page, waiting, listing)
            if entries:
                await self._pipeline.update(entries)
            for finding in findings(page, waiting):
                yield finding
            cursor, listing = page.cursor, page.unfinished
        async for finding in self._imports.sweep():
            yield finding
        async for finding in foreign_system_files(self._ground):
            yield finding
        await self._remove_leftovers()
        for finding in await self._remove_expired():
            yield finding
        self._collector.wake()

    async def _check_ours(self) -> None:
        """Refuse a long-term storage that is not the one on which this owner made its claim.

        If another store were mounted there meanwhile, none of its chunks would have a row here.
        """
        name = claim_file(self._ground.container, self._ground.epoch)
        try:
            data = await self._ground.storage.read_all(name, CLAIM_BYTES_MAX)
        except ChunkNotFoundError as error:
            # A newer owner removes the claims of older ones.
            await self._fence.check()
            raise CorruptDataError(
                "this is not the storage that was claimed", where=name
            ) from error
        claim = decode_claim(bytes(data), where=name)
        if (claim.lineage, claim.epoch) != (self._lineage, self._ground.epoch):
            raise CorruptDataError("the claim is that of another owner", where=name)

    def _task(self) -> Task | None:
        """The row that says how far the round has come."""
        for tasks in self._ground.rows.task_pages():
            for task in tasks:
                if task.kind is TaskKind.SWEEP:
                    return task
        return None

    async def _step(self, task: Task | None) -> bool:
        """List one page; return whether the round continues."""
        cursor = "" if task is None else task.name
        page = await self._ground.page(cursor, all_epochs=False)
        waiting = self._ground.waiting(page)
        listing = epoch_under(cursor, self._ground.container)
        entries = self._entries(page, waiting, listing)
        entries += [] if task is None else [remove_task(task)]
        if page.cursor is not None:
            due_ms = int(self._environment.time() * 1000)
            entries.append(
                put_task(Task(due_ms=due_ms, kind=TaskKind.SWEEP, subject=0, name=page.cursor))
            )
        if entries:
            await self._pipeline.update(entries)
        for finding in findings(page, waiting):
            if finding.kind == "foreign":
                logger.warning("foreign name: %s: %s", finding.name, finding.reason)
        if len(page.old) > len(waiting):
            count = len(page.old) - len(waiting)
            logger.info("sweep found %d chunks that nothing names", count)
            self._collector.wake()
        return page.cursor is not None

    def _entries(
        self, page: SweepPage, waiting: Collection[int], listing: int | None
    ) -> list[TableEntry]:
        now_ms = int(self._environment.time() * 1000)
        entries = [
            put_task(
                Task(
                    due_ms=now_ms,
                    kind=TaskKind.DELETE_CHUNK,
                    subject=unnamed.chunk_id,
                    name=unnamed.stat.name,
                )
            )
            for unnamed in page.old
            if unnamed.chunk_id not in waiting
        ]
        row_of = self._ground.rows.epoch
        rows = plan_epochs(page, row_of, listing, now_ms)
        # A listing of swept epochs, on request, takes nothing back of what is known of them.
        entries += [put_epoch(row) for row in map(self._kept, rows) if row_of(row.epoch) != row]
        return entries

    def _kept(self, row: EpochRow) -> EpochRow:
        known = self._ground.rows.epoch(row.epoch)
        return replace(row, swept=True) if known is not None and known.swept else row

    async def _finish(self) -> None:
        """The end of a round: what imports left, and what is not a chunk."""
        async for finding in self._imports.sweep():
            if finding.kind == "foreign":
                logger.warning("foreign name: %s: %s", finding.name, finding.reason)
        async for finding in foreign_system_files(self._ground):
            logger.warning("foreign name: %s: %s", finding.name, finding.reason)
        await self._remove_leftovers()
        await self._remove_expired()

    async def _remove_leftovers(self) -> None:
        """Let storage remove what creates left that never were chunks, of any owner.

        Nothing of it was acknowledged or can be, so no statement and no fence is needed.
        """
        container = self._ground.container
        for prefix in (data_prefix(container), import_prefix(container), system_prefix(container)):
            try:
                count = await self._ground.storage.sweep_leftovers(prefix, LEFTOVER_S)
            except ChunkError as error:
                # A right may be missing that nothing else needs; the rest of the sweep continues.
                logger.warning("unfinished uploads cannot be removed: %s", error)
                return
            if count:
                logger.info("removed %d unfinished uploads below %s", count, prefix)

    async def _remove_expired(self) -> list[SweepFinding]:
        """Delete what expired long ago, after the log has stated the names."""
        expired = await _expired(self._ground)
        for begin in range(0, len(expired), PAGE):
            part = expired[begin : begin + PAGE]
            await self._fence.check()
            names = "\n".join(found.name for found in part)
            await self._pipeline.control(ControlKind.PIN_DELETION, names.encode())
            for found in part:
                try:
                    await self._ground.storage.delete(found.name)
                except ChunkNotFoundError:
                    # Gone already: its holder removed it, or an answer was lost.
                    continue
        return expired
