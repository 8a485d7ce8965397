"""Rows of segments that are written in a legacy layout: reads, and changes as entries."""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.core.records.keys import METADATA_TABLE, RowKind, legacy_key, legacy_of
from siltstone.core.records.legacy_row import LegacyRow, decode_legacy_row, encode_legacy_row
from siltstone.core.records.table_record import TableEntry
from siltstone.metadata.tables import Tables

_FIRST = bytes((RowKind.LEGACY,))
_END = bytes((RowKind.LEGACY + 1,))


def put_legacy(row: LegacyRow) -> TableEntry:
    """Set how a segment is written, or what new ones get."""
    return TableEntry(METADATA_TABLE, legacy_key(row.segment_id), encode_legacy_row(row))


def remove_legacy(segment_id: int) -> TableEntry:
    """Let a segment, or new ones, be written as any other."""
    return TableEntry(METADATA_TABLE, legacy_key(segment_id), None)


def pending_legacy(tables: Tables, segment_id: int) -> LegacyRow | None:
    """How a segment is written, as assigned; ``None`` when nothing is known of that."""
    entry = tables.pending(METADATA_TABLE, legacy_key(segment_id))
    return None if entry is None else decode_legacy_row(segment_id, entry.value)


def legacy_pages(tables: Tables) -> Iterator[list[int]]:
    """The ids that have a row, page by page, in order. Other work may be done between two."""
    for found in tables.pages(METADATA_TABLE, _FIRST, _END):
        yield [legacy_of(key) for key, _ in found]
