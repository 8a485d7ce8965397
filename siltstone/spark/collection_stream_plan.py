"""Where the batches of a stream of a collection end, and the tasks of each.

Spark often makes a reader that plans nothing, so ``collection_stream`` loads this when it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from pyspark.sql.types import StructType

from siltstone.collections.async_bookmark_reader import AsyncBookmarkReader
from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_collections import AsyncCollections, open_async_collections
from siltstone.collections.read_times import chosen_time, time_before
from siltstone.collections.rows.row_schema import DIFF, TIME
from siltstone.collections.splits import CollectionSplit
from siltstone.collections.step_ends import StepLimits
from siltstone.core.errors import (
    BookmarkFencedError,
    CollectionDroppedError,
    CollectionError,
    CollectionNotFoundError,
    CollectionSchemaError,
    SinceError,
)
from siltstone.core.records.collection_frontier import DONE, TIME_MAX
from siltstone.core.records.collection_state import CollectionState
from siltstone.spark.collection_offsets import CollectionOffset, fields_of, offset_of
from siltstone.spark.collection_options import BeginsWith, CollectionStreamOptions
from siltstone.spark.collection_reader import check_chosen, stream_schema_of
from siltstone.store.blocking.background_loop import BackgroundLoop

T = TypeVar("T")

_NOTES: Final[dict[type[CollectionError], str]] = {
    SinceError: (
        "what the stream had not read is gone, as its bookmark was moved or removed: begin with a "
        "new checkpoint and another bookmark, at startingTime=snapshot or at a later time"
    ),
    BookmarkFencedError: (
        "another query, or a later start of this one, reads by this bookmark, or it was removed; "
        "each query, and each source of one, needs a bookmark of its own. A restart takes it back"
    ),
    CollectionDroppedError: "its rows are gone: a stream of another collection needs a new "
    "checkpoint",
}


class CollectionStreamPlan:
    """Plans the batches of a stream. From the first question on it has the collection open.

    Args:
        options: of the stream.
        schema: the columns that Spark wants, which a user may have chosen.
    """

    def __init__(self, options: CollectionStreamOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._columns = [field.name for field in schema if field.name not in (TIME, DIFF)]
        self._loop: BackgroundLoop | None = None
        self._collections: AsyncCollections | None = None
        self._reader: AsyncBookmarkReader | None = None
        self._schema_id = 0
        self._target: int | None = None

    def first_offset(self) -> dict[str, Any]:
        """Where a stream without a checkpoint begins now.

        Raises:
            CollectionNotFoundError: there is no such collection.
            SinceError: the time at which it shall begin is gone.
            SettingsError: the collection has no such columns.
            SiltstoneError: whatever opening the collections of a store raises.
        """
        return self._run(None, self._first)

    def next_offset(
        self, start: dict[str, Any], max_bytes: int | None, max_rows: int | None
    ) -> dict[str, Any]:
        """Where the batch ends that begins at ``start``.

        Args:
            start: an offset as this class gives them.
            max_bytes: about how many bytes of encoded rows it has at most; ``None``: no limit.
            max_rows: how many rows it has at most; ``None``: no limit. A time is never cut, nor the
                rows of the first batch.

        Raises:
            CollectionNotFoundError: the checkpoint is one of another collection.
            CollectionDroppedError: the collection was dropped.
            CollectionSchemaError: columns were added since the stream was started.
            SinceError: what was not read is gone.
            BookmarkFencedError: another query reads by the bookmark.
        """
        limits = StepLimits(rows=max_rows, size_bytes=max_bytes)
        begun = offset_of(start)
        return self._run(begun, partial(self._next, begun, limits))

    def stay(self) -> None:
        """Go no further from now on than the collection is complete now.

        Spark asks for it before it says where its checkpoint is. So the bookmark is not looked at:
        it would be made, or taken from another query, where the options say and not where the
        checkpoint is, and in the wrong collection if the checkpoint is of another one.
        """
        with _explained():
            self._target = self._on_loop().run(self._upper())

    def tasks(self, start: dict[str, Any], end: dict[str, Any]) -> tuple[CollectionSplit, ...]:
        """The tasks of a batch; the same changes, whenever it is planned again.

        Raises as ``next_offset``.
        """
        until = offset_of(end)
        begun = _begun(offset_of(start), until)
        return self._run(begun, partial(self._tasks, begun, until))

    def finished(self, end: dict[str, Any]) -> None:
        """Move the bookmark to the end of a batch. Raises ``BookmarkFencedError``."""
        until = offset_of(end)
        self._run(until, partial(self._finished, until))

    def close(self) -> None:
        """Close the collection. The bookmark stays. Repeatable."""
        loop, self._loop = self._loop, None
        reader, self._reader = self._reader, None
        collections, self._collections = self._collections, None
        if loop is None:
            return
        try:
            if reader is not None:
                loop.run(reader.close())
            if collections is not None:
                loop.run(collections.close())
        finally:
            loop.close()

    def _run(
        self,
        start: CollectionOffset | None,
        work: Callable[[AsyncBookmarkReader], Coroutine[Any, Any, T]],
    ) -> T:
        loop = self._on_loop()
        with _explained():
            if self._reader is None:
                self._reader = loop.run(self._opened(start))
            if start is not None:
                _check_same(start, self._reader, self._options.collection)
            return loop.run(work(self._reader))

    def _on_loop(self) -> BackgroundLoop:
        if self._loop is None:
            self._loop = BackgroundLoop("siltstone-stream")
        return self._loop

    async def _collection(self) -> AsyncCollection:
        if self._collections is None:
            self._collections = await open_async_collections(self._options.store)
        return await self._collections.collection(self._options.collection)

    async def _upper(self) -> int:
        upper = (await (await self._collection()).info()).upper
        return DONE if upper is None else upper

    async def _opened(self, start: CollectionOffset | None) -> AsyncBookmarkReader:
        collection = await self._collection()
        if start is not None and start.collection_id != collection.id:
            raise _other_collection(self._options.collection)
        shown = stream_schema_of(self._options, collection.schema)
        check_chosen(self._options.collection, shown, self._schema, always=DIFF)
        reader = await collection.bookmark_readers.take(
            self._options.bookmark, partial(self._bookmarked, start)
        )
        self._schema_id = reader.schema_id
        return reader

    def _bookmarked(self, start: CollectionOffset | None, state: CollectionState) -> int:
        """The time at which a new bookmark begins."""
        frontier = self._begin(state) if start is None else start
        if isinstance(frontier, CollectionOffset):
            frontier = None if frontier.is_first and frontier.first is None else frontier.time
        if frontier is None:
            return chosen_time(state, None) if state.upper else 0
        return time_before(frontier)

    def _begin(self, state: CollectionState) -> int | None:
        """The frontier at which the options say to begin; ``None`` with all rows."""
        if self._options.starting is BeginsWith.SNAPSHOT:
            return None
        if self._options.starting is BeginsWith.LATEST:
            return state.upper
        return int(self._options.starting)

    async def _first(self, reader: AsyncBookmarkReader) -> dict[str, Any]:
        first = self._begin(await reader.refreshed())
        return fields_of(
            CollectionOffset(collection_id=reader.collection_id, time=first or 0, first=first)
        )

    async def _next(
        self, start: CollectionOffset, limits: StepLimits, reader: AsyncBookmarkReader
    ) -> dict[str, Any]:
        if start.is_first and start.first is None:
            end = _end_of_rows(await reader.refreshed(), self._target)
        else:
            end = await reader.step_end(start.time, self._target, limits)
        if self._options.columns is None and reader.schema_id != self._schema_id:
            raise CollectionSchemaError(
                "columns were added while the stream ran: restart the query to show them, or name "
                "those that it needs by the option 'columns'",
                collection=self._options.collection,
            )
        return fields_of(replace(start, time=end))

    async def _tasks(
        self, start: CollectionOffset, until: CollectionOffset, reader: AsyncBookmarkReader
    ) -> tuple[CollectionSplit, ...]:
        if start.time >= until.time:
            return ()
        if start.is_first and start.first is None:
            return await reader.rows(time_before(until.time), self._columns)
        return await reader.changes(start.time, until.time, self._columns)

    async def _finished(self, until: CollectionOffset, reader: AsyncBookmarkReader) -> None:
        await reader.finished(until.time)


def _end_of_rows(state: CollectionState, target: int | None) -> int:
    """Where the first batch ends if it is all rows; 0 as long as there are none."""
    upper = state.upper if target is None else min(state.upper, target)
    if upper in (0, state.upper):
        time = chosen_time(state, None) if upper else -1
        return time + 1 if time < TIME_MAX else DONE
    return upper


def _begun(start: CollectionOffset, until: CollectionOffset) -> CollectionOffset:
    """Where the batch begins that ends at ``until``.

    Spark notes no start of the first batch and asks for it again when that is planned again.
    """
    if not start.is_first:
        return start
    return replace(until, time=until.first or 0)


def _check_same(start: CollectionOffset, reader: AsyncBookmarkReader, name: str) -> None:
    if start.collection_id != reader.collection_id:
        raise _other_collection(name)


def _other_collection(name: str) -> CollectionNotFoundError:
    return CollectionNotFoundError(
        "the checkpoint is one of another collection: the name was given to a new one, or the "
        "option 'collection' was changed; begin with a new checkpoint",
        collection=name,
    )


@contextmanager
def _explained() -> Iterator[None]:
    """Add to an error what to do about it."""
    try:
        yield
    except CollectionError as error:
        if type(error) in _NOTES:
            error.add_note(_NOTES[type(error)])
        raise
