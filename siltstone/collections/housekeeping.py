"""What commits make due: rollups, compactions, garbage. All of it may be lost, or done twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from siltstone.collections.compaction import Compactor
from siltstone.collections.entry_view import CollectionEntry, entry_view
from siltstone.collections.garbage import TRIES, GarbageCollector
from siltstone.collections.place import CollectionPlace
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.compaction_plan import BatchMerge, Levels, falls_to_last, plan
from siltstone.collections.state.lives import drop
from siltstone.collections.state.rollups import floor_rollup, link_of, rollup_is_due
from siltstone.collections.uploads import Uploads
from siltstone.core.consensus import Opened
from siltstone.core.errors import LostDataError, SiltstoneError
from siltstone.core.metrics import COLLECTION_COMMITS, COLLECTION_ROLLUPS
from siltstone.core.records.collection_batch import Batches
from siltstone.core.records.collection_state import CollectionState

_log = logging.getLogger(__name__)

SWEEP_EVERY_S: Final = 24 * 3600.0
"""What died processes leave is small, and to find it costs a listing."""


class Housekeeping:
    """One collection in one process, and the work on it that is due. Used on one loop.

    Args:
        place: where it is.
        opened: what the consensus said of it.

    Attributes:
        shared: its state.
        uploads: the rows by which this process uploads.
        compact_whole: see ``Compactor.do_whole``.
        sweep: see ``GarbageCollector.sweep``.
    """

    def __init__(self, place: CollectionPlace, opened: Opened) -> None:
        self._place = place
        self._meter = place.meter(opened.tip.collection_id)
        self.shared = SharedState(place, opened, self._after_commit)
        self._meter.show(self.shared.state)
        self.uploads = Uploads(self.shared, place)
        self._garbage = GarbageCollector(place, self.shared)
        self._compaction = Compactor(place, self.shared, self.uploads, self._garbage.discard)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._swept_s = place.environment.monotonic()
        self._planned: tuple[Batches, BatchMerge | None] | None = None
        self._levels = Levels()
        self._is_due = False
        self._is_closed = False
        self.compact_whole = self._compaction.do_whole
        self.sweep = self._garbage.sweep

    async def collect(self, *, dry_run: bool = False) -> int:
        """Delete what nothing needs any more, or only count it; see ``GarbageCollector``."""
        if dry_run:
            return await self._garbage.count_garbage()
        await self.uploads.end_idle()  # They hold a little for the next append.
        return await self._garbage.collect()

    async def drop(self) -> None:
        """Drop the collection, and delete what it has. May be repeated.

        Raises:
            CollectionMovedError: it continues elsewhere.
            OutcomeUnknownError: whether it was dropped is not known.
            ChunkError: long-term storage did not answer. It may be dropped, and not be deleted.
        """
        await self.shared.run(drop)
        await self._garbage.bury()

    async def entries(self) -> list[CollectionEntry]:
        """All entries from the floor on, the oldest first.

        Raises:
            LostDataError: they are gone.
            ChunkError: long-term storage did not answer.
        """
        for _ in range(TRIES):
            state = await self.shared.refresh()
            tip, rollup = self.shared.tip, floor_rollup(state)
            opened = await self._place.ask(partial(self._place.consensus.replay, tip, rollup))
            if opened is not None:
                return [entry_view(diff) for diff in opened.diffs]
        raise LostDataError(
            "entries of a collection are gone", where=f"rollup {rollup.seqno} of {state.id.hex()}"
        )

    def compact_due(self) -> None:
        """Begin to merge what is due, unless the settings leave that to others."""
        if self._place.settings.compacts and not self._is_closed:
            self._is_due = True
            self._begin("compaction", self._compact)

    async def settle(self) -> None:
        """Wait until what commits made due is done, and what that makes due."""
        await self.uploads.end_idle()
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self.uploads.end_idle()

    async def close(self) -> None:
        """End what is due, and the state. Idempotent."""
        self._is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.uploads.close()
        await self.shared.close()

    def _after_commit(self, before: CollectionState, after: CollectionState) -> None:
        self._meter.count(COLLECTION_COMMITS)
        if link_of(before, after) is not None:
            self._meter.count(COLLECTION_ROLLUPS)
        if self._is_closed:
            return
        self._garbage.note(after)
        if rollup_is_due(before, after):
            self._begin("rollup", self._garbage.roll_up)
        if self._place.settings.compacts and before.batches is not after.batches:
            old, new = self._plan(before), self._plan(after)
            if self._is_due or falls_to_last(old, new, after.batches):
                self.compact_due()
        now_s = self._place.environment.monotonic()
        if now_s - self._swept_s >= SWEEP_EVERY_S:
            self._swept_s = now_s
            self._begin("sweep", self._swept)

    def _plan(self, state: CollectionState) -> BatchMerge | None:
        if self._planned is None or self._planned[0] is not state.batches:
            self._planned = state.batches, plan(state, self._levels)
        return self._planned[1]

    async def _compact(self) -> None:
        while self._is_due:
            self._is_due = False
            try:
                await self._compaction.do_due()
            except SiltstoneError:
                self._is_due = True  # with the next commit
                raise

    def _begin(self, what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if what not in self._tasks:
            self._tasks[what] = asyncio.ensure_future(self._run(what, work))

    async def _run(self, what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except SiltstoneError as error:
            _log.warning(
                "%s of collection %s was given up, and is tried again later: %s",
                what,
                self.shared.id.hex(),
                error,
            )
        finally:
            del self._tasks[what]

    async def _swept(self) -> None:
        await self.sweep()
