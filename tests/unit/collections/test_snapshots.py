"""Snapshots: the rows at each time, whatever is compacted and collected while they are read."""

from __future__ import annotations

import asyncio
import gc
import pickle
from random import Random

import pyarrow
import pytest

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.splits import CollectionSplit, rows_of_split
from siltstone.core.errors import (
    CollectionDroppedError,
    CollectionSchemaError,
    LeaseExpiredError,
    LostDataError,
    SinceError,
)
from siltstone.testing.faults.faulty_chunk_storage import Fate, all_done
from tests.support.collections.collections_world import (
    SCHEMA,
    CollectionsWorld,
    Opener,
    many_rows,
    pairs_of,
    rows,
    shown,
)
from tests.support.collections.update_model import UpdateModel, random_append, rows_of

pytestmark = pytest.mark.virtual_time

HOUR_S = 3_600.0


async def grown(collection: AsyncCollection, seed: int, appends: int) -> UpdateModel:
    """Append at random, rows that were there go; return what was made."""
    chance = Random(seed)
    model = UpdateModel()
    for _ in range(appends):
        await random_append(collection, model, chance)
    return model


async def replaced_and_collected(opener: Opener) -> None:
    """Let everything become one batch, and delete what that had been."""
    gusts = await opener.collection()
    await gusts.compact()
    await asyncio.sleep(1)
    await gusts.collect()


@pytest.mark.parametrize("count", [3, 1_000])
async def test_a_snapshot_of_no_columns_has_as_many_rows(count: int) -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(count))
        updates = [{"k": "twice", "v": 1, "_time": 1, "_diff": 2}]
        await gusts.compare_and_append(updates, expected_upper=1, new_upper=2)
        assert (await (await gusts.snapshot(columns=[])).to_arrow()).num_rows == count + 2
        await gusts.append(remove=many_rows(1))
        snapshot = await gusts.snapshot(columns=[])
        assert sum([one.num_rows async for one in snapshot.batches()]) == count + 1
        assert (await snapshot.to_arrow()).shape == (count + 1, 0)


async def test_each_time_shows_the_sum_of_the_updates_up_to_it() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        model = await grown(gusts, 1, 40)
        other = await world.open().collection()
        for handle in (gusts, other):
            for as_of in range(model.upper):
                table = await (await handle.snapshot(as_of)).to_arrow()
                assert rows_of(table) == model.rows(as_of)
                counted = await (await handle.snapshot(as_of, diffs=True)).to_arrow()
                assert rows_of(counted) == model.rows(as_of)


async def test_compactions_change_no_time_from_the_since_on() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        model = await grown(gusts, 2, 40)
        await gusts.compact()
        for since in (0, 17, 39):
            await gusts.advance_since(since)
            await gusts.compact()
            assert (await gusts.info()).parts == 1
            for as_of in range(since, model.upper):
                assert rows_of(await (await gusts.snapshot(as_of)).to_arrow()) == model.rows(as_of)
            if since:
                with pytest.raises(SinceError) as gone:
                    await gusts.snapshot(since - 1)
                assert (gone.value.as_of, gone.value.since) == (since - 1, since)


async def test_before_the_first_append_there_are_no_rows_and_no_time() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        for lease in (False, True):
            async with await gusts.snapshot(lease=lease) as snapshot:
                assert snapshot.as_of is None
                table = await snapshot.to_arrow()
                assert (table.num_rows, table.schema.names) == (0, ["k", "v"])


async def test_a_snapshot_waits_until_its_time_is_complete() -> None:
    async with CollectionsWorld() as world:
        mine = await (await world.create()).collection()
        other = await world.open().collection()
        waits = asyncio.ensure_future(mine.snapshot(1))
        await other.append(rows(("a", 1)))
        await world.sleep(60)
        assert not waits.done()
        await other.append(rows(("b", 2)))
        assert pairs_of(await (await waits).to_arrow()) == [("a", 1), ("b", 2)]
        with pytest.raises(TimeoutError):
            await mine.snapshot(2, timeout_s=5)


async def test_who_waits_hears_that_the_collection_was_dropped() -> None:
    async with CollectionsWorld() as world:
        mine = await (await world.create()).collection()
        waits = asyncio.ensure_future(mine.snapshot(7))
        await world.sleep(1)
        await world.open().collections.drop("gusts")
        with pytest.raises(CollectionDroppedError):
            await waits


@pytest.mark.parametrize("as_of", [-1, 2**63 - 1, 2**64 - 1])
async def test_what_is_no_time_is_refused(as_of: int) -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        with pytest.raises(ValueError, match="not a time"):
            await gusts.snapshot(as_of)
        with pytest.raises(ValueError, match="not a time"):
            await gusts.subscribe(as_of)


async def test_columns_are_shown_in_the_order_that_is_asked_for() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)))
        await gusts.append(many_rows(1_000))
        table = await (await gusts.snapshot(columns=["v"])).to_arrow()
        assert table.schema.names == ["v"]
        assert sorted(table["v"].to_pylist()) == sorted([1, *range(1_000)])
        with pytest.raises(CollectionSchemaError, match="w"):
            await gusts.snapshot(columns=["k", "w"])


async def test_splits_are_read_elsewhere() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(1_000))
        await gusts.append(rows(("a", 1)), remove=many_rows(10))
        splits: list[CollectionSplit] = pickle.loads(
            pickle.dumps((await gusts.snapshot()).splits())
        )
        storage = world.new_storage()
        tables = [pyarrow.Table.from_batches(rows_of_split(storage, split)) for split in splits]
        assert pairs_of(pyarrow.concat_tables(tables)) == await shown(gusts)


# --- parts that are replaced while a snapshot is read ---------------------------------------------


async def test_a_lease_keeps_parts_that_were_replaced() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for start in range(3):
            await gusts.append(many_rows(1_000, 1_000 * start))
        snapshot = await (await world.open().collection()).snapshot(lease=True)
        await replaced_and_collected(opener)
        await world.sleep(5 * HOUR_S)
        await gusts.append(rows(("later", 1)))
        await replaced_and_collected(opener)
        assert pairs_of(await snapshot.to_arrow()) == pairs_of(many_rows(3_000))
        assert len(world.names("/parts/")) >= 4
        await snapshot.close()
        await snapshot.close()
        await replaced_and_collected(opener)
        assert len(world.names("/parts/")) == 1


async def test_without_a_lease_parts_stay_for_the_delay() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for start in range(3):
            await gusts.append(many_rows(1_000, 1_000 * start))
        reader = await world.open().collection()
        snapshot = await reader.snapshot()
        collector = world.open(settings=type(world.settings)(compacts=False))  # 15 minutes
        await replaced_and_collected(collector)
        assert len(world.names("/parts/")) == 4
        assert pairs_of(await snapshot.to_arrow()) == pairs_of(many_rows(3_000))
        await world.sleep(15 * 60)
        await (await collector.collection()).collect()
        assert len(world.names("/parts/")) == 1


async def test_a_snapshot_whose_parts_were_collected_reads_those_that_replaced_them() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for start in range(3):
            await gusts.append(many_rows(1_000, 1_000 * start))
        reader = await world.open().collection()
        whole, piecewise = await reader.snapshot(), await reader.snapshot()
        await gusts.evolve(SCHEMA.append(pyarrow.field("w", pyarrow.int64())))
        await replaced_and_collected(opener)
        table = await whole.to_arrow()
        assert pairs_of(table) == pairs_of(many_rows(3_000))
        assert table.schema.names == ["k", "v"], "as when it was taken"
        pieces = [batch async for batch in piecewise.batches()]
        assert pairs_of(pyarrow.Table.from_batches(pieces)) == pairs_of(many_rows(3_000))


async def test_a_snapshot_whose_history_is_gone_says_so() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for start in range(3):
            await gusts.append(many_rows(1_000, 1_000 * start))
        snapshot = await (await world.open().collection()).snapshot(1)
        await gusts.advance_since(2)
        await replaced_and_collected(opener)
        with pytest.raises(SinceError):
            await snapshot.to_arrow()


async def test_a_read_that_gave_rows_before_parts_were_collected_gives_no_other_ones() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for start in range(3):
            await gusts.append(many_rows(1_000, 1_000 * start))
        batches = (await (await world.open().collection()).snapshot()).batches()
        await anext(batches)
        await replaced_and_collected(opener)
        with pytest.raises(LeaseExpiredError, match="lease"):
            async for _ in batches:
                pass


async def test_a_dropped_collection_is_told_to_who_still_reads_it() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(1_000))
        reader = await world.open().collection()
        snapshots = [await reader.snapshot(lease=lease) for lease in (False, True)]
        await world.open().collections.drop("gusts")
        for snapshot in snapshots:
            with pytest.raises(CollectionDroppedError):
                await snapshot.to_arrow()


@pytest.mark.parametrize("lease", [False, True])
async def test_a_part_that_others_deleted_is_lost_data(lease: bool) -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(1_000))
        snapshot = await gusts.snapshot(lease=lease)
        [name] = world.names("/parts/")
        world.new_storage().delete(name)
        with pytest.raises(LostDataError) as lost:
            await snapshot.to_arrow()
        assert lost.value.where == name


async def test_a_lease_that_ended_is_told() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        await (await opener.collection()).append(many_rows(1_000))
        asleep = world.open()
        snapshot = await (await asleep.collection()).snapshot(lease=True)
        asleep.storage.plan = lambda call: Fate.REFUSED
        await world.sleep(HOUR_S)
        await (await opener.collection()).append(rows(("a", 1)))
        asleep.storage.plan = all_done
        await (await asleep.collection()).info()
        with pytest.raises(LeaseExpiredError):
            await snapshot.to_arrow()


async def test_the_newest_time_is_found_although_history_is_one_time() -> None:
    """What is read is chosen by the state in which the lease begins, however others append."""
    async with CollectionsWorld(latency=lambda pool, chance: chance.random() / 10) as world:
        opener = await world.create(history=1)
        gusts = await opener.collection()
        await gusts.append(rows(("a", 0)))
        reader = await world.open().collection()
        other = await world.open().collection()

        async def append_on() -> None:
            for number in range(1, 40):
                await other.append(rows(("a", number)), remove=rows(("a", number - 1)))

        appends = asyncio.ensure_future(append_on())
        for _ in range(8):
            for lease in (False, True):
                async with await reader.snapshot(lease=lease) as snapshot:
                    assert (await snapshot.to_arrow()).to_pylist() == [
                        {"k": "a", "v": snapshot.as_of}
                    ]
        await appends


async def test_a_snapshot_costs_two_requests_and_its_parts() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        await gusts.append(rows(("a", 1)))
        before = len(opener.storage.calls)
        await shown(gusts)
        assert len(opener.storage.calls) - before == 2
        await gusts.append(many_rows(1_000))
        before = len(opener.storage.calls)
        await shown(gusts)
        assert len(opener.storage.calls) - before <= 4, "the part is small: one or two reads"


async def test_a_look_that_fails_after_its_caller_was_cancelled_is_nobodys_failure() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        heard: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, facts: heard.append(facts))
        opener.environment.latency = lambda pool, chance: 1.0
        opener.storage.plan = lambda call: Fate.REFUSED
        asked = asyncio.create_task(gusts.info())
        await world.sleep(0.1)
        asked.cancel()
        await world.sleep(2)
        gc.collect()
        assert heard == []
