"""What a collection is at one moment, for people and tools."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow

from siltstone.collections.stored_schema import row_schema_of
from siltstone.core.records.collection_frontier import DONE, HISTORY_ALL
from siltstone.core.records.collection_rows import Bookmark, CollectionReader, CollectionWriter
from siltstone.core.records.collection_state import CollectionState, Times


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo:
    """What a collection is at one moment.

    Attributes:
        name: in the catalog.
        id: 16 bytes in hex; it never comes back.
        schema: of its rows.
        key: names of the columns that rows are sorted by.
        format: that it is written in; older releases refuse a newer one.
        since: the lowest time that can be read.
        upper: times below it are complete; ``None`` when the collection is finished.
        times: ``"ms"`` since 1970, or ``"count"`` of appends.
        history: how far appends let the since stay below the upper; ``None`` means that they do not
            move it.
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
    format: int
    since: int
    upper: int | None
    times: str
    history: int | None
    seqno: int
    rows: int
    length: int
    batches: int
    parts: int
    readers: tuple[CollectionReader, ...]
    writers: tuple[CollectionWriter, ...]
    bookmarks: tuple[Bookmark, ...]


def info_of(name: str, state: CollectionState) -> CollectionInfo:
    """What the state says of a collection. Raises ``CorruptDataError`` for a damaged schema."""
    schema = row_schema_of(state)[1]
    return CollectionInfo(
        name=name,
        id=state.id.hex(),
        schema=schema.arrow,
        key=tuple(schema.key),
        format=state.format,
        since=state.since,
        upper=None if state.upper == DONE else state.upper,
        times="ms" if state.times is Times.MILLISECONDS else "count",
        history=None if state.history == HISTORY_ALL else state.history,
        seqno=state.seqno,
        rows=sum(batch.rows for batch in state.batches.items),
        length=sum(batch.length for batch in state.batches.items),
        batches=len(state.batches.items),
        parts=state.batches.part_count,
        readers=tuple(state.readers.values()),
        writers=tuple(state.writers.values()),
        bookmarks=tuple(state.bookmarks.values()),
    )
