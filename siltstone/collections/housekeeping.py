"""What commits make due: rollups, compactions, garbage. All of it may be lost, or done twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Final

from siltstone.collections.part_objects import PartObjects, pieces_of
from siltstone.collections.place import Place
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.merge import merge_runs
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.compaction_plan import BatchMerge, plan, plan_whole
from siltstone.collections.state.garbage_plan import garbage_of
from siltstone.collections.state.merges import replace_batches
from siltstone.collections.state.replay import replayed
from siltstone.collections.state.rollups import (
    forget_rollups,
    link_rollup,
    note_collected,
    rollup_is_due,
)
from siltstone.collections.state.schemas import newest_schema
from siltstone.collections.state.sweep_plan import parts_to_sweep
from siltstone.collections.stored_schema import schemas_of
from siltstone.collections.uploads import Uploads
from siltstone.core.consensus import Opened, Tip
from siltstone.core.errors import (
    BatchExpiredError,
    ChunkNotFoundError,
    ConditionFailedError,
    SiltstoneError,
)
from siltstone.core.records.collection_batch import CollectionBatch, CollectionRun
from siltstone.core.records.collection_state import CollectionState, decode_state, encode_state

_log = logging.getLogger(__name__)

TRIES: Final = 8
"""Of a compaction that others overtake, or of garbage that is truncated meanwhile."""


class Housekeeping:
    """One collection in one process, and the work on it that is due. Used on one loop.

    Args:
        place: where it is.
        opened: what the consensus said of it.

    Attributes:
        shared: its state.
    """

    def __init__(self, place: Place, opened: Opened) -> None:
        self._place = place
        self.shared = SharedState(place, opened, self._after_commit)
        self._objects = PartObjects(place, self.shared.id)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._compacting = asyncio.Lock()
        self._collecting = asyncio.Lock()
        self._is_closed = False

    async def compact_whole(self) -> None:
        """Merge all batches into one, up to the since.

        Raises:
            CollectionDroppedError: the collection was dropped.
            ChunkError: long-term storage did not answer.
        """
        async with self._compacting:
            for _ in range(TRIES):
                merge = plan_whole(await self.shared.refresh())
                if merge is None or await self._merged(merge):
                    return

    async def collect(self) -> int:
        """Delete parts and entries that nothing needs any more; return how many parts."""
        async with self._collecting:
            count = 0
            for _ in range(TRIES):
                state = await self.shared.refresh()
                states = await self._states(state, self.shared.tip)
                if states is None:
                    continue
                garbage = garbage_of(
                    states,
                    now_ms=self._place.now_ms(),
                    delay_ms=self._place.settings.garbage_delay_ms,
                )
                if garbage is not None:
                    await self._objects.delete(garbage.parts)
                    count += len(garbage.parts)
                    await self.shared.run(partial(note_collected, through=garbage.through))
                await self._truncate()
                return count
            return count

    async def sweep(self) -> int:
        """Delete what died processes left; return how many objects."""
        async with self._collecting:
            for _ in range(TRIES):
                listed, _ = await self._objects.listed()
                state = await self.shared.refresh()
                tip = self.shared.tip
                states = await self._states(state, tip)
                if states is None:
                    continue
                names = parts_to_sweep(listed, states)
                await self._objects.delete(names)
                rollups = list(state.rollups.values())
                swept = partial(self._place.consensus.sweep, tip, rollups)
                return len(names) + await self._place.ask(swept)
            return 0

    async def close(self) -> None:
        """End what is due, and the state. Idempotent."""
        self._is_closed = True
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.shared.close()

    # --- what a commit makes due ---

    def _after_commit(self, before: CollectionState, after: CollectionState) -> None:
        if self._is_closed:
            return
        if rollup_is_due(before, after):
            self._begin("rollup", self._roll_up)
        if (
            self._place.settings.compacts
            and before.batches is not after.batches
            and "compaction" not in self._tasks
            and plan(after) is not None
        ):
            self._begin("compaction", self._compact)

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

    async def _roll_up(self) -> None:
        state = self.shared.state
        data = await self._place.work(lambda: encode_state(state))
        rollup = await self._place.ask(
            lambda: self._place.consensus.put_rollup(state.id, state.seqno, data)
        )
        with suppress(ConditionFailedError):  # Another process was first; the sweep deletes ours.
            await self.shared.run(partial(link_rollup, rollup=rollup))
        await self.collect()

    async def _compact(self) -> None:
        async with self._compacting:
            while not self._is_closed:
                merge = plan(self.shared.state)
                if merge is None or not await self._merged(merge):
                    return

    # --- compaction ---

    async def _merged(self, merge: BatchMerge) -> bool:
        """Do a merge; return False if others changed what it was to replace."""
        state = self.shared.state
        parts = merge_runs(
            pieces_of(state.id, merge.inputs),
            schemas_of(state),
            newest_schema(state).schema_id,
            self._place.read,
            since=merge.since,
            part_size=self._place.settings.part_bytes,
        )
        uploads = Uploads(self.shared, self._place, f"compaction-{self._place.random_u64():016x}")
        try:
            run = await self._written(parts, uploads)
            output = CollectionBatch(
                lower=merge.lower,
                upper=merge.upper,
                since=merge.since,
                runs=(run,) if run else (),
            )
            await self.shared.run(partial(replace_batches, inputs=merge.inputs, output=output))
        except (ConditionFailedError, BatchExpiredError, ChunkNotFoundError):
            return False
        finally:
            with suppress(SiltstoneError):  # Its row ends with its lease.
                await uploads.leave()
        return True

    async def _written(self, parts: Iterator[EncodedPart], uploads: Uploads) -> CollectionRun:
        first = await self._place.work(lambda: next(parts, None))
        if first is None:
            return ()
        if first.part.inline is not None:
            return (first.part,)
        return await uploads.upload(chain([first], parts))

    # --- garbage ---

    async def _states(self, state: CollectionState, tip: Tip) -> list[CollectionState] | None:
        """All states from the floor on; ``None`` if that was truncated meanwhile."""
        rollup = state.rollups[state.floor or min(state.rollups)]
        opened = await self._place.ask(lambda: self._place.consensus.replay(tip, rollup))
        if opened is None:
            return None
        where = f"rollup {rollup.seqno} of collection {state.id.hex()}"
        return await self._place.work(
            lambda: replayed(decode_state(opened.state, where=where), opened.diffs)
        )

    async def _truncate(self) -> None:
        """Forget rollups before the floor, and the entries below it."""
        state, tip = self.shared.state, self.shared.tip
        if not state.floor or min(state.rollups) == state.floor:
            return
        if state.floor > tip.settled.seqno:
            return  # The entry that linked it is the newest one; the next time.
        floor, rollups = state.rollups[state.floor], list(state.rollups.values())
        await self._place.ask(lambda: self._place.consensus.truncate(tip, floor, rollups))
        await self.shared.run(partial(forget_rollups, below=state.floor))
