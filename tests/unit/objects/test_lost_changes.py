"""No SQN is given twice, though the change that had it was lost with tier 1."""

from __future__ import annotations

import pytest

from siltstone.core.errors import ConditionFailedError
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.open_spaces import open_space
from siltstone.objects.rebuild_space import rebuild_space
from siltstone.objects.records.space_rows import ENTRY_TAG, HeadOnly, Space, Strategy, ValueStatus
from siltstone.objects.space_setup import make_space
from tests.support import inside
from tests.support.container.container_world import World, with_settings
from tests.support.objects.space_world import NAMES, Opened, open_owner

pytestmark = pytest.mark.virtual_time

QUIET = with_settings(flush_age_s=1e6, table_flush_age_s=1e6, checkpoint_age_s=1e6)


async def without_tier_1(world: World, opened: Opened) -> Opened:
    """The next owner, after this one died and tier 1 was lost."""
    await opened.die()
    await world.lose_tier_1()
    return await open_owner(world)


@pytest.mark.parametrize("flushed", [0, 2, 5])
async def test_no_change_gets_the_sqn_of_one_that_was_lost(flushed: int) -> None:
    async with World(1, settings=QUIET) as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace()
        for number in range(flushed):
            await photos.put("b", f"k{number}", b"flushed")
        await opened.store.flush()
        lost = [(await photos.put("b", "lost", bytes([number]))).sqn for number in range(3)]
        opened = await without_tier_1(world, opened)
        photos = await opened.keyspace()
        assert await photos.head("b", "lost") is None
        put = await photos.put("b", "lost", b"again")
        assert put.sqn > lost[-1]
        with pytest.raises(ConditionFailedError):
            await photos.put("b", "lost", b"late", expected=lost[-1])
        for _ in range(6):  # over the end of a segment
            await photos.put("b", "more", b"more")
        await world.environment.sleep(5)
        assert [each async for each in photos.check(deep=True)] == []
        rows = (await inside.open_space(photos).parts.manifest.now()).rows
        assert {row.status for row in rows[:-1]} <= {ValueStatus.SEALED}
        await rebuild_space(opened.store, NAMES, None, {})
        photos = await opened.keyspace()
        assert {head.key async for head in photos.heads("b")} == {
            *(f"k{number}" for number in range(flushed)),
            "lost",
            "more",
        }
        await opened.store.close()


async def test_what_two_recoveries_lost_has_no_sqn_in_common() -> None:
    async with World(1, settings=QUIET) as world:
        opened = await open_owner(world)
        await opened.make()
        await opened.store.flush()
        told = []
        for _ in range(3):
            told.append((await (await opened.keyspace()).put("b", "k", b"lost")).sqn)
            opened = await without_tier_1(world, opened)
        assert told == sorted(set(told))
        await opened.store.close()


async def test_a_rebuild_after_the_recovery_gives_no_lost_sqn() -> None:
    async with World(1, settings=QUIET) as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace()
        await photos.put("b", "k", b"flushed")
        await opened.store.flush()
        lost = (await photos.put("b", "k", b"lost")).sqn
        opened = await without_tier_1(world, opened)
        await rebuild_space(opened.store, NAMES, None, {})
        assert (await (await opened.keyspace()).put("b", "k", b"again")).sqn > lost
        await opened.store.close()


async def test_a_rebuild_tells_how_far_it_is_though_sqns_were_passed_over() -> None:
    async with World(1, settings=QUIET) as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace()
        for number in range(15):  # three segments
            await photos.put("b", f"k{number}", b"flushed")
        await opened.store.flush()
        opened = await without_tier_1(world, opened)
        photos = await opened.keyspace()
        for number in range(5):
            await photos.put("b", f"k{number}", b"new")
        shares: list[float] = []
        await rebuild_space(opened.store, NAMES, None, {}, progress=shares.append)
        assert shares == [0.25, 0.5, 0.75, 1.0, 1.0]
        await opened.store.close()


async def test_sqns_go_on_without_a_gap_where_nothing_was_lost() -> None:
    async with World(1, settings=QUIET) as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace()
        assert (await photos.put("b", "k", b"1")).sqn == 1
        await opened.die()
        opened = await open_owner(world)
        assert (await (await opened.keyspace()).put("b", "k", b"2")).sqn == 2
        opened = await without_tier_1(world, opened)
        assert NAMES.ledger not in [name async for name in opened.store.list_tables()]
        await opened.store.close()


async def test_entries_of_heads_only_get_no_lost_sqn() -> None:
    async with World(1, settings=QUIET) as world:
        opened = await open_owner(world)
        tags = {ENTRY_TAG: Strategy.RECOVR}
        await make_space(opened.store, NAMES, Space(tags=tags, head_only=HeadOnly.WITH_LOOKUP))
        clocks = AsyncKeyspace(await open_space(opened.store, NAMES))
        await clocks.mput([("add", "b", "k", "s", b"flushed")])
        await opened.store.flush()
        lost = (await clocks.mput([("add", "b", "k", "s", b"lost")])).sqn
        opened = await without_tier_1(world, opened)
        clocks = AsyncKeyspace(await open_space(opened.store, NAMES))
        assert (await clocks.mput([("add", "b", "k", "s", b"again")])).sqn > lost
        head = await clocks.head("b", "k", "s")
        assert head is not None
        assert head.metadata == b"again"
        assert [each async for each in clocks.check()] == []
        await opened.store.close()
