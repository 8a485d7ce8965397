"""The large values of a keyspace, read from its rows and segments, and whether they fit together.

Not by its verbs: rows are decoded one by one, sums are computed here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from siltstone.core.checksums import crc32c
from siltstone.objects.records import keys
from siltstone.objects.records.head import Head
from siltstone.objects.records.keys import LargeStatus
from siltstone.objects.records.large_place import LargePlace
from siltstone.objects.records.large_row import LargeRow, decode_large_row
from siltstone.objects.space_names import SpaceNames
from siltstone.store.async_store import AsyncStore


def large_rows(rows: Mapping[bytes, bytes]) -> dict[int, tuple[LargeStatus, LargeRow]]:
    """The rows of large values, by number; each has one."""
    found: dict[int, tuple[LargeStatus, LargeRow]] = {}
    for row_key, value in rows.items():
        if row_key.startswith(keys.LARGE_VALUE):
            status, number = keys.decode_large_key(row_key)
            assert number not in found, "two rows of one large value"
            found[number] = (status, decode_large_row(value, where="large"))
    return found


async def large_values(
    store: AsyncStore, names: SpaceNames, rows: Mapping[bytes, bytes], heads: Iterable[Head]
) -> dict[int, bytes]:
    """The values that are live, by number.

    What must hold: each has one head, and a row that says the same; its segment has it and its
    sums, and nothing else; no other segments are there but those that other rows name.
    """
    by_number = large_rows(rows)
    live = {number for number, (status, _) in by_number.items() if status is LargeStatus.LIVE}
    found: dict[int, bytes] = {}
    for head in heads:
        if head.large is not None:
            number = head.large.number
            assert number not in found, "two objects have one value"
            assert by_number[number] == (LargeStatus.LIVE, LargeRow(head.sqn, head.size))
            data = await bytes_of(store, names.large_segment(number))
            found[number] = value_of(data, head.large, head.size)
    assert live == set(found), "a value that no object has"
    assert await lying(store, names) <= set(by_number), "a segment that no row names"
    return found


def value_of(data: bytes, place: LargePlace, size: int) -> bytes:
    """The value in a whole segment, after all sums were compared."""
    value, sums = data[:size], data[size:]
    pieces = [
        value[start : start + place.piece_bytes] for start in range(0, size, place.piece_bytes)
    ]
    assert sums == b"".join(struct.pack("<I", crc32c(piece)) for piece in pieces)
    assert crc32c(sums) == place.sums_crc
    return value


async def bytes_of(store: AsyncStore, name: str) -> bytes:
    """All bytes of a segment."""
    segment = store.segment(name)
    return await segment.read(0, (await segment.info()).length)


async def lying(store: AsyncStore, names: SpaceNames) -> set[int]:
    """Numbers of the large segments that are there."""
    prefix = names.large_values
    return {int(info.name.removeprefix(prefix), 16) async for info in store.list(prefix)}
