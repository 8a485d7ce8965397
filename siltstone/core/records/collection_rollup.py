"""The rollup object: what the entries of a collection up to one seqno amount to.

Body of a record of kind 21, version 1, little-endian::

    collection_id: bytes[16]
    seqno: u64
    state: bytes          to the end; a record of its own

The envelope is that of ``siltstone.core.records.envelope``. What an entry says of a rollup, its
name, length and sum, is ``siltstone.core.records.collection_entry.Rollup``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.collection_entry import COLLECTION_ID_BYTES
from siltstone.core.records.envelope import OVERHEAD_BYTES, RecordKind, open_only, seal

VERSION = 1

_HEAD = struct.Struct("<16sQ")

ROLLUP_OVERHEAD_BYTES = OVERHEAD_BYTES + _HEAD.size
"""Bytes of a rollup object in addition to those of its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledState:
    """The content of a rollup object.

    Attributes:
        collection_id: 16 bytes.
        seqno: of the state; 0 is the state before the first entry.
        state: the state's own record, undecoded.
    """

    collection_id: bytes
    seqno: int
    state: bytes


def encode_rollup(rolled: RolledState) -> bytes:
    """Encode the content of a rollup object."""
    assert len(rolled.collection_id) == COLLECTION_ID_BYTES, "an id has 16 bytes"
    body = _HEAD.pack(rolled.collection_id, rolled.seqno) + rolled.state
    return seal(RecordKind.ROLLUP, VERSION, body)


def decode_rollup(data: Buffer, *, where: str) -> RolledState:
    """Decode the content of a rollup object.

    Raises:
        CorruptDataError: damaged; ``where`` is named.
        FormatError: another kind, or a newer version.
    """
    body = open_only(data, RecordKind.ROLLUP, VERSION, where=where)
    if len(body) < _HEAD.size:
        raise CorruptDataError("record body is too short", where=where, length=len(body))
    collection_id, seqno = _HEAD.unpack_from(body)
    return RolledState(collection_id=collection_id, seqno=seqno, state=body[_HEAD.size :])
