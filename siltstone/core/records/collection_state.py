"""The state of a collection: everything about it but the rows that are in objects.

Body of a record of kind 22, version 1, little-endian::

    id: bytes[16]
    format: u16
    seqno: u64
    written_ms: u64
    life: u8            0: open; 1: dropped; 2: moved
    since: u64
    upper: u64
    times: u8           0: milliseconds since 1970; 1: a count
    history: u64        2**64 - 1: all
    floor: u64
    collected: u64
    schemas: u32, and each schema
    batches: u32, and each batch
    rollups: u32, and each rollup
    readers: u32, and each reader
    writers: u32, and each writer
    bookmarks: u32, and each bookmark

Schemas, readers and rollups are in the order of their numbers, writers and bookmarks in that of
their names. The layouts of schemas, readers, writers and bookmarks are those of
``siltstone.core.records.collection_rows``, that of batches is in ``collection_batch``, that of
rollups in ``collection_entry``. The envelope is that of ``siltstone.core.records.envelope``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeVar

from siltstone.core.constants import Buffer
from siltstone.core.errors import FormatError
from siltstone.core.records.collection_batch import Batches, put_batch, take_batch
from siltstone.core.records.collection_entry import (
    COLLECTION_ID_BYTES,
    Rollup,
    put_rollup,
    take_rollup,
)
from siltstone.core.records.collection_frontier import is_frontier
from siltstone.core.records.collection_rows import (
    Bookmark,
    CollectionReader,
    CollectionSchema,
    CollectionWriter,
    put_bookmark,
    put_reader,
    put_schema,
    put_writer,
    take_bookmark,
    take_reader,
    take_schema,
    take_writer,
)
from siltstone.core.records.envelope import RecordKind, open_only, seal
from siltstone.core.records.fields import FieldReader, FieldWriter

VERSION = 1
FORMAT = 1
"""The newest format of a collection that is known: which changes and fields it may have."""

_ID = struct.Struct("16s")
_HEAD = struct.Struct("<HQQBQQBQQQ")
_COUNT = struct.Struct("<I")


class Life(IntEnum):
    """What becomes of a collection. Numbers are persisted and never change."""

    OPEN = 0
    DROPPED = 1
    """Its rows are gone. It never comes back."""
    MOVED = 2
    """Its entries continue in another consensus, and its parts belong to that."""


class Times(IntEnum):
    """What the times of a collection are. Numbers are persisted and never change."""

    MILLISECONDS = 0
    """Since 1970."""
    COUNT = 1
    """Of commits: the next one is one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionState:
    """What the entries up to ``seqno`` amount to. Its mappings are never changed in place.

    Attributes:
        id: of the collection, 16 bytes.
        format: which changes and fields it may have.
        seqno: of the newest entry in it; 0 before the first one.
        written_ms: when that entry was written, milliseconds since 1970, above that of the entry
            before it.
        life: what became of it.
        since: the frontier below which times can no longer be told apart.
        times: what its times are.
        history: how far since stays below the upper, 1 at least; ``HISTORY_ALL``: it stays.
        floor: seqno of a rollup; what is older may be truncated. 0 where nothing may.
        collected: garbage of the states up to this seqno was deleted.
        schemas: by schema id.
        batches: its updates.
        rollups: by seqno.
        readers: by id.
        writers: by name.
        bookmarks: by name.
    """

    id: bytes
    format: int = FORMAT
    seqno: int = 0
    written_ms: int
    life: Life = Life.OPEN
    since: int = 0
    times: Times
    history: int
    floor: int = 0
    collected: int = 0
    schemas: Mapping[int, CollectionSchema] = field(default_factory=dict)
    batches: Batches = field(default_factory=Batches)
    rollups: Mapping[int, Rollup] = field(default_factory=dict)
    readers: Mapping[int, CollectionReader] = field(default_factory=dict)
    writers: Mapping[str, CollectionWriter] = field(default_factory=dict)
    bookmarks: Mapping[str, Bookmark] = field(default_factory=dict)

    @property
    def upper(self) -> int:
        """The frontier below which its updates are complete."""
        return self.batches.upper


def encode_state(state: CollectionState) -> bytes:
    """Encode a state: the same bytes for equal states."""
    assert len(state.id) == COLLECTION_ID_BYTES, "an id has 16 bytes"
    fields = FieldWriter()
    fields.put(_ID, state.id)
    fields.put(
        _HEAD,
        state.format,
        state.seqno,
        state.written_ms,
        state.life,
        state.since,
        state.upper,
        state.times,
        state.history,
        state.floor,
        state.collected,
    )
    _put_rows(fields, state.schemas, put_schema)
    fields.put(_COUNT, len(state.batches.items))
    for batch in state.batches.items:
        put_batch(fields, batch)
    _put_rows(fields, state.rollups, put_rollup)
    _put_rows(fields, state.readers, put_reader)
    _put_rows(fields, state.writers, put_writer)
    _put_rows(fields, state.bookmarks, put_bookmark)
    return seal(RecordKind.COLLECTION_STATE, VERSION, fields.to_bytes())


def decode_state(data: Buffer, *, where: str) -> CollectionState:
    """Decode a state.

    Raises:
        CorruptDataError: damaged, or its fields contradict one another; ``where`` is named.
        FormatError: another kind, a newer version, or a newer format of the collection.
    """
    body = open_only(data, RecordKind.COLLECTION_STATE, VERSION, where=where)
    fields = FieldReader(body, where=where)
    collection_id = fields.take_bytes(COLLECTION_ID_BYTES)
    head = fields.take(_HEAD)
    check_format(head[0], where=where)
    schemas = _take_rows(fields, take_schema, lambda row: row.schema_id)
    batches = _take_batches(fields)
    state = CollectionState(
        id=collection_id,
        format=head[0],
        seqno=head[1],
        written_ms=head[2],
        life=life_of(fields, head[3]),
        since=head[4],
        times=_times_of(fields, head[6]),
        history=head[7],
        floor=head[8],
        collected=head[9],
        schemas=schemas,
        batches=batches,
        rollups=_take_rows(fields, take_rollup, lambda row: row.seqno),
        readers=_take_rows(fields, take_reader, lambda row: row.id),
        writers=_take_rows(fields, take_writer, lambda row: row.name),
        bookmarks=_take_rows(fields, take_bookmark, lambda row: row.name),
    )
    fields.finish()
    if state.upper != head[5]:
        raise fields.damage("state with another upper than its batches")
    problem = impossible(state)
    if problem:
        raise fields.damage(problem)
    return state


def check_format(number: int, *, where: str) -> None:
    """Check that a collection of this format can be read. Raises ``FormatError``."""
    if not 1 <= number <= FORMAT:
        raise FormatError.of_version("collection", number, FORMAT, where=where)


def impossible(state: CollectionState) -> str:
    """What no state can be, in fields that stand for themselves; empty where nothing is wrong."""
    if not is_frontier(state.since):
        return "state with an impossible since"
    if not state.history:
        return "state without a history"
    if state.floor and state.floor not in state.rollups:
        return "state whose floor is no rollup"
    if max(state.floor, state.collected, *state.rollups, 0) > state.seqno:
        return "state that names a later one"
    return ""


def life_of(fields: FieldReader, number: int) -> Life:
    """The life of this number. Raises ``CorruptDataError``."""
    if number not in Life.__members__.values():
        raise fields.damage("impossible life")
    return Life(number)


def _times_of(fields: FieldReader, number: int) -> Times:
    if number not in Times.__members__.values():
        raise fields.damage("impossible times")
    return Times(number)


_Row = TypeVar("_Row")


def _put_rows(
    fields: FieldWriter, rows: Mapping[Any, _Row], put: Callable[[FieldWriter, _Row], None]
) -> None:
    fields.put(_COUNT, len(rows))
    for key in sorted(rows):
        put(fields, rows[key])


def _take_rows(
    fields: FieldReader, take: Callable[[FieldReader], _Row], key_of: Callable[[_Row], Any]
) -> dict[Any, _Row]:
    (count,) = fields.take(_COUNT)
    rows: dict[Any, _Row] = {}
    last = None
    for _ in range(count):
        row = take(fields)
        key = key_of(row)
        if last is not None and key <= last:
            raise fields.damage("rows of a state are not in order")
        rows[key] = row
        last = key
    return rows


def _take_batches(fields: FieldReader) -> Batches:
    (count,) = fields.take(_COUNT)
    items = tuple(take_batch(fields) for _ in range(count))
    try:
        return Batches().replaced(0, 0, items)
    except ValueError as error:
        raise fields.damage(str(error)) from error
