"""The record of a claim: what makes its sender the owner, by where it stands among the frames.

Layout, little-endian::

    magic: bytes[4] = b"SLTC"
    kind: u8 = 1 (claim) | 2 (fence: it stops older owners, and makes no owner of the log)
             | 3 (holder: says again who claimed, before the claim is truncated)
    version: u8 = 1
    reserved: u16 = 0
    lineage: bytes[16]    zeros in a fence
    nonce: bytes[16]      random, by which a claimant finds its own
    above: u64            its epoch is above this one; that of a holder is this one
    host: bytes[16]       equal where process ids mean the same processes
    pid: u32
    started: u64          of the process, in ticks since the boot of the host
    length: u32           bytes of the owner's description
    owner: bytes[length]  UTF-8
    crc: u32              CRC32C of everything before
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, FormatError

MAGIC = b"SLTC"
KIND_CLAIM = 1
KIND_FENCE = 2
KIND_HOLDER = 3
VERSION = 1
NONCE_BYTES = 16
HOST_BYTES = 16

_HEADER = struct.Struct("<4sBBH16s16sQ16sIQI")
_TRAILER = struct.Struct("<I")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """One claim.

    Attributes:
        kind: ``KIND_CLAIM``, ``KIND_FENCE`` or ``KIND_HOLDER``.
        lineage: 16 bytes.
        nonce: 16 bytes.
        above: what its epoch exceeds, besides the epochs of all records before it; of a holder, the
            epoch itself.
        host: 16 bytes; see ``siltstone.tier1.kafka.presence``.
        pid: process id of the claimant.
        started: when that process did, in ticks.
        owner: how the claimant describes itself.
    """

    kind: int
    lineage: bytes
    nonce: bytes
    above: int
    host: bytes
    pid: int
    started: int
    owner: str


def encode_claim_record(record: ClaimRecord) -> bytes:
    """Return the bytes of a claim."""
    owner = record.owner.encode()
    header = _HEADER.pack(
        MAGIC,
        record.kind,
        VERSION,
        0,
        record.lineage,
        record.nonce,
        record.above,
        record.host,
        record.pid,
        record.started,
        len(owner),
    )
    data = header + owner
    return data + _TRAILER.pack(crc32c(data))


def decode_claim_record(data: bytes) -> ClaimRecord | None:
    """Decode a whole record; ``None`` when the bytes are no claim.

    Raises:
        FormatError: it is a claim of a newer version.
        CorruptDataError: the sum is right and a field is impossible.
    """
    if not data.startswith(MAGIC) or len(data) < _HEADER.size + _TRAILER.size:
        return None
    (crc,) = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    if crc32c(memoryview(data)[: -_TRAILER.size]) != crc:
        return None
    _, kind, version, reserved, lineage, nonce, above, host, pid, started, length = (
        _HEADER.unpack_from(data)
    )
    if version != VERSION or kind not in (KIND_CLAIM, KIND_FENCE, KIND_HOLDER):
        raise FormatError.of_version("claim in Kafka", version, VERSION, kind=kind)
    owner = data[_HEADER.size : -_TRAILER.size]
    if reserved or len(owner) != length:
        raise CorruptDataError("impossible claim", where="claim", reserved=reserved, length=length)
    return ClaimRecord(
        kind=kind,
        lineage=lineage,
        nonce=nonce,
        above=above,
        host=host,
        pid=pid,
        started=started,
        owner=owner.decode("utf-8", "replace"),
    )
