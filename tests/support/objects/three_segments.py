"""A keyspace of three value segments, and where bytes of the second one lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from siltstone.objects.records.footer import TRAILER_BYTES, decode_trailer
from siltstone.objects.value_segments import RollLimits
from tests.support.objects.rebuilt import all_sealed, bytes_at
from tests.support.objects.small_segments import small_keyspace

WIDE = RollLimits(length=10**9, records=60)
NOTE = b"n" * 3_000
"""So a footer has several pieces."""


@dataclass(frozen=True)
class Places:
    """Where bytes of the second value segment lie: chunk and offset.

    Attributes:
        piece: in the first piece of the footer.
        directory: in the directory.
        trailer: in the trailer.
        records: in the header of each record, by key.
        values: in the value of each record, by key.
    """

    piece: tuple[str, int]
    directory: tuple[str, int]
    trailer: tuple[str, int]
    records: dict[str, tuple[str, int]]
    values: dict[str, tuple[str, int]]


async def made(folder: Path) -> Places:
    """Three segments of 60 records; the second has new values of the keys k00 to k59."""
    async with small_keyspace(folder, WIDE) as (store, keyspace, space):
        for part in range(3):
            for number in range(60):
                key = f"k{number:02}" if part < 2 else f"k{30 + number:02}"
                await keyspace.put("b", key, b"%d" % part, metadata=NOTE)
        await all_sealed(space)
        await store.flush()
        row = (await space.parts.manifest.now()).rows[1]
        segment = space.parts.names.value_segment(row.number)
        data = await store.segment(segment).read(row.footer_end - TRAILER_BYTES, TRAILER_BYTES)
        trailer = decode_trailer(data, where=segment)
        records, values = {}, {}
        async for page in space.parts.values.headers(row, row.length):
            for each in page:
                key = each.header.key.key.decode()
                records[key] = await bytes_at(store, segment, each.offset + 100)
                end = each.offset + each.header.record_length
                values[key] = await bytes_at(store, segment, end - 5)
        return Places(
            piece=await bytes_at(store, segment, row.length + 100),
            directory=await bytes_at(store, segment, trailer.directory + 40),
            trailer=await bytes_at(store, segment, row.footer_end - 10),
            records=records,
            values=values,
        )
