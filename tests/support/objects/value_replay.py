"""What a rebuild would make of the value log: every record of every segment, newest SQN first.

Not by the verbs of a keyspace: rows and records are decoded one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records import keys
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import ObjectKey
from siltstone.objects.records.large_place import LARGE
from siltstone.objects.records.space_rows import (
    ManifestRow,
    ValueStatus,
    decode_manifest_row,
    decode_state,
)
from siltstone.objects.records.value_record import RecordHeader, ValueKind, decode_record
from tests.support.objects.large_check import large_values


@dataclass(frozen=True)
class Replayed:
    """A value log, and the rows beside it.

    Attributes:
        rows: the manifest, in order.
        tasks: numbers of segments that are to be deleted.
        records: of each SQN that is there the header and the value.
        heads: all heads, expired ones too.
        next_number: of the next value segment.
    """

    rows: list[ManifestRow]
    tasks: set[int]
    records: dict[int, tuple[RecordHeader, bytes]]
    heads: dict[ObjectKey, Head]
    next_number: int

    def visible(self, now_s: float) -> dict[ObjectKey, bytes]:
        """The objects that a rebuild would find, with their values."""
        found = {}
        newest = {header.key: sqn for sqn, (header, _) in sorted(self.records.items())}
        for key, sqn in newest.items():
            header, value = self.records[sqn]
            assert header.kind is not ValueKind.KEY_DELTA, "what replaced it is gone"
            has_expired = header.expires_s and header.expires_s <= now_s
            if header.kind is ValueKind.STANDARD and not has_expired:
                found[key] = value
        return found


async def replay(space: OpenSpace) -> Replayed:
    """Read all of a keyspace that is not written to, and compare its rows with its records.

    What must hold: SQNs of the manifest are in order, and no two ranges overlap; each record is
    in the range of its segment, and there once; every head has its record.
    """
    store, names = space.parts.store, space.parts.names
    rows = {key: found.value async for key, found in store.table(names.ledger).scan()}
    state = decode_state(rows[keys.STATE], where="state")
    manifest = [
        decode_manifest_row(keys.first_sqn_of(key), value, where="manifest")
        for key, value in rows.items()
        if key.startswith(keys.MANIFEST)
    ]
    assert [row.status is ValueStatus.ACTIVE for row in manifest[-1:]] == [True]
    records: dict[int, tuple[RecordHeader, bytes]] = {}
    after = 0
    for row in manifest:
        is_active = row.status is ValueStatus.ACTIVE
        assert row.first_sqn > after, "two segments have the same SQNs"
        after = state.next_sqn - 1 if is_active else row.last_sqn
        length = state.length if is_active else row.length
        found = await _records(space, row.number, length)
        assert all(row.first_sqn <= sqn <= after for sqn in found)
        assert list(found) == sorted(found)
        if not is_active:
            assert (min(found), max(found)) == (row.first_sqn, row.last_sqn)
            assert len(found) == row.records
        records |= found
    heads = {
        keys.decode_head_key(key): decode_head(value, where="head")
        for key, value in rows.items()
        if key.startswith(keys.HEAD)
    }
    large = await large_values(store, names, rows, heads.values())
    for key, head in heads.items():
        header, value = records[head.sqn]
        assert header.large == head.large
        if head.large is not None:
            value = large[head.large.number]
            records[head.sqn] = (header, value)
        assert (header.kind, header.key) == (ValueKind.STANDARD, key)
        assert (header.value_hash, len(value)) == (head.value_hash, head.size)
    tasks = {keys.number_of_task(key) for key in rows if key.startswith(keys.TASK)}
    return Replayed(manifest, tasks, records, heads, state.next_number)


async def _records(
    space: OpenSpace, number: int, length: int
) -> dict[int, tuple[RecordHeader, bytes]]:
    """The records of a segment, in order, by SQN."""
    name = space.parts.names.value_segment(number)
    data = await space.parts.store.segment(name).read(0, length) if length else b""
    assert len(data) == length
    found = {}
    position = 0
    while position < length:
        # From the layout: the kind, and the lengths of header and value.
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        if data[position] == ValueKind.STANDARD and data[position + 2] != LARGE:
            size += int.from_bytes(data[position + 8 : position + 12], "little") + 4
        header, value = decode_record(data[position : position + size], where=name)
        assert header.sqn not in found
        found[header.sqn] = (header, value)
        position += size
    return found


async def lying(space: OpenSpace) -> set[int]:
    """Numbers of the value segments that are there."""
    names = space.parts.names
    found = {names.number_of(info.name) async for info in space.parts.store.list(names.values)}
    return {number for number in found if number is not None}
