"""What each verb asks of long-term storage, counted on the binding ``nfs``: money on a bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from siltstone.collections.place import CollectionSettings
from siltstone.core.environment import Pool
from siltstone.testing.virtual_time import jittered
from tests.support.collections.collections_world import (
    NAME,
    CollectionsWorld,
    Opener,
    many_rows,
    rows,
    shown,
)
from tests.support.memory_folder import folder_in_memory

pytestmark = pytest.mark.virtual_time

DEFAULTS = CollectionSettings()


@asynccontextmanager
async def world_on_nfs(
    tmp_path: Path, settings: CollectionSettings = DEFAULTS
) -> AsyncIterator[CollectionsWorld]:
    with folder_in_memory(tmp_path) as folder:
        async with CollectionsWorld(settings=settings, folder=folder, latency=_latency) as world:
            yield world


def _latency(pool: Pool, chance: Random) -> float:
    """Requests take a while; work on rows does not, so that what comes together stays together."""
    return 0.0 if "rows" in pool.name else jittered(0.1)(pool, chance)


async def cost(opener: Opener, work: Awaitable[object]) -> tuple[int, int]:
    """How many requests a process makes meanwhile, and how many of them write."""
    before = len(opener.storage.calls)
    await work
    made = [call.operation for call in opener.storage.calls[before:]]
    return len(made), made.count("create")


async def test_an_inline_append_costs_two_requests_of_which_one_writes(tmp_path: Path) -> None:
    async with world_on_nfs(tmp_path) as world:
        opener = await world.create()
        gusts = await opener.collection()
        for _ in range(5):
            assert await cost(opener, gusts.append(rows(("a", 1)))) == (2, 1)
        together = asyncio.gather(*(gusts.append(rows(("a", n))) for n in range(64)))
        assert await cost(opener, together) == (2, 1), "64 in flight are one entry"


async def test_upkeep_costs_a_tenth_of_a_request_for_each_append(tmp_path: Path) -> None:
    """An hour and a half, one append each ten seconds, with all settings as they are."""
    async with world_on_nfs(tmp_path) as world:
        opener = await world.create()
        gusts = await opener.collection()

        async def append_slowly() -> None:
            for number in range(576):
                await gusts.compare_and_append([], expected_upper=number, new_upper=number + 1)
                await world.sleep(10)

        requests, writes = await cost(opener, append_slowly())
        assert 2 * 576 < requests <= 2.1 * 576
        assert 576 < writes <= 1.05 * 576
        assert len(world.names(f"{gusts.id.hex()}/entries/")) < 400


@pytest.mark.slow
async def test_upkeep_costs_an_eighth_of_a_request_where_appends_are_merged(
    tmp_path: Path,
) -> None:
    """A hundred and twenty-eight batches become one, again and again; one row each five seconds."""
    async with world_on_nfs(tmp_path) as world:
        opener = await world.create()
        gusts = await opener.collection()

        async def append_slowly() -> None:
            for number in range(600):
                await gusts.append(rows((f"key {number}", number)))
                await world.sleep(5)

        requests, writes = await cost(opener, append_slowly())
        assert 2.10 * 600 < requests < 2.15 * 600
        assert 1.03 * 600 < writes < 1.07 * 600


@pytest.mark.parametrize("count", [1_000, 8_000])
async def test_an_append_with_parts_costs_one_request_more_for_each(
    tmp_path: Path, count: int
) -> None:
    async with world_on_nfs(tmp_path, CollectionSettings(part_bytes=50_000)) as world:
        opener = await world.create()
        gusts = await opener.collection()
        await gusts.append(many_rows(count))  # The first one of a process registers.
        parts = len(world.names("/parts/"))
        assert (parts > 1) == (count > 1_000)
        assert await cost(opener, gusts.append(many_rows(count))) == (2 + parts, 1 + parts)


async def test_each_lost_race_costs_three_requests_more(tmp_path: Path) -> None:
    async with world_on_nfs(tmp_path) as world:
        opener = await world.create()
        gusts = await opener.collection()
        await gusts.append(rows(("a", 0)))
        other = await world.open().collection()
        for races in (1, 2):
            for number in range(races):
                await other.append(rows(("other", number)))
            expected = (2 + 3 * races, 1 + races) if races == 1 else (2 + 3 * 2 + 2, 3)
            assert await cost(opener, gusts.append(rows(("a", races)))) == expected


async def test_processes_that_append_at_once_lose_few_races(tmp_path: Path) -> None:
    async with world_on_nfs(tmp_path, CollectionSettings(compacts=False)) as world:
        await world.create()
        openers = [world.open() for _ in range(4)]
        handles = [await opener.collection() for opener in openers]
        ended: list[float] = []

        async def work(number: int) -> None:
            for turn in range(50):
                await handles[number].append(rows((f"{number}", turn)))
            ended.append(world.clock.now)

        began = world.clock.now
        await asyncio.gather(*map(work, range(4)))
        creates = [
            call
            for opener in openers
            for call in opener.storage.calls
            if call.operation == "create" and "/entries/" in call.name
        ]
        assert len(creates) <= 1.6 * 200
        assert min(ended) - began >= 0.3 * (max(ended) - began), "nobody starves"


async def test_an_open_costs_three_requests_and_the_first_one_by_name_eight(tmp_path: Path) -> None:
    async with world_on_nfs(tmp_path) as world:
        first = await world.create()
        await (await first.collection()).append(rows(("a", 1)))
        opener = world.open()
        assert await cost(opener, opener.collection()) == (8, 0)
        collection_id = (await first.collection()).id

        async def open_by_id() -> None:
            opened = opener.place.consensus.open(collection_id)
            assert opened is not None

        assert await cost(opener, open_by_id()) == (3, 0)


async def test_a_snapshot_costs_two_requests_and_one_for_each_small_part(tmp_path: Path) -> None:
    async with world_on_nfs(tmp_path) as world:
        opener = await world.create()
        gusts = await opener.collection()
        await gusts.append(rows(("a", 1)))
        assert await cost(opener, shown(gusts)) == (2, 0)
        for start in range(3):
            await gusts.append(many_rows(1_000, 1_000 * start))
        assert await cost(opener, shown(gusts)) == (5, 0)


async def test_a_poll_costs_one_request_and_three_where_it_finds_news(tmp_path: Path) -> None:
    async with world_on_nfs(tmp_path) as world:
        other = await (await world.create()).collection()
        opener = world.open()
        listener = await (await opener.collection()).listen(lease=False)
        waits = asyncio.ensure_future(anext(listener))
        await world.sleep(70)
        [one] = {await cost(opener, world.sleep(10.2)) for _ in range(2)}
        assert one == (1, 0)
        await other.append(rows(("a", 1)))
        assert await cost(opener, asyncio.wait([waits])) == (3, 0)


async def test_an_hour_of_an_idle_listener_costs_372_requests(tmp_path: Path) -> None:
    async with world_on_nfs(tmp_path) as world:
        await world.create()
        opener = world.open()
        listener = await (await opener.collection()).listen()
        waits = asyncio.ensure_future(anext(listener))
        await world.sleep(100)
        requests, writes = await cost(opener, world.sleep(3_600))
        assert (371 <= requests <= 373, writes) == (True, 12)
        waits.cancel()


async def test_an_hour_in_which_it_is_open_and_not_used_costs_nothing(tmp_path: Path) -> None:
    async with world_on_nfs(tmp_path) as world:
        opener = await world.create()
        gusts = await opener.collection(NAME)
        await gusts.append(rows(("a", 1)))
        assert await cost(opener, world.sleep(3_600)) == (0, 0)
