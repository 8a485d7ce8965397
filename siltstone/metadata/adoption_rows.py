"""Rows of adoptions: reads, and changes as entries of a table update."""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.core.records.adoption_row import (
    AdoptionRow,
    decode_adoption_row,
    encode_adoption_row,
)
from siltstone.core.records.keys import (
    METADATA_TABLE,
    RowKind,
    adoption_key,
    adoption_of,
)
from siltstone.core.records.legacy_row import LegacyRow
from siltstone.core.records.table_record import TableEntry
from siltstone.metadata.tables import Tables

_FIRST = bytes((RowKind.ADOPTION,))
_END = bytes((RowKind.ADOPTION + 1,))


def put_adoption(row: AdoptionRow) -> TableEntry:
    """Set what is known of a session that took objects in place."""
    return TableEntry(METADATA_TABLE, adoption_key(row.session_id), encode_adoption_row(row))


def remove_adoption(session_id: int) -> TableEntry:
    """Forget a session that has no object in place any more."""
    return TableEntry(METADATA_TABLE, adoption_key(session_id), None)


def pending_adoption(tables: Tables, session_id: int) -> AdoptionRow | None:
    """What is known of a session, as assigned; ``None`` when it gave nothing to any segment."""
    entry = tables.pending(METADATA_TABLE, adoption_key(session_id))
    return None if entry is None else decode_adoption_row(session_id, entry.value)


def layout_adoption(tables: Tables, new: LegacyRow) -> str:
    """The adoption that the files of a layout belong to, by its row for new segments."""
    row = pending_adoption(tables, new.session_id)
    assert row is not None, "the layout's session has a row"
    return row.adoption


def adoption_pages(tables: Tables) -> Iterator[list[AdoptionRow]]:
    """All acknowledged rows, page by page, by session. Other work may be done between two."""
    for found in tables.pages(METADATA_TABLE, _FIRST, _END):
        yield [decode_adoption_row(adoption_of(key), entry.value) for key, entry in found]
