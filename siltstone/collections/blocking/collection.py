"""One collection for blocking callers, on any thread. Verbs are those of the class for asyncio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow

from siltstone.core.closed_on_exit import Closing
from siltstone.core.errors import ClosedError
from siltstone.store.blocking.background_loop import BackgroundLoop

if TYPE_CHECKING:
    import pandas

    from siltstone.collections.async_bookmark import AsyncBookmark
    from siltstone.collections.async_collection import AsyncCollection
    from siltstone.collections.async_snapshot import AsyncCollectionSnapshot
    from siltstone.collections.async_subscription import AsyncSubscription, Changes
    from siltstone.collections.async_writer import (
        AppendResult,
        AsyncCollectionWriter,
        CollectionBatchRows,
    )
    from siltstone.collections.collection_info import CollectionInfo
    from siltstone.collections.compaction import ShareDone
    from siltstone.collections.entry_view import CollectionEntry
    from siltstone.collections.row_imports import CollectionImport
    from siltstone.collections.rows.input_rows import Rows
    from siltstone.collections.snapshot_files import SnapshotFiles
    from siltstone.collections.sources.table_source import Note, TableSource
    from siltstone.collections.splits import CollectionSplit
    from siltstone.collections.upload_ticket import UploadTicket


class CollectionSnapshot(Closing):
    """The rows of a collection at one time. See ``AsyncCollectionSnapshot``."""

    def __init__(self, loop: BackgroundLoop, snapshot: AsyncCollectionSnapshot) -> None:
        self._loop = loop
        self._snapshot = snapshot

    @property
    def as_of(self) -> int | None:
        """The time; ``None`` where nothing was appended yet."""
        return self._snapshot.as_of

    @property
    def schema(self) -> pyarrow.Schema:
        """Schema of the rows."""
        return self._snapshot.schema

    def splits(self) -> tuple[CollectionSplit, ...]:
        """Shares of the rows, which pickle."""
        return self._snapshot.splits()

    def files(self) -> SnapshotFiles:
        """What the snapshot shows as files of Parquet. See ``AsyncCollectionSnapshot.files``."""
        return self._loop.run(self._snapshot.files())

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield all rows, some at a time, in constant memory."""
        yield from self._loop.iterate(self._snapshot.batches, batch=1)

    def to_arrow(self) -> pyarrow.Table:
        """All rows as one table."""
        return self._loop.run(self._snapshot.to_arrow())

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a data frame of pandas."""
        return self._loop.run(self._snapshot.to_pandas())

    def close(self) -> None:
        """Hold nothing any more. Idempotent."""
        with suppress(ClosedError):  # What it held ended with the collections.
            self._loop.run(self._snapshot.close())


class Subscription(Closing):
    """What changes in a collection, in the order of times. See ``AsyncSubscription``."""

    def __init__(self, loop: BackgroundLoop, subscription: AsyncSubscription) -> None:
        self._loop = loop
        self._subscription = subscription

    @property
    def frontier(self) -> int:
        """Where the next changes begin."""
        return self._subscription.frontier

    def __iter__(self) -> Iterator[Changes]:
        return self

    def __next__(self) -> Changes:
        changes = self._loop.run(_next(self._subscription))
        if changes is None:
            raise StopIteration
        return changes

    def close(self) -> None:
        """Hold nothing any more. Idempotent."""
        with suppress(ClosedError):  # What it held ended with the collections.
            self._loop.run(self._subscription.close())


async def _next(subscription: AsyncSubscription) -> Changes | None:
    return await anext(subscription, None)


class CollectionBookmark:
    """A bookmark that this process may move. See ``AsyncBookmark``."""

    def __init__(self, loop: BackgroundLoop, bookmark: AsyncBookmark) -> None:
        self._loop = loop
        self._bookmark = bookmark

    @property
    def name(self) -> str:
        """Its name in the collection."""
        return self._bookmark.name

    @property
    def since(self) -> int:
        """The time from which on history stays."""
        return self._bookmark.since

    @property
    def token(self) -> bytes:
        """16 bytes, by which it is moved."""
        return self._bookmark.token

    def advance(self, to: int) -> None:
        """Let history below ``to`` go."""
        self._loop.run(self._bookmark.advance(to))

    def remove(self) -> None:
        """End the promise."""
        self._loop.run(self._bookmark.remove())


class CollectionWriter:
    """Appends under one name, exactly once. See ``AsyncCollectionWriter``."""

    def __init__(self, loop: BackgroundLoop, writer: AsyncCollectionWriter) -> None:
        self._loop = loop
        self._writer = writer

    @property
    def name(self) -> str:
        """The name, the same in each process that continues its work."""
        return self._writer.name

    @property
    def sequence(self) -> int:
        """The last sequence that this process knows of; -1 before the first append."""
        return self._writer.sequence

    def append(
        self,
        rows: Rows = (),
        *,
        sequence: int,
        remove: Rows | None = None,
        expected_upper: int | None = None,
    ) -> AppendResult:
        """Append rows; a repeat of the sequence returns what the first call returned."""
        return self._loop.run(
            self._writer.append(
                rows, sequence=sequence, remove=remove, expected_upper=expected_upper
            )
        )

    def compare_and_append(
        self, updates: Rows, *, expected_upper: int, new_upper: int, sequence: int
    ) -> AppendResult:
        """Append updates with their own times."""
        return self._loop.run(
            self._writer.compare_and_append(
                updates, expected_upper=expected_upper, new_upper=new_upper, sequence=sequence
            )
        )

    def append_batches(
        self,
        batches: Sequence[CollectionBatchRows],
        *,
        sequence: int,
        expected_upper: int | None = None,
    ) -> AppendResult:
        """Append what was uploaded, by any process."""
        return self._loop.run(
            self._writer.append_batches(batches, sequence=sequence, expected_upper=expected_upper)
        )


class Collection:
    """A table of rows that changes over time. See ``AsyncCollection``."""

    def __init__(self, loop: BackgroundLoop, collection: AsyncCollection) -> None:
        self._loop = loop
        self._collection = collection

    def __repr__(self) -> str:
        return f"Collection({self.name!r})"

    @property
    def name(self) -> str:
        """Its name, as it was looked up."""
        return self._collection.name

    @property
    def id(self) -> bytes:
        """16 bytes, which never come back."""
        return self._collection.id

    @property
    def schema(self) -> pyarrow.Schema:
        """The columns as this process last saw them."""
        return self._collection.schema

    def append(
        self, rows: Rows = (), *, remove: Rows | None = None, expected_upper: int | None = None
    ) -> AppendResult:
        """Append rows, and take others away, at one time."""
        return self._loop.run(
            self._collection.append(rows, remove=remove, expected_upper=expected_upper)
        )

    def compare_and_append(
        self, updates: Rows, *, expected_upper: int, new_upper: int
    ) -> AppendResult:
        """Append updates with the columns ``_time`` and ``_diff``."""
        return self._loop.run(
            self._collection.compare_and_append(
                updates, expected_upper=expected_upper, new_upper=new_upper
            )
        )

    def finish(self) -> None:
        """Say that no more updates come."""
        self._loop.run(self._collection.finish())

    def upgrade(self) -> int:
        """Raise the format to the newest that this release writes; return it."""
        return self._loop.run(self._collection.upgrade())

    def batch(self, rows: Rows, *, remove: Rows | None = None) -> CollectionBatchRows:
        """Upload rows, to be appended later, here or elsewhere."""
        return self._loop.run(self._collection.batch(rows, remove=remove))

    def append_batches(
        self, batches: Sequence[CollectionBatchRows], *, expected_upper: int | None = None
    ) -> AppendResult:
        """Append what was uploaded, all at one time."""
        return self._loop.run(
            self._collection.append_batches(batches, expected_upper=expected_upper)
        )

    def import_rows(
        self,
        source: TableSource,
        *,
        time: int | None = None,
        writer: str | None = None,
        sequence: int | None = None,
        progress: Note | None = None,
        dry_run: bool = False,
    ) -> CollectionImport:
        """Append all rows of a table elsewhere at one time. See ``AsyncCollection.import_rows``."""
        return self._loop.run(
            self._collection.import_rows(
                source,
                time=time,
                writer=writer,
                sequence=sequence,
                progress=progress,
                dry_run=dry_run,
            )
        )

    def upload_ticket(self) -> UploadTicket:
        """Let processes upload that have no collection open. See ``UploadTickets.lend``."""
        return self._loop.run(self._collection.tickets.lend())

    def end_ticket(self, ticket: UploadTicket) -> None:
        """Take a ticket back. See ``UploadTickets.end``."""
        self._loop.run(self._collection.tickets.end(ticket))

    def writer(self, name: str) -> CollectionWriter:
        """A writer whose appends count once for each sequence."""
        return CollectionWriter(self._loop, self._collection.writer(name))

    def snapshot(
        self,
        as_of: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        diffs: bool = False,
        lease: bool = False,
        timeout_s: float | None = None,
    ) -> CollectionSnapshot:
        """Plan a read of all rows at one time."""
        snapshot = self._loop.run(
            self._collection.snapshot(
                as_of, columns=columns, diffs=diffs, lease=lease, timeout_s=timeout_s
            )
        )
        return CollectionSnapshot(self._loop, snapshot)

    def listen(
        self, frontier: int | None = None, *, until: int | None = None, lease: bool = True
    ) -> Subscription:
        """Follow what changes from ``frontier`` on; from now on if not given."""
        made = self._loop.run(self._collection.listen(frontier, until=until, lease=lease))
        return Subscription(self._loop, made)

    def subscribe(self, as_of: int | None = None, *, until: int | None = None) -> Subscription:
        """Follow the collection from its rows at ``as_of`` on."""
        made = self._loop.run(self._collection.subscribe(as_of, until=until))
        return Subscription(self._loop, made)

    def bookmark(self, name: str, *, since: int | None = None) -> CollectionBookmark:
        """Set a bookmark, or take it over."""
        made = self._loop.run(self._collection.bookmark(name, since=since))
        return CollectionBookmark(self._loop, made)

    def advance_since(self, to: int, *, dry_run: bool = False) -> int:
        """Let history below ``to`` go; return the since, or with ``dry_run`` what it would be."""
        return self._loop.run(self._collection.advance_since(to, dry_run=dry_run))

    def evolve(self, schema: pyarrow.Schema) -> None:
        """Add nullable columns."""
        self._loop.run(self._collection.evolve(schema))

    def info(self) -> CollectionInfo:
        """What the collection is at this moment."""
        return self._loop.run(self._collection.info())

    def compact(self, *, progress: ShareDone | None = None) -> None:
        """Merge all batches into one."""
        self._loop.run(self._collection.compact(progress=progress))

    def collect(self, *, dry_run: bool = False) -> int:
        """Delete what nothing needs any more."""
        return self._loop.run(self._collection.collect(dry_run=dry_run))

    def sweep(self) -> int:
        """Delete what died processes left."""
        return self._loop.run(self._collection.sweep())

    def entries(self) -> list[CollectionEntry]:
        """The changes of its state that are kept, the oldest first. For people."""
        return self._loop.run(self._collection.entries())

    def forget_writer(self, name: str) -> bool:
        """Forget a writer and its last sequence; return whether there was one."""
        return self._loop.run(self._collection.forget_writer(name))
