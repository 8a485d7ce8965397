"""Keys of the metadata table: ordered bytes, one first byte a kind of row, integers big-endian.

Layout; every integer is big-endian so that bytes order as numbers do::

    name:         0x01, name: UTF-8                              -> segment id
    state:        0x02, segment_id: u64                          -> segment state
    layout:       0x03, segment_id: u64                          -> layout
    extent:       0x04, segment_id: u64, start: u64              -> extent
    chunk:        0x05, chunk_id: u64                            -> chunk
    block sums:   0x06, chunk_id: u64, group: u32                -> block sums
    writer:       0x07, segment_id: u64, number: u64             -> writer
    writer name:  0x08, segment_id: u64, name: UTF-8             -> writer number
    task:         0x09, due_ms: u64, task_kind: u8, subject: u64 -> task
    table name:   0x0a, name: UTF-8                              -> table id
    tombstone:    0x0b, name: UTF-8                              -> tombstone
    counter:      0x0c, counter_kind: u8                         -> number
    attributes:   0x0d, segment_id: u64                          -> attributes
    time:         0x0e, segment_id: u64, offset: u64             -> append time
    retention:    0x0f, scope: u8, name: UTF-8                   -> retention
    import:       0x10, part: u8 = 1, name: UTF-8                -> import session
    import:       0x10, part: u8 = 2, chunk: UTF-8               -> chunk id
    epoch:        0x12, epoch: u64                               -> epoch
    batch:        0x13, query: UTF-8                             -> import batch
    adoption:     0x15, session_id: u64                          -> adoption
    legacy:       0x16, segment_id: u64, or 0                    -> legacy

The first byte of a key is also the ``kind`` of its value.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from siltstone.core.errors import CorruptDataError

METADATA_TABLE = 0
"""Id of the container's own table; tables of applications have ids from 1 on."""


class RowKind(IntEnum):
    """First byte of a key, and kind of its value. Numbers are persisted and never change."""

    NAME = 1
    STATE = 2
    LAYOUT = 3
    EXTENT = 4
    CHUNK = 5
    BLOCK_SUMS = 6
    WRITER = 7
    WRITER_NAME = 8
    TASK = 9
    TABLE = 10
    TOMBSTONE = 11
    COUNTER = 12
    ATTRIBUTES = 13
    TIME = 14
    RETENTION = 15
    IMPORT = 16
    EPOCH = 18
    IMPORT_BATCH = 19
    ADOPTION = 21
    LEGACY = 22


class ImportRowPart(IntEnum):
    """What a row of kind ``IMPORT`` is about. Numbers are persisted and never change."""

    SESSION = 1
    """A session, under its name."""
    CHUNK = 2
    """A chunk that a session brought, under its name on long-term storage."""


class CounterKind(IntEnum):
    """What a counter counts; its value is the next number to be given. Numbers are persisted."""

    SEGMENT_ID = 1
    TABLE_ID = 2
    WRITER_NUMBER = 3
    CHUNK_ID = 4


SCOPED_NAME_AT = 2
"""Where the name begins, after a kind and one more byte."""

_ID = struct.Struct(">BQ")
_ID_ID = struct.Struct(">BQQ")
_ID_GROUP = struct.Struct(">BQI")
_TASK = struct.Struct(">BQBQ")
_NAME = bytes((RowKind.NAME,))
_TABLE = bytes((RowKind.TABLE,))
_TOMBSTONE = bytes((RowKind.TOMBSTONE,))
_IMPORT_BATCH = bytes((RowKind.IMPORT_BATCH,))
_COUNTERS = [bytes((RowKind.COUNTER, counter)) for counter in range(1 + max(CounterKind))]


def name_key(name: str) -> bytes:
    """Key of the row that gives a segment's id."""
    return _NAME + name.encode("utf-8")


def state_key(segment_id: int) -> bytes:
    """Key of a segment's state."""
    return _ID.pack(RowKind.STATE, segment_id)


def layout_key(segment_id: int) -> bytes:
    """Key of a segment's layout."""
    return _ID.pack(RowKind.LAYOUT, segment_id)


def extent_key(segment_id: int, start: int) -> bytes:
    """Key of the extent that begins at ``start``."""
    return _ID_ID.pack(RowKind.EXTENT, segment_id, start)


def chunk_key(chunk_id: int) -> bytes:
    """Key of a chunk."""
    return _ID.pack(RowKind.CHUNK, chunk_id)


def block_sums_key(chunk_id: int, group: int) -> bytes:
    """Key of the sums of one group of blocks."""
    return _ID_GROUP.pack(RowKind.BLOCK_SUMS, chunk_id, group)


def writer_key(segment_id: int, number: int) -> bytes:
    """Key of a writer."""
    return _ID_ID.pack(RowKind.WRITER, segment_id, number)


def writer_name_key(segment_id: int, name: str) -> bytes:
    """Key of the row that gives a writer's number."""
    return _ID.pack(RowKind.WRITER_NAME, segment_id) + name.encode("utf-8")


def task_key(due_ms: int, task_kind: int, subject: int) -> bytes:
    """Key of a task; tasks are in the order of their due times."""
    return _TASK.pack(RowKind.TASK, due_ms, task_kind, subject)


def table_name_key(name: str) -> bytes:
    """Key of the row that gives a table's id."""
    return _TABLE + name.encode("utf-8")


def tombstone_key(name: str) -> bytes:
    """Key of the tombstone of a segment's name."""
    return _TOMBSTONE + name.encode("utf-8")


def counter_key(counter: CounterKind) -> bytes:
    """Key of a counter."""
    return _COUNTERS[counter]


def attributes_key(segment_id: int) -> bytes:
    """Key of a segment's attributes."""
    return _ID.pack(RowKind.ATTRIBUTES, segment_id)


def time_key(segment_id: int, offset: int) -> bytes:
    """Key of the latest append time below ``offset``."""
    return _ID_ID.pack(RowKind.TIME, segment_id, offset)


def retention_key(scope: int, name: str) -> bytes:
    """Key of a rule of retention."""
    return bytes((RowKind.RETENTION, scope)) + name.encode("utf-8")


def import_key(name: str) -> bytes:
    """Key of an import session."""
    return bytes((RowKind.IMPORT, ImportRowPart.SESSION)) + name.encode("utf-8")


def import_chunk_key(chunk: str) -> bytes:
    """Key of the row that gives the id of an imported chunk."""
    return bytes((RowKind.IMPORT, ImportRowPart.CHUNK)) + chunk.encode("utf-8")


def import_batch_key(query: str) -> bytes:
    """Key of the newest batch that a stream has imported."""
    return _IMPORT_BATCH + query.encode("utf-8")


def adoption_key(session_id: int) -> bytes:
    """Key of what is known of the objects that a session took in place."""
    return _ID.pack(RowKind.ADOPTION, session_id)


def legacy_key(segment_id: int) -> bytes:
    """Key of how a segment is written in a legacy layout."""
    return _ID.pack(RowKind.LEGACY, segment_id)


def epoch_key(epoch: int) -> bytes:
    """Key of what the sweep knows of an epoch."""
    return _ID.pack(RowKind.EPOCH, epoch)


def name_of(key: bytes) -> str:
    """Return the name after the first byte of a key.

    Raises:
        CorruptDataError: the key holds no UTF-8.
    """
    try:
        return key[1:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptDataError("impossible name in a key", where=f"key {key.hex()}") from error


def extent_of(key: bytes) -> tuple[int, int]:
    """Return segment id and start of an extent's key. Raises ``CorruptDataError``."""
    _, segment_id, start = _unpacked(_ID_ID, RowKind.EXTENT, key)
    return segment_id, start


def writer_of(key: bytes) -> tuple[int, int]:
    """Return segment id and number of a writer's key. Raises ``CorruptDataError``."""
    _, segment_id, number = _unpacked(_ID_ID, RowKind.WRITER, key)
    return segment_id, number


def time_of(key: bytes) -> tuple[int, int]:
    """Return segment id and offset of an append time's key. Raises ``CorruptDataError``."""
    _, segment_id, offset = _unpacked(_ID_ID, RowKind.TIME, key)
    return segment_id, offset


def retention_of(key: bytes) -> tuple[int, str]:
    """Return scope and name of a retention rule's key. Raises ``CorruptDataError``."""
    return _scoped_name(RowKind.RETENTION, key)


def adoption_of(key: bytes) -> int:
    """Return the session id of an adoption's key. Raises ``CorruptDataError``."""
    _, session_id = _unpacked(_ID, RowKind.ADOPTION, key)
    return session_id


def legacy_of(key: bytes) -> int:
    """Return the segment id of a legacy row's key. Raises ``CorruptDataError``."""
    _, segment_id = _unpacked(_ID, RowKind.LEGACY, key)
    return segment_id


def import_of(key: bytes) -> tuple[int, str]:
    """Return part and name of the key of a row of an import. Raises ``CorruptDataError``."""
    return _scoped_name(RowKind.IMPORT, key)


def _scoped_name(kind: RowKind, key: bytes) -> tuple[int, str]:
    if len(key) < SCOPED_NAME_AT or key[0] != kind:
        raise CorruptDataError("impossible key", where=f"key {key.hex()}")
    return key[1], name_of(key[1:])


def task_of(key: bytes) -> tuple[int, int, int]:
    """Return due time, kind and subject of a task's key. Raises ``CorruptDataError``."""
    _, due_ms, task_kind, subject = _unpacked(_TASK, RowKind.TASK, key)
    return due_ms, task_kind, subject


def _unpacked(layout: struct.Struct, kind: RowKind, key: bytes) -> tuple[int, ...]:
    if len(key) != layout.size or key[0] != kind:
        raise CorruptDataError("impossible key", where=f"key {key.hex()}")
    return layout.unpack(key)


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the first key above all that start with ``prefix``; ``None`` when there is none."""
    kept = prefix.rstrip(b"\xff")
    if not kept:
        return None
    return kept[:-1] + bytes((kept[-1] + 1,))
