"""One collection, for asyncio: appends, snapshots, subscriptions, bookmarks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow

from siltstone.collections.async_bookmark import AsyncBookmark
from siltstone.collections.async_snapshot import AsyncCollectionSnapshot, splits_at
from siltstone.collections.async_subscription import AsyncSubscription
from siltstone.collections.async_writer import (
    UNNAMED_LEASE_MS,
    AppendResult,
    AsyncCollectionWriter,
    CollectionBatchRows,
)
from siltstone.collections.housekeeping import Housekeeping
from siltstone.collections.place import Place
from siltstone.collections.reader_lease import ReaderLease
from siltstone.collections.rows.input_rows import Rows
from siltstone.collections.rows.row_schema import DIFF, RowSchema, evolved
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.appends import finish
from siltstone.collections.state.bookmarks import set_bookmark
from siltstone.collections.state.frontiers import advance_since
from siltstone.collections.state.refusals import check_open
from siltstone.collections.state.schemas import evolve
from siltstone.collections.stored_schema import row_schema_of
from siltstone.core.errors import ChunkNotFoundError, SinceError
from siltstone.core.records.collection_frontier import DONE
from siltstone.core.records.collection_rows import (
    TOKEN_BYTES,
    Bookmark,
    CollectionReader,
    CollectionWriter,
)
from siltstone.core.records.collection_state import CollectionState, Times


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo:
    """What a collection is at one moment.

    Attributes:
        name: in the catalog.
        id: 16 bytes in hex; it never comes back.
        schema: of its rows.
        key: names of the columns that rows are sorted by.
        since: the lowest time that can be read.
        upper: times below it are complete; ``None`` when the collection is finished.
        times: ``"ms"`` since 1970, or ``"count"`` of appends.
        seqno: how many entries it has had.
        rows: of all parts, those that cancel each other included.
        length: bytes of all parts.
        batches: how many batches there are.
        parts: how many parts they have.
        readers: with a lease.
        writers: whose last sequence is known.
        bookmarks: of the collection.
    """

    name: str
    id: str
    schema: pyarrow.Schema
    key: tuple[str, ...]
    since: int
    upper: int | None
    times: str
    seqno: int
    rows: int
    length: int
    batches: int
    parts: int
    readers: tuple[CollectionReader, ...]
    writers: tuple[CollectionWriter, ...]
    bookmarks: tuple[Bookmark, ...]


class AsyncCollection:
    """A table of rows that changes over time. Made by ``AsyncCollections``; used on its loop.

    Args:
        name: in the catalog, as it was looked up.
        shared: its state.
        place: where it is.
        housekeeping: what its commits make due.
    """

    def __init__(
        self, name: str, shared: SharedState, place: Place, housekeeping: Housekeeping
    ) -> None:
        self.name = name
        self._shared = shared
        self._place = place
        self._housekeeping = housekeeping
        unnamed = f"unnamed-{place.random_u64():016x}"
        self._writer = AsyncCollectionWriter(shared, place, unnamed, lease_ms=UNNAMED_LEASE_MS)
        self._writers = [self._writer]

    def __repr__(self) -> str:
        return f"AsyncCollection({self.name!r})"

    @property
    def id(self) -> bytes:
        """16 bytes, which never come back."""
        return self._shared.id

    @property
    def schema(self) -> RowSchema:
        """The columns as this process last saw them."""
        return row_schema_of(self._shared.state)[1]

    async def append(
        self, rows: Rows = (), *, remove: Rows | None = None, expected_upper: int | None = None
    ) -> AppendResult:
        """Append rows, and take others away, at one time: the present one, or the upper.

        Args:
            rows: a table or record batch of Arrow, a data frame of pandas, or mappings.
            remove: rows to take away, each once; they are not looked for.
            expected_upper: append only if the upper is still this.

        Raises:
            UpperMismatchError: it is not; nothing was appended.
            CollectionSchemaError: rows do not fit the schema; the message names the column.
            CollectionDroppedError: the collection was dropped.
            BackPressureError: there are too many batches, and nothing compacts them.
            OutcomeUnknownError: whether it was appended is not known. A named writer can repeat it.
            ChunkError: long-term storage refused; nothing was appended.
        """
        return await self._writer.append(
            rows, sequence=None, remove=remove, expected_upper=expected_upper
        )

    async def compare_and_append(
        self, updates: Rows, *, expected_upper: int, new_upper: int
    ) -> AppendResult:
        """Append updates with the columns ``_time`` and ``_diff``; complete times below another.

        Args:
            updates: each with a time in ``[expected_upper, new_upper)``.
            expected_upper: what the upper has to be.
            new_upper: what it becomes.

        Raises:
            UpperMismatchError: the upper is another one; nothing was appended.
            UpdateTimeError: a time lies outside, or the range is reversed.
            Exception: what ``append`` raises besides.
        """
        return await self._writer.compare_and_append(
            updates, expected_upper=expected_upper, new_upper=new_upper, sequence=None
        )

    async def finish(self) -> None:
        """Say that no more updates come: the collection is complete for ever."""
        await self._shared.run(finish)

    async def batch(self, rows: Rows, *, remove: Rows | None = None) -> CollectionBatchRows:
        """Upload rows, to be appended by ``append_batches``, here or by another process.

        It can be appended as long as this collection is open, and for the time of a lease after.
        """
        return await self._writer.batch(rows, remove)

    async def append_batches(
        self, batches: Sequence[CollectionBatchRows], *, expected_upper: int | None = None
    ) -> AppendResult:
        """Append what was uploaded, all at one time.

        Raises:
            BatchExpiredError: a batch was appended before, or the lease of its writer ended.
            Exception: what ``append`` raises besides.
        """
        return await self._writer.append_batches(
            batches, sequence=None, expected_upper=expected_upper
        )

    def writer(self, name: str) -> AsyncCollectionWriter:
        """A writer whose appends count once for each sequence, whichever process repeats them."""
        writer = AsyncCollectionWriter(self._shared, self._place, name, lease_ms=0)
        self._writers.append(writer)
        return writer

    async def snapshot(
        self,
        as_of: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        diffs: bool = False,
        lease: bool = False,
        timeout_s: float | None = None,
    ) -> AsyncCollectionSnapshot:
        """Plan a read of all rows at one time.

        Args:
            as_of: the time; the newest complete one if not given, and before the first append no
                rows at no time.
            columns: names of those to show; all if not given.
            diffs: show each row once, with its count as ``_diff``.
            lease: keep the parts until the snapshot is closed; otherwise they stay for 15 minutes
                after they were replaced.
            timeout_s: how long to wait until ``as_of`` is complete; ``None`` for ever.

        Raises:
            SinceError: ``as_of`` is below the since.
            TimeoutError: it was not complete in time.
            CollectionSchemaError: a column is unknown.
        """
        state = await self._shared.refresh()
        check_open(state)
        shown = _shown(row_schema_of(state)[1], columns, diffs=diffs)
        if as_of is None and not state.upper:
            return AsyncCollectionSnapshot(self._place, (), shown, None, None)
        if as_of is None:
            as_of = _newest_time(state)
        elif as_of >= state.upper:
            state = await self._shared.wait_for(lambda state: state.upper > as_of, timeout_s)
        held = None
        if lease:
            held = await ReaderLease.held(self._shared, self._place, as_of)
            state = self._shared.state
        try:
            while True:
                if as_of < state.since:
                    raise SinceError(
                        "history is gone", collection=self.name, as_of=as_of, since=state.since
                    )
                plan = partial(splits_at, state, self._place, as_of, columns=columns, diffs=diffs)
                try:
                    splits = await self._place.work(plan)
                    break
                except ChunkNotFoundError:
                    newer = await self._shared.refresh()
                    if newer.batches is state.batches:
                        raise
                    state = newer
        except BaseException:
            if held is not None:
                await held.close()
            raise
        schema = _shown(row_schema_of(state)[1], columns, diffs=diffs)
        return AsyncCollectionSnapshot(self._place, splits, schema, as_of, held)

    async def listen(
        self, frontier: int | None = None, *, until: int | None = None, lease: bool = True
    ) -> AsyncSubscription:
        """Follow what changes from ``frontier`` on.

        Args:
            frontier: where to begin; the upper, so all that is new, if not given.
            until: a frontier at which to end.
            lease: keep what is not read yet; without one a slow reader may find it gone.

        Raises:
            SinceError: times below ``frontier`` can no longer be told apart from it.
        """
        state = await self._shared.refresh()
        check_open(state)
        start = state.upper if frontier is None else frontier
        needed = max(0, start - 1)
        if needed < state.since:
            raise SinceError(
                "history is gone", collection=self.name, as_of=needed, since=state.since
            )
        held = await ReaderLease.held(self._shared, self._place, needed) if lease else None
        return AsyncSubscription(self._shared, self._place, start, until, held)

    async def subscribe(
        self, as_of: int | None = None, *, until: int | None = None
    ) -> AsyncSubscription:
        """Follow the collection from its rows at ``as_of`` on: the first changes are all of them.

        What came before ``as_of`` comes with that time.

        Args:
            as_of: the first time; the since, so all the history there is, if not given.
            until: a frontier at which to end.

        Raises:
            SinceError: ``as_of`` is below the since.
        """
        state = await self._shared.refresh()
        check_open(state)
        start = state.since if as_of is None else as_of
        held = await ReaderLease.held(self._shared, self._place, start)
        return AsyncSubscription(self._shared, self._place, start, until, held, from_rows=True)

    async def bookmark(self, name: str, *, since: int | None = None) -> AsyncBookmark:
        """Set a bookmark, or take it over: the process that had it can no longer move it.

        Args:
            name: of the bookmark.
            since: where a new one begins, or where one moves to; where it is if not given.

        Raises:
            SinceError: ``since`` is below that of the collection, or of the bookmark.
            CollectionLimitError: there are 256 bookmarks.
        """
        token = self._place.environment.random_bytes(TOKEN_BYTES)

        def take(state: CollectionState, now_ms: int) -> tuple[CollectionState, Bookmark]:
            row = state.bookmarks.get(name)
            expected = None if row is None else row.token
            return set_bookmark(
                state,
                now_ms,
                name=name,
                expected=expected,
                token=token,
                since=since,
                who=self._place.who,
            )

        row = await self._shared.run(take)
        return AsyncBookmark(self._shared, self._place, row)

    async def advance_since(self, to: int) -> int:
        """Let history below ``to`` go; return the since.

        Raises:
            SinceHeldError: a reader, a bookmark or the upper is in the way.
        """
        return await self._shared.run(partial(advance_since, to=to))

    async def evolve(self, schema: pyarrow.Schema) -> None:
        """Add nullable columns; rows from before show nulls in them.

        Raises:
            CollectionSchemaError: the schema changes or drops a column, or another one came.
        """
        await self._shared.refresh()
        schema_id, known = row_schema_of(self._shared.state)
        wanted = evolved(known, schema)
        await self._shared.run(
            partial(
                evolve,
                expected=schema_id,
                arrow=wanted.to_bytes(),
                check_compatible=lambda old, new: None,
            )
        )

    async def info(self) -> CollectionInfo:
        """What the collection is at this moment."""
        state = await self._shared.refresh()
        schema = row_schema_of(state)[1]
        return CollectionInfo(
            name=self.name,
            id=state.id.hex(),
            schema=schema.arrow,
            key=tuple(schema.key),
            since=state.since,
            upper=None if state.upper == DONE else state.upper,
            times="ms" if state.times is Times.MILLISECONDS else "count",
            seqno=state.seqno,
            rows=sum(batch.rows for batch in state.batches.items),
            length=sum(batch.length for batch in state.batches.items),
            batches=len(state.batches.items),
            parts=state.batches.part_count,
            readers=tuple(state.readers.values()),
            writers=tuple(state.writers.values()),
            bookmarks=tuple(state.bookmarks.values()),
        )

    async def compact(self) -> None:
        """Merge all batches into one, up to the since, and wait for it."""
        await self._housekeeping.compact_whole()

    async def collect(self) -> int:
        """Delete what nothing needs any more; return how many objects that were.

        Parts stay for 15 minutes after they were replaced, and as long as readers hold them.
        """
        return await self._housekeeping.collect()

    async def sweep(self) -> int:
        """Delete what died processes left; return how many objects that were."""
        return await self._housekeeping.sweep()

    async def close(self) -> None:
        """End what this handle began. What was appended stays. Idempotent."""
        await asyncio.gather(*(writer.close() for writer in self._writers))


def _newest_time(state: CollectionState) -> int:
    if state.upper == DONE:
        last = max((batch.lower for batch in state.batches.items), default=0)
        times = [part.time_max for batch in state.batches.items for part in batch.parts()]
        return max([last, *times])
    return state.upper - 1


def _shown(schema: RowSchema, columns: Sequence[str] | None, *, diffs: bool) -> pyarrow.Schema:
    names = schema.arrow.names if columns is None else columns
    fields: list[Any] = [schema.arrow.field(name) for name in names]
    if diffs:
        fields.append(pyarrow.field(DIFF, pyarrow.int64(), nullable=False))
    return pyarrow.schema(fields)
