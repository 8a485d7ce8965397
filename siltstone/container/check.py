"""The check of a container: every layout, and every chunk's presence, length and sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

from siltstone.container.reading import Reading
from siltstone.container.views import Finding
from siltstone.core.checksums import crc32c
from siltstone.core.errors import ChunkError, CorruptDataError
from siltstone.core.invariants import check_layout
from siltstone.core.records.checkpoint import Checkpoint, SystemLayout
from siltstone.core.segment_storage import ChunkedSegmentStorage
from siltstone.core.threads import AsyncChunkStorage

PAGE = 200


async def check_segments(
    reading: Reading, segments: ChunkedSegmentStorage
) -> AsyncIterator[Finding]:
    """Check the layout of every segment and every chunk that a layout names."""
    replica = reading.replica
    references: Counter[int] = Counter()
    start_after = ""
    while page := replica.rows.segments("", start_after, PAGE):
        for name, segment_id in page:
            async for finding in _check_segment(reading, segments, name, segment_id, references):
                yield finding
        start_after = page[-1][0]
    for chunk_id, count in references.items():
        chunk = replica.rows.chunk(chunk_id)
        if chunk is None:
            yield Finding(severity="damage", where=f"chunk {chunk_id}", message="row is missing")
            continue
        if chunk.references != count:
            message = f"I17: {count} extents name it, its row says {chunk.references}"
            yield Finding(severity="damage", where=chunk.name, message=message)
        problem = await segments.verify_chunk(chunk)
        if problem is not None:
            yield Finding(severity="damage", where=chunk.name, message=str(problem))


async def _check_segment(
    reading: Reading,
    segments: ChunkedSegmentStorage,
    name: str,
    segment_id: int,
    references: Counter[int],
) -> AsyncIterator[Finding]:
    rows = reading.replica.rows
    where = f"segment {name}"
    state = rows.state(segment_id)
    if state is None or state.name != name or state.deleted:
        yield Finding(severity="damage", where=where, message="name without a live state")
        return
    layout = rows.layout(segment_id)
    extents = rows.extents(segment_id, 0, layout.storage_length, 1 << 31)
    try:
        check_layout(layout, extents)
    except CorruptDataError as error:
        yield Finding(severity="damage", where=where, message=str(error))
    references.update(extent.chunk_id for extent in extents)


async def check_system(
    system: ChunkedSegmentStorage,
    storage: AsyncChunkStorage,
    layouts: tuple[SystemLayout, ...],
    checkpoint: Checkpoint | None,
) -> AsyncIterator[Finding]:
    """Check the table log's chunks and the index files of the newest checkpoint."""
    for layout in layouts:
        for chunk in layout.chunks:
            problem = await system.verify_chunk(chunk)
            if problem is not None:
                yield Finding(severity="damage", where=chunk.name, message=str(problem))
    for file in checkpoint.index_files if checkpoint is not None else ():
        message = await _index_file_problem(storage, file.chunk_name, file.length, file.crc)
        if message is not None:
            yield Finding(severity="damage", where=file.chunk_name, message=message)


async def _index_file_problem(
    storage: AsyncChunkStorage, name: str, length: int, crc: int
) -> str | None:
    try:
        data = await storage.read_all(name, length)
    except ChunkError as error:
        return str(error)
    if len(data) != length:
        return f"length is {len(data)}, not {length}"
    if crc32c(data) != crc:
        return "does not match its sum"
    return None
