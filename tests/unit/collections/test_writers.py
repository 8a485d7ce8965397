"""Named writers: each sequence counts once, whichever process repeats it."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.errors import CollectionSequenceError, UpperMismatchError
from tests.support.collections.collections_world import (
    CollectionsWorld,
    calls_since,
    many_rows,
    pairs_of,
    rows,
    shown,
)

pytestmark = pytest.mark.virtual_time

HOUR_S = 3_600.0


@pytest.mark.parametrize("count", [1, 1_000])
async def test_a_repeated_sequence_counts_once_and_is_told_alike(count: int) -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        mine = (await opener.collection()).writer("loader")
        first = await mine.append(many_rows(count), sequence=5)
        await (await opener.collection()).append(rows(("between", 0)))
        parts = world.names("/parts/")

        again = await mine.append(many_rows(count), sequence=5)
        late = await world.open().collection()
        elsewhere = await late.writer("loader").append(many_rows(count), sequence=5)
        for repeat in (again, elsewhere):
            assert (repeat.time, repeat.upper, repeat.repeated) == (first.time, first.upper, True)
        assert not first.repeated
        assert await shown(late) == sorted([*pairs_of(many_rows(count)), ("between", 0)])
        assert world.names("/parts/") == parts, "a repeat uploads nothing"


async def test_a_repeat_needs_no_request_where_the_sequence_is_known() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        loader = (await opener.collection()).writer("loader")
        await loader.append(rows(("a", 1)), sequence=0)
        before = len(opener.storage.calls)
        assert (await loader.append(rows(("a", 1)), sequence=0)).repeated
        assert calls_since(opener, before) == []


@pytest.mark.parametrize("count", [1, 1_000])
async def test_a_sequence_is_repeated_by_a_handle_that_does_not_know_of_it(count: int) -> None:
    async with CollectionsWorld() as world:
        stale = await (await world.create()).collection()
        other = await world.open().collection()
        first = await other.writer("loader").append(many_rows(count), sequence=1)
        for number in range(3):
            await other.append(rows(("other", number)))
        again = await stale.writer("loader").append(many_rows(count), sequence=1)
        assert (again.upper, again.repeated) == (first.upper, True)
        assert len(await shown(stale)) == count + 3
        assert len(world.names("/parts/")) == count // 1_000, "what was uploaded twice was deleted"


async def test_a_repeat_is_told_so_although_its_condition_does_not_hold_any_more() -> None:
    async with CollectionsWorld() as world:
        stale = await (await world.create()).collection()
        other = await world.open().collection()
        first = await other.writer("loader").append(rows(("a", 1)), sequence=0, expected_upper=0)
        await other.append(rows(("b", 2)))
        await stale.snapshot()
        again = await stale.writer("loader").append(rows(("a", 1)), sequence=0, expected_upper=0)
        assert again.upper == first.upper
        with pytest.raises(UpperMismatchError):
            await stale.writer("loader").append(rows(("a", 1)), sequence=1, expected_upper=0)


async def test_one_of_several_processes_makes_the_append_of_a_sequence() -> None:
    async with CollectionsWorld(latency=lambda pool, chance: chance.random()) as world:
        await world.create()
        handles = [await world.open().collection() for _ in range(4)]
        done = await asyncio.gather(
            *(
                handle.writer("loader").append(many_rows(700 * (n % 2) + 1), sequence=0)
                for n, handle in enumerate(handles)
            )
        )
        assert len({one.upper for one in done}) == 1
        assert [one.repeated for one in done].count(False) == 1
        assert len(await shown(handles[0])) in (1, 701)


async def test_a_sequence_below_the_last_one_is_refused() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        loader = gusts.writer("loader")
        await loader.append(rows(("a", 1)), sequence=3)
        await loader.append(rows(("b", 2)), sequence=7)  # gaps are allowed
        with pytest.raises(CollectionSequenceError) as refused:
            await loader.append(rows(("c", 3)), sequence=6)
        assert refused.value.last_sequence == 7
        assert await shown(gusts) == [("a", 1), ("b", 2)]


async def test_an_append_is_refused_after_a_later_sequence_landed_late() -> None:
    """The caller of that one left, so nobody knows of it. No success is told that was none."""
    async with CollectionsWorld() as world:
        opener = await world.create()
        loader = (await opener.collection()).writer("loader")
        await loader.append(rows(("a", 1)), sequence=0)
        follower = world.open()
        late = (await follower.collection()).writer("loader")
        opener.environment.latency = lambda pool, chance: 20.0
        left = asyncio.ensure_future(loader.append(rows(("c", 3)), sequence=5))
        await world.sleep(5)  # It lands after 10 seconds.
        left.cancel()
        assert await shown(await world.open().collection()) == [("a", 1)]
        follower.environment.latency = lambda pool, chance: 30.0
        with pytest.raises(CollectionSequenceError) as refused:
            await late.append(rows(("b", 2)), sequence=3)
        assert refused.value.last_sequence == 5
        assert await shown(await world.open().collection()) == [("a", 1), ("c", 3)]


async def test_a_writer_continues_where_another_process_ended() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        loader = (await opener.collection()).writer("loader")
        assert loader.sequence == -1
        await loader.append(rows(("a", 1)), sequence=4)
        opener.die()
        await world.sleep(100 * HOUR_S)
        late = await world.open().collection()
        assert late.writer("loader").sequence == 4


async def test_sequences_in_flight_together_all_count() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        loader = gusts.writer("loader")
        await asyncio.gather(*(loader.append(many_rows(1, n), sequence=n) for n in range(10)))
        assert await shown(gusts) == pairs_of(many_rows(10))
        assert loader.sequence == 9


async def test_a_writer_with_a_name_gives_sequences_and_no_other_does() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        with pytest.raises(ValueError, match="sequence"):
            await gusts.writer("loader").append(rows(("a", 1)), sequence=None)
        with pytest.raises(ValueError, match="1 to 1024 bytes"):
            await gusts.writer("").append(rows(("a", 1)), sequence=0)


async def test_rows_of_writers_without_a_name_end_and_those_with_one_stay() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(1_000))
        await gusts.writer("loader").append(many_rows(1_000), sequence=0)
        await world.sleep(2 * HOUR_S)
        other = await world.open().collection()
        await other.append(rows(("a", 1)))
        names = {writer.name for writer in (await other.info()).writers}
        assert "loader" in names
        assert len(names) == 2, "the other one has just appended"
        await gusts.append(rows(("b", 2)))
        await gusts.append(many_rows(1_000))
        assert len(await shown(other)) == 3_002
