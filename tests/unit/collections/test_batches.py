"""Batches: rows that one process uploads and another one appends."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from siltstone.core.errors import BatchExpiredError, UpperMismatchError
from tests.support.collections.collections_world import (
    SCHEMA,
    CollectionsWorld,
    many_rows,
    pairs_of,
    rows,
    shown,
)

pytestmark = pytest.mark.virtual_time

LEASE_S = 15 * 60.0


async def test_a_batch_is_seen_when_another_process_appends_it() -> None:
    async with CollectionsWorld() as world:
        mine = await (await world.create()).collection()
        batch = pickle.loads(pickle.dumps(await mine.batch(rows(("a", 1), ("b", 2)))))
        assert await shown(mine) == []
        other = await world.open().collection()
        done = await other.append_batches([batch])
        assert (done.time, done.upper) == (0, 1)
        assert await shown(mine) == [("a", 1), ("b", 2)]


async def test_batches_of_many_processes_are_appended_at_one_time() -> None:
    async with CollectionsWorld() as world:
        await world.create()
        handles = [await world.open().collection() for _ in range(4)]
        made = await asyncio.gather(
            *(handle.batch(many_rows(10, 10 * n)) for n, handle in enumerate(handles))
        )
        done = await handles[0].writer("job").append_batches(made, sequence=0)
        again = await handles[1].writer("job").append_batches(made, sequence=0)
        assert (again.upper, again.repeated) == (done.upper, True)
        assert await shown(handles[2], done.time) == pairs_of(many_rows(40))


async def test_a_batch_counts_once() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        batch = await gusts.batch(rows(("a", 1)))
        with pytest.raises(BatchExpiredError):
            await gusts.append_batches([batch, batch])
        await gusts.append_batches([batch])
        other = await world.open().collection()
        for handle in (gusts, other):
            with pytest.raises(BatchExpiredError):
                await handle.append_batches([batch])
        assert await shown(gusts) == [("a", 1)]


async def test_batches_are_appended_in_any_order_with_other_appends_between() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        made = [await gusts.batch(many_rows(10, 10 * n)) for n in range(4)]
        for batch in reversed(made):
            await gusts.append(many_rows(1_000, 1_000))
            await gusts.append_batches([batch])
        assert len(await shown(gusts)) == 4_040
        assert set(pairs_of(many_rows(40))) <= set(await shown(gusts))


async def test_a_batch_that_was_refused_can_be_appended_later() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        batch = await gusts.batch(rows(("a", 1)))
        with pytest.raises(UpperMismatchError):
            await gusts.append_batches([batch], expected_upper=5)
        await gusts.append_batches([batch], expected_upper=0)
        assert await shown(gusts) == [("a", 1)]


async def test_a_batch_stays_as_long_as_its_process_has_the_collection_open() -> None:
    async with CollectionsWorld() as world:
        mine = await (await world.create()).collection()
        batch = await mine.batch(rows(("a", 1)))
        other = await world.open().collection()
        for _ in range(10):
            await world.sleep(LEASE_S)
            await other.append(rows(("other", 1)))
            await other.sweep()
            await other.collect()
        await other.append_batches([batch])
        assert ("a", 1) in await shown(other)


async def test_a_batch_stays_for_a_lease_after_its_process_closed() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        mine = await opener.collection()
        kept, late = [await mine.batch(rows(("a", n))) for n in range(2)]
        await opener.collections.close()
        other = await world.open().collection()
        await world.sleep(LEASE_S / 2)
        await other.sweep()
        await other.append_batches([kept])
        await world.sleep(LEASE_S)
        await other.append(rows(("b", 2)))  # the entry that ends the lease
        with pytest.raises(BatchExpiredError):
            await other.append_batches([late])
        assert await shown(other) == [("a", 0), ("b", 2)]
        await other.sweep()
        assert len(world.names("/parts/")) == 1


async def test_batches_that_were_appended_hold_nothing() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append_batches([await gusts.batch(rows(("a", 1)))])
        await world.sleep(LEASE_S)
        assert [writer.hold for writer in (await gusts.info()).writers if writer.hold] == []


async def test_an_empty_batch_completes_a_time() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        batch = await gusts.batch([])
        assert (await gusts.append_batches([batch, batch])).upper == 1
        assert await shown(gusts) == []


async def test_a_batch_belongs_to_one_collection() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        batch = await (await opener.collection()).batch(rows(("a", 1)))
        other = await opener.collections.create("other", SCHEMA, key=["k"])
        with pytest.raises(ValueError, match="another collection"):
            await other.append_batches([batch])
