"""Everything that a keyspace holds, read from its rows and segments, and whether it fits together.

Not by its verbs: rows and records are decoded one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from siltstone.objects.lost_changes import PASSED
from siltstone.objects.records import keys
from siltstone.objects.records.footer import (
    TRAILER_BYTES,
    decode_directory,
    decode_piece,
    decode_trailer,
)
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import IndexEntry, ObjectKey
from siltstone.objects.records.large_place import LARGE
from siltstone.objects.records.space_rows import (
    ManifestRow,
    SpaceState,
    ValueStatus,
    decode_index_entry,
    decode_manifest_row,
    decode_state,
)
from siltstone.objects.records.value_record import RecordHeader, ValueKind, decode_record
from siltstone.objects.space_names import SpaceNames
from siltstone.store.async_store import AsyncStore
from tests.support.objects.large_check import large_values


@dataclass(frozen=True)
class SeenObject:
    """An object as rows and records have it.

    Attributes:
        head: its row.
        value: the bytes in the record that the row names.
    """

    head: Head
    value: bytes


@dataclass
class SeenSpace:
    """A whole keyspace.

    Attributes:
        objects: every head that is there, expired ones too.
        state: what the next batch begins with.
        manifest: its value segments.
        records: of each SQN the segment, the offset, the header, and the value.
    """

    objects: dict[ObjectKey, SeenObject]
    state: SpaceState
    manifest: list[ManifestRow]
    records: dict[int, tuple[int, int, RecordHeader, bytes]]

    def visible(self, now_s: float) -> dict[ObjectKey, SeenObject]:
        """The objects that have not expired."""
        return {
            key: each
            for key, each in self.objects.items()
            if not each.head.expires_s or now_s < each.head.expires_s
        }


async def look(store: AsyncStore, names: SpaceNames) -> SeenSpace:
    """Read all of a keyspace that is not written to, and compare its parts with one another."""
    rows = {key: found.value async for key, found in store.table(names.ledger).scan()}
    state = decode_state(rows[keys.STATE], where="state")
    manifest = [
        decode_manifest_row(keys.first_sqn_of(key), value, where="manifest")
        for key, value in rows.items()
        if key.startswith(keys.MANIFEST)
    ]
    records: dict[int, tuple[int, int, RecordHeader, bytes]] = {}
    check_manifest(manifest, state)
    for row in manifest:
        records |= await check_segment(store, names, row, state)
    ranges = [range(row.first_sqn, row.last_sqn + 1) for row in manifest[:-1]]
    sqns = [sqn for each in (*ranges, range(state.first_sqn, state.next_sqn)) for sqn in each]
    assert sorted(records) == sqns, "each SQN has one record"
    heads = {
        keys.decode_head_key(key): decode_head(value, where="head")
        for key, value in rows.items()
        if key.startswith(keys.HEAD)
    }
    check_rows(rows, heads)
    large = await large_values(store, names, rows, heads.values())
    objects = {
        key: SeenObject(head, check_head(key, head, records, large)) for key, head in heads.items()
    }
    check_newest(heads, records)
    await check_names(store, names, manifest, state)
    return SeenSpace(objects, state, manifest, records)


def check_manifest(manifest: list[ManifestRow], state: SpaceState) -> None:
    """Value segments follow one another, without gaps but after recoveries; the last is active."""
    assert [row.status is ValueStatus.ACTIVE for row in manifest] == [
        *[False] * (len(manifest) - 1),
        True,
    ]
    first = 1
    for row in manifest[:-1]:
        assert row.first_sqn >= first
        assert (row.first_sqn - first) % PASSED == 0
        first = row.last_sqn + 1
        assert row.records == row.last_sqn - row.first_sqn + 1
    assert (manifest[-1].number, manifest[-1].first_sqn) == (state.number, state.first_sqn)
    assert state.first_sqn >= first
    assert (state.first_sqn - first) % PASSED == 0
    assert state.records == state.next_sqn - state.first_sqn
    assert len({row.number for row in manifest}) == len(manifest)
    assert all(row.number < state.next_number for row in manifest)


async def check_segment(
    store: AsyncStore, names: SpaceNames, row: ManifestRow, state: SpaceState
) -> dict[int, tuple[int, int, RecordHeader, bytes]]:
    """The records of a value segment, by SQN; its length, seal and footer are what the row says."""
    segment = store.segment(names.value_segment(row.number))
    info = await segment.info()
    data = await segment.read(0, info.length)
    end = state.length if row.status is ValueStatus.ACTIVE else row.length
    if row.status is ValueStatus.SEALED:
        assert info.sealed
        assert info.length == row.footer_end
    if row.status is ValueStatus.ACTIVE:
        assert not info.sealed
        assert info.length == end
    found: dict[int, tuple[int, int, RecordHeader, bytes]] = {}
    position = 0
    while position < end:
        length = record_bytes(data, position)
        header, value = decode_record(data[position : position + length], where=segment.name)
        found[header.sqn] = (row.number, position, header, value)
        position += length
    assert position == end
    if row.status is ValueStatus.SEALED:
        check_footer(data, row, found)
    return found


def record_bytes(data: bytes, position: int) -> int:
    """Length of the record that begins there, from the fields of its layout."""
    kind = data[position]
    header = int.from_bytes(data[position + 4 : position + 8], "little")
    stored = int.from_bytes(data[position + 8 : position + 12], "little")
    is_large = data[position + 2] == LARGE
    return header + (stored + 4 if kind == ValueKind.STANDARD and not is_large else 0)


def check_footer(
    data: bytes, row: ManifestRow, records: dict[int, tuple[int, int, RecordHeader, bytes]]
) -> None:
    """A footer has the headers of all records, in order, each with its place."""
    trailer = decode_trailer(data[-TRAILER_BYTES:], where="footer")
    assert (trailer.records, trailer.first_sqn, trailer.last_sqn, trailer.as_of) == (
        row.records,
        row.first_sqn,
        row.last_sqn,
        row.as_of,
    )
    start = trailer.directory
    pieces = decode_directory(data[start : start + trailer.length], where="footer")
    assert pieces[0].offset == row.length
    headers = [
        (place, found)
        for piece in pieces
        for place, _, found in decode_piece(piece, data[piece.offset : piece.end], where="footer")
    ]
    assert headers == [(offset, header) for _, offset, header, _ in records.values()]
    hashes = [each for piece in pieces for each in piece.hashes]
    assert len(hashes) == len(headers)


def check_rows(rows: dict[bytes, bytes], heads: dict[ObjectKey, Head]) -> None:
    """Rows of the index and of ends are those of the heads; there are no other rows."""
    index: dict[tuple[ObjectKey, IndexEntry], int] = {}
    ends: set[tuple[int, ObjectKey]] = set()
    for key, value in rows.items():
        if key.startswith(keys.INDEX):
            entry, found = keys.decode_index_key(key)
            index[found, entry] = decode_index_entry(value, where="index")
        elif key.startswith(keys.EXPIRY):
            ends.add(keys.decode_expiry_key(key))
        else:
            others = (keys.SPACE, keys.STATE, keys.MANIFEST, keys.HEAD, keys.LARGE_VALUE)
            assert key[:1] in others, key
    assert index == {
        (key, entry): head.expires_s for key, head in heads.items() for entry in head.entries
    }
    assert ends == {(head.expires_s, key) for key, head in heads.items() if head.expires_s}


def check_head(
    key: ObjectKey, head: Head, records: dict[int, Any], large: dict[int, bytes]
) -> bytes:
    """A head says what its record says, and where that is; returns the value."""
    number, offset, header, value = records[head.sqn]
    assert header.kind is ValueKind.STANDARD
    assert (number, offset, header.record_length) == (head.number, head.offset, head.length)
    assert (header.key, header.size, header.value_hash) == (key, head.size, head.value_hash)
    assert (header.entries, header.metadata) == (head.entries, head.metadata)
    assert (header.modified_ms, header.expires_s) == (head.modified_ms, head.expires_s)
    assert header.large == head.large
    if head.large is not None:
        value = large[head.large.number]
    assert (header.previous, len(value)) == (head.previous, head.size)
    return bytes(value)


def check_newest(heads: dict[ObjectKey, Head], records: dict[int, Any]) -> None:
    """A key has the head of its newest record; none after a tombstone, or once it was reaped."""
    newest = {header.key: header for _, _, header, _ in records.values()}
    assert set(heads) <= set(newest)
    for key, header in newest.items():
        if header.kind is ValueKind.TOMBSTONE:
            assert key not in heads
        elif not header.expires_s:
            assert heads[key].sqn == header.sqn
        else:
            assert key not in heads or heads[key].sqn == header.sqn


async def check_names(
    store: AsyncStore, names: SpaceNames, manifest: list[ManifestRow], state: SpaceState
) -> None:
    """No value segment is there but those of the manifest, and empty ones of rolls that failed."""
    known = {row.number for row in manifest}
    async for info in store.list(names.values):
        number = names.number_of(info.name)
        assert number is not None
        if number not in known:
            # A large value may have taken its number meanwhile.
            assert number <= state.next_number
            assert info.length == 0
