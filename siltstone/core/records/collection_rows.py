"""The small rows of a collection's state: schemas, readers, writers and bookmarks.

Layout, little-endian; a text is its length, u16, and that many bytes of UTF-8::

    schema:   schema_id: u32, key_columns: u16, arrow: u32, and that many bytes
    reader:   id: u64, hold: u64, since: u64, lease_ms: u32, renewed_ms: u64, who: text
    writer:   name: text, id: u64, sequence: i64, upper: u64, hold: u64, lease_ms: u32,
              renewed_ms: u64, who: text
    bookmark: name: text, since: u64, token: bytes[16], who: text

Rows have no version: what holds them has.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.records.collection_frontier import is_frontier
from siltstone.core.records.fields import FieldReader, FieldWriter

SCHEMA_BYTES_MAX = 64 * 1024
TOKEN_BYTES = 16
NO_SEQUENCE = -1
"""Sequence of a writer that has appended nothing."""

_SCHEMA = struct.Struct("<IHI")
_READER = struct.Struct("<QQQIQ")
_WRITER = struct.Struct("<QqQQIQ")
_SINCE = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSchema:
    """A schema that parts may have.

    Attributes:
        schema_id: u32, from 0 on; the highest is the newest.
        key_columns: how many columns, the first ones, make the key, u16.
        arrow: the schema as Arrow serializes it, 64 KiB at most.
    """

    schema_id: int
    key_columns: int
    arrow: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionReader:
    """A reader that holds what it reads.

    Attributes:
        id: a random u64.
        hold: the seqno from which on it needs every part.
        since: the frontier that ``since`` of the collection does not pass.
        lease_ms: how long it lives unless it is renewed, u32, milliseconds.
        renewed_ms: when it was renewed, milliseconds since 1970 by the clock of who did.
        who: how it describes itself, for people.
    """

    id: int
    hold: int
    since: int
    lease_ms: int
    renewed_ms: int
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionWriter:
    """A writer: what it appended last, and from where on its uploads count.

    Attributes:
        name: told by who appends, or random.
        id: a random u64 that its parts have in their names; 0 where it uploads nothing.
        sequence: of its last append, i64 from 0 on; -1 before it appends.
        upper: of the collection after that append; 0 before it appends.
        hold: the seqno from which on its parts may be appended, and it needs every part; 0 where it
            uploads nothing.
        lease_ms: how long it lives unless it is renewed, u32, milliseconds; 0 means for ever.
        renewed_ms: when it was renewed, milliseconds since 1970 by the clock of who did.
        who: how it describes itself, for people.
    """

    name: str
    id: int
    sequence: int
    upper: int
    hold: int
    lease_ms: int
    renewed_ms: int
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookmark:
    """A promise, without an end, that ``since`` of the collection does not pass a time.

    Attributes:
        name: told by who made it.
        since: the frontier.
        token: 16 bytes that must be known to move it.
        who: who made or moved it last, for people.
    """

    name: str
    since: int
    token: bytes
    who: str


def put_schema(fields: FieldWriter, schema: CollectionSchema) -> None:
    """Add a schema."""
    fields.put(_SCHEMA, schema.schema_id, schema.key_columns, len(schema.arrow))
    fields.put_bytes(schema.arrow)


def take_schema(fields: FieldReader) -> CollectionSchema:
    """Take a schema. Raises ``CorruptDataError``."""
    schema_id, key_columns, size = fields.take(_SCHEMA)
    if size > SCHEMA_BYTES_MAX:
        raise fields.damage("schema is too long")
    return CollectionSchema(
        schema_id=schema_id, key_columns=key_columns, arrow=fields.take_bytes(size)
    )


def put_reader(fields: FieldWriter, reader: CollectionReader) -> None:
    """Add a reader."""
    fields.put(_READER, reader.id, reader.hold, reader.since, reader.lease_ms, reader.renewed_ms)
    fields.put_text(reader.who)


def take_reader(fields: FieldReader) -> CollectionReader:
    """Take a reader. Raises ``CorruptDataError``."""
    number, hold, since, lease_ms, renewed_ms = fields.take(_READER)
    return CollectionReader(
        id=number,
        hold=hold,
        since=_frontier(fields, since),
        lease_ms=lease_ms,
        renewed_ms=renewed_ms,
        who=fields.take_text(),
    )


def put_writer(fields: FieldWriter, writer: CollectionWriter) -> None:
    """Add a writer."""
    fields.put_text(writer.name)
    fields.put(
        _WRITER,
        writer.id,
        writer.sequence,
        writer.upper,
        writer.hold,
        writer.lease_ms,
        writer.renewed_ms,
    )
    fields.put_text(writer.who)


def take_writer(fields: FieldReader) -> CollectionWriter:
    """Take a writer. Raises ``CorruptDataError``."""
    name = fields.take_text()
    number, sequence, upper, hold, lease_ms, renewed_ms = fields.take(_WRITER)
    if sequence < NO_SEQUENCE:
        raise fields.damage("writer with an impossible sequence")
    if hold and not lease_ms:
        raise fields.damage("writer that uploads for ever")
    return CollectionWriter(
        name=name,
        id=number,
        sequence=sequence,
        upper=_frontier(fields, upper),
        hold=hold,
        lease_ms=lease_ms,
        renewed_ms=renewed_ms,
        who=fields.take_text(),
    )


def put_bookmark(fields: FieldWriter, bookmark: Bookmark) -> None:
    """Add a bookmark."""
    assert len(bookmark.token) == TOKEN_BYTES, "a token has 16 bytes"
    fields.put_text(bookmark.name)
    fields.put(_SINCE, bookmark.since)
    fields.put_bytes(bookmark.token)
    fields.put_text(bookmark.who)


def take_bookmark(fields: FieldReader) -> Bookmark:
    """Take a bookmark. Raises ``CorruptDataError``."""
    name = fields.take_text()
    (since,) = fields.take(_SINCE)
    return Bookmark(
        name=name,
        since=_frontier(fields, since),
        token=fields.take_bytes(TOKEN_BYTES),
        who=fields.take_text(),
    )


def _frontier(fields: FieldReader, value: int) -> int:
    if not is_frontier(value):
        raise fields.damage("no frontier")
    return value
