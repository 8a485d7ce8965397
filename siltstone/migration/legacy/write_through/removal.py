"""What is left in a legacy layout of a segment that was deleted, and that no chunk names.

Its header, under both names that it can have, and the files that a flush may have begun before it
died. The row of the segment says which these are; nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkNotFoundError
from siltstone.core.records.legacy_row import LegacyRow
from siltstone.migration.legacy.names import chunk_of
from siltstone.migration.legacy.write_through.files import read_header
from siltstone.migration.legacy.write_through.layout import (
    SEALED,
    ahead_starts,
    file_bytes,
    header_ahead,
    header_begin,
    header_key,
    is_ours,
)


def remove_header(storage: ChunkStorage, row: LegacyRow) -> None:
    """Let the layout have no such segment any more. Repeatable.

    A header that no transaction stated is deleted only if it says what ours would say.

    Raises:
        ChunkError: storage failed; a repeat continues.
    """
    keys = [header_key(row)]
    if row.suffix:
        keys.append(f"{keys[0].removesuffix(row.suffix)}{SEALED}")
    for key in keys:
        if row.header_length or _is_begun(storage, row, key):
            _delete(storage, key)


def remove_ahead(storage: ChunkStorage, row: LegacyRow) -> None:
    """Delete the files that a flush may have begun, after the header. Repeatable.

    One that is longer than the flush would have made it is not ours, and stays.

    Raises:
        ChunkError: storage failed; a repeat continues.
    """
    if row.listed:
        _delete(storage, row.prefix + row.listed)
    for start in ahead_starts(row):
        key = f"{row.prefix}{chunk_of(row.source, start)}{row.suffix}"
        try:
            length = storage.stat(key).length
        except ChunkNotFoundError:
            continue
        if length <= min(file_bytes(row), row.ahead_end - start):
            _delete(storage, key)


def _is_begun(storage: ChunkStorage, row: LegacyRow, key: str) -> bool:
    """Whether a header is what was left of the first one that the segment got."""
    found = read_header(storage, key)
    if found is None:
        return False
    wanted = b"".join(part.encode("utf-8") for part in _begun(row))
    return len(found) <= len(wanted) and is_ours(found, wanted)


def _begun(row: LegacyRow) -> Iterator[str]:
    if row.ahead_end:
        return header_ahead(row, None, row.ahead_start, row.ahead_end)
    return iter((header_begin(row),))


def _delete(storage: ChunkStorage, key: str) -> None:
    try:
        storage.delete(key)
    except ChunkNotFoundError:
        return
