"""Compactions of one collection: batches are merged, and one is put in their place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final

from siltstone.collections.missing_parts import check_store_here, is_needed
from siltstone.collections.part_objects import pieces_of
from siltstone.collections.place import CollectionPlace
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.merge import merge_runs
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.compaction_plan import BatchMerge, plan, plan_whole, widened
from siltstone.collections.state.merges import replace_batches
from siltstone.collections.state.refusals import check_open
from siltstone.collections.state.schemas import newest_schema
from siltstone.collections.stored_schema import schemas_of
from siltstone.collections.uploads import Uploads
from siltstone.core.errors import (
    BatchExpiredError,
    ChunkNotFoundError,
    CollectionDroppedError,
    CollectionMovedError,
    ConditionFailedError,
    LostDataError,
)
from siltstone.core.metrics import COLLECTION_MERGES
from siltstone.core.records.collection_batch import CollectionBatch, CollectionRun

ShareDone = Callable[[float], None]
"""Told how much of a work is done, from 0 to 1; called on any thread."""

TRIES: Final = 8
"""Of a compaction of everything that others overtake."""


class Compactor:
    """Compacts one collection, one merge at a time. Used on one loop.

    Args:
        place: where it is.
        shared: its state.
        uploads: rows by which parts are uploaded.
        discard: deletes parts that were uploaded in vain.
    """

    def __init__(
        self,
        place: CollectionPlace,
        shared: SharedState,
        uploads: Uploads,
        discard: Callable[[CollectionRun], Awaitable[None]],
    ) -> None:
        self._place = place
        self._shared = shared
        self._uploads = uploads
        self._discard = discard
        self._one_by_one = asyncio.Lock()

    async def do_due(self) -> None:
        """Do the merge that is due, if one is; it is given up where others were faster.

        Raises:
            LostDataError: a part is gone that the collection needs.
            ChunkError: long-term storage did not answer.
        """
        async with self._one_by_one:
            state = self._shared.state
            merge = plan(state)
            if merge is not None:
                await self._merged(widened(merge, state.batches))

    async def do_whole(self, progress: ShareDone | None = None) -> None:
        """Merge all batches into one, up to the since.

        Args:
            progress: told how much of the rows was merged, if given.

        Raises:
            ConditionFailedError: others were faster each time.
            CollectionDroppedError: the collection was dropped.
            LostDataError: a part is gone that the collection needs.
            ChunkError: long-term storage did not answer.
        """
        async with self._one_by_one:
            for _ in range(TRIES):
                state = await self._shared.refresh()
                check_open(state)
                merge = plan_whole(state)
                if merge is None or await self._merged(merge, progress):
                    return
        raise always_changed(self._shared)

    async def _merged(self, merge: BatchMerge, progress: ShareDone | None = None) -> bool:
        """Do a merge; return False if others changed what it was to replace."""
        state = self._shared.state
        parts = merge_runs(
            pieces_of(state.id, merge.inputs),
            schemas_of(state),
            newest_schema(state).schema_id,
            self._place.read,
            since=merge.since,
            part_size=self._place.settings.part_bytes,
        )
        if progress is not None:
            parts = _told(parts, sum(batch.rows for batch in merge.inputs), progress)
        try:
            return await self._written_and_put(merge, parts)
        except ChunkNotFoundError as error:
            newer = await self._shared.refresh()
            if is_needed(newer, error):  # Others may have merged some of the inputs alone.
                await check_store_here(self._shared)
                raise LostDataError(
                    "rows of a collection are gone", where=error.chunk, collection=state.id.hex()
                ) from error
            return False
        except (CollectionDroppedError, CollectionMovedError):
            return False

    async def _written_and_put(self, merge: BatchMerge, parts: Iterator[EncodedPart]) -> bool:
        first = await self._place.work(lambda: next(parts, None))
        if first is None or first.part.inline is not None:
            rest = await self._place.work(lambda: list(parts))  # The sums are compared at the end.
            assert not rest, "what is inline is all there is"
            return await put_merge(
                self._shared, self._place, merge, () if first is None else (first.part,)
            )
        async with self._uploads.taken() as row:
            run = await self._uploads.upload(row, chain([first], parts))
            if await put_merge(self._shared, self._place, merge, run):
                return True
            # An earlier try may have counted, and others have replaced it; states will tell.
            await self._uploads.end(row)
        await self._discard(run)
        return False


async def put_merge(
    shared: SharedState, place: CollectionPlace, merge: BatchMerge, run: CollectionRun
) -> bool:
    """Put what came of a merge in the place of its inputs; False if others changed them.

    Raises:
        ValueError: it is not the same rows.
        CollectionDroppedError: the collection was dropped.
        OutcomeUnknownError: whether it was put is not known. The rows are the same.
        ChunkError: long-term storage did not answer.
    """
    output = CollectionBatch(
        lower=merge.lower, upper=merge.upper, since=merge.since, runs=(run,) if run else ()
    )
    try:
        await shared.run(partial(replace_batches, inputs=merge.inputs, output=output))
    except (ConditionFailedError, BatchExpiredError):
        return False
    place.meter(shared.id).count(COLLECTION_MERGES)
    return True


def always_changed(shared: SharedState) -> ConditionFailedError:
    """What is said of a merge that others change each time before it is done."""
    return ConditionFailedError(
        "other processes compact all the time; try again later",
        condition=shared.id.hex(),
        current=len(shared.state.batches.items),
    )


def _told(parts: Iterator[EncodedPart], total: int, progress: ShareDone) -> Iterator[EncodedPart]:
    """Tell how many of the rows are in the parts so far."""
    done = 0
    for encoded in parts:
        done += encoded.part.rows
        progress(done / total)
        yield encoded
