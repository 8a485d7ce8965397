"""Pages of the metadata's rows, decoded, for a person who looks into them."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.container.reads.reads import Reading
from siltstone.core.records.keys import METADATA_TABLE, RowKind
from siltstone.metadata.row_views import MetadataRow, row_view


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPage:
    """Some rows.

    Attributes:
        rows: those that were asked for among the rows that were looked at.
        next_key: where the next page begins; ``None`` after the last row.
    """

    rows: tuple[MetadataRow, ...]
    next_key: bytes | None


_OF_SEGMENT = frozenset(
    (
        RowKind.STATE,
        RowKind.LAYOUT,
        RowKind.EXTENT,
        RowKind.WRITER,
        RowKind.WRITER_NAME,
        RowKind.ATTRIBUTES,
        RowKind.TIME,
    )
)


def row_page(
    reading: Reading,
    container: int,
    start: bytes,
    limit: int,
    *,
    kind: RowKind | None,
    segment: str | None,
) -> RowPage:
    """The rows from the key ``start`` on, at most ``limit`` looked at.

    Raises:
        SegmentNotFoundError: there is no segment of the name ``segment``.
    """
    low = max(start, b"" if kind is None else bytes((kind,)))
    end = None if kind is None else bytes((kind + 1,))
    segment_id = None if segment is None else reading.segment(segment).segment_id
    found = reading.replica.tables.scan(METADATA_TABLE, low, end, limit=limit)
    rows = []
    for key, entry in found:
        if segment_id is not None and not _is_of(key, segment_id, segment or ""):
            continue
        name, fields = row_view(key, entry.value)
        rows.append(
            MetadataRow(container=container, kind=name, version=entry.version, fields=fields)
        )
    more = len(found) == limit
    return RowPage(rows=tuple(rows), next_key=found[-1][0] + b"\0" if more else None)


def _is_of(key: bytes, segment_id: int, name: str) -> bool:
    kind = key[0]
    if kind in (RowKind.NAME, RowKind.TOMBSTONE):
        return key[1:] == name.encode()
    return kind in _OF_SEGMENT and key[1:9] == segment_id.to_bytes(8)
