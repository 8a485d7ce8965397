"""The claim: an object that an owner makes, exclusively, before its epoch's first checkpoint.

Body of a record of kind 4, version 1, little-endian::

    lineage: bytes[16]
    epoch: u64
    claimed_ms: u64
    owner: text

The envelope is that of ``siltstone.core.records.envelope``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.constants import LINEAGE_BYTES, Buffer
from siltstone.core.records.envelope import RecordKind, open_only, seal
from siltstone.core.records.fields import FieldReader, FieldWriter

VERSION = 1

_LINEAGE = struct.Struct("16s")
_HEAD = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who owns an epoch, for people to read and for older owners to notice.

    Attributes:
        lineage: 16 bytes.
        epoch: the owner's epoch.
        owner: host, process id and the like, as the owner describes itself.
        claimed_ms: when, milliseconds since 1970.
    """

    lineage: bytes
    epoch: int
    owner: str
    claimed_ms: int


def encode_claim(claim: Claim) -> bytes:
    """Encode the content of a claim file."""
    assert len(claim.lineage) == LINEAGE_BYTES, "a lineage has 16 bytes"
    fields = FieldWriter()
    fields.put(_LINEAGE, claim.lineage)
    fields.put(_HEAD, claim.epoch, claim.claimed_ms)
    fields.put_text(claim.owner)
    return seal(RecordKind.CLAIM, VERSION, fields.to_bytes())


def decode_claim(data: Buffer, *, where: str) -> Claim:
    """Decode the content of a claim file.

    Raises:
        CorruptDataError: damaged; ``where`` is named.
        FormatError: a newer version.
    """
    fields = FieldReader(open_only(data, RecordKind.CLAIM, VERSION, where=where), where=where)
    lineage = fields.take_bytes(LINEAGE_BYTES)
    epoch, claimed_ms = fields.take(_HEAD)
    owner = fields.take_text()
    fields.finish()
    return Claim(lineage=lineage, epoch=epoch, owner=owner, claimed_ms=claimed_ms)
