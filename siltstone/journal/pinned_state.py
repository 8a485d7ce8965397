"""What a change does to the layouts of system segments.

Pure functions, shared by the owner, who applies a change once its batch is durable, and by
boots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.checkpoint import SystemLayout
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.journal_batch import check_system_change
from siltstone.core.records.layout import Layout
from siltstone.core.records.layout_change import LayoutChange

Pinned = tuple[SystemLayout, ...]
"""Layouts of system segments, one a segment, in order of their ids."""


def empty_layout(segment_id: int) -> SystemLayout:
    """Layout of a system segment that nothing was ever put into."""
    return SystemLayout(layout=Layout(segment_id=segment_id), extents=(), chunks=(), sums=())


def apply_change(pinned: Pinned, change: LayoutChange) -> Pinned:
    """Return ``pinned`` after ``change``; nothing is changed in place.

    Raises:
        ValueError: the change was planned on another state, or what it leads to breaks an invariant
            of ``check_system_layout``.
    """
    check_system_change(change)
    assert change.after is not None, "checked above"
    layouts = {system.layout.segment_id: system for system in pinned}
    current = layouts.get(change.segment_id) or empty_layout(change.segment_id)
    if current.layout != change.before:
        raise ValueError(f"planned on {change.before}, not on {current.layout}")
    chunks = _changed_chunks(current.chunks, change)
    changed = SystemLayout(
        layout=change.after,
        extents=_changed_extents(current.extents, change),
        chunks=tuple(chunks[chunk_id] for chunk_id in sorted(chunks)),
        sums=_changed_sums(current.sums, change.sums, chunks),
    )
    if changed.layout.segment_id != change.segment_id:
        raise ValueError(f"layout of another segment: {changed.layout}")
    check_system_layout(changed)
    layouts[change.segment_id] = changed
    return tuple(layouts[segment_id] for segment_id in sorted(layouts))


def check_system_layout(system: SystemLayout) -> None:
    """Check the invariants of one system segment's layout.

    Invariants:
        Extents follow one another from storage start to storage length, in order.
        Each lies within the committed length of a known chunk; a chunk's references are the extents
        that name it, one at least. Sums cover every block of every chunk, and nothing else.

    Raises:
        ValueError: one is broken.
    """
    layout = system.layout
    chunks = {chunk.chunk_id: chunk for chunk in system.chunks}
    if list(chunks) != sorted(chunks) or len(chunks) != len(system.chunks):
        raise ValueError("chunks are not in order, each once")
    references: Counter[int] = Counter()
    end = layout.storage_start
    for extent in system.extents:
        if extent.segment_id != layout.segment_id or extent.length < 1 or extent.start != end:
            raise ValueError(f"extents are not contiguous at {end}: {extent}")
        chunk = chunks.get(extent.chunk_id)
        if chunk is None or extent.chunk_offset + extent.length > chunk.length:
            raise ValueError(f"extent exceeds its chunk: {extent}, {chunk}")
        references[extent.chunk_id] += 1
        end = extent.end
    if end != layout.storage_length:
        raise ValueError(f"extents end at {end}, not at {layout.storage_length}")
    for chunk in system.chunks:
        if (
            chunk.chunk_id < 1
            or chunk.references != references[chunk.chunk_id]
            or not chunk.references
        ):
            raise ValueError(f"wrong references: {chunk}, {references[chunk.chunk_id]} extents")
    if layout.last_chunk_id and layout.last_chunk_id not in chunks:
        raise ValueError(f"last chunk is not known: {layout}")
    _check_sums(system.sums, chunks.values())


def _changed_extents(extents: tuple[Extent, ...], change: LayoutChange) -> tuple[Extent, ...]:
    rows = {extent.start: extent for extent in extents}
    for extent in change.extents_removed:
        if rows.pop(extent.start, None) != extent:
            raise ValueError(f"removes an extent that is not there: {extent}")
    for extent in change.extents_put:
        rows[extent.start] = extent
    return tuple(rows[start] for start in sorted(rows))


def _changed_chunks(chunks: tuple[Chunk, ...], change: LayoutChange) -> dict[int, Chunk]:
    rows = {chunk.chunk_id: chunk for chunk in chunks}
    for chunk in change.chunks_dropped:
        if rows.pop(chunk.chunk_id, None) != chunk:
            raise ValueError(f"drops a chunk that is not there: {chunk}")
    for chunk in change.chunks_put:
        old = rows.get(chunk.chunk_id)
        if old and (old.name, old.epoch, old.adopted) != (chunk.name, chunk.epoch, chunk.adopted):
            raise ValueError(f"makes another chunk of {old}: {chunk}")
        if old and (chunk.length < old.length or (old.closed and chunk.length != old.length)):
            raise ValueError(f"takes bytes from a chunk, or adds some to a closed one: {chunk}")
        rows[chunk.chunk_id] = chunk
    return rows


def _changed_sums(
    sums: tuple[BlockSumsPatch, ...], patches: tuple[BlockSumsPatch, ...], chunks: dict[int, Chunk]
) -> tuple[BlockSumsPatch, ...]:
    rows = {(row.chunk_id, row.group): row.sums for row in sums if row.chunk_id in chunks}
    for patch in patches:
        key = (patch.chunk_id, patch.group)
        old = rows.get(key, ())
        if patch.first_block > len(old):
            raise ValueError(f"leaves a gap in the sums of {key}: {patch.first_block}, {len(old)}")
        rows[key] = old[: patch.first_block] + patch.sums
    return tuple(
        BlockSumsPatch(chunk_id=chunk_id, group=group, first_block=0, sums=rows[chunk_id, group])
        for chunk_id, group in sorted(rows)
    )


def _check_sums(sums: Iterable[BlockSumsPatch], chunks: Iterable[Chunk]) -> None:
    found = [(row.chunk_id, row.group, row.first_block, len(row.sums)) for row in sums]
    needed = []
    for chunk in chunks:
        blocks = -(-chunk.length // BLOCK_BYTES)
        needed += [
            (chunk.chunk_id, first // GROUP_BLOCKS, 0, min(GROUP_BLOCKS, blocks - first))
            for first in range(0, blocks, GROUP_BLOCKS)
        ]
    if found != needed:
        raise ValueError(f"sums do not cover the chunks: {found}, needed are {needed}")
