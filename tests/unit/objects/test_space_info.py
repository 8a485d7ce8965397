"""What a keyspace says that it holds is what its rows and records add up to."""

from __future__ import annotations

from pathlib import Path
from random import Random

import siltstone
from siltstone import objects
from tests.support.objects.rebuilt import all_sealed
from tests.support.objects.small_segments import NAME, small_keyspace, store_for_keyspaces
from tests.support.objects.space_check import look


async def test_an_empty_keyspace_holds_nothing(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        info = await keyspace.stat()
        assert (info.name, info.tags) == (NAME, {"log": "retain", "o": "recovr"})
        assert (info.objects, info.expired, info.index_entries, info.value_bytes) == (0, 0, 0, 0)
        (active,) = info.segments
        assert (active.status, active.records, active.first_sqn, active.last_sqn) == (
            "active", 0, 1, 0
        )  # fmt: skip
        assert (info.next_sqn, info.length, info.live_bytes, info.waste_bytes) == (1, 0, 0, 0)


async def test_what_is_counted_is_what_is_there(tmp_path: Path) -> None:
    random = Random(5)
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        for _ in range(150):
            key = f"k{random.randrange(40)}"
            if random.random() < 0.2:
                await keyspace.delete("b", key)
            else:
                index = {"f": [str(random.randrange(3)) for _ in range(2)]}
                await keyspace.put("b", key, random.randbytes(random.randrange(99)), index=index)
        await all_sealed(space)
        seen = await look(store, space.parts.names)
        info = await keyspace.stat()
        heads = [each.head for each in seen.objects.values()]
        assert info.objects == len(heads)
        assert info.index_entries == sum(len(head.entries) for head in heads)
        assert info.value_bytes == sum(head.size for head in heads)
        assert info.live_bytes == sum(head.length for head in heads)
        assert info.length == sum(header.record_length for _, _, header, _ in seen.records.values())
        assert sum(each.records for each in info.segments) == info.next_sqn - 1 == len(seen.records)
        assert [each.status for each in info.segments] == [
            *["sealed"] * (len(info.segments) - 1),
            "active",
        ]


async def test_compaction_lowers_the_waste_and_what_waits_for_a_snapshot_is_told(
    tmp_path: Path,
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        for number in range(200):
            await keyspace.put("b", f"k{number % 20}", b"v" * 100)
        await all_sealed(space)
        await store.flush()
        before = await keyspace.stat()
        assert before.waste_bytes > before.live_bytes
        async with await keyspace.snapshot():
            report = await keyspace.compact()
            held = await keyspace.stat()
            assert held.waiting == len(report.run)
            assert held.waiting_bytes >= report.read_bytes
            assert held.waste_bytes < before.waste_bytes
            assert held.live_bytes == before.live_bytes


async def test_what_expired_is_told_apart(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (_, keyspace, _):
        await keyspace.put("b", "stays", b"12345", index={"f": ["x"]})
        await keyspace.put("b", "goes", b"1234567", index={"f": ["x"]}, ttl_s=1)
    async with await siltstone.open_async(folder, read_only=True) as store:
        keyspace = await objects.open_async(store, NAME)
        while await keyspace.head("b", "goes") is not None:
            await store.environment.sleep(0.05)
        info = await keyspace.stat()
        assert (info.objects, info.expired, info.index_entries, info.value_bytes) == (1, 1, 1, 5)
