"""The pin: an object by which any process, without a claim, keeps what a table version names.

Body of a record of kind 5, version 2, little-endian::

    lineage: bytes[16]
    version: u64
    expires_ms: u64
    ttl_ms: u64, not in version 1

The envelope is that of ``siltstone.core.records.envelope``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.constants import LINEAGE_BYTES, Buffer
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.envelope import (
    OVERHEAD_BYTES,
    RecordKind,
    open_envelope,
    open_only,
    seal,
)
from siltstone.core.records.fields import FieldReader, FieldWriter

VERSION = 2
VERSION_WITHOUT_TTL = 1

_LINEAGE = struct.Struct("16s")
_HEAD = struct.Struct("<QQ")
_TTL = struct.Struct("<Q")

PIN_BYTES = OVERHEAD_BYTES + _LINEAGE.size + _HEAD.size + _TTL.size
"""Of version 2; one of version 1 is shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A promise that nothing which ``version`` or a later one names is deleted for a time.

    Attributes:
        lineage: 16 bytes; a pin of another lineage promises nothing.
        version: a table version of the container that is in the pin's name.
        expires_ms: milliseconds since 1970, by the clock of its maker.
        ttl_ms: for how long it was made, in milliseconds; what counts. 0 in version 1, where the
            expiry counts.
    """

    lineage: bytes
    version: int
    expires_ms: int
    ttl_ms: int = 0


def encode_pin(pin: Pin) -> bytes:
    """Encode the content of a pin."""
    assert len(pin.lineage) == LINEAGE_BYTES, "a lineage has 16 bytes"
    fields = FieldWriter()
    fields.put(_LINEAGE, pin.lineage)
    fields.put(_HEAD, pin.version, pin.expires_ms)
    if not pin.ttl_ms:
        return seal(RecordKind.PIN, VERSION_WITHOUT_TTL, fields.to_bytes())
    fields.put(_TTL, pin.ttl_ms)
    return seal(RecordKind.PIN, VERSION, fields.to_bytes())


def decode_pin(data: Buffer, *, where: str) -> Pin:
    """Decode the content of a pin.

    Raises:
        CorruptDataError: damaged; ``where`` is named.
        FormatError: a newer version.
    """
    is_old = open_envelope(data, where=where).version == VERSION_WITHOUT_TTL
    known = VERSION_WITHOUT_TTL if is_old else VERSION
    fields = FieldReader(open_only(data, RecordKind.PIN, known, where=where), where=where)
    lineage = fields.take_bytes(LINEAGE_BYTES)
    version, expires_ms = fields.take(_HEAD)
    (ttl_ms,) = (0,) if is_old else fields.take(_TTL)
    if not (is_old or ttl_ms):
        raise CorruptDataError("pin of no time", where=where)
    fields.finish()
    return Pin(lineage=lineage, version=version, expires_ms=expires_ms, ttl_ms=ttl_ms)
