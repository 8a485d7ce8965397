"""Keys and values of the table that holds collections, for the consensus ``table``.

See ``docs/formats/collection-table.md``. Numbers in keys are big-endian, so that they order as
numbers do.
"""

from __future__ import annotations

import struct
from typing import Final

from siltstone.core.constants import MIB
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.collection_entry import COLLECTION_ID_BYTES, Rollup

TABLE_NAME: Final = "_system/collections"
"""No table of an application has such a name."""

PROOF_KEY: Final = b"p"
"""A put under it proves that the store is still owned; the value says nothing."""

HEAD: Final = b"h"
PIECE_BYTES: Final = MIB
"""Of a rollup, in one row: a commit has to fit into a frame."""

_ENTRY: Final = b"e"
_ROLLUP: Final = b"r"
_SEQNO: Final = struct.Struct(">Q")
_NAME: Final = struct.Struct(">QQ")
_PIECE: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct("<Q")


def head_key(collection_id: bytes) -> bytes:
    """The key of the row that says which entry is the newest."""
    return HEAD + collection_id


def id_of_head(key: bytes) -> bytes:
    """The collection of a head row."""
    return key[len(HEAD) :]


def encode_head(seqno: int) -> bytes:
    """The value of a head row."""
    return _HEAD.pack(seqno)


def decode_head(value: bytes, collection_id: bytes) -> int:
    """The newest seqno. Raises ``CorruptDataError``."""
    if len(value) != _HEAD.size:
        raise CorruptDataError(
            "the head of a collection is damaged", where=collection_id.hex(), bytes=len(value)
        )
    (seqno,) = _HEAD.unpack(value)
    return int(seqno)


def entry_key(collection_id: bytes, seqno: int) -> bytes:
    """The key of an entry."""
    return _ENTRY + collection_id + _SEQNO.pack(seqno)


def rollup_key(collection_id: bytes, rollup: Rollup) -> bytes:
    """What the keys of the pieces of a rollup begin with."""
    return _ROLLUP + collection_id + _NAME.pack(rollup.seqno, rollup.nonce)


def piece_key(collection_id: bytes, rollup: Rollup, index: int) -> bytes:
    """The key of one piece of a rollup."""
    return rollup_key(collection_id, rollup) + _PIECE.pack(index)


def rollups_key(collection_id: bytes, seqno: int) -> bytes:
    """Where the rollups from a seqno on begin."""
    return _ROLLUP + collection_id + _SEQNO.pack(seqno)


def rollup_name(key: bytes) -> tuple[int, int]:
    """Seqno and nonce of the rollup to which a piece belongs."""
    seqno, nonce = _NAME.unpack_from(key, len(_ROLLUP) + COLLECTION_ID_BYTES)
    return seqno, nonce


def after(key: bytes) -> bytes:
    """The first key above all that begin with ``key``, which is not 255 everywhere."""
    number = int.from_bytes(key, "big") + 1
    return number.to_bytes(len(key), "big")
