"""Every chunk that a container names, with the sums of its blocks, at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from siltstone.container.reads.reads import Reading
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.checkpoint import SystemLayout
from siltstone.core.records.chunk import Chunk
from siltstone.metadata.extent_scan import scan_extents
from siltstone.segments.segment_storage import ChunkedSegmentStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRows:
    """What the metadata says of one chunk.

    Attributes:
        container: whose it is.
        chunk: its row.
        sums: CRC32C of each block below its committed length.
    """

    container: int
    chunk: Chunk
    sums: tuple[int, ...]


def named_chunks(
    container: int,
    reading: Reading,
    segments: ChunkedSegmentStorage,
    system: ChunkedSegmentStorage,
    layouts: tuple[SystemLayout, ...],
) -> Iterator[ChunkRows]:
    """Yield the chunks of the table log, then all that an extent names, each once.

    All is of one moment if nothing is awaited until the end.

    Raises:
        CorruptDataError: a row is missing.
    """
    for layout in layouts:
        for chunk in layout.chunks:
            yield ChunkRows(container=container, chunk=chunk, sums=system.sums(chunk))
    rows = reading.replica.rows
    for chunk_id in sorted(_named(reading)):
        row = rows.chunk(chunk_id)
        if row is None:
            raise CorruptDataError("row of a chunk is missing", where=f"chunk {chunk_id}")
        yield ChunkRows(container=container, chunk=row, sums=segments.sums(row))


def _named(reading: Reading) -> set[int]:
    found: set[int] = set()
    at = (0, 0)
    while page := scan_extents(reading.replica.tables, *at, ROWS_PER_SLICE):
        found.update(extent.chunk_id for extent in page)
        at = (page[-1].segment_id, page[-1].end)
    return found
