"""The rows of a collection at one time, as those who read them hold them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow

from siltstone.collections.missing_parts import PLANS_MAX, state_without, too_slow
from siltstone.collections.part_objects import pieces_of
from siltstone.collections.place import CollectionPlace
from siltstone.collections.reader_lease import ReaderLease
from siltstone.collections.rows.row_schema import DIFF
from siltstone.collections.rows.snapshot import SnapshotSplit, plan_snapshot
from siltstone.collections.shared_state import SharedState
from siltstone.collections.snapshot_files import SnapshotFiles, files_of
from siltstone.collections.splits import CollectionSplit
from siltstone.collections.state.refusals import check_kept, name_of
from siltstone.collections.state.schemas import newest_schema
from siltstone.collections.stored_schema import row_schema_of, schemas_of
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.errors import (
    ChunkNotFoundError,
    CollectionSchemaError,
)
from siltstone.core.records.collection_state import CollectionState

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a snapshot shows.

    Attributes:
        columns: names of columns, in this order; ``None`` means all.
        diffs: whether counts are shown as ``_diff``; those of equal rows add up.
    """

    columns: tuple[str, ...] | None = None
    diffs: bool = False

    def in_columns_of(self, state: CollectionState) -> Shown:
        """The same, whatever columns are added later."""
        return replace(self, columns=tuple(self.arrow(state).names[: -1 if self.diffs else None]))

    def arrow(self, state: CollectionState) -> pyarrow.Schema:
        """The schema of the rows. Raises ``CollectionSchemaError`` for an unknown column."""
        schema = row_schema_of(state)[1].arrow
        names = schema.names if self.columns is None else self.columns
        for name in names:
            if name not in schema.names:
                raise CollectionSchemaError(
                    "the collection has no such column",
                    collection=name_of(state),
                    column=repr(name),
                )
        fields: list[Any] = [schema.field(name) for name in names]
        if self.diffs:
            fields.append(pyarrow.field(DIFF, pyarrow.int64(), nullable=False))
        return pyarrow.schema(fields)


def splits_at(
    state: CollectionState, place: CollectionPlace, as_of: int, shown: Shown
) -> list[SnapshotSplit]:
    """Plan what is to be read for the rows at ``as_of``. Blocking.

    Raises:
        SinceError: ``as_of`` is below the since.
        CollectionSchemaError: a column is unknown.
        CorruptDataError: a footer is not what was written.
        ChunkError: long-term storage did not answer; ``ChunkNotFoundError``: a part is gone.
    """
    check_kept(state, as_of)
    shown.arrow(state)
    batches = [batch for batch in state.batches.items if batch.lower <= as_of]
    return plan_snapshot(
        pieces_of(state.id, batches),
        schemas_of(state),
        newest_schema(state).schema_id,
        as_of=as_of,
        columns=shown.columns,
        diffs=shown.diffs,
        read=place.read,
    )


class AsyncCollectionSnapshot(AsyncClosing):
    """The rows at one time. Made by ``AsyncCollection.snapshot``; close it if it has a lease.

    Args:
        shared: the collection.
        place: where it is.
        state: whose parts are read.
        splits: what is to be read.
        shown: of the rows.
        as_of: the time; ``None`` where nothing was appended yet.
        lease: keeps the parts; ``None``: they stay for 15 minutes after they were replaced.

    Attributes:
        schema: of the rows.
    """

    def __init__(
        self,
        shared: SharedState,
        place: CollectionPlace,
        state: CollectionState,
        splits: Sequence[SnapshotSplit],
        shown: Shown,
        as_of: int | None,
        lease: ReaderLease | None,
    ) -> None:
        self._shared = shared
        self._place = place
        self._state = state
        self._splits = tuple(splits)
        self._shown = shown
        self._lease = lease
        self.schema = shown.arrow(state)
        self.as_of = as_of

    def splits(self) -> tuple[CollectionSplit, ...]:
        """Shares of the rows, which pickle; ``siltstone.read_split`` reads one in any process."""
        return tuple(
            CollectionSplit(
                store_id=self._place.store_id, collection_id=self._shared.id, share=split
            )
            for split in self._splits
        )

    async def files(self) -> SnapshotFiles:
        """What the snapshot shows as files of Parquet; hold a lease as long as they are read.

        Raises:
            CapabilityError: objects of this long-term storage have no address.
            CorruptDataError: inline rows are damaged.
        """
        return await self._place.work(partial(files_of, self._state, self._place, self.as_of))

    async def batches(self) -> AsyncIterator[pyarrow.RecordBatch]:
        """Yield all rows, some at a time, in constant memory.

        Raises:
            CorruptDataError: bytes of a part are not what was written, or it is gone.
            NegativeCountError: more copies of a row went than came, and diffs are not shown.
            SinceError: parts were collected before the first row, and the history with them.
            LeaseExpiredError: the lease ended; or there is none, and parts were collected after
                the first row, 15 minutes or more after they were replaced.
            CollectionDroppedError: the collection was dropped meanwhile.
            ChunkError: long-term storage did not answer.
        """
        given = False
        for _ in range(PLANS_MAX):
            try:
                async for batch in self._rows():
                    given = True
                    yield batch
                return
            except ChunkNotFoundError as error:
                await self._plan_again(error)
                if given:
                    raise too_slow(self._shared.state) from error
        raise too_slow(self._shared.state)

    async def to_arrow(self) -> pyarrow.Table:
        """All rows as one table, read again where parts were collected. Raises as ``batches``."""
        for _ in range(PLANS_MAX):
            if self._lease is not None:
                self._lease.check()
            reads = [self._place.work(partial(self._read_whole, one)) for one in self._splits]
            found = await asyncio.gather(*reads, return_exceptions=True)
            errors = [one for one in found if isinstance(one, BaseException)]
            gone = [one for one in errors if isinstance(one, ChunkNotFoundError)]
            if gone:
                await self._plan_again(gone[0])
            elif errors:
                raise errors[0]
            else:
                batches = [batch for one in found if isinstance(one, list) for batch in one]
                return pyarrow.Table.from_batches(batches, schema=self.schema)
        raise too_slow(self._shared.state)

    async def to_pandas(self) -> pandas.DataFrame:
        """All rows as a data frame of pandas. Raises what ``to_arrow`` does."""
        return (await self.to_arrow()).to_pandas()

    async def close(self) -> None:
        """Hold nothing any more. Idempotent."""
        if self._lease is not None:
            await self._lease.close()

    def _read_whole(self, split: SnapshotSplit) -> list[pyarrow.RecordBatch]:
        """All rows of one split. Blocking."""
        return list(split.read(self._place.read))

    async def _rows(self) -> AsyncIterator[pyarrow.RecordBatch]:
        for split in self._splits:
            if self._lease is not None:
                self._lease.check()
            rows = split.read(self._place.read)
            while True:
                batch = await self._place.work(_next_of(rows))
                if batch is None:
                    break
                yield batch

    async def _plan_again(self, error: ChunkNotFoundError) -> None:
        assert self.as_of is not None, "where nothing was appended, nothing is read"
        state = await state_without(self._shared, error, self._lease)
        self._state, splits = await planned(
            self._shared, self._place, state, self.as_of, self._shown, None
        )
        self._splits = tuple(splits)


async def planned(
    shared: SharedState,
    place: CollectionPlace,
    state: CollectionState,
    as_of: int,
    shown: Shown,
    lease: ReaderLease | None,
) -> tuple[CollectionState, list[SnapshotSplit]]:
    """Plan a read, by a newer state where a part is gone meanwhile; return the state, too.

    Raises:
        SinceError: the history is gone.
        LostDataError: a part that is needed is gone.
        LeaseExpiredError: the lease ended; or there is none, and parts go faster than this.
        Exception: what ``splits_at`` raises besides.
    """
    for _ in range(PLANS_MAX):
        try:
            return state, await place.work(partial(splits_at, state, place, as_of, shown))
        except ChunkNotFoundError as error:
            state = await state_without(shared, error, lease)
    raise too_slow(state)


def _next_of(rows: Iterator[Any]) -> Callable[[], Any]:
    return lambda: next(rows, None)
