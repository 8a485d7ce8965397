"""Rollups, truncation and garbage: what is kept stays small, and nothing that is needed goes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from siltstone.collections.place import CollectionSettings
from siltstone.core.errors import OutcomeUnknownError
from siltstone.testing.faults.faulty_chunk_storage import Fate
from tests.support.collections.collections_world import (
    SETTINGS,
    CollectionsWorld,
    calls_since,
    many_rows,
    pairs_of,
    rows,
    shown,
)

pytestmark = pytest.mark.virtual_time

HOUR_S = 3_600.0
COMPACTS = replace(SETTINGS, compacts=True)


def entries(world: CollectionsWorld, collection_id: bytes) -> int:
    """How many entries a collection has."""
    return len(world.names(f"{collection_id.hex()}/entries/"))


async def test_entries_and_rollups_stay_few_however_many_appends_there_are() -> None:
    async with CollectionsWorld(settings=COMPACTS) as world:
        gusts = await (await world.create()).collection()
        for number in range(400):
            await gusts.append(many_rows(1, number))
            await world.sleep(5)
        assert entries(world, gusts.id) < 300, "three times 64 and what was not due, and the first"
        assert len(world.names("/rollups/")) < 8
        late = await world.open().collection()
        assert await shown(late) == pairs_of(many_rows(400))


async def test_entries_stay_few_although_each_process_makes_one_only() -> None:
    async with CollectionsWorld() as world:
        collection_id = (await (await world.create()).collection()).id
        for number in range(200):
            opener = world.open()
            await (await opener.collection()).append(many_rows(1, number))
            await world.sleep(0.05)
            await opener.collections.close()
        assert entries(world, collection_id) < 140, "two rollups of 64 entries"
        assert await shown(await world.open().collection()) == pairs_of(many_rows(200))


async def test_an_open_costs_three_requests_however_many_entries_there_were() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        costs = set()
        for number in range(200):
            await gusts.append(rows(("a", number)))
            await world.sleep(0.01)
            if number % 10 == 9:
                opener = world.open()
                await opener.collections.list()
                before = len(opener.storage.calls)
                opened = opener.place.consensus.open(gusts.id)
                assert opened is not None
                costs.add(len(opener.storage.calls) - before)
        assert costs <= {3, 4}, "a listing, the newest entry, the rollup; seldom an entry more"


async def test_young_entries_are_not_read_again_with_each_rollup() -> None:
    """With a delay of 15 minutes and a rollup each second, all of them are too young."""
    async with CollectionsWorld(settings=CollectionSettings(compacts=False)) as world:
        opener = await world.create()
        gusts = await opener.collection()
        before = len(opener.storage.calls)
        for number in range(320):
            await gusts.compare_and_append([], expected_upper=number, new_upper=number + 1)
        calls = calls_since(opener, before)
        assert calls.count("create rollups") == 5
        assert calls.count("read_into rollups") <= 1, "one look, as none may ever have looked"
        assert len(calls) <= 2 * 320 + 5 * 3 + 10
        await world.sleep(HOUR_S)
        for number in range(320, 520):
            await gusts.compare_and_append([], expected_upper=number, new_upper=number + 1)
            await world.sleep(0.01)
        assert entries(world, gusts.id) < 250


async def test_upkeep_takes_one_entry_of_64() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for number in range(300):
            await gusts.append(rows(("a", number)))
            await world.sleep(0.01)
        assert (await gusts.info()).seqno <= 300 + 1 + 5


async def test_a_handle_that_rested_while_entries_were_freed_appends_once() -> None:
    """Its entry gets a name that was freed, which counts for nothing."""
    async with CollectionsWorld() as world:
        openers = [await world.create(), world.open(), world.open()]
        known, fresh, named = [await opener.collection() for opener in openers]
        await known.append(rows(("known", 0)))
        await named.writer("loader").append(rows(("named", 0)), sequence=0)
        other = await world.open().collection()
        for number in range(300):
            await other.append(rows(("other", number)))
            await world.sleep(0.01)
        assert entries(world, other.id) < 300
        late = world.names("/entries/")
        await known.append(rows(("known", 1)))
        await fresh.append(rows(("fresh", 1)))
        await named.writer("loader").append(rows(("named", 1)), sequence=1)
        assert len(set(world.names("/entries/")) - set(late)) > 3, "late ones under freed names"
        found = [row for row in await shown(other) if row[0] != "other"]
        assert found == [("fresh", 1), ("known", 0), ("known", 1), ("named", 0), ("named", 1)]
        before = len(world.names("/entries/"))
        assert await other.sweep() >= 2
        assert len(world.names("/entries/")) < before


async def test_what_no_row_tells_of_is_called_unknown() -> None:
    """The first append of a handle, in the moment in which its entry's name is freed."""
    async with CollectionsWorld() as world:
        opener = await world.create()
        mine = await opener.collection()
        other = await world.open().collection()
        opener.environment.latency = lambda pool, chance: 100.0 * ("rows" not in pool.name)
        append = asyncio.ensure_future(mine.append(rows(("a", 1))))
        for number in range(300):
            await other.append(rows(("other", number)))
            await world.sleep(0.1)
        opener.environment.latency = lambda pool, chance: 0.0
        with pytest.raises(OutcomeUnknownError) as unknown:
            await append
        assert "sequence=" in str(unknown.value)
        await mine.append(rows(("b", 2)))
        found = [row for row in await shown(other) if row[0] != "other"]
        assert found == [("b", 2)]


async def test_writers_that_uploaded_and_stay_open_hold_no_garbage_for_long() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(1_000))
        other = await world.open().collection()
        await other.append(many_rows(1_000, 1_000))
        await world.sleep(HOUR_S)
        await other.compact()
        await world.sleep(1)
        await other.collect()
        assert len(world.names("/parts/")) == 1
        assert await shown(gusts) == pairs_of(many_rows(2_000))


async def test_parts_of_an_append_on_its_way_are_kept() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)))
        slow = world.open()
        slow_gusts = await slow.collection()
        slow.environment.latency = lambda pool, chance: 20.0 * bool(world.names("/parts/"))
        append = asyncio.ensure_future(slow_gusts.append(many_rows(1_000)))
        await world.sleep(5)
        assert len(world.names("/parts/")) == 1
        assert await gusts.collect() + await gusts.sweep() == 0
        await append
        assert len(await shown(gusts)) == 1_001


async def test_two_collect_at_once() -> None:
    async with CollectionsWorld(latency=lambda pool, chance: chance.random()) as world:
        gusts = await (await world.create()).collection()
        for start in range(3):
            await gusts.append(many_rows(1_000, 1_000 * start))
        for number in range(140):
            await gusts.append(rows(("a", number)))
        await gusts.compact()
        await world.sleep(10)
        handles = [await world.open().collection() for _ in range(3)]
        await gusts.close()
        await asyncio.gather(*(handle.collect() for handle in handles), gusts.collect())
        for handle in handles:
            await handle.collect()
        assert len(world.names("/parts/")) == 1
        assert len(await shown(handles[0])) == 3_140


async def test_a_rollup_that_could_not_be_made_is_made_later() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        opener.storage.plan = lambda call: (
            Fate.REFUSED if "/rollups/" in call.name and call.operation == "create" else Fate.DONE
        )
        for number in range(100):
            await gusts.append(rows(("a", number)))
        opener.storage.plan = lambda call: Fate.DONE
        for number in range(100, 140):
            await gusts.append(rows(("a", number)))
        await world.sleep(1)
        assert len(world.names(f"{gusts.id.hex()}/rollups/")) == 2
