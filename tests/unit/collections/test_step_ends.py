"""Steps of readers by bookmarks: cut between times, the same after merges, held while they run."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow
import pytest

from siltstone.collections.async_bookmark_reader import AsyncBookmarkReader
from siltstone.collections.place import CollectionSettings
from siltstone.collections.splits import rows_of_split
from siltstone.collections.step_ends import StepLimits
from siltstone.core.errors import BookmarkFencedError, LostDataError
from tests.support.collections.collections_world import CollectionsWorld, Opener, many_rows, rows
from tests.support.collections.update_model import UpdateModel, random_append, summed

pytestmark = pytest.mark.virtual_time

SMALL = CollectionSettings(garbage_delay_ms=0, compacts=False, part_bytes=1_000)


async def reader_of(opener: Opener, since: int = 0) -> AsyncBookmarkReader:
    gusts = await opener.collection()
    return await gusts.bookmark_readers.take("steps", lambda state: since)


async def told(
    reader: AsyncBookmarkReader, opener: Opener, start: int, end: int
) -> list[dict[str, Any]]:
    """The updates of a step."""
    found = []
    for split in await reader.changes(start, end, None):
        for batch in rows_of_split(opener.storage, split):
            assert batch.schema == split.arrow_schema
            found += batch.to_pylist()
    return found


def by_time(updates: list[dict[str, Any]]) -> Any:
    """The sums of diffs by row and time."""
    return summed((((row["k"], row["v"]), row["_time"]), row["_diff"]) for row in updates)


@pytest.mark.parametrize("seed", range(8))
async def test_steps_are_the_exact_history_whatever_is_merged_between_them(seed: int) -> None:
    chance, model = Random(seed), UpdateModel()
    async with CollectionsWorld(seed, settings=SMALL) as world:
        writer = await world.create()
        gusts = await writer.collection()
        opener = world.open()
        reader = await reader_of(opener)
        start = 0
        while start < 60:
            for _ in range(chance.randrange(6)):
                await random_append(gusts, model, chance)
            if not chance.randrange(3):
                await gusts.compact()
                await gusts.collect()
            limits = StepLimits(
                rows=chance.choice([None, 1, 4, 30]), size_bytes=chance.choice([None, 200, 4_000])
            )
            end = await reader.step_end(start, chance.choice([None, start + 3]), limits)
            assert start <= end <= model.upper
            found = await told(reader, opener, start, end)
            assert by_time(found) == model.changes(start, end)
            times = {update["_time"] for update in found}
            assert limits.rows is None or len(found) <= limits.rows or len(times) == 1
            await reader.finished(end)
            if not chance.randrange(4):
                await gusts.advance_since(max(0, end - 1))
            start = end
        await reader.close()


async def test_a_limit_is_filled_as_far_as_whole_times_fill_it() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for count in (3, 2, 9, 1, 1, 4):
            await gusts.append(many_rows(count))
        reader = await reader_of(opener)
        for merged in (False, True):
            if merged:
                await gusts.compact()
            ends = [0]
            while ends[-1] < 6:
                ends.append(await reader.step_end(ends[-1], None, StepLimits(rows=5)))
            assert ends == [0, 2, 3, 5, 6]


async def test_parts_of_a_step_stay_until_the_next_one_is_looked_for() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        reader = await reader_of(opener)

        async def replaced() -> int:
            """How many objects go when all rows were merged again."""
            await gusts.append(many_rows(500))
            await gusts.compact()
            await world.sleep(3_600)
            return await gusts.collect()

        await gusts.append(many_rows(500))
        splits = await reader.changes(0, 1, None)
        assert [await replaced(), await replaced()] == [0, 0]
        assert sum(len(batch) for one in splits for batch in rows_of_split(opener.storage, one))
        assert await reader.step_end(3, None, StepLimits()) == 3
        assert await replaced() == 6, "two that each merge replaced"


async def test_a_reader_whose_lease_ended_plans_anew() -> None:
    async with CollectionsWorld() as world:
        other = await world.create()
        gusts = await other.collection()
        await gusts.append(many_rows(500))
        opener = world.open()
        reader = await reader_of(opener)
        paused, opener.environment.latency = opener.environment.latency, lambda pool, chance: 1e5
        await world.sleep(7_200)
        await gusts.append(rows(("a", 1)))
        assert (await gusts.info()).readers == ()
        opener.environment.latency = paused
        await world.sleep(200_000)
        assert (await reader.step_end(0, None, StepLimits())) == 2
        assert len(await told(reader, opener, 0, 2)) == 501
        assert len((await gusts.info()).readers) == 1


async def test_readers_by_one_bookmark_are_one_reader_of_the_collection() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(500))
        first = await reader_of(world.open())
        opener = world.open()
        second = await reader_of(opener)
        assert len((await gusts.info()).readers) == 1
        with pytest.raises(BookmarkFencedError):
            await first.step_end(0, None, StepLimits())
        await first.close()
        assert (await gusts.info()).readers == ()
        assert len(await told(second, opener, 0, 1)) == 500
        assert len((await gusts.info()).readers) == 1, "it was made again"


async def test_a_part_that_others_deleted_is_lost() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for _ in range(2):
            await gusts.append(many_rows(400))
        await gusts.compact()
        reader = await reader_of(opener)
        for stat in list(opener.storage.list("collections/")):
            if stat.name.endswith(".parquet"):
                opener.storage.delete(stat.name)
        with pytest.raises(LostDataError):
            await reader.step_end(0, None, StepLimits(rows=1))


async def test_rows_at_a_time_are_updates_of_that_time() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        await gusts.append(rows(("a", 1), ("b", 2)))
        await gusts.append(rows(("a", 1)), remove=rows(("b", 2)))
        reader = await reader_of(opener)
        (split,) = await reader.rows(1, ["v"])
        table = pyarrow.Table.from_batches(rows_of_split(opener.storage, split))
        assert table.to_pylist() == [{"v": 1, "_time": 1, "_diff": 2}]
