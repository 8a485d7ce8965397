"""What changes in a collection from a time on: each update once, in the order of times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow

from siltstone.collections.async_snapshot import Shown, splits_at
from siltstone.collections.missing_parts import PLANS_MAX, state_without, too_slow
from siltstone.collections.part_objects import pieces_of
from siltstone.collections.place import CollectionPlace
from siltstone.collections.read_times import time_before
from siltstone.collections.reader_lease import ReaderLease
from siltstone.collections.rows.changes import RowsShare, read_changes
from siltstone.collections.rows.part_file import part_fields
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.refusals import check_open, name_of
from siltstone.collections.state.schemas import newest_schema
from siltstone.collections.stored_schema import row_schema_of, schemas_of
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.errors import ChunkNotFoundError, SinceError
from siltstone.core.records.collection_batch import CollectionBatch
from siltstone.core.records.collection_frontier import DONE, TIME_MAX
from siltstone.core.records.collection_state import CollectionState, Life

if TYPE_CHECKING:
    import pandas

ROWS_MAX: Final = 1_000_000
"""Updates of one step, about: several batches are told together up to here."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The updates of a range of times. None are missing, and none come again.

    Attributes:
        lower: the frontier at which it begins.
        upper: the frontier up to which the history is complete now; 2^64 - 1 if the collection is
            finished.
        updates: rows with ``_time`` and ``_diff``.
    """

    lower: int
    upper: int
    updates: pyarrow.Table

    def to_arrow(self) -> pyarrow.Table:
        """The updates as a table."""
        return self.updates

    def to_pandas(self) -> pandas.DataFrame:
        """The updates as a data frame of pandas."""
        return self.updates.to_pandas()


class AsyncSubscription(AsyncClosing):
    """Yields ``Changes``, one after the other. Made by ``AsyncCollection.listen``.

    What was yielded counts as finished when the next one is asked for.

    Args:
        shared: the collection.
        place: where it is.
        frontier: where the first changes begin.
        until: the frontier at which they end; ``None``: never.
        lease: keeps times, and parts while they are read; ``None`` means neither.
        from_rows: whether the first changes are all rows at the time ``frontier``.
    """

    def __init__(
        self,
        shared: SharedState,
        place: CollectionPlace,
        frontier: int,
        until: int | None,
        lease: ReaderLease | None,
        *,
        from_rows: bool = False,
    ) -> None:
        self._shared = shared
        self._place = place
        self._from_rows = from_rows
        self._until = DONE if until is None else until
        self._lease = lease
        self._turn = asyncio.Lock()
        self.frontier = frontier

    def __aiter__(self) -> AsyncIterator[Changes]:
        return self

    async def __anext__(self) -> Changes:
        """Wait for the next changes.

        Raises:
            StopAsyncIteration: ``until`` was reached, or the collection is finished.
            SinceError: there is no lease, and history that was not read yet is gone.
            LeaseExpiredError: the lease ended, as this process slept for longer than it.
            CollectionDroppedError: the collection was dropped.
            CorruptDataError: bytes of a part are not what was written, or it is gone.
            ChunkError: long-term storage did not answer; the subscription can be used on.
        """
        async with self._turn:  # Several may ask: each gets changes that no other one gets.
            return await self._next()

    async def _next(self) -> Changes:
        if self.frontier >= self._until:
            await self.close()
            raise StopAsyncIteration
        state = await self._shared.wait_for(
            lambda state: state.upper > self.frontier or state.life is not Life.OPEN,
            leased=self._lease is not None,
        )
        try:
            return await self._read(state)
        finally:
            if self._lease is not None:
                self._lease.rest()

    async def close(self) -> None:
        """Hold nothing any more. Idempotent."""
        if self._lease is not None:
            await self._lease.close()

    async def _read(self, state: CollectionState) -> Changes:
        """Read what follows the frontier in ``state``; plan again if a part is gone meanwhile."""
        for _ in range(PLANS_MAX):
            check_open(state)
            if self._lease is not None:
                self._lease.check()
                # What was yielded is finished; times from the one before on are still told apart.
                self._lease.advance(max(0, self.frontier - 1))
                self._lease.begin(state)
            if self._from_rows:
                upper = self.frontier + 1 if self.frontier < TIME_MAX else DONE
                read = partial(self._rows, state)
            else:
                upper, batches = self._step(state)
                read = partial(self._updates, state, batches, upper)
            try:
                updates = await self._place.work(read)
            except ChunkNotFoundError as error:
                state = await state_without(self._shared, error, self._lease)
                continue
            changes = Changes(0 if self._from_rows else self.frontier, upper, updates)
            self.frontier, self._from_rows = upper, False
            return changes
        raise too_slow(state)

    def _step(self, state: CollectionState) -> tuple[int, list[CollectionBatch]]:
        """The batches that come next, and where to end."""
        found: list[CollectionBatch] = []
        rows = 0
        upper = self.frontier
        for batch in state.batches.items:
            if batch.upper <= self.frontier:
                continue
            # Times below since became it. Where some of them were yielded already, it is too late.
            if batch.since > self.frontier or batch.lower < self.frontier == batch.since:
                raise SinceError(
                    "history is gone",
                    collection=name_of(state),
                    as_of=time_before(self.frontier),
                    since=batch.since,
                )
            if found and rows + batch.rows > ROWS_MAX:
                break
            found.append(batch)
            rows += batch.rows
            upper = batch.upper
            if upper >= self._until:
                break
        return min(upper, self._until), found

    def _rows(self, state: CollectionState) -> pyarrow.Table:
        """All rows at the frontier, as updates of that time. Blocking."""
        shown = part_fields(row_schema_of(state)[1], with_time=True, with_diff=True)
        splits = splits_at(state, self._place, self.frontier, Shown(diffs=True))
        shares = (RowsShare(split=split) for split in splits)
        found = (batch for share in shares for batch in share.read(self._place.read))
        return pyarrow.Table.from_batches(found, schema=shown)

    def _updates(
        self, state: CollectionState, batches: list[CollectionBatch], upper: int
    ) -> pyarrow.Table:
        schemas = schemas_of(state)
        schema_id = newest_schema(state).schema_id
        shown = part_fields(schemas[schema_id], with_time=True, with_diff=True)
        found = read_changes(
            pieces_of(state.id, batches),
            schemas,
            schema_id,
            self._place.read,
            start=self.frontier,
            end=upper,
        )
        return pyarrow.Table.from_batches(found, schema=shown)
