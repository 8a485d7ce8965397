"""Compactions: fewer batches, the same rows, whoever else compacts, appends or reads meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from siltstone.collections.state import compaction_plan
from siltstone.core.errors import LostDataError
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from siltstone.testing.virtual_time import instant, jittered
from tests.support.collections.collections_world import (
    SETTINGS,
    CollectionsWorld,
    many_rows,
    pairs_of,
    rows,
    shown,
)
from tests.support.collections.update_model import UpdateModel, rows_of

pytestmark = pytest.mark.virtual_time

COMPACTS = replace(SETTINGS, compacts=True)


async def settled(world: CollectionsWorld) -> None:
    """Let what commits made due come to its end."""
    await world.sleep(5)


async def test_batches_stay_few_however_many_appends_there_are() -> None:
    async with CollectionsWorld(settings=COMPACTS) as world:
        gusts = await (await world.create()).collection()
        for number in range(300):
            await gusts.append(many_rows(1 + number % 7, 10 * number))
            await world.sleep(0.01)
        await settled(world)
        assert (await gusts.info()).batches <= 48, "16 of each of three sizes"
        wanted = [pair for n in range(300) for pair in pairs_of(many_rows(1 + n % 7, 10 * n))]
        assert await shown(gusts) == sorted(wanted)
        assert await shown(gusts, 50) == sorted(wanted[: sum(1 + n % 7 for n in range(51))])


async def test_rows_that_cancel_take_no_room() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(1_000))
        await gusts.append([], remove=many_rows(1_000))
        await gusts.append(rows(("a", 1)))
        await gusts.compact()
        assert (await gusts.info()).rows == 2_001, "history stays"
        await gusts.advance_since(2)
        await gusts.compact()
        info = await gusts.info()
        assert (info.rows, info.parts) == (1, 1)
        assert await shown(gusts) == [("a", 1)]


async def test_a_collection_of_which_nothing_is_left_has_no_parts() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(1_000))
        await gusts.append([], remove=many_rows(1_000))
        await gusts.advance_since(1)
        await gusts.compact()
        await gusts.compact()
        info = await gusts.info()
        assert (info.rows, info.parts, info.upper) == (0, 0, 2)
        assert await shown(gusts) == []


@pytest.mark.parametrize("seed", range(4))
async def test_processes_that_append_compact_and_collect_at_once_agree(seed: int) -> None:
    chance = Random(seed)
    async with CollectionsWorld(seed, settings=COMPACTS, latency=jittered(0.2)) as world:
        await world.create()
        handles = [await world.open().collection() for _ in range(3)]
        model = UpdateModel()

        async def work(number: int) -> None:
            for turn in range(20):
                count = chance.choice([1, 2, 400])
                table = many_rows(count, 1_000_000 * number + 1_000 * turn)
                done = await handles[number].append(table)
                model.add(done.time, pairs_of(table))
                if chance.random() < 0.2:
                    await handles[number].compact()
                if chance.random() < 0.2:
                    await handles[number].collect()

        await asyncio.gather(*map(work, range(3)))
        await settled(world)
        for handle in handles:
            as_of = chance.randrange(model.upper)
            assert rows_of(await (await handle.snapshot(as_of)).to_arrow()) == model.rows(as_of)
            assert rows_of(await (await handle.snapshot()).to_arrow()) == model.rows(model.upper)
        await handles[0].compact()
        for handle in handles:
            await handle.collect()
        await world.sleep(3_600)
        await handles[0].collect()
        await handles[0].sweep()
        assert len(world.names("/parts/")) == (await handles[0].info()).parts


async def test_what_a_compaction_wrote_in_vain_is_deleted() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for start in range(3):
            await gusts.append(many_rows(1_000, 1_000 * start))
        slow = world.open()
        other = await slow.collection()
        slow.environment.latency = lambda pool, chance: 1.0
        compaction = asyncio.ensure_future(other.compact())
        while len(world.names("/parts/")) < 4:
            await world.sleep(0.1)
        await gusts.compact()
        await compaction
        assert len(world.names("/parts/")) == 4, "three that were replaced, and one in their place"
        assert await shown(other) == pairs_of(many_rows(3_000))


async def test_a_part_that_is_gone_is_told_once_it_is_needed() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(1_000))
        await gusts.append(many_rows(1_000, 1_000))
        world.new_storage().delete(world.names("/parts/")[0])
        with pytest.raises(LostDataError):
            await gusts.compact()
        await gusts.append(rows(("a", 1)))


async def test_a_compaction_that_fails_is_tried_again_with_a_later_append(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_plan, "LOWEST_FACTOR", 32)
    async with CollectionsWorld(settings=COMPACTS) as world:
        opener = await world.create()
        gusts = await opener.collection()

        def no_parts(call: StorageCall) -> Fate:
            return Fate.REFUSED if "/parts/" in call.name else Fate.DONE

        for number in range(31):
            await gusts.append(many_rows(90, 100 * number))
        opener.storage.plan = no_parts
        await gusts.append(many_rows(90, 3_100))
        await settled(world)
        assert (await gusts.info()).batches == 32
        assert "compaction of collection" in caplog.text
        opener.storage.plan = lambda call: Fate.DONE
        await gusts.append(many_rows(90, 3_200))
        await settled(world)
        assert (await gusts.info()).batches == 1, "the one that came meanwhile is merged, too"
        assert len(await shown(gusts)) == 33 * 90


async def test_a_merge_is_done_by_the_process_that_made_it_due() -> None:
    async with CollectionsWorld(settings=COMPACTS) as world:
        slow = await world.create()
        mine = await slow.collection()
        other = await world.open().collection()
        for number in range(7):
            await mine.append(many_rows(300, 300 * number))
        slow.environment.latency = lambda pool, chance: 1.0
        eighth = asyncio.ensure_future(mine.append(many_rows(300, 2_100)))
        while (await other.info()).batches < 8:
            await world.sleep(0.1)
        await other.append(rows(("a", 1)))
        await world.sleep(0.5)
        assert (await other.info()).batches == 9, "the slow process still merges the eight"
        await eighth
        await world.sleep(60)
        assert (await other.info()).batches == 2
        assert len(world.names("/parts/")) == 9, "eight that were replaced, and one"


async def test_a_merge_of_a_process_that_died_is_done_by_another_one_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction_plan, "LOWEST_FACTOR", 32)
    async with CollectionsWorld(settings=COMPACTS) as world:
        dead = await world.create()
        mine = await dead.collection()
        other = await world.open().collection()
        for number in range(31):
            await mine.append(rows((f"a{number}", 1)))
        dead.environment.latency = lambda pool, chance: 1.0
        last = asyncio.ensure_future(mine.append(rows(("a31", 1))))
        while (await other.info()).batches < 32:
            await world.sleep(0.1)
        dead.die()
        last.cancel()
        for number in range(15):
            await other.append(rows((f"b{number}", 1)))
        await settled(world)
        assert (await other.info()).batches == 47
        await other.append(rows(("b15", 1)))
        await settled(world)
        assert (await other.info()).batches < 32
        assert len(await shown(other)) == 48


async def test_a_process_that_waits_for_room_compacts_what_others_left() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await asyncio.gather(*(gusts.append(many_rows(1, n)) for n in range(1_000)))
        later = await world.open(settings=COMPACTS).collection()
        done = await later.append(rows(("a", 1)))
        assert done.time == 1_000
        assert (await later.info()).batches < 900


async def test_a_compaction_whose_inputs_were_merged_in_part_tells_of_no_loss() -> None:
    async with CollectionsWorld() as world:
        await world.create()
        writer = world.open()
        gusts = await writer.collection()
        for first in (0, 1_000):
            await gusts.append(many_rows(1_000, first))
        faster, slower = world.open(), world.open()
        theirs, mine = await faster.collection(), await slower.collection()
        faster.environment.latency = lambda pool, chance: 0.2
        two = asyncio.create_task(theirs.compact())
        await world.sleep(0.25)  # It has looked, and merges the first two.
        await gusts.append(many_rows(1_000, 2_000))
        await writer.collections.close()
        slower.environment.latency = lambda pool, chance: 1.2  # It reads when both are gone.
        three = asyncio.create_task(mine.compact())
        await two
        faster.environment.latency = instant
        assert await theirs.collect() == 2
        await three
        assert (await mine.info()).batches == 1
        assert await shown(mine) == pairs_of(many_rows(3_000))
