"""The rows of a collection at one time, as those who read them hold them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow

from siltstone.collections.part_objects import pieces_of
from siltstone.collections.place import Place
from siltstone.collections.reader_lease import ReaderLease
from siltstone.collections.rows.snapshot import SnapshotSplit, plan_snapshot
from siltstone.collections.state.schemas import newest_schema
from siltstone.collections.stored_schema import schemas_of
from siltstone.core.errors import CollectionSchemaError
from siltstone.core.records.collection_state import CollectionState

if TYPE_CHECKING:
    import pandas


def splits_at(
    state: CollectionState,
    place: Place,
    as_of: int,
    *,
    columns: Sequence[str] | None,
    diffs: bool,
) -> list[SnapshotSplit]:
    """Plan what is to be read for the rows at ``as_of``. Blocking.

    Raises:
        CollectionSchemaError: a column is unknown.
    """
    batches = [batch for batch in state.batches.items if batch.lower <= as_of]
    try:
        return plan_snapshot(
            pieces_of(state.id, batches),
            schemas_of(state),
            newest_schema(state).schema_id,
            as_of=as_of,
            columns=columns,
            diffs=diffs,
            read=place.read,
        )
    except KeyError as error:
        raise CollectionSchemaError(
            "no such column", collection=state.id.hex(), column=str(error)
        ) from error


class AsyncCollectionSnapshot:
    """The rows at one time. Made by ``AsyncCollection.snapshot``; close it if it has a lease.

    Args:
        place: where the collection is.
        splits: what is to be read.
        schema: of the rows.
        as_of: the time; ``None`` where nothing was appended yet.
        lease: keeps the parts; ``None``: they stay for 15 minutes after they were replaced.
    """

    def __init__(
        self,
        place: Place,
        splits: Sequence[SnapshotSplit],
        schema: pyarrow.Schema,
        as_of: int | None,
        lease: ReaderLease | None,
    ) -> None:
        self._place = place
        self._splits = tuple(splits)
        self._lease = lease
        self.schema = schema
        self.as_of = as_of

    def splits(self) -> tuple[SnapshotSplit, ...]:
        """Shares of the rows, which pickle: a worker needs ``read_split`` and long-term storage."""
        return self._splits

    async def batches(self) -> AsyncIterator[pyarrow.RecordBatch]:
        """Yield all rows, some at a time, in constant memory.

        Raises:
            CorruptDataError: bytes of a part are not what was written.
            NegativeCountError: more copies of a row went than came, and diffs are not shown.
            ChunkNotFoundError: a part was collected, 15 minutes or more after it was replaced.
            ChunkError: long-term storage did not answer.
        """
        for split in self._splits:
            if self._lease is not None:
                self._lease.check()
            rows = split.read(self._place.read)
            while True:
                batch = await self._place.work(_next_of(rows))
                if batch is None:
                    break
                yield batch

    async def to_arrow(self) -> pyarrow.Table:
        """All rows as one table. Raises what ``batches`` does."""
        found = [batch async for batch in self.batches()]
        return pyarrow.Table.from_batches(found, schema=self.schema)

    async def to_pandas(self) -> pandas.DataFrame:
        """All rows as a data frame of pandas. Raises what ``batches`` does."""
        return (await self.to_arrow()).to_pandas()

    async def close(self) -> None:
        """Hold nothing any more. Idempotent."""
        if self._lease is not None:
            await self._lease.close()

    async def __aenter__(self) -> AsyncCollectionSnapshot:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _next_of(rows: Iterator[Any]) -> Callable[[], Any]:
    return lambda: next(rows, None)
