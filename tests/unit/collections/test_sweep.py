"""Sweeps delete what died processes left, and nothing that may still count."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.errors import ChunkUnavailableError
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from tests.support.collections.collections_world import (
    NAME,
    SCHEMA,
    CollectionsWorld,
    many_rows,
    pairs_of,
    rows,
    shown,
)

pytestmark = pytest.mark.virtual_time

HOUR_S = 3_600.0


def entries_are_lost(call: StorageCall) -> Fate:
    """A plan under which nothing can be committed."""
    return Fate.LOST_CALL if "create" in call.operation and "/entries/" in call.name else Fate.DONE


async def test_parts_of_a_writer_that_died_go_when_its_lease_ended() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(1_000))
        dying = world.open()
        other = await dying.collection()
        await other.batch(many_rows(1_000, 1_000))
        dying.die()
        assert await gusts.sweep() == 0
        assert len(world.names("/parts/")) == 2
        await world.sleep(HOUR_S)
        await gusts.append(rows(("a", 1)))
        assert await gusts.sweep() == 1
        assert len(world.names("/parts/")) == 1
        assert await shown(gusts) == sorted([*pairs_of(many_rows(1_000)), ("a", 1)])


async def test_parts_whose_append_is_unknown_stay_while_it_may_count() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        await gusts.append(many_rows(1_000))
        opener.storage.plan = entries_are_lost
        with pytest.raises(Exception, match="not known"):
            await gusts.append(many_rows(1_000, 1_000))
        opener.storage.plan = lambda call: Fate.DONE
        other = await world.open().collection()
        await other.sweep()
        assert len(world.names("/parts/")) == 2
        await gusts.append(many_rows(1_000, 2_000))
        await other.sweep()
        assert len(world.names("/parts/")) == 2, "the one that can never count is gone"
        assert len(await shown(gusts)) == 2_000


async def test_rollups_that_were_never_linked_go() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        seqno = (await gusts.info()).seqno
        consensus = opener.place.consensus
        consensus.put_rollup(gusts.id, seqno, b"left by a process that died")
        for number in range(70):
            await gusts.append(rows(("a", number)))
        await world.sleep(1)
        before = len(world.names("/rollups/"))
        assert await gusts.sweep() == 1
        assert len(world.names("/rollups/")) == before - 1
        assert len(await shown(await world.open().collection())) == 70


async def test_all_collections_are_swept_those_that_were_dropped_too() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        dying = world.open()
        await (await dying.collection()).append(many_rows(1_000))
        await opener.collections.create("other", SCHEMA, key=["k"])
        dying.environment.latency = lambda pool, chance: 5.0
        late = asyncio.ensure_future((await dying.collection()).batch(many_rows(1_000)))
        await world.sleep(3)
        await opener.collections.drop(NAME)
        await asyncio.wait([late])
        dying.die()
        assert len(world.names("/parts/")) == 1, "it came after the drop"
        await world.sleep(HOUR_S)
        assert await world.open().collections.sweep() == 1
        assert world.names("/parts/") == []
        assert world.names(f"{gusts.id.hex()}/entries/") != []


async def test_a_sweep_needs_an_answer_of_storage() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        opener.storage.plan = lambda call: Fate.REFUSED
        with pytest.raises(ChunkUnavailableError):
            await gusts.sweep()
