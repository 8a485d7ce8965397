"""Walking over the extents of all segments, a page at a time."""

from __future__ import annotations

from siltstone.core.records.extent import Extent, decode_extent
from siltstone.core.records.keys import METADATA_TABLE, RowKind, extent_key, extent_of
from siltstone.metadata.tables import Tables

_END = bytes((RowKind.EXTENT + 1,))


def scan_extents(tables: Tables, segment_id: int, start: int, limit: int) -> list[Extent]:
    """Return the next acknowledged extents of this and later segments, in order.

    Args:
        tables: of the container.
        segment_id: where to begin.
        start: offset of the first extent of that segment that counts.
        limit: most extents.
    """
    low = extent_key(segment_id, start)
    found = tables.scan(METADATA_TABLE, low, _END, limit=limit)
    return [decode_extent(*extent_of(key), entry.value) for key, entry in found]
