"""Reads of a collection in steps that the caller notes, as streams of Spark do."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from siltstone.collections.async_bookmark import AsyncBookmark
from siltstone.collections.async_snapshot import Shown, planned
from siltstone.collections.missing_parts import PLANS_MAX, state_without, too_slow
from siltstone.collections.part_objects import pieces_of
from siltstone.collections.place import CollectionPlace
from siltstone.collections.read_times import time_before
from siltstone.collections.reader_lease import ReaderLease
from siltstone.collections.rows.changes import ChangeShare, RowsShare, plan_changes
from siltstone.collections.shared_state import SharedState
from siltstone.collections.splits import CollectionSplit
from siltstone.collections.state.bookmarks import set_bookmark
from siltstone.collections.state.refusals import check_kept, check_open, name_of
from siltstone.collections.state.schemas import newest_schema
from siltstone.collections.step_ends import StepLimits, step_end
from siltstone.collections.stored_schema import schemas_of
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.errors import (
    BookmarkFencedError,
    ChunkNotFoundError,
    LeaseExpiredError,
)
from siltstone.core.records.collection_frontier import DONE
from siltstone.core.records.collection_rows import TOKEN_BYTES, Bookmark
from siltstone.core.records.collection_state import CollectionState

T = TypeVar("T")


class BookmarkReaders:
    """Readers by bookmarks of one collection. Used on one loop.

    Args:
        shared: the collection.
        place: where it is.
    """

    def __init__(self, shared: SharedState, place: CollectionPlace) -> None:
        self._shared = shared
        self._place = place

    async def take(self, name: str, since: Callable[[CollectionState], int]) -> AsyncBookmarkReader:
        """Take a bookmark over where it is, or make it; who had it can no longer read by it.

        Args:
            name: of the bookmark.
            since: chooses the time at which a new one begins, by the state in which it is made.

        Raises:
            SinceError: that time is below the since of the collection.
            CollectionLimitError: there are 256 bookmarks, or 1,000 readers.
            CollectionDroppedError: the collection was dropped.
            ChunkError: long-term storage did not answer.
        """
        token = self._place.environment.random_bytes(TOKEN_BYTES)

        def taken(state: CollectionState, now_ms: int) -> tuple[CollectionState, Bookmark]:
            row = state.bookmarks.get(name)
            if row is None:
                check_kept(state, since(state))
            return set_bookmark(
                state,
                now_ms,
                name=name,
                expected=None if row is None else row.token,
                token=token,
                since=since(state) if row is None else None,
                who=self._place.who,
            )

        row = await self._shared.run(taken)
        lease = await _parts_held(self._shared, self._place, name)
        return AsyncBookmarkReader(self._shared, self._place, row, lease)


class AsyncBookmarkReader(AsyncClosing):
    """Reads steps that begin at any time that is still kept. Made by ``BookmarkReaders.take``.

    The bookmark keeps times, also while no process lives; a lease keeps the parts of the step that
    was planned last.

    Args:
        shared: the collection.
        place: where it is.
        row: of the bookmark, as this process has taken it.
        lease: keeps parts, and no times.
    """

    def __init__(
        self, shared: SharedState, place: CollectionPlace, row: Bookmark, lease: ReaderLease
    ) -> None:
        self._shared = shared
        self._place = place
        self._bookmark = AsyncBookmark(shared, place, row)
        self._lease = lease

    @property
    def collection_id(self) -> bytes:
        """16 bytes."""
        return self._shared.id

    @property
    def schema_id(self) -> int:
        """Id of the newest schema, as this process last saw the collection."""
        return newest_schema(self._shared.state).schema_id

    async def refreshed(self) -> CollectionState:
        """The newest state.

        Raises:
            BookmarkFencedError: another process has taken the bookmark over, or it was removed.
            CollectionDroppedError: the collection was dropped.
            ChunkError: long-term storage did not answer.
        """
        state = await self._shared.refresh()
        check_open(state)
        name = self._bookmark.name
        row = state.bookmarks.get(name)
        actual = None if row is None else row.token
        if actual != self._bookmark.token:
            raise BookmarkFencedError(collection=name_of(state), bookmark=name, actual=actual)
        return state

    async def step_end(self, start: int, target: int | None, limits: StepLimits) -> int:
        """Where a step ends now that begins at the frontier ``start``; there, if nothing is new.

        Args:
            start: a frontier.
            target: the step ends there at the latest; ``None`` means at the upper.
            limits: of the step.

        Raises:
            SinceError: times below ``start`` can no longer be told apart from it.
            LostDataError: a part is gone that the collection needs.
            Exception: what ``refreshed`` raises.
        """

        async def ended(state: CollectionState) -> int:
            check_kept(state, time_before(start))
            most = state.upper if target is None else min(state.upper, target)
            read = self._place.read
            return await self._place.work(partial(step_end, state, start, most, limits, read))

        try:
            return await self._held(ended)
        finally:
            self._lease.rest()

    async def changes(
        self, start: int, end: int, columns: Sequence[str] | None
    ) -> tuple[CollectionSplit, ...]:
        """Shares of the updates in ``[start, end)``, which stay until the next step is looked for.

        They come to the same whenever they are planned: updates that cancel may be left out.

        Raises:
            CollectionSchemaError: a column is unknown.
            Exception: what ``step_end`` raises.
        """

        async def shares(state: CollectionState) -> list[ChangeShare]:
            check_kept(state, time_before(start))
            Shown(columns=None if columns is None else tuple(columns)).arrow(state)
            found = [
                batch for batch in state.batches.items if batch.upper > start and batch.lower < end
            ]
            return plan_changes(
                pieces_of(state.id, found),
                schemas_of(state),
                newest_schema(state).schema_id,
                start=start,
                end=end,
                columns=columns,
            )

        return self._splits(await self._held(shares))

    async def rows(self, as_of: int, columns: Sequence[str] | None) -> tuple[CollectionSplit, ...]:
        """Shares of all rows at a time, as updates of that time. Raises as ``changes``."""
        shown = Shown(columns=None if columns is None else tuple(columns), diffs=True)

        async def shares(state: CollectionState) -> list[RowsShare]:
            check_kept(state, as_of)
            _, splits = await planned(self._shared, self._place, state, as_of, shown, self._lease)
            return [RowsShare(split=split) for split in splits]

        return self._splits(await self._held(shares))

    async def finished(self, end: int) -> None:
        """Let history go that only steps before ``end`` needed. May be repeated.

        Raises:
            BookmarkFencedError: another process has taken the bookmark over, or it was removed.
            ChunkError: long-term storage did not answer.
        """
        since = DONE if end == DONE else time_before(end)
        if since > self._bookmark.since:
            await self._bookmark.advance(since)

    async def close(self) -> None:
        """Hold no part any more. The bookmark stays. Idempotent."""
        await self._lease.close()

    async def _held(self, plan: Callable[[CollectionState], Awaitable[T]]) -> T:
        """Plan by the newest state, whose parts are held from now on."""
        for _ in range(PLANS_MAX):
            state = await self.refreshed()
            try:
                self._lease.check()
            except LeaseExpiredError:  # This process was paused. Nothing of the plan rests on it.
                await self._lease.close()
                self._lease = await _parts_held(self._shared, self._place, self._bookmark.name)
                state = self._shared.state
            self._lease.begin(state)
            try:
                return await plan(state)
            except ChunkNotFoundError as error:
                await state_without(self._shared, error, self._lease)
        raise too_slow(self._shared.state)

    def _splits(self, shares: Iterable[ChangeShare | RowsShare]) -> tuple[CollectionSplit, ...]:
        return tuple(
            CollectionSplit(
                store_id=self._place.store_id, collection_id=self._shared.id, share=share
            )
            for share in shares
        )


async def _parts_held(shared: SharedState, place: CollectionPlace, name: str) -> ReaderLease:
    """Hold parts, and no times, by the one row that all readers by a bookmark have.

    Spark kills the process that plans a stream when the query ends, so its row stays until its
    lease ends; the next start goes on with it.
    """
    digest = hashlib.blake2b(name.encode("utf-8"), digest_size=8).digest()
    reader_id = max(1, int.from_bytes(digest, "big"))
    return await ReaderLease.held(
        shared, place, lambda state: DONE, reads=False, reader_id=reader_id
    )
