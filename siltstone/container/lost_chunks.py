"""Which bytes of a state are not on long-term storage: its rows beside one listing.

A state that is older than what owners deleted since names chunks that are gone. Only presence and
lengths are looked at; ``siltstone check --deep`` reads the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.container.recovery_report import LostRange
from siltstone.container.replica import Replica
from siltstone.core.chunk_names import data_prefix, import_prefix
from siltstone.core.records.chunk import Chunk, decode_chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.keys import METADATA_TABLE, RowKind, chunk_key
from siltstone.core.threads import AsyncChunkStorage
from siltstone.core.words import ROWS_PER_SLICE
from siltstone.metadata.extent_scan import scan_extents
from siltstone.metadata.tables import Tables

LISTING_PAGE = 1_000
_BEHIND_CHUNKS = bytes((RowKind.CHUNK + 1,))


async def lost_ranges(
    replica: Replica, storage: AsyncChunkStorage, container: int
) -> dict[int, tuple[LostRange, ...]]:
    """Return what is missing of each segment, by its id, in order; the whole segments are left out.

    What lies below the start of a segment was truncated and is not missing.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    lengths = await chunk_lengths(storage, container)
    wrong = {
        chunk.chunk_id: chunk
        for chunk in chunks_of(replica.tables)
        if lengths.get(chunk.name, -1) < chunk.length
    }
    if not wrong:
        return {}
    found: dict[int, list[LostRange]] = {}
    for extent in _extents(replica.tables):
        chunk = wrong.get(extent.chunk_id)
        if chunk is None:
            continue
        lost = _lost(replica, extent, chunk, lengths.get(chunk.name))
        if lost is not None:
            found.setdefault(extent.segment_id, []).append(lost)
    return {segment_id: tuple(ranges) for segment_id, ranges in found.items()}


async def chunk_lengths(storage: AsyncChunkStorage, container: int) -> dict[str, int]:
    """Return the physical length of every chunk of users' segments, by name.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    found: dict[str, int] = {}
    for prefix in (data_prefix(container), import_prefix(container)):
        start_after = ""
        while True:
            stats = await storage.list(prefix, start_after, LISTING_PAGE)
            found.update((stat.name, stat.length) for stat in stats)
            if len(stats) < LISTING_PAGE:
                break
            start_after = stats[-1].name
    return found


def _lost(replica: Replica, extent: Extent, chunk: Chunk, length: int | None) -> LostRange | None:
    """The part of an extent that is not there; ``length`` is the chunk's, ``None`` without one."""
    state = replica.rows.state(extent.segment_id)
    if state is None or state.deleted:
        return None
    there = 0 if length is None else max(0, length - extent.chunk_offset)
    start = max(extent.start + there, state.start_offset)
    if start >= extent.end:
        return None
    reason = "missing" if length is None else f"{length} bytes long, not {chunk.length}"
    return LostRange(offset=start, length=extent.end - start, chunk=chunk.name, reason=reason)


def chunks_of(tables: Tables) -> Iterator[Chunk]:
    """Yield every chunk that has a row, those that wait to be deleted too."""
    low = chunk_key(0)
    while found := tables.scan(METADATA_TABLE, low, _BEHIND_CHUNKS, limit=ROWS_PER_SLICE):
        for key, entry in found:
            yield decode_chunk(int.from_bytes(key[1:]), entry.value)
        low = found[-1][0] + b"\0"


def _extents(tables: Tables) -> Iterator[Extent]:
    at = (0, 0)
    while page := scan_extents(tables, *at, ROWS_PER_SLICE):
        yield from page
        at = (page[-1].segment_id, page[-1].end)
