"""Layout, extent, chunk and block-sum rows inside journal batches and checkpoints.

Layout, little-endian, all lengths and offsets in bytes::

    layout:  segment_id: u64, storage_start: u64, storage_length: u64, last_chunk_id: u64
    extent:  segment_id: u64, start: u64, chunk_id: u64, chunk_offset: u64, length: u64
    chunk:   chunk_id: u64, epoch: u64, length: u64, references: u32,
             flags: u8 (1 = closed | 2 = adopted), name_length: u16, name: bytes[name_length]
    sums:    chunk_id: u64, group: u32, first_block: u16, count: u16, sum: u32[count]

Several rows of a kind follow their count: u32.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.fields import FieldReader, FieldWriter
from siltstone.core.records.layout import Layout

T = TypeVar("T")

_CLOSED = 1
_ADOPTED = 2

_COUNT = struct.Struct("<I")
_LAYOUT = struct.Struct("<QQQQ")
_EXTENT = struct.Struct("<QQQQQ")
_CHUNK = struct.Struct("<QQQIB")
_SUMS = struct.Struct("<QIHH")


def put_rows(fields: FieldWriter, rows: Sequence[T], put: Callable[[FieldWriter, T], None]) -> None:
    """Add the count of ``rows`` and each of them."""
    fields.put(_COUNT, len(rows))
    for row in rows:
        put(fields, row)


def take_rows(fields: FieldReader, take: Callable[[FieldReader], T]) -> tuple[T, ...]:
    """Take a count and that many rows. A wrong count ends at the body's end, not in a huge list."""
    (count,) = fields.take(_COUNT)
    return tuple(take(fields) for _ in range(count))


def put_layout(fields: FieldWriter, layout: Layout) -> None:
    """Add a layout row."""
    fields.put(
        _LAYOUT,
        layout.segment_id,
        layout.storage_start,
        layout.storage_length,
        layout.last_chunk_id,
    )


def take_layout(fields: FieldReader) -> Layout:
    """Take a layout row."""
    segment_id, start, length, last_chunk_id = fields.take(_LAYOUT)
    return Layout(
        segment_id=segment_id,
        storage_start=start,
        storage_length=length,
        last_chunk_id=last_chunk_id,
    )


def put_extent(fields: FieldWriter, extent: Extent) -> None:
    """Add an extent row."""
    fields.put(
        _EXTENT,
        extent.segment_id,
        extent.start,
        extent.chunk_id,
        extent.chunk_offset,
        extent.length,
    )


def take_extent(fields: FieldReader) -> Extent:
    """Take an extent row."""
    segment_id, start, chunk_id, chunk_offset, length = fields.take(_EXTENT)
    return Extent(
        segment_id=segment_id,
        start=start,
        chunk_id=chunk_id,
        chunk_offset=chunk_offset,
        length=length,
    )


def put_chunk(fields: FieldWriter, chunk: Chunk) -> None:
    """Add a chunk row; the table log has none in place."""
    assert not chunk.in_place, "system segments adopt nothing"
    flags = (_CLOSED if chunk.closed else 0) | (_ADOPTED if chunk.adopted else 0)
    fields.put(_CHUNK, chunk.chunk_id, chunk.epoch, chunk.length, chunk.references, flags)
    fields.put_text(chunk.name)


def take_chunk(fields: FieldReader) -> Chunk:
    """Take a chunk row."""
    chunk_id, epoch, length, references, flags = fields.take(_CHUNK)
    if flags & ~(_CLOSED | _ADOPTED):
        raise fields.damage("chunk row has unknown flags")
    return Chunk(
        chunk_id=chunk_id,
        name=fields.take_text(),
        epoch=epoch,
        length=length,
        closed=bool(flags & _CLOSED),
        adopted=bool(flags & _ADOPTED),
        references=references,
    )


def put_sums(fields: FieldWriter, patch: BlockSumsPatch) -> None:
    """Add block sums."""
    count = len(patch.sums)
    fields.put(_SUMS, patch.chunk_id, patch.group, patch.first_block, count)
    fields.put(struct.Struct(f"<{count}I"), *patch.sums)


def take_sums(fields: FieldReader) -> BlockSumsPatch:
    """Take block sums."""
    chunk_id, group, first_block, count = fields.take(_SUMS)
    sums = fields.take(struct.Struct(f"<{count}I"))
    return BlockSumsPatch(chunk_id=chunk_id, group=group, first_block=first_block, sums=sums)
