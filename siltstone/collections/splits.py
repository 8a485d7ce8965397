"""Shares of a snapshot or of changes, which any process reads that can reach long-term storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow

from siltstone.collections.place import read_object
from siltstone.collections.rows.changes import ChangeShare, RowsShare
from siltstone.collections.rows.snapshot import SnapshotSplit
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkNotFoundError, LeaseExpiredError
from siltstone.core.text import uuid_text
from siltstone.store.manifest import check_not_left
from siltstone.store.worker_store import worker_store


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSplit:
    """A share of the rows of a snapshot, or of changes. It pickles; ``read_split`` reads it.

    Attributes:
        store_id: of the store, 16 bytes.
        collection_id: 16 bytes.
        share: what is read.
    """

    store_id: bytes
    collection_id: bytes
    share: SnapshotSplit | ChangeShare | RowsShare

    @property
    def arrow_schema(self) -> pyarrow.Schema:
        """Schema of the record batches."""
        return self.share.arrow_schema


def read_split(path: Path | str, split: CollectionSplit) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a split, some at a time, in any process; nothing is claimed or opened.

    Args:
        path: of the settings file of the store, or of its folder, as this process sees it.
        split: by ``splits()`` of a snapshot.

    Raises:
        LeaseExpiredError: rows were replaced and collected, as no lease keeps them any more. Take a
            new snapshot of the same time.
        StoreNotFoundError: the store was switched to another long-term storage, before or
            meanwhile; its new settings lead there.
        StoreError: another store is there.
        CorruptDataError: bytes of a part are not what was written.
        NegativeCountError: more copies of a row went than came, and diffs are not shown.
        ChunkError: long-term storage did not answer.
    """
    with closing(worker_store(str(path), uuid_text(split.store_id))) as storage:
        yield from rows_of_split(storage, split)


def rows_of_split(storage: ChunkStorage, split: CollectionSplit) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a split by a client that stays the caller's. Raises as ``read_split``."""
    try:
        yield from split.share.read(partial(read_object, storage))
    except ChunkNotFoundError as error:
        check_not_left(storage)
        raise LeaseExpiredError(
            "rows of a split are gone: they were replaced and collected, as no lease keeps them; "
            "take a new snapshot of the same time",
            collection=split.collection_id.hex(),
            chunk=error.chunk,
        ) from error
