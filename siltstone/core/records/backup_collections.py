"""The collections of a backup: the object that its record names, without an envelope.

Layout, little-endian; the version of the record is that of the object, too::

    count: u32, and for each collection
        name: text
        id: bytes[16]
        key_columns: u32, times: u32, history: u64, created_ms: u64
        columns: u32, and that many bytes     the schema that it was made with, as Arrow writes it
        state: u32, and that many bytes       a record of kind 21
        parts: u32, list: u64, and that many bytes: as the list of a container's chunks
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from siltstone.core.constants import Buffer
from siltstone.core.records.backup import BackupChunk, decode_chunk_list, encode_chunk_list
from siltstone.core.records.collection_entry import COLLECTION_ID_BYTES
from siltstone.core.records.fields import FieldReader, FieldWriter

_COUNT = struct.Struct("<I")
_FACTS = struct.Struct("<IIQQ")
_PARTS = struct.Struct("<IQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupCollection:
    """A collection in a backup, as of one entry.

    Attributes:
        name: in the catalog of the store.
        id: 16 bytes; a restored one has another.
        key_columns: how many of the columns make the key, of the schema that it was made with.
        times: what its times are, as in a state.
        history: how far the since stays below the upper.
        created_ms: milliseconds since 1970.
        columns: that schema, as Arrow serializes it.
        state: the encoded state, which names the parts.
        parts: the objects of rows, by their names on long-term storage.
    """

    name: str
    id: bytes
    key_columns: int
    times: int
    history: int
    created_ms: int
    columns: bytes
    state: bytes
    parts: tuple[BackupChunk, ...]


def encode_collections(collections: Iterable[BackupCollection]) -> bytes:
    """Encode all collections of a backup."""
    every = tuple(collections)
    fields = FieldWriter()
    fields.put(_COUNT, len(every))
    for one in every:
        fields.put_text(one.name)
        fields.put_bytes(one.id)
        fields.put(_FACTS, one.key_columns, one.times, one.history, one.created_ms)
        for data in (one.columns, one.state):
            fields.put(_COUNT, len(data))
            fields.put_bytes(data)
        parts = encode_chunk_list(one.parts)
        fields.put(_PARTS, len(one.parts), len(parts))
        fields.put_bytes(parts)
    return fields.to_bytes()


def decode_collections(data: Buffer, *, where: str) -> tuple[BackupCollection, ...]:
    """Decode the collections of a backup, whose sum was compared.

    Raises:
        CorruptDataError: they make no sense; ``where`` is named.
    """
    fields = FieldReader(data, where=where)
    (count,) = fields.take(_COUNT)
    found = tuple(_take_collection(fields, where) for _ in range(count))
    fields.finish()
    return found


def _take_collection(fields: FieldReader, where: str) -> BackupCollection:
    name = fields.take_text()
    collection_id = fields.take_bytes(COLLECTION_ID_BYTES)
    key_columns, times, history, created_ms = fields.take(_FACTS)
    columns = fields.take_bytes(*fields.take(_COUNT))
    state = fields.take_bytes(*fields.take(_COUNT))
    count, length = fields.take(_PARTS)
    return BackupCollection(
        name=name,
        id=collection_id,
        key_columns=key_columns,
        times=times,
        history=history,
        created_ms=created_ms,
        columns=columns,
        state=state,
        parts=decode_chunk_list(fields.take_bytes(length), count, where=where),
    )
