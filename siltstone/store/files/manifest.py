"""What a file manifest says of a segment, made of its map. Pure functions."""

from __future__ import annotations

from collections.abc import Callable

from siltstone.container.state.segment_map import SegmentMap
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import CapabilityError
from siltstone.core.records.file_manifest import ManifestChunk, ManifestFile, ManifestRun
from siltstone.segments.inspect import ChunkExtent


class ChunkTable:
    """The chunks that runs name by their index, each once.

    Args:
        uri_of: see ``optional_verbs.Addresses``.
    """

    def __init__(self, uri_of: Callable[[str], str | None]) -> None:
        self._uri_of = uri_of
        self._indexes: dict[str, int] = {}
        self._rows: list[ManifestChunk] = []

    def uri_of(self, name: str) -> str:
        """Return the address of a chunk. Raises ``CapabilityError`` when it has none."""
        uri = self._uri_of(name)
        if uri is None:
            raise CapabilityError("Spark cannot read this chunk as a file", chunk=name)
        return uri

    def index_of(self, row: ChunkExtent) -> int:
        """Return the index of a chunk, which is added when it is new.

        Of a chunk that grew between two looks the longer state counts: it holds what the other one
        does. Its last block then has another sum, so the two are not mixed.
        """
        key = f"{row.chunk.name} {row.chunk.length}"
        if key not in self._indexes:
            self._indexes[key] = len(self._rows)
            self._rows.append(
                ManifestChunk(uri=self.uri_of(row.chunk.name), length=row.chunk.length)
            )
        return self._indexes[key]

    def rows(self) -> tuple[ManifestChunk, ...]:
        """All of them, by index."""
        return tuple(self._rows)


def manifest_file(
    path: str, segment: SegmentMap, chunks: ChunkTable, *, verify: bool
) -> ManifestFile:
    """Describe the flushed bytes of a map; a map with a tail is a defect of ours.

    Raises:
        CapabilityError: readers must verify what they read, and some of it has no sums.
    """
    assert not segment.tail, "only flushed bytes are in chunks"
    runs: list[ManifestRun] = []
    for row in segment.extents:
        start = max(segment.start, row.extent.start)
        end = min(segment.end, row.extent.end)
        offset = row.extent.chunk_offset + start - row.extent.start
        first, last = offset // BLOCK_BYTES, -(-(offset + end - start) // BLOCK_BYTES)
        runs.append(
            ManifestRun(
                length=end - start,
                chunk=chunks.index_of(row),
                chunk_offset=offset,
                sums=_sums(segment, row, first, last, verify=verify),
            )
        )
    return ManifestFile(
        path=path,
        segment=segment.info.name,
        offset=segment.start,
        length=segment.end - segment.start,
        runs=tuple(runs),
    )


def _sums(
    segment: SegmentMap, row: ChunkExtent, first: int, last: int, *, verify: bool
) -> tuple[int, ...]:
    """The sums of some blocks; zeros, which are never used, for an object that has none."""
    if row.sums:
        return row.sums[first:last]
    if verify:
        raise CapabilityError(
            "bytes in place have no sums, so readers cannot verify them; record_sums makes some",
            segment=segment.info.name,
            chunk=row.chunk.name,
        )
    return (0,) * (last - first)
