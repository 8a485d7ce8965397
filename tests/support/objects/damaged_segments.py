"""Value segments of small keyspaces, of which bytes are damaged while the store is closed."""

from __future__ import annotations

from pathlib import Path

import siltstone
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.head import Head
from siltstone.objects.records.keys import ObjectKey
from siltstone.objects.records.space_rows import ManifestRow, ValueStatus
from siltstone.objects.value_compaction import CompactionReport
from tests.support.objects.rebuilt import all_sealed, bytes_at, flip_all
from tests.support.objects.small_segments import small_keyspace

Spot = tuple[str, int]
"""A byte of a value segment: in which chunk, and where in it."""


async def sealed_rows(space: OpenSpace) -> list[ManifestRow]:
    """The rows of the full segments, once all of them have their footers."""
    await all_sealed(space)
    rows = (await space.parts.manifest.now()).rows
    return [row for row in rows if row.status is ValueStatus.SEALED]


async def head_of(space: OpenSpace, key: str, tag: str = "o") -> Head:
    """The head of an object that is there."""
    head = await space.parts.ledger.head(ObjectKey(tag.encode(), b"b", key.encode()))
    assert head is not None
    return head


async def spot(space: OpenSpace, number: int, at: int) -> Spot:
    """Where a byte of a value segment lies."""
    return await bytes_at(space.parts.store, space.parts.names.value_segment(number), at)


def damage(folder: Path, *spots: Spot) -> None:
    """Change these bytes of a store that is closed."""
    flip_all(folder, list(spots))


async def replaced_often(
    folder: Path, kept: dict[str, bytes], *, tag: str = "o"
) -> list[ManifestRow]:
    """Fill a keyspace: objects that stay, each among changes that give a lot to compact."""
    async with small_keyspace(folder) as (store, keyspace, space):
        for number, (key, value) in enumerate(kept.items()):
            await keyspace.put("b", key, value, tag=tag, index={"f": ["t"]})
            for time in range(12):
                await keyspace.put("b", "often", b"%d" % (number * 12 + time) * 20, tag=tag)
        rows = await sealed_rows(space)
        await store.flush()
        return rows


async def compact_whole(
    keyspace: AsyncKeyspace, store: siltstone.AsyncStore, *, accept_loss: bool = False
) -> list[CompactionReport]:
    """Compact until nothing is worth it; returns the reports."""
    await store.flush()
    reports = []
    while True:
        report = await keyspace.compact(accept_loss=accept_loss)
        reports.append(report)
        if not report.run:
            return reports
        assert len(reports) < 50
