"""The store manifest: the object ``system/store``, made once, exclusively, when a store is made.

Body of a record of kind 3, version 1, little-endian::

    store_id: bytes[16]
    format_number: u32
    container_count: u32
    created_ms: u64
    hash_name: text

The envelope is that of ``siltstone.core.records.envelope``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.constants import FORMAT_NUMBER, Buffer
from siltstone.core.errors import FormatError
from siltstone.core.records.envelope import RecordKind, open_only, seal
from siltstone.core.records.fields import FieldReader, FieldWriter

VERSION = 1

HASH_NAME = "blake2b-64"
"""How a name finds its container; see ``siltstone.core.constants.container_of``."""

_STORE_ID = struct.Struct("16s")
_HEAD = struct.Struct("<IIQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreManifest:
    """What is fixed for the life of a store.

    Attributes:
        store_id: the raw bytes of a uuid; another one under the same prefix is another store.
        container_count: at least 1.
        created_ms: when the store was made, milliseconds since 1970.
        format_number: of everything in the store.
        hash_name: the hash that assigns names to containers.
    """

    store_id: bytes
    container_count: int
    created_ms: int
    format_number: int = FORMAT_NUMBER
    hash_name: str = HASH_NAME


def encode_store_manifest(manifest: StoreManifest) -> bytes:
    """Encode the content of ``system/store``."""
    assert len(manifest.store_id) == _STORE_ID.size, "a store id has 16 bytes"
    assert manifest.container_count >= 1, "a store has a container"
    fields = FieldWriter()
    fields.put(_STORE_ID, manifest.store_id)
    fields.put(_HEAD, manifest.format_number, manifest.container_count, manifest.created_ms)
    fields.put_text(manifest.hash_name)
    return seal(RecordKind.STORE_MANIFEST, VERSION, fields.to_bytes())


def decode_store_manifest(data: Buffer, *, where: str) -> StoreManifest:
    """Decode the content of ``system/store``.

    Raises:
        CorruptDataError: damaged; ``where`` is named.
        FormatError: a newer version of the record, a newer format of the store, or another hash.
    """
    body = open_only(data, RecordKind.STORE_MANIFEST, VERSION, where=where)
    fields = FieldReader(body, where=where)
    store_id = fields.take_bytes(_STORE_ID.size)
    format_number, container_count, created_ms = fields.take(_HEAD)
    hash_name = fields.take_text()
    fields.finish()
    if format_number != FORMAT_NUMBER or hash_name != HASH_NAME:
        raise FormatError.of_version(
            "store", format_number, FORMAT_NUMBER, where=where, hash=hash_name
        )
    if container_count < 1:
        raise fields.damage("store without a container")
    return StoreManifest(
        store_id=store_id,
        container_count=container_count,
        created_ms=created_ms,
        format_number=format_number,
        hash_name=hash_name,
    )
