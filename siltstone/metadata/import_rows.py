"""Rows of import sessions: reads, and changes as entries of a table update."""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.core.records.import_batch_row import (
    ImportBatchRow,
    decode_import_batch_row,
    encode_import_batch_row,
)
from siltstone.core.records.import_row import ImportRow, decode_import_row, encode_import_row
from siltstone.core.records.keys import (
    METADATA_TABLE,
    ImportRowPart,
    RowKind,
    after_prefix,
    import_batch_key,
    import_chunk_key,
    import_key,
    import_of,
)
from siltstone.core.records.number import decode_number, encode_number
from siltstone.core.records.table_record import TableEntry
from siltstone.metadata.index_rows import Entry
from siltstone.metadata.tables import Tables

_FIRST = bytes((RowKind.IMPORT, ImportRowPart.SESSION))
_END = bytes((RowKind.IMPORT, ImportRowPart.CHUNK))
_CHUNKS_END = bytes((RowKind.IMPORT, ImportRowPart.CHUNK + 1))


def put_import(row: ImportRow) -> TableEntry:
    """Set a session."""
    return TableEntry(METADATA_TABLE, import_key(row.name), encode_import_row(row))


def remove_import(name: str) -> TableEntry:
    """Forget a session that was closed."""
    return TableEntry(METADATA_TABLE, import_key(name), None)


def put_import_chunk(chunk: str, chunk_id: int) -> TableEntry:
    """State that a chunk that a session brought has a row."""
    value = encode_number(RowKind.IMPORT, chunk_id)
    return TableEntry(METADATA_TABLE, import_chunk_key(chunk), value)


def put_import_batch(row: ImportBatchRow) -> TableEntry:
    """Set the newest batch of a stream."""
    return TableEntry(METADATA_TABLE, import_batch_key(row.query), encode_import_batch_row(row))


def pending_import(tables: Tables, name: str) -> ImportRow | None:
    """The session of this name, as assigned."""
    entry = tables.pending(METADATA_TABLE, import_key(name))
    return None if entry is None else decode_import_row(name, entry.value)


def acknowledged_import(tables: Tables, name: str) -> ImportRow | None:
    """The session of this name."""
    entry = tables.get(METADATA_TABLE, import_key(name))
    return None if entry is None else decode_import_row(name, entry.value)


def pending_import_batch(tables: Tables, query: str) -> ImportBatchRow | None:
    """The newest imported batch of a stream, as assigned."""
    entry = tables.pending(METADATA_TABLE, import_batch_key(query))
    return None if entry is None else decode_import_batch_row(query, entry.value)


def acknowledged_import_batch(tables: Tables, query: str) -> ImportBatchRow | None:
    """The newest imported batch of a stream."""
    entry = tables.get(METADATA_TABLE, import_batch_key(query))
    return None if entry is None else decode_import_batch_row(query, entry.value)


def is_named(tables: Tables, chunk: str) -> bool:
    """Whether an imported chunk has a row, acknowledged or assigned."""
    return chunk_id_of(tables, chunk) is not None


def is_any_named(tables: Tables, begin: str) -> bool:
    """Whether an imported chunk whose name begins so has an acknowledged row."""
    low = import_chunk_key(begin)
    return bool(tables.scan(METADATA_TABLE, low, after_prefix(low), limit=1))


def chunk_id_of(tables: Tables, chunk: str) -> int | None:
    """The id of an imported chunk, acknowledged or assigned."""
    key = import_chunk_key(chunk)
    known = tables.get(METADATA_TABLE, key) or tables.pending(METADATA_TABLE, key)
    return None if known is None else decode_number(RowKind.IMPORT, known.value)


def imported_chunk_pages(tables: Tables) -> Iterator[list[int]]:
    """The ids of all imported chunks, page by page. Other work may be done between two."""
    for found in tables.pages(METADATA_TABLE, _END, _CHUNKS_END):
        yield [decode_number(RowKind.IMPORT, entry.value) for _, entry in found]


def import_pages(tables: Tables) -> Iterator[list[ImportRow]]:
    """All acknowledged sessions, page by page, in the order of their names.

    Other work may be done between two pages.
    """
    for found in tables.pages(METADATA_TABLE, _FIRST, _END):
        yield [_row(key, entry) for key, entry in found]


def _row(key: bytes, entry: Entry) -> ImportRow:
    _, name = import_of(key)
    return decode_import_row(name, entry.value)
