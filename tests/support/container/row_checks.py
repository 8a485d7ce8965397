"""Every invariant of rows and chunks that can be seen from outside of a container."""

from __future__ import annotations

from siltstone.container.container import Container
from siltstone.core.chunk_names import data_prefix, import_prefix, session_of
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.records.chunk import Chunk, decode_chunk
from siltstone.core.records.extent import Extent, decode_extent
from siltstone.core.records.keys import METADATA_TABLE, CounterKind, RowKind, extent_of
from siltstone.core.records.task import TaskKind
from siltstone.metadata.rows import Rows
from siltstone.metadata.time_index import newest_times
from siltstone.segments.invariants import (
    check_chunk,
    check_epoch,
    check_last_chunk,
    check_layout,
    check_names,
    check_placed,
    check_references,
    check_sums,
)
from tests.support import inside


async def check_rows(container: Container, storage: ChunkStorage, *, strict: bool) -> None:
    """Check all that an owner knows, while it is idle.

    Args:
        container: the owner.
        storage: long-term storage without injected faults.
        strict: no chunk of the owner's own epoch may be unaccounted for.
    """
    rows = inside.parts(container).pipeline.replica.rows
    chunks, extents = all_chunks(rows), all_extents(rows)
    stats = {stat.name: stat for stat in storage.list("")}
    check_names(chunks.values())
    check_references(chunks, extents)
    for chunk in chunks.values():
        check_epoch(chunk)
        if chunk.references:
            check_chunk(chunk, stats[chunk.name])
        check_sums(chunk, all_sums(rows, chunk))
    for segment_id in {extent.segment_id for extent in extents}:
        layout = rows.layout(segment_id)
        mine = [extent for extent in extents if extent.segment_id == segment_id]
        placed = [extent for extent in mine if extent.start >= layout.storage_length]
        mine = mine[: len(mine) - len(placed)]
        undone = {task.subject for task in rows.tasks(2**62) if task.kind is TaskKind.UNDO_CONCAT}
        state = rows.state(segment_id)
        assert not placed or segment_id in undone or state is None or state.deleted
        check_placed(layout, placed)
        check_layout(layout, mine)
        check_last_chunk(layout, mine, chunks.get(layout.last_chunk_id))
        newest = newest_times(rows._tables, segment_id, layout.storage_length, 1)
        # The hidden segment of an import gets its time when it is shown.
        is_hidden = state is not None and state.deleted and not newest
        assert is_hidden or [row.offset for row in newest] == [layout.storage_length], (
            "no append time at the end"
        )
    named = {chunk.name for chunk in chunks.values()}
    _check_accounted(container, rows, named, set(stats), strict)
    findings = [finding async for finding in container.check()]
    assert not [f for f in findings if f.severity == "damage"], findings


def _check_accounted(
    container: Container, rows: Rows, named: set[str], found: set[str], strict: bool
) -> None:
    """I4: what lies on storage is named by a row or a task, or its id is reserved."""
    named |= {task.name for task in rows.tasks(2**62) if task.kind is TaskKind.DELETE_CHUNK}
    prefix = data_prefix(inside.parts(container).journal.container)
    own = f"{prefix}e{container.epoch:020d}/"
    for name in found - named:
        if name.startswith(import_prefix(inside.parts(container).journal.container)):
            session_id = session_of(name, inside.parts(container).journal.container)
            assert session_id is not None, f"no session knows {name}"
            assert session_id < rows.counter(CounterKind.SEGMENT_ID), f"{name} has no session"
        if not name.startswith(prefix):
            continue
        assert not strict or not name.startswith(own), f"no row accounts for {name}"
        chunk_id = int(name.rpartition("-")[2].partition(".")[0], 16)
        assert chunk_id < rows.counter(CounterKind.CHUNK_ID), f"{name} was never reserved"


def all_chunks(rows: Rows) -> dict[int, Chunk]:
    low, high = bytes((RowKind.CHUNK,)), bytes((RowKind.CHUNK + 1,))
    found = {}
    for key, entry in rows._tables.scan(METADATA_TABLE, low, high, limit=100_000):
        chunk_id = int.from_bytes(key[1:])
        found[chunk_id] = decode_chunk(chunk_id, entry.value)
    return found


def all_extents(rows: Rows) -> list[Extent]:
    low, high = bytes((RowKind.EXTENT,)), bytes((RowKind.EXTENT + 1,))
    scanned = rows._tables.scan(METADATA_TABLE, low, high, limit=100_000)
    return [decode_extent(*extent_of(key), entry.value) for key, entry in scanned]


def all_sums(rows: Rows, chunk: Chunk) -> list[int]:
    sums: list[int] = []
    group = 0
    while some := rows.sums(chunk.chunk_id, group):
        sums += some
        group += 1
    return sums
