"""The journal batch: one change of a system layout, with what the log may forget because of it.

Body of a record of kind 1, version 1, little-endian::

    lineage: bytes[16]
    epoch: u64
    sequence: u64
    safe_index: u64
    newest_index: i64     -1 when there is none
    segment_id: u64
    before: layout
    after: layout
    extents_removed, extents_put: extents
    chunks_put, chunks_dropped: chunks
    sums: sums

Rows are those of ``siltstone.core.records.layout_rows``, envelopes of ``…envelope``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.constants import LINEAGE_BYTES, Buffer
from siltstone.core.records.envelope import RecordKind, check_known, open_envelope, seal
from siltstone.core.records.fields import FieldReader, FieldWriter
from siltstone.core.records.layout_change import LayoutChange
from siltstone.core.records.layout_rows import (
    put_chunk,
    put_extent,
    put_layout,
    put_rows,
    put_sums,
    take_chunk,
    take_extent,
    take_layout,
    take_rows,
    take_sums,
)

VERSION = 1

_HEAD = struct.Struct("<QQQqQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalBatch:
    """One batch.

    Attributes:
        lineage: 16 bytes.
        epoch: of the owner that wrote it.
        sequence: dense over an epoch; never two contents under one.
        safe_index: the log below this index is not needed any more once this batch is durable.
        newest_index: the newest acknowledged log index at the time; -1 when there is none.
        change: the change of a system segment's layout.
    """

    lineage: bytes
    epoch: int
    sequence: int
    safe_index: int
    newest_index: int
    change: LayoutChange


def check_system_change(change: LayoutChange) -> None:
    """Check that ``change`` is one that a system segment can have.

    Raises:
        ValueError: it removes a layout, or holds writers, other segments' layouts or table entries,
            none of which the journal keeps.
    """
    if change.after is None:
        raise ValueError("a system segment is never removed")
    if change.writers or change.states or change.layouts_removed or change.extra:
        raise ValueError("a system change has no writers, no other layouts and no table entries")


def encode_journal_batch(batch: JournalBatch) -> bytes:
    """Encode one batch. Raises ``ValueError`` like ``check_system_change``."""
    change = batch.change
    check_system_change(change)
    assert change.after is not None, "checked above"
    assert len(batch.lineage) == LINEAGE_BYTES, "a lineage has 16 bytes"
    fields = FieldWriter()
    fields.put(struct.Struct("16s"), batch.lineage)
    fields.put(
        _HEAD,
        batch.epoch,
        batch.sequence,
        batch.safe_index,
        batch.newest_index,
        change.segment_id,
    )
    put_layout(fields, change.before)
    put_layout(fields, change.after)
    put_rows(fields, change.extents_removed, put_extent)
    put_rows(fields, change.extents_put, put_extent)
    put_rows(fields, change.chunks_put, put_chunk)
    put_rows(fields, change.chunks_dropped, put_chunk)
    put_rows(fields, change.sums, put_sums)
    return seal(RecordKind.JOURNAL_BATCH, VERSION, fields.to_bytes())


def decode_journal_batch(data: Buffer, offset: int = 0, *, where: str) -> tuple[JournalBatch, int]:
    """Decode the batch that starts at ``offset`` of a journal file.

    Returns:
        The batch, and the offset after it.

    Raises:
        CorruptDataError: the bytes are not one whole valid record; ``where`` is named.
        FormatError: a whole record of another kind, or of a newer version.
    """
    envelope = open_envelope(data, offset, where=where)
    check_known(envelope, RecordKind.JOURNAL_BATCH, VERSION, where=where)
    fields = FieldReader(envelope.body, where=where)
    lineage = fields.take_bytes(LINEAGE_BYTES)
    epoch, sequence, safe_index, newest_index, segment_id = fields.take(_HEAD)
    change = LayoutChange(
        segment_id=segment_id,
        before=take_layout(fields),
        after=take_layout(fields),
        extents_removed=take_rows(fields, take_extent),
        extents_put=take_rows(fields, take_extent),
        chunks_put=take_rows(fields, take_chunk),
        chunks_dropped=take_rows(fields, take_chunk),
        sums=take_rows(fields, take_sums),
    )
    fields.finish()
    batch = JournalBatch(
        lineage=lineage,
        epoch=epoch,
        sequence=sequence,
        safe_index=safe_index,
        newest_index=newest_index,
        change=change,
    )
    return batch, offset + envelope.size
