"""The record of a recovery with loss: a new lineage begins where the old one was cut.

Body of a record of kind 6, version 1, little-endian::

    lineage: bytes[16]            the new one
    previous_lineage: bytes[16]
    epoch: u64                    that the recovery worked under
    made_ms: u64
    cut_version: u64              table version of the old lineage that was found
    table_version: u64            that the new lineage begins with
    frames: u64                   frames of an older log that were replayed after the cut
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
_HEAD = struct.Struct("<QQQQQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a recovery with loss did.

    Attributes:
        lineage: the new one, 16 bytes.
        previous_lineage: the one that ends with it, 16 bytes.
        epoch: that the recovery worked under; no owner has it.
        made_ms: when, milliseconds since 1970.
        cut_version: table version of the old lineage up to which everything was found.
        table_version: the one that the new lineage begins with.
        frames: frames of an older log that were replayed after the cut.
        owner: host, process id and the like of the process that did it.
    """

    lineage: bytes
    previous_lineage: bytes
    epoch: int
    made_ms: int
    cut_version: int
    table_version: int
    frames: int
    owner: str


def encode_recovery(recovery: Recovery) -> bytes:
    """Encode the content of a recovery file."""
    assert len(recovery.lineage) == LINEAGE_BYTES, "a lineage has 16 bytes"
    assert len(recovery.previous_lineage) == LINEAGE_BYTES, "a lineage has 16 bytes"
    fields = FieldWriter()
    fields.put(_LINEAGE, recovery.lineage)
    fields.put(_LINEAGE, recovery.previous_lineage)
    fields.put(
        _HEAD,
        recovery.epoch,
        recovery.made_ms,
        recovery.cut_version,
        recovery.table_version,
        recovery.frames,
    )
    fields.put_text(recovery.owner)
    return seal(RecordKind.RECOVERY, VERSION, fields.to_bytes())


def decode_recovery(data: Buffer, *, where: str) -> Recovery:
    """Decode the content of a recovery file.

    Raises:
        CorruptDataError: damaged; ``where`` is named.
        FormatError: a newer version.
    """
    fields = FieldReader(open_only(data, RecordKind.RECOVERY, VERSION, where=where), where=where)
    lineage = fields.take_bytes(LINEAGE_BYTES)
    previous = fields.take_bytes(LINEAGE_BYTES)
    epoch, made_ms, cut_version, table_version, frames = fields.take(_HEAD)
    owner = fields.take_text()
    fields.finish()
    return Recovery(
        lineage=lineage,
        previous_lineage=previous,
        epoch=epoch,
        made_ms=made_ms,
        cut_version=cut_version,
        table_version=table_version,
        frames=frames,
        owner=owner,
    )
