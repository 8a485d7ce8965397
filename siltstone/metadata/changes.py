"""Changes of metadata rows, as entries of a table update. Pure functions; reads are in ``rows``."""

from __future__ import annotations

from collections.abc import Mapping

from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS
from siltstone.core.records.attributes import encode_attributes
from siltstone.core.records.block_sums import (
    BlockSumsPatch,
    encode_block_sums,
    encode_sums,
    sums_position,
)
from siltstone.core.records.chunk import (
    Chunk,
    encode_chunk,
    encode_chunk_head,
    encode_chunk_tail,
)
from siltstone.core.records.epoch_row import EpochRow, encode_epoch_row
from siltstone.core.records.extent import Extent, encode_extent
from siltstone.core.records.keys import (
    METADATA_TABLE,
    CounterKind,
    RowKind,
    attributes_key,
    block_sums_key,
    chunk_key,
    counter_key,
    epoch_key,
    extent_key,
    import_chunk_key,
    layout_key,
    name_key,
    retention_key,
    state_key,
    table_name_key,
    task_key,
    time_key,
    tombstone_key,
    writer_key,
    writer_name_key,
)
from siltstone.core.records.layout import Layout, encode_layout
from siltstone.core.records.number import encode_number
from siltstone.core.records.retention_row import (
    RetentionRow,
    RetentionScope,
    encode_retention_row,
)
from siltstone.core.records.segment_state import (
    SegmentState,
    encode_new_state,
    encode_segment_state,
)
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, encode_task
from siltstone.core.records.time_row import TimeRow, encode_time_row
from siltstone.core.records.tombstone import Tombstone, encode_tombstone
from siltstone.core.records.writer_row import (
    WriterRow,
    encode_writer_head,
    encode_writer_row,
    encode_writer_tail,
)


def _put(key: bytes, value: bytes) -> TableEntry:
    return TableEntry(METADATA_TABLE, key, value)


def _splice(key: bytes, position: int, value: bytes) -> TableEntry:
    return TableEntry(METADATA_TABLE, key, value, position)


def _remove(key: bytes) -> TableEntry:
    return TableEntry(METADATA_TABLE, key, None)


def put_name(name: str, segment_id: int) -> TableEntry:
    """Give a name to a segment."""
    return _put(name_key(name), encode_number(RowKind.NAME, segment_id))


def remove_name(name: str) -> TableEntry:
    """Free a segment's name."""
    return _remove(name_key(name))


def put_state(state: SegmentState) -> TableEntry:
    """Set a segment's state."""
    return _put(state_key(state.segment_id), encode_segment_state(state))


def put_new_state(segment_id: int, name: str, created_ms: int) -> TableEntry:
    """Set the state of a segment that is open and empty."""
    return _put(state_key(segment_id), encode_new_state(name, created_ms))


def remove_state(segment_id: int) -> TableEntry:
    """Remove a segment's state."""
    return _remove(state_key(segment_id))


def put_attributes(segment_id: int, attributes: Mapping[str, str]) -> TableEntry:
    """Set all attributes of a segment; without any there is no row."""
    key = attributes_key(segment_id)
    return _put(key, encode_attributes(attributes)) if attributes else _remove(key)


def put_layout(layout: Layout) -> TableEntry:
    """Set a segment's layout."""
    return _put(layout_key(layout.segment_id), encode_layout(layout))


def remove_layout(segment_id: int) -> TableEntry:
    """Remove a segment's layout."""
    return _remove(layout_key(segment_id))


def put_extent(extent: Extent) -> TableEntry:
    """Set an extent."""
    return _put(extent_key(extent.segment_id, extent.start), encode_extent(extent))


def remove_extent(extent: Extent) -> TableEntry:
    """Remove an extent."""
    return _remove(extent_key(extent.segment_id, extent.start))


def put_chunk(chunk: Chunk) -> TableEntry:
    """Set a chunk's row."""
    return _put(chunk_key(chunk.chunk_id), encode_chunk(chunk))


def change_chunk(chunk: Chunk, row: bytes) -> TableEntry:
    """Set what changes of a chunk whose stored value is ``row``; what never changes stays there."""
    head = encode_chunk_head(chunk)
    assert row[: len(head)] == head, f"chunk {chunk.chunk_id} cannot change its name or epoch"
    return _splice(chunk_key(chunk.chunk_id), len(head), encode_chunk_tail(chunk))


def remove_chunk(chunk: Chunk) -> list[TableEntry]:
    """Remove a chunk's row, all rows of its block sums, at least one, and that of its name."""
    groups = max(1, -(-chunk.length // (BLOCK_BYTES * GROUP_BLOCKS)))
    sums = [_remove(block_sums_key(chunk.chunk_id, group)) for group in range(groups)]
    names = [_remove(import_chunk_key(chunk.name))] if chunk.adopted else []
    return [_remove(chunk_key(chunk.chunk_id)), *sums, *names]


def put_sums(patch: BlockSumsPatch) -> TableEntry:
    """Set the sums of a group from one block on; a splice unless that is the first block."""
    key = block_sums_key(patch.chunk_id, patch.group)
    if patch.first_block == 0:
        return _put(key, encode_block_sums(patch.sums))
    return _splice(key, sums_position(patch.first_block), encode_sums(patch.sums))


def put_writer(row: WriterRow) -> list[TableEntry]:
    """Register a writer: its row, and its number under its name."""
    number = encode_number(RowKind.WRITER_NAME, row.number)
    return [
        _put(writer_key(row.segment_id, row.number), encode_writer_row(row)),
        _put(writer_name_key(row.segment_id, row.name), number),
    ]


def advance_writer(row: WriterRow) -> TableEntry:
    """Set how far a registered writer has come; its name stays in the row."""
    position = len(encode_writer_head(row))
    return _splice(writer_key(row.segment_id, row.number), position, encode_writer_tail(row))


def remove_writer(row: WriterRow) -> list[TableEntry]:
    """Forget a writer and its name."""
    return [
        _remove(writer_key(row.segment_id, row.number)),
        _remove(writer_name_key(row.segment_id, row.name)),
    ]


def put_task(task: Task) -> TableEntry:
    """Set a task, or rewrite the one of the same due time, kind and subject."""
    return _put(task_key(task.due_ms, task.kind, task.subject), encode_task(task))


def remove_task(task: Task) -> TableEntry:
    """Remove a task that is done."""
    return _remove(task_key(task.due_ms, task.kind, task.subject))


def put_table(name: str, table_id: int) -> TableEntry:
    """Give a name to a table."""
    return _put(table_name_key(name), encode_number(RowKind.TABLE, table_id))


def put_tombstone(tombstone: Tombstone) -> TableEntry:
    """Say what became of a concatenated segment."""
    return _put(tombstone_key(tombstone.name), encode_tombstone(tombstone))


def remove_tombstone(name: str) -> TableEntry:
    """Forget what became of a concatenated segment."""
    return _remove(tombstone_key(name))


def put_epoch(row: EpochRow) -> TableEntry:
    """Set what the sweep knows of an epoch."""
    return _put(epoch_key(row.epoch), encode_epoch_row(row))


def put_time(row: TimeRow) -> TableEntry:
    """Set until when the bytes below an append border were appended."""
    return _put(time_key(row.segment_id, row.offset), encode_time_row(row))


def remove_time(row: TimeRow) -> TableEntry:
    """Remove an append border from the time index."""
    return _remove(time_key(row.segment_id, row.offset))


def put_retention(row: RetentionRow) -> TableEntry:
    """Set a rule of retention."""
    return _put(retention_key(row.scope, row.name), encode_retention_row(row))


def remove_retention(scope: RetentionScope, name: str) -> TableEntry:
    """Remove a rule of retention."""
    return _remove(retention_key(scope, name))


def put_counter(counter: CounterKind, value: int) -> TableEntry:
    """Set the next number that a counter gives."""
    return _put(counter_key(counter), encode_number(RowKind.COUNTER, value))
