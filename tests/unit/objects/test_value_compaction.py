"""Value compaction gives back what nothing needs, and keeps all that is shown to anyone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone.core.errors import ChunkUnavailableError, ConditionFailedError
from siltstone.objects import AsyncKeyspace, CompactionBusyError
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.space_rows import ManifestRow, ValueStatus, decode_task
from siltstone.objects.records.value_record import ValueKind
from siltstone.objects.value_compaction import ValueCompaction
from siltstone.objects.value_tasks import do_tasks
from tests.support.objects.rebuilt import all_sealed
from tests.support.objects.small_segments import (
    NAME,
    small_keyspace,
    store_for_keyspaces,
    values_of,
)

VALUES = f"objects/{{{NAME}}}/values/"


async def settled(space: OpenSpace) -> list[ManifestRow]:
    """The manifest, once all full segments have their footer."""
    await all_sealed(space)
    return list((await space.parts.manifest.now()).rows)


async def compacted(keyspace: AsyncKeyspace, space: OpenSpace, store: siltstone.AsyncStore) -> int:
    """Compact until nothing is worth it; return how often it was."""
    await settled(space)
    await store.flush()
    count = 0
    while (await keyspace.compact()).run:
        count += 1
        assert count < 100
    return count


async def segments(store: siltstone.AsyncStore) -> list[int]:
    return [int(info.name.removeprefix(VALUES)) async for info in store.list(VALUES)]


async def changed(keyspace: AsyncKeyspace, random: Random, model: dict[str, bytes]) -> None:
    """Change some hundred objects."""
    futures: list[asyncio.Future[object]] = []
    for _ in range(300):
        key = f"k{random.randrange(40)}"
        if random.random() < 0.2:
            model.pop(key, None)
            futures.append(asyncio.ensure_future(keyspace.delete("b", key)))
        else:
            model[key] = random.randbytes(random.randrange(200))
            futures.append(asyncio.ensure_future(keyspace.put("b", key, model[key])))
    await asyncio.gather(*futures)


async def test_what_a_roll_left_behind_does_not_stop_it(tmp_path: Path) -> None:
    model = {"stays": b"v"}
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await keyspace.put("b", "stays", model["stays"])
        await changed(keyspace, Random(1), model)
        await settled(space)
        await store.flush()
        state = await space.parts.ledger.state()
        assert state is not None
        # A roll makes its segment before its commit, and may come no further.
        left = space.parts.names.value_segment(state.state.next_number)
        await store.create(left)
        report = await keyspace.compact()
        assert state.state.next_number in report.made
        assert await values_of(keyspace) == model
        assert [each async for each in keyspace.check(deep=True)] == []


@pytest.mark.parametrize("seed", range(3))
async def test_values_stay_the_same_through_compactions_and_lives(
    tmp_path: Path, seed: int
) -> None:
    folder, random = store_for_keyspaces(tmp_path), Random(seed)
    model: dict[str, bytes] = {}
    for _ in range(2):
        async with small_keyspace(folder) as (store, keyspace, space):
            assert await values_of(keyspace) == model
            await changed(keyspace, random, model)
            assert await compacted(keyspace, space, store)
            assert await values_of(keyspace) == model
            by_sqn = [each async for each in keyspace.objects("b", order="sqn")]
            assert {each.head.key: each.value for each in by_sqn} == model
            for key, value in model.items():
                found = await keyspace.get("b", key)
                assert found is not None
                assert found.value == value


async def test_repeating_it_comes_to_an_end(tmp_path: Path) -> None:
    model: dict[str, bytes] = {}
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await changed(keyspace, Random(1), model)
        await compacted(keyspace, space, store)
        before = await settled(space)
        report = await keyspace.compact()
        assert (report.run, report.made, report.written_bytes) == ((), (), 0)
        assert await settled(space) == before


async def test_a_run_that_nothing_needs_is_gone_without_a_write(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        for number in range(200):
            await keyspace.put("b", f"k{number % 20}", b"v" * 100)
        await settled(space)
        await store.flush()
        report = await keyspace.compact()
        assert len(report.run) == 8
        assert report.records > 100
        assert report.read_bytes > 10 * report.kept_bytes
        assert report.kept == 0
        assert report.made == ()


async def test_a_snapshot_keeps_its_segments_and_the_next_minute_deletes_them(
    tmp_path: Path,
) -> None:
    model: dict[str, bytes] = {}
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        random = Random(2)
        await changed(keyspace, random, model)
        was = dict(model)
        async with await keyspace.snapshot() as before:
            named = {row.number for row in await settled(space)}
            for _ in range(3):
                await changed(keyspace, random, model)
                await compacted(keyspace, space, store)
            assert named <= set(await segments(store))
            assert {each.head.key: each.value async for each in before.objects("b")} == was
            by_sqn = [each async for each in before.objects("b", order="sqn")]
            assert {each.head.key: each.value for each in by_sqn} == was
        assert await do_tasks(space.parts)
        assert set(await segments(store)) == {row.number for row in await settled(space)}
        assert await values_of(keyspace) == model


async def test_what_was_replaced_stays_as_long_as_the_settings_say(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("objects: {waste_retention: 1h}\n")
    async with small_keyspace(folder) as (store, keyspace, space):
        await changed(keyspace, Random(2), {})
        begun_s = store.environment.time()
        await compacted(keyspace, space, store)
        assert await do_tasks(space.parts) == 0
        assert set(await segments(store)) > {row.number for row in await settled(space)}
        rows = [
            found async for _, found in store.table(space.parts.names.ledger).scan(b"\x04", b"\x05")
        ]
        assert rows
        for row in rows:
            assert begun_s + 3_600 <= decode_task(row.value, where="task") <= begun_s + 3_660


async def test_a_second_one_is_refused_while_one_runs(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await changed(keyspace, Random(3), {})
        await settled(space)
        await store.flush()
        first = asyncio.ensure_future(keyspace.compact())
        await asyncio.sleep(0)
        with pytest.raises(CompactionBusyError, match="running"):
            await keyspace.compact()
        assert (await first).run
        assert (await keyspace.compact()) is not None


async def test_what_a_failed_one_imported_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_for_keyspaces(tmp_path)
    model: dict[str, bytes] = {}

    async def fails(*_: object) -> None:
        raise ChunkUnavailableError("no answer", chunk="", operation="create")

    async with small_keyspace(folder) as (store, keyspace, space):
        await changed(keyspace, Random(5), model)
        await settled(space)
        await store.flush()
        with monkeypatch.context() as patch:
            patch.setattr(ValueCompaction, "_switch", fails)
            with pytest.raises(ChunkUnavailableError):
                await keyspace.compact()
        named = {row.number for row in await settled(space)}
        assert set(await segments(store)) - named
    async with small_keyspace(folder) as (store, keyspace, space):
        assert set(await segments(store)) == {row.number for row in await settled(space)}
        assert await values_of(keyspace) == model
        assert await compacted(keyspace, space, store)
        assert await values_of(keyspace) == model


async def test_a_manifest_that_changed_meanwhile_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: dict[str, bytes] = {}
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await changed(keyspace, Random(6), model)
        rows = await settled(space)
        await store.flush()
        switch = ValueCompaction._switch

        async def late(self: ValueCompaction, *args: object) -> None:
            table = store.table(space.parts.names.ledger)
            async for key, found in table.scan(b"\x03", b"\x04"):
                await table.put(key, found.value)
            await switch(self, *args)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(ValueCompaction, "_switch", late)
            with pytest.raises(ConditionFailedError):
                await keyspace.compact()
        assert await settled(space) == rows
        assert set(await segments(store)) == {row.number for row in rows}
        assert await values_of(keyspace) == model


async def kinds(space: OpenSpace) -> list[tuple[ValueKind, str]]:
    """Kind and key of every record in the sealed segments."""
    found = []
    for row in await settled(space):
        if row.status is ValueStatus.SEALED:
            async for page in space.parts.values.headers(row, row.length):
                found += [(each.header.kind, each.header.key.key.decode()) for each in page]
    return found


async def test_a_tombstone_stays_while_an_older_segment_may_have_its_object(
    tmp_path: Path,
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        # The first segment has the object, and too much that is needed to be compacted.
        await keyspace.put("b", "gone", b"v")
        for number in range(19):
            await keyspace.put("b", f"kept{number:02}", b"v" * 100)
        await keyspace.delete("b", "gone")
        for _ in range(60):
            await keyspace.put("b", "other", b"v" * 100)
        assert await compacted(keyspace, space, store)
        assert (ValueKind.TOMBSTONE, "gone") in await kinds(space)
        for number in range(19):
            await keyspace.delete("b", f"kept{number:02}")
        for _ in range(60):
            await keyspace.put("b", "other", b"v" * 100)
        for _ in range(3):
            await compacted(keyspace, space, store)
        assert (ValueKind.STANDARD, "gone") not in await kinds(space)
        assert await keyspace.get("b", "gone") is None


async def test_tombstones_that_nothing_needs_any_more_give_their_segment_back(
    tmp_path: Path,
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        gone = [f"gone{number}" for number in range(5)]
        kept = [f"k{number}" for number in range(15)]
        for key in gone:
            await keyspace.put("b", key, b"")
        for key in kept:
            await keyspace.put("b", key, b"v" * 100)
        for key in gone:
            await keyspace.delete("b", key)
        for _ in range(60):
            await keyspace.put("b", "other", b"v" * 100)
        assert await compacted(keyspace, space, store)
        assert {(ValueKind.TOMBSTONE, key) for key in gone} <= set(await kinds(space))
        for key in kept:
            await keyspace.put("b", key, b"newer" * 20)
        for _ in range(20):
            await keyspace.put("b", "other", b"v" * 100)
        assert await compacted(keyspace, space, store)
        assert not [key for _, key in await kinds(space) if key in gone]
        assert await keyspace.get("b", "gone1") is None
        assert set(await values_of(keyspace)) == {*kept, "other"}


async def test_a_tag_that_retains_keeps_the_headers_and_is_not_compacted_for_ever(
    tmp_path: Path,
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        for number in range(100):
            await keyspace.put("b", "k", b"%d" % number * 50, tag="log")
        assert await compacted(keyspace, space, store) <= 3
        found = await kinds(space)
        assert (ValueKind.KEY_DELTA, "k") in found
        sealed = [row for row in await settled(space) if row.status is ValueStatus.SEALED]
        assert len(found) == sum(row.records for row in sealed)
        assert sum(row.length for row in sealed) < 100 * 150
        seen = await keyspace.get("b", "k", tag="log")
        assert seen is not None
        assert seen.value == b"99" * 50


async def test_puts_and_reads_go_on_while_it_runs(tmp_path: Path) -> None:
    model: dict[str, bytes] = {}
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        random = Random(9)
        await changed(keyspace, random, model)
        stop = asyncio.Event()

        async def compacting() -> int:
            count = 0
            while not stop.is_set():
                await store.flush()
                count += bool((await keyspace.compact()).run)
            return count

        running = asyncio.ensure_future(compacting())
        for _ in range(5):
            await changed(keyspace, random, model)
            assert await values_of(keyspace) == model
        stop.set()
        assert await running
        assert await values_of(keyspace) == model
        assert await compacted(keyspace, space, store) >= 0
        assert await values_of(keyspace) == model
