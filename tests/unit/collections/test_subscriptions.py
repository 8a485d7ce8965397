"""Subscriptions: rows at a time and the changes after it are the exact history."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_subscription import AsyncSubscription, Changes
from siltstone.core.errors import (
    ChunkUnavailableError,
    ClosedError,
    CollectionDroppedError,
    LeaseExpiredError,
    SinceError,
    SinceHeldError,
)
from siltstone.testing.faults.faulty_chunk_storage import Fate, all_done
from siltstone.testing.virtual_time import jittered
from tests.support.collections.collections_world import (
    CollectionsWorld,
    calls_since,
    many_rows,
    rows,
)
from tests.support.collections.update_model import (
    UpdateModel,
    changes_of,
    random_append,
    summed,
)

pytestmark = pytest.mark.virtual_time

HOUR_S = 3_600.0


async def taken(subscription: AsyncSubscription, upper: int) -> list[Changes]:
    """What comes until a frontier is reached; each begins where the one before ended."""
    found: list[Changes] = []
    while subscription.frontier < upper:
        found.append(await anext(subscription))
        assert found[-1].upper == subscription.frontier
        assert len(found) == 1 or found[-1].lower == found[-2].upper
    return found


@dataclass
class Followed:
    """A subscription, where its changes began, and their sums."""

    subscription: AsyncSubscription
    begin: int
    told: Counter[Any] = field(default_factory=Counter)

    @classmethod
    async def rows_at(cls, gusts: AsyncCollection, model: UpdateModel, as_of: int) -> Followed:
        """Subscribe; the first changes are the rows."""
        subscription = await gusts.subscribe(as_of)
        [first] = await taken(subscription, as_of + 1)
        assert first.lower == 0
        wanted = {(row, as_of): count for row, count in model.rows(as_of).items()}
        assert changes_of(first.to_arrow()) == Counter(wanted)
        return cls(subscription, as_of + 1)

    async def compare(self, model: UpdateModel) -> None:
        """Take all that is new: all that was told is all that happened."""
        for changes in await taken(self.subscription, model.upper):
            self.told.update(changes_of(changes.to_arrow()))
        assert summed(self.told.items()) == model.changes(self.begin, self.subscription.frontier)


async def compacted_and_collected(gusts: AsyncCollection, since: int) -> None:
    """Move the since as far as readers let it, and clear up."""
    await gusts.compact()
    try:
        await gusts.advance_since(since)
    except SinceHeldError as held:
        await gusts.advance_since(held.limit)
    await gusts.compact()
    await gusts.collect()


@pytest.mark.parametrize("seed", range(3))
async def test_rows_and_changes_are_the_history_next_to_compactions_and_garbage(seed: int) -> None:
    chance = Random(seed)
    async with CollectionsWorld(seed) as world:
        gusts = await (await world.create()).collection()
        other = await world.open().collection()
        model = UpdateModel()
        followed: list[Followed] = []
        for step in range(60):
            await random_append(gusts, model, chance)
            if chance.random() < 0.1:
                start = chance.randrange((await gusts.info()).since, model.upper)
                followed.append(await Followed.rows_at(chance.choice([gusts, other]), model, start))
            for one in followed:
                if chance.random() < 0.3:
                    await one.compare(model)
            await world.sleep(chance.choice([0.01, 1, 200]))
            if step % 9 == 8:
                await compacted_and_collected(other, model.upper - 1)
        assert len(followed) >= 3
        for one in followed:
            await one.compare(model)


async def test_changes_come_to_who_waits_in_this_process_and_in_another() -> None:
    async with CollectionsWorld() as world:
        mine = await (await world.create()).collection()
        await mine.append(rows(("before", 0)))
        listeners = [await mine.listen(), await (await world.open().collection()).listen()]
        waits = [asyncio.ensure_future(anext(listener)) for listener in listeners]
        await world.sleep(100)
        assert not any(wait.done() for wait in waits)
        done = await mine.append(rows(("a", 1)))
        await asyncio.wait(waits, timeout=10.1)  # the longest pause between two polls
        for wait in waits:
            changes = wait.result()
            assert (changes.lower, changes.upper) == (done.time, done.upper)
            assert changes_of(changes.to_arrow()) == {(("a", 1), done.time): 1}


async def test_two_who_ask_one_subscription_get_different_changes() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        listener = await gusts.listen(0)
        both = asyncio.gather(anext(listener), anext(listener))
        for number in range(2):
            await asyncio.sleep(1)
            await gusts.append(rows(("a", number)))
        found = sorted(await both, key=lambda changes: changes.lower)
        assert [(one.lower, one.upper) for one in found] == [(0, 1), (1, 2)]
        assert [one.updates["v"].to_pylist() for one in found] == [[0], [1]]
        await listener.close()


async def test_a_listener_that_waits_between_merged_batches_misses_nothing() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        for number in range(4):
            await gusts.append(rows(("a", number)))
        listener = await gusts.listen(2)
        await gusts.compact()
        [two] = await taken(listener, 4)
        assert changes_of(two.to_arrow()) == {(("a", 2), 2): 1, (("a", 3), 3): 1}
        await gusts.append(rows(("a", 4)))
        await gusts.append(rows(("a", 5)))
        await gusts.compact()
        found = await taken(listener, 6)
        assert sum((changes_of(one.to_arrow()) for one in found), Counter()) == {
            (("a", 4), 4): 1,
            (("a", 5), 5): 1,
        }


async def test_a_subscription_ends_at_the_frontier_that_was_asked_for() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for number in range(6):
            await gusts.append(rows(("a", number)))
        await gusts.compact()
        found = [changes async for changes in await gusts.subscribe(1, until=4)]
        assert [(one.lower, one.upper) for one in found] == [(0, 2), (2, 4)]
        assert changes_of(found[1].to_arrow()) == {(("a", 2), 2): 1, (("a", 3), 3): 1}
        assert [one async for one in await gusts.listen(4, until=4)] == []
        assert (await gusts.info()).readers == (), "the leases ended with them"


async def test_a_subscription_to_all_there_is_begins_at_the_since() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        empty = await gusts.subscribe()
        for number in range(5):
            await gusts.append(rows(("a", number)))
        [first] = await taken(empty, 1)
        assert changes_of(first.to_arrow()) == {(("a", 0), 0): 1}
        await empty.close()
        await gusts.advance_since(3)
        late = await gusts.subscribe(until=5)
        found = [changes_of(one.to_arrow()) async for one in late]
        assert found == [{(("a", n), 3): 1 for n in range(4)}, {(("a", 4), 4): 1}]


async def test_a_finished_collection_ends_its_subscriptions() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)))
        listener = await gusts.listen()
        waits = asyncio.ensure_future(_all(listener))
        await world.sleep(1)
        await gusts.finish()
        assert [one.updates.num_rows for one in await waits] == [0]
        assert await _all(await gusts.listen()) == []
        assert [one.updates.num_rows for one in await _all(await gusts.subscribe())] == [1, 0]


async def test_a_dropped_collection_ends_its_subscriptions_with_an_error() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        waits = [
            asyncio.ensure_future(anext(await gusts.listen(lease=lease))) for lease in (True, False)
        ]
        await world.sleep(1)
        await world.open().collections.drop("gusts")
        for wait in waits:
            with pytest.raises(CollectionDroppedError):
                await wait
        with pytest.raises(CollectionDroppedError):
            await gusts.listen()


async def _all(subscription: AsyncSubscription) -> list[Changes]:
    return [changes async for changes in subscription]


# --- what leases hold -----------------------------------------------------------------------------


async def test_history_stays_for_a_lease_and_goes_as_it_was_read() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create(history=1)
        gusts = await opener.collection()
        await gusts.append(rows(("a", 0)))
        listener = await (await world.open().collection()).listen()
        for number in range(1, 6):
            await gusts.append(rows(("a", number)))
            await world.sleep(HOUR_S)
        assert (await gusts.info()).since == 0
        await gusts.compact()
        assert len(await taken(listener, 6)) >= 1
        waits = asyncio.ensure_future(anext(listener))  # what came before is finished
        await gusts.append(rows(("a", 6)))
        await waits
        await world.sleep(HOUR_S)
        await gusts.append(rows(("a", 7)))
        assert (await gusts.info()).since == 5


async def test_a_listener_that_reads_lets_go_of_parts_that_were_replaced() -> None:
    """Otherwise all garbage and all entries since its begin would stay as long as it listens."""
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        listeners = [await (await world.open().collection()).listen() for _ in range(2)]
        for start in range(4):
            await gusts.append(many_rows(1_000, 1_000 * start))
            await taken(listeners[0], start + 1)
        await gusts.compact()
        idle = [asyncio.ensure_future(anext(listener)) for listener in listeners]
        await world.sleep(1)
        assert idle[1].done(), "it read all four at once, and rests"
        await world.sleep(HOUR_S)
        await gusts.collect()
        assert len(world.names("/parts/")) == 1
        await gusts.append(rows(("a", 1)))
        assert (await idle[0]).updates.num_rows == 1


async def test_without_a_lease_history_may_be_gone() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create(history=1)
        gusts = await opener.collection()
        await gusts.append(rows(("a", 0)))
        listener = await (await world.open().collection()).listen(lease=False)
        for number in range(1, 4):
            await gusts.append(rows(("a", number)))
        await gusts.compact()
        with pytest.raises(SinceError):
            await anext(listener)
        with pytest.raises(SinceError):
            await gusts.listen(2)
        with pytest.raises(SinceError):
            await gusts.listen(2, lease=False)
        with pytest.raises(SinceError):
            await gusts.subscribe(1)


async def test_times_that_became_one_are_not_told_twice() -> None:
    """After a compaction to the frontier, what was told before looks as if it were new."""
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for number in range(3):
            await gusts.append(rows(("a", number)))
        listener = await gusts.listen(0, lease=False)
        await anext(listener)
        for number in range(3, 6):
            await gusts.append(rows(("a", number)))
        await gusts.advance_since(3)
        await gusts.compact()
        with pytest.raises(SinceError) as caught:
            await anext(listener)
        assert caught.value.as_of < caught.value.since


async def test_a_lease_that_ended_is_told() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        asleep = world.open()
        listener = await (await asleep.collection()).listen()
        asleep.storage.plan = lambda call: Fate.REFUSED
        await world.sleep(HOUR_S)
        with pytest.raises(ChunkUnavailableError):
            await anext(listener)
        await gusts.append(rows(("a", 1)))
        asleep.storage.plan = all_done
        with pytest.raises(LeaseExpiredError):
            await anext(listener)


async def test_a_subscription_goes_on_after_storage_did_not_answer() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        await gusts.append(many_rows(1_000))
        other = world.open()
        subscription = await (await other.collection()).subscribe(0)
        other.storage.plan = lambda call: Fate.LOST_CALL
        for _ in range(2):
            with pytest.raises(ChunkUnavailableError):
                await anext(subscription)
        other.storage.plan = all_done
        assert (await anext(subscription)).updates.num_rows == 1_000


async def test_leases_end_with_the_handle_that_has_them() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        reader = world.open()
        handle = await reader.collection()
        listener = await handle.listen()
        await handle.snapshot(lease=True)
        assert len((await handle.info()).readers) == 1, "of an empty collection nothing is held"
        waits = asyncio.ensure_future(anext(listener))
        await world.sleep(1)
        await reader.collections.close()
        with pytest.raises(ClosedError):
            await waits
        assert (await (await opener.collection()).info()).readers == ()


# --- what waiting costs ---------------------------------------------------------------------------


async def test_an_idle_listener_polls_each_ten_seconds_and_renews_each_five_minutes() -> None:
    async with CollectionsWorld(latency=jittered(0.1)) as world:
        await world.create()
        opener = world.open()
        listener = await (await opener.collection()).listen()
        waits = asyncio.ensure_future(anext(listener))
        await world.sleep(100)
        before = len(opener.storage.calls)
        await world.sleep(HOUR_S)
        calls = calls_since(opener, before)
        assert calls.count("create entries") == 12
        assert 370 <= len(calls) <= 384
        waits.cancel()


async def test_listeners_of_one_process_poll_together() -> None:
    async with CollectionsWorld() as world:
        await world.create()
        opener = world.open()
        gusts = await opener.collection()
        waits = []
        for _ in range(10):
            listener = await gusts.listen(lease=False)
            waits.append(asyncio.ensure_future(anext(listener)))
            await world.sleep(1.3)
        await world.sleep(100)
        before = len(opener.storage.calls)
        await world.sleep(HOUR_S)
        calls = calls_since(opener, before)
        assert calls.count("stat rollups") <= 61, "a certain look each minute"
        assert len(calls) <= 2 * 360 + 122
        with suppress(asyncio.CancelledError):
            for wait in waits:
                wait.cancel()
