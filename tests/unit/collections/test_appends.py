"""What an append adds, when it is refused, and how many entries many of them take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pyarrow
import pytest

from siltstone.collections.async_bookmark import AsyncBookmark
from siltstone.collections.async_collection import AsyncCollection
from siltstone.core.errors import (
    BackPressureError,
    CollectionSchemaError,
    NegativeCountError,
    UpdateTimeError,
    UpperMismatchError,
)
from siltstone.testing.virtual_time import START_S
from tests.support.collections.collections_world import (
    SCHEMA,
    CollectionsWorld,
    calls_since,
    many_rows,
    pairs_of,
    rows,
    shown,
)

pytestmark = pytest.mark.virtual_time


async def test_rows_get_the_next_number_where_times_are_a_count() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        first = await gusts.append(rows(("a", 1)))
        second = await gusts.append(rows(("b", 2), ("a", 3)))
        assert [(one.time, one.upper, one.repeated) for one in (first, second)] == [
            (0, 1, False),
            (1, 2, False),
        ]
        assert await shown(gusts, 0) == [("a", 1)]
        assert await shown(gusts) == [("a", 1), ("a", 3), ("b", 2)]


async def test_rows_get_the_time_of_their_commit_and_never_one_that_was() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create(times="ms")
        gusts = await opener.collection()
        await world.sleep(5)
        first = await gusts.append(rows(("a", 1)))
        opener.environment.clock.now -= 3  # the clock is set back
        second = await gusts.append(rows(("b", 2)))
        assert first.time == int((START_S + 5) * 1000)
        assert second.time == first.upper == first.time + 1


async def test_many_rows_and_few_rows_read_alike() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(1_000))
        assert world.names("/parts/") != []
        for first in range(1_000, 1_100, 10):
            await gusts.append(many_rows(10, first))
        assert len(world.names("/parts/")) == 1
        assert await shown(gusts) == pairs_of(many_rows(1_100))


@pytest.mark.parametrize("count", [3, 1_000])
async def test_rows_that_are_removed_go(count: int) -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(count))
        await gusts.append(rows(("new", 1)), remove=many_rows(count - 1))
        assert await shown(gusts) == [*pairs_of(many_rows(1, count - 1)), ("new", 1)]
        assert await shown(gusts, 0) == pairs_of(many_rows(count))


async def test_more_copies_that_go_than_came_are_an_error_of_the_reader() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)), remove=rows(("b", 2)))
        with pytest.raises(NegativeCountError):
            await shown(gusts)
        table = await (await gusts.snapshot(diffs=True)).to_arrow()
        assert sorted(table.to_pylist(), key=str) == [
            {"k": "a", "v": 1, "_diff": 1},
            {"k": "b", "v": 2, "_diff": -1},
        ]


@pytest.mark.parametrize("count", [1, 1_000])
async def test_an_append_on_a_condition_that_does_not_hold_adds_nothing(count: int) -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)))
        for expected in (0, 2):
            with pytest.raises(UpperMismatchError) as refused:
                await gusts.append(many_rows(count), expected_upper=expected)
            assert (refused.value.expected, refused.value.current) == (expected, 1)
        assert await shown(gusts) == [("a", 1)]
        assert world.names("/parts/") == [], "what was uploaded in vain was deleted"
        assert (await gusts.append(rows(("b", 2)), expected_upper=1)).time == 1


async def test_a_refusal_is_by_the_newest_state_however_far_behind_the_handle_was() -> None:
    async with CollectionsWorld() as world:
        mine = await (await world.create()).collection()
        other = await world.open().collection()
        for number in range(5):
            await other.append(rows(("other", number)))
        with pytest.raises(UpperMismatchError) as refused:
            await mine.append(rows(("a", 1)), expected_upper=0)  # all that it knows of
        assert refused.value.current == 5


async def test_a_condition_holds_that_a_stale_handle_knows_nothing_of() -> None:
    async with CollectionsWorld() as world:
        mine = await (await world.create()).collection()
        other = await world.open().collection()
        for number in range(3):
            await other.append(rows(("other", number)))
        assert (await mine.append(rows(("a", 1)), expected_upper=3)).upper == 4


async def test_a_handle_that_is_far_behind_catches_up_with_few_requests() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        mine = await opener.collection()
        other = await world.open().collection()
        for number in range(50):
            await other.append(rows(("other", number)))
        before = len(opener.storage.calls)
        await mine.append(rows(("a", 1)))
        calls = calls_since(opener, before)
        assert calls.count("create entries") == 3, "two lost races, and the append"
        assert len(calls) <= 16


async def test_updates_have_times_of_their_own() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        updates = [
            {"k": "a", "v": 1, "_time": 3, "_diff": 2},
            {"k": "a", "v": 1, "_time": 5, "_diff": -1},
            {"k": "b", "v": 2, "_time": 9, "_diff": 1},
        ]
        done = await gusts.compare_and_append(updates, expected_upper=0, new_upper=10)
        assert (done.time, done.upper) == (9, 10)
        assert await shown(gusts, 2) == []
        assert await shown(gusts, 3) == [("a", 1), ("a", 1)]
        assert await shown(gusts, 8) == [("a", 1)]
        assert await shown(gusts) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(("time", "expected", "new"), [(0, 1, 5), (5, 1, 5), (2, 3, 2)])
async def test_updates_outside_of_their_range_are_refused(
    time: int, expected: int, new: int
) -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)))
        if expected == 3:
            await gusts.compare_and_append([], expected_upper=1, new_upper=3)
        updates = [{"k": "b", "v": 2, "_time": time, "_diff": 1}]
        with pytest.raises(UpdateTimeError):
            await gusts.compare_and_append(updates, expected_upper=expected, new_upper=new)
        assert await shown(gusts) == [("a", 1)]


async def test_heartbeats_complete_times_and_take_no_room() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)))
        for upper in range(1, 20):
            await gusts.compare_and_append([], expected_upper=upper, new_upper=upper + 1)
        info = await gusts.info()
        assert (info.upper, info.batches) == (20, 2)
        assert await shown(gusts) == [("a", 1)]


async def test_a_finished_collection_takes_no_more_rows_and_can_be_read() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)))
        await gusts.finish()
        await gusts.finish()
        assert (await gusts.info()).upper is None
        with pytest.raises(UpdateTimeError):
            await gusts.append(rows(("b", 2)))
        other = await world.open().collection()
        assert await shown(other) == [("a", 1)]
        assert await shown(other, 1_000) == [("a", 1)]


async def test_appends_in_flight_together_are_few_entries() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        before = (await gusts.info()).seqno
        done = await asyncio.gather(*(gusts.append(many_rows(1, n)) for n in range(200)))
        assert (await gusts.info()).seqno - before <= 5
        assert sorted(one.time for one in done) == list(range(200)), "each has a time of its own"
        assert await shown(gusts) == pairs_of(many_rows(200))


async def test_an_entry_of_many_appends_ends_where_it_is_large() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        before = (await gusts.info()).seqno
        await asyncio.gather(*(gusts.append(many_rows(100, 100 * n)) for n in range(64)))
        assert (await gusts.info()).seqno - before >= 3, "64 times 2.5 KB are more than 64 KiB"
        assert await shown(gusts) == pairs_of(many_rows(6_400))


async def test_large_appends_in_flight_together_all_count() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await asyncio.gather(*(gusts.append(many_rows(600, 600 * n)) for n in range(5)))
        assert await shown(gusts) == pairs_of(many_rows(3_000))
        assert len(world.names("/parts/")) == 5


async def test_a_refusal_among_appends_in_flight_is_told_to_its_caller_alone() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        done = await asyncio.gather(
            gusts.append(rows(("a", 1))),
            gusts.append(rows(("b", 2)), expected_upper=7),
            gusts.append(rows(("c", 3))),
            return_exceptions=True,
        )
        assert [type(one).__name__ for one in done] == [
            "AppendResult",
            "UpperMismatchError",
            "AppendResult",
        ]
        assert await shown(gusts) == [("a", 1), ("c", 3)]


@pytest.mark.parametrize(
    "ask",
    [
        lambda gusts, mark: gusts.append(rows(("x", 1)), expected_upper=1.0),
        lambda gusts, mark: gusts.compare_and_append([], expected_upper=1, new_upper=2.5),
        lambda gusts, mark: gusts.writer("loader").append(rows(("x", 1)), sequence=1.5),
        lambda gusts, mark: gusts.writer("loader").append_batches([], sequence=1.5),
        lambda gusts, mark: gusts.advance_since(0.5),
        lambda gusts, mark: gusts.bookmark("other", since=0.5),
        lambda gusts, mark: mark.advance(0.5),
        lambda gusts, mark: gusts.snapshot(0.5, lease=True),
        lambda gusts, mark: gusts.listen(0.5),
        lambda gusts, mark: gusts.subscribe(0.5),
    ],
    ids=[
        "append",
        "compare_and_append",
        "writer",
        "append_batches",
        "advance_since",
        "bookmark",
        "advance",
        "snapshot",
        "listen",
        "subscribe",
    ],
)
async def test_a_number_that_is_not_whole_fails_its_caller_alone(
    ask: Callable[[AsyncCollection, AsyncBookmark], Awaitable[object]],
) -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)))
        mark = await gusts.bookmark("mark")
        done = await asyncio.gather(
            ask(gusts, mark),
            gusts.append(rows(("b", 2))),
            return_exceptions=True,
        )
        assert [type(one).__name__ for one in done] == ["TypeError", "AppendResult"]
        assert await shown(gusts) == [("a", 1), ("b", 2)]


async def test_an_append_whose_caller_left_counts_once_at_most() -> None:
    async with CollectionsWorld(latency=lambda pool, chance: 0.1) as world:
        gusts = await (await world.create()).collection()
        left = asyncio.ensure_future(gusts.append(rows(("a", 1))))
        await world.sleep(0.12)
        left.cancel()
        await asyncio.wait([left])
        await gusts.append(rows(("b", 2)))
        assert await shown(gusts) in ([("b", 2)], [("a", 1), ("b", 2)])


async def test_rows_go_to_objects_where_the_state_is_full() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        for start in range(0, 480, 48):
            some = range(start, start + 48)
            await asyncio.gather(*(gusts.append(many_rows(130, 130 * n)) for n in some))
        assert len(world.names("/parts/")) > 10
        assert await shown(gusts) == pairs_of(many_rows(130 * 480))


async def test_appends_wait_for_a_compaction_and_end_when_none_comes() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        await asyncio.gather(*(gusts.append(many_rows(1, n)) for n in range(1_000)))
        began = world.clock.now
        with pytest.raises(BackPressureError):
            await gusts.append(rows(("a", 1)))
        assert world.clock.now - began >= 30
        waits = asyncio.ensure_future(gusts.append(rows(("a", 1))))
        await (await world.open().collection()).compact()
        assert (await waits).time == 1_000


async def test_a_handle_takes_rows_of_a_schema_that_others_widened() -> None:
    async with CollectionsWorld() as world:
        mine = await (await world.create()).collection()
        other = await world.open().collection()
        await other.evolve(SCHEMA.append(pyarrow.field("w", pyarrow.int64())))
        await mine.append([{"k": "a", "v": 1, "w": 2}])
        with pytest.raises(CollectionSchemaError, match="x"):
            await mine.append([{"k": "a", "v": 1, "x": 2}])
        table = await (await other.snapshot()).to_arrow()
        assert table.to_pylist() == [{"k": "a", "v": 1, "w": 2}]


async def test_a_close_lets_an_append_end_that_lost_its_races() -> None:
    """After two of them it looks what is newest, also while the collection is being closed."""
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        rival = await world.open().collection()
        opener.environment.latency = lambda pool, chance: 1.0  # half of it until the effect
        append = asyncio.create_task(gusts.append(rows(("a", 1))))
        await world.sleep(0.2)
        await rival.append(rows(("b", 2)))
        await world.sleep(1.0)
        await rival.append(rows(("b", 2)))
        await opener.collections.close()
        assert (await append).time == 2
        assert await shown(rival) == [("a", 1), ("b", 2), ("b", 2)]
