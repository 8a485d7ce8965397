"""One collection, for asyncio: appends, snapshots, subscriptions, bookmarks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import pyarrow

from siltstone.collections.async_bookmark import AsyncBookmark
from siltstone.collections.async_bookmark_reader import BookmarkReaders
from siltstone.collections.async_snapshot import AsyncCollectionSnapshot, Shown, planned
from siltstone.collections.async_subscription import AsyncSubscription
from siltstone.collections.async_writer import (
    AppendResult,
    AsyncCollectionWriter,
    CollectionBatchRows,
)
from siltstone.collections.collection_info import CollectionInfo, info_of
from siltstone.collections.compaction import ShareDone
from siltstone.collections.entry_view import CollectionEntry
from siltstone.collections.housekeeping import Housekeeping
from siltstone.collections.import_plan import import_wish
from siltstone.collections.large_merge import LargeMerges
from siltstone.collections.place import CollectionPlace
from siltstone.collections.read_times import (
    checked_frontier,
    checked_time,
    chosen_time,
    reaches,
    time_before,
)
from siltstone.collections.reader_lease import ReaderLease
from siltstone.collections.row_imports import CollectionImport, RowImports
from siltstone.collections.rows.input_rows import Rows
from siltstone.collections.rows.row_schema import evolved
from siltstone.collections.rows.snapshot import SnapshotSplit
from siltstone.collections.sources.table_source import Note, TableSource
from siltstone.collections.state.appends import finish
from siltstone.collections.state.bookmarks import set_bookmark
from siltstone.collections.state.frontiers import advance_since
from siltstone.collections.state.lives import upgrade
from siltstone.collections.state.refusals import check_kept, check_open
from siltstone.collections.state.schemas import evolve
from siltstone.collections.state.writers import leave_writer
from siltstone.collections.stored_schema import row_schema_of
from siltstone.collections.upload_ticket import UploadTickets
from siltstone.core.errors import SiltstoneError
from siltstone.core.records.collection_frontier import DONE
from siltstone.core.records.collection_rows import TOKEN_BYTES, Bookmark
from siltstone.core.records.collection_state import FORMAT, CollectionState


class AsyncCollection:
    """A table of rows that changes over time. Made by ``AsyncCollections``; used on its loop.

    Args:
        name: in the catalog, as it was looked up.
        place: where it is.
        housekeeping: its state, and what commits make due.
    """

    def __init__(self, name: str, place: CollectionPlace, housekeeping: Housekeeping) -> None:
        self.name = name
        self._shared = housekeeping.shared
        self._place = place
        self._housekeeping = housekeeping
        self._writer = self._writer_of(None)
        self._leases: list[ReaderLease] = []
        self.tickets = UploadTickets(self._shared, place)
        self.bookmark_readers = BookmarkReaders(self._shared, place)
        self.large_merges = LargeMerges(self._shared, place)
        self.imports = RowImports(self._shared, place, housekeeping.uploads, self.writer)

    def __repr__(self) -> str:
        return f"AsyncCollection({self.name!r})"

    @property
    def id(self) -> bytes:
        """16 bytes, which never come back."""
        return self._shared.id

    @property
    def schema(self) -> pyarrow.Schema:
        """The columns as this process last saw them."""
        return row_schema_of(self._shared.state)[1].arrow

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

    async def import_rows(
        self,
        source: TableSource,
        *,
        time: int | None = None,
        writer: str | None = None,
        sequence: int | None = None,
        progress: Note | None = None,
        dry_run: bool = False,
    ) -> CollectionImport:
        """Append all rows of a table elsewhere at one time. A repeat appends nothing.

        Args:
            source: by ``table_source``.
            time: of the rows, from the upper on; the present one, or the upper, if not given.
            writer: appends once under this name; one of this content of the source if not given.
            sequence: of this import, where a writer is given.
            progress: told how many bytes of the source were read, again and again; on any thread.
            dry_run: look only at what is looked at before rows are read; needs no right to write.

        Raises:
            CollectionSourceError: the source is damaged, or changed meanwhile; or other content of
                it was imported before.
            UpdateTimeError: ``time`` is below the upper.
            CollectionSequenceError: the writer has appended with a higher sequence.
            UpperMismatchError: it is by now: others appended. Nothing was imported.
            Exception: what ``append`` raises besides.
        """
        wish = import_wish(source, time=time, writer=writer, sequence=sequence)
        return await self.imports.run(source, wish, progress=progress, dry_run=dry_run)

    def writer(self, name: str) -> AsyncCollectionWriter:
        """A writer whose appends count once for each sequence, whichever process repeats them.

        Its last sequence is known for ever.
        """
        return self._writer_of(name)

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
            diffs: show counts as ``_diff``. A row may come several times; its counts add up.
            lease: keep the parts until the snapshot is closed; otherwise they stay for 15 minutes
                after they were replaced.
            timeout_s: how long to wait until ``as_of`` is complete; ``None`` for ever.

        Raises:
            SinceError: ``as_of`` is below the since.
            TimeoutError: it was not complete in time.
            CollectionSchemaError: a column is unknown.
            CollectionDroppedError: the collection was dropped.
            ValueError: ``as_of`` is no time.
        """
        as_of = None if as_of is None else checked_time(as_of)
        shown = Shown(columns=None if columns is None else tuple(columns), diffs=diffs)
        state = await self._shared.refresh()
        check_open(state)
        shown = shown.in_columns_of(state)
        if as_of is None and not state.upper:
            return self._snapshot_of(state, [], shown, None, None)
        if as_of is not None and as_of >= state.upper:
            state = await self._shared.wait_for(reaches(as_of), timeout_s)
            check_open(state)
        held = None
        if lease:
            held = await self._held(lambda state: chosen_time(state, as_of), reads=True)
            state = self._shared.state
        try:
            time = chosen_time(state, as_of) if held is None else held.since
            state, splits = await planned(self._shared, self._place, state, time, shown, held)
        except BaseException:
            if held is not None:
                await held.close()
            raise
        return self._snapshot_of(state, splits, shown, time, held)

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
            CollectionDroppedError: the collection was dropped.
            ValueError: ``frontier`` is none.
        """
        frontier = None if frontier is None else checked_frontier(frontier)
        state = await self._shared.refresh()
        check_open(state)
        start = state.upper if frontier is None else frontier
        if not lease or start == DONE:  # Nothing follows that.
            check_kept(state, time_before(start), self.name)
            return AsyncSubscription(self._shared, self._place, start, until, None)

        def needed(newer: CollectionState) -> int:
            nonlocal start
            start = newer.upper if frontier is None else frontier
            return time_before(start)

        held = await self._held(needed, reads=False)
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
            CollectionDroppedError: the collection was dropped.
            ValueError: ``as_of`` is no time.
        """
        as_of = None if as_of is None else checked_time(as_of)
        held = await self._held(lambda state: state.since if as_of is None else as_of, reads=False)
        return AsyncSubscription(self._shared, self._place, held.since, until, held, from_rows=True)

    async def bookmark(self, name: str, *, since: int | None = None) -> AsyncBookmark:
        """Set a bookmark, or take it over: the process that had it can no longer move it.

        Args:
            name: of the bookmark.
            since: where a new one begins, or where one moves to; where it is if not given.

        Raises:
            SinceError: ``since`` is below that of the collection, or of the bookmark.
            CollectionLimitError: there are 256 bookmarks.
        """
        since = None if since is None else checked_frontier(since)
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

    async def advance_since(self, to: int, *, dry_run: bool = False) -> int:
        """Let history below ``to`` go; return the since, or with ``dry_run`` what it would be.

        Raises:
            SinceHeldError: a reader, a bookmark or the upper is in the way.
        """
        command = partial(advance_since, to=checked_frontier(to))
        if dry_run:
            return command(await self._shared.refresh(), self._place.now_ms())[1]
        return await self._shared.run(command)

    async def evolve(self, schema: pyarrow.Schema) -> None:
        """Add nullable columns; rows from before show nulls in them.

        Raises:
            CollectionSchemaError: the schema changes or drops a column, or another one came.
        """
        await self._shared.refresh()
        schema_id, known = row_schema_of(self._shared.state)
        wanted = evolved(known, schema)
        await self._shared.run(partial(evolve, expected=schema_id, arrow=wanted.to_bytes()))

    async def upgrade(self) -> int:
        """Raise the format to the newest that this release writes; return it. May be repeated.

        Older releases refuse the collection from then on. Nothing else raises it.
        """
        await self._shared.run(partial(upgrade, format_number=FORMAT))
        return self._shared.state.format

    async def info(self) -> CollectionInfo:
        """What the collection is at this moment. Raises ``CollectionDroppedError``."""
        state = await self._shared.refresh()
        check_open(state)
        return info_of(self.name, state)

    async def compact(self, *, progress: ShareDone | None = None) -> None:
        """Merge all batches into one, up to the since, and wait for it.

        Args:
            progress: told how much of the rows was merged, from 0 to 1; on any thread.

        Raises:
            ConditionFailedError: others compact all the time.
            CollectionDroppedError: the collection was dropped.
        """
        await self._housekeeping.compact_whole(progress)

    async def collect(self, *, dry_run: bool = False) -> int:
        """Delete what nothing needs any more; return how many objects of rows that were.

        Parts stay for 15 minutes after they were replaced, and as long as readers hold them.

        Args:
            dry_run: only count them.
        """
        return await self._housekeeping.collect(dry_run=dry_run)

    async def sweep(self) -> int:
        """Delete what died processes left; return how many objects that were."""
        return await self._housekeeping.sweep()

    async def entries(self) -> list[CollectionEntry]:
        """The changes of its state that are kept, the oldest first. For people."""
        return await self._housekeeping.entries()

    async def forget_writer(self, name: str) -> bool:
        """Forget a writer and its last sequence; return whether there was one.

        A repeat of its last append would append again.
        """
        there = name in (await self._shared.refresh()).writers
        await self._shared.run(partial(leave_writer, name=name))
        return there

    async def settle(self) -> None:
        """Wait for what appends made due; see ``AsyncCollections.settle``."""
        if self._writer.name in self._shared.state.writers:
            with suppress(SiltstoneError):  # It ends with its lease.
                await self._shared.run(partial(leave_writer, name=self._writer.name))
        await self._housekeeping.settle()

    async def close(self) -> None:
        """End the leases of this handle. What was appended stays. Idempotent."""
        leases, self._leases = self._leases, []
        await asyncio.gather(*(lease.close() for lease in leases))

    def _writer_of(self, name: str | None) -> AsyncCollectionWriter:
        return AsyncCollectionWriter(
            self._shared,
            self._place,
            self._housekeeping.uploads,
            name,
            self._housekeeping.compact_due,
        )

    async def _held(self, since: Callable[[CollectionState], int], *, reads: bool) -> ReaderLease:
        self._leases = [lease for lease in self._leases if not lease.is_closed]
        held = await ReaderLease.held(self._shared, self._place, since, reads=reads)
        self._leases.append(held)
        return held

    def _snapshot_of(
        self,
        state: CollectionState,
        splits: Sequence[SnapshotSplit],
        shown: Shown,
        as_of: int | None,
        held: ReaderLease | None,
    ) -> AsyncCollectionSnapshot:
        return AsyncCollectionSnapshot(self._shared, self._place, state, splits, shown, as_of, held)
